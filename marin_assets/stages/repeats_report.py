"""What a person wants to know of the repeated paragraphs: `report.md` to read, `report.json` to compute with.

Belongs here: how the findings are shown. Does not: finding them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from marin_assets.stages.paragraph_hashes import Index
from marin_assets.stages.repeated_paragraphs import RepeatedParagraph

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

REPORTED_PARAGRAPHS = 20
_CHARACTERS = 200
_WHERE = ("id", "source_id", "url")


class Described(TypedDict):
    """One of the most repeated paragraphs."""

    copies: int
    """In this corpus."""
    removed: int
    """Copies that go."""
    bytes: int
    """Of one copy."""
    begins: str
    """Its first characters."""
    first_copy: dict[str, str | None]
    """The document with the first copy in this corpus: `id`, and `source_id` and `url` where there are such columns."""
    earlier_corpus: str | None
    """Digest of the index of the earlier corpus that has it."""


def write_report(
    out: ArtifactWriter,
    parts: Sequence[Path],
    totals: Mapping[str, int],
    repeated: Sequence[RepeatedParagraph],
    earlier: Sequence[Index],
) -> None:
    """Write both files.

    Args:
        out: takes them. They are no part of the content: the spans say what later stages need.
        parts: the documents.
        totals: the stage's counts.
        repeated: paragraphs, the most repeated ones among them.
        earlier: the indexes of earlier corpora.
    """
    ranked = sorted(repeated, key=lambda one: one.rank)[:REPORTED_PARAGRAPHS]
    described = [_described(parts[one.part], one, earlier) for one in ranked]
    corpora = [{"digest": index.digest, "paragraphs": index.hashes} for index in earlier]
    report = {"totals": dict(totals), "earlier_corpora": corpora, "most_repeated": described}
    out.path("report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    out.path("report.md").write_text(_page(totals, described, earlier), encoding="utf-8")
    for name in ("report.json", "report.md"):
        out.add(name, content=False)


def _described(path: Path, paragraph: RepeatedParagraph, earlier: Sequence[Index]) -> Described:
    import polars as pl

    scan = pl.scan_parquet(path)
    where = [name for name in _WHERE if name in scan.collect_schema()]
    row = scan.select(*where, "text").slice(paragraph.row, 1).collect().row(0, named=True)
    content = row["text"].encode()[paragraph.start : paragraph.start + paragraph.bytes].decode()
    return Described(
        copies=paragraph.copies,
        removed=paragraph.removed,
        bytes=paragraph.bytes,
        begins=content[:_CHARACTERS],
        first_copy={name: row[name] for name in where},
        earlier_corpus=earlier[paragraph.index].digest if paragraph.index >= 0 else None,
    )


def _page(totals: Mapping[str, int], described: Sequence[Described], earlier: Sequence[Index]) -> str:
    share = totals["duplicate_bytes"] / max(1, totals["text_bytes_in"])
    lines = [
        "# Repeated paragraphs",
        "",
        "| | paragraphs | bytes |",
        "|---|--:|--:|",
        f"| compared | {totals['paragraphs']:,} | |",
        f"| different ones among them | {totals['paragraphs_distinct']:,} | |",
        f"| **to be removed** | {totals['paragraphs_duplicate']:,} | {totals['duplicate_bytes']:,} |",
    ]
    if earlier:
        count, size = totals["paragraphs_duplicate_of_earlier"], totals["duplicate_bytes_of_earlier"]
        lines.append(f"| of these, in earlier corpora | {count:,} | {size:,} |")
    lines += [
        "",
        f"{share:.1%} of {totals['text_bytes_in']:,} bytes of text are to be removed, from "
        f"{totals['rows_with_duplicates']:,} of {totals['rows_in']:,} documents. "
        f"{totals['paragraphs_too_short']:,} paragraphs were too short to be compared.",
    ]
    if earlier:
        lines += ["", "Earlier corpora:", ""]
        lines += [f"- `{index.digest}`: {index.hashes:,} different paragraphs" for index in earlier]
    lines += ["", f"## The {len(described)} most repeated" if described else "Nothing is repeated."]
    for number, one in enumerate(described, start=1):
        lines += ["", *_entry(number, one)]
    return "\n".join(lines) + "\n"


def _entry(number: int, one: Described) -> list[str]:
    content = _visible(one["begins"], keep="\n\t")
    fence = "`" * (max(2, *(len(run) for run in re.findall("`+", content)), 0) + 1)
    more = " …" if one["bytes"] > len(one["begins"].encode()) else ""
    where = ", ".join(f"{name} {_code(value)}" for name, value in one["first_copy"].items() if value)
    known = f" An earlier corpus has it: `{one['earlier_corpus']}`." if one["earlier_corpus"] else ""
    return [
        f"### {number}. {one['copies']:,} × {one['bytes']:,} bytes, {one['removed']:,} to be removed",
        "",
        f"First copy here: {where}.{known}",
        "",
        f"{fence}text",
        content + more,
        fence,
    ]


def _code(value: str) -> str:
    """A code span that shows any text as it is (CommonMark 0.31 §6.1)."""
    visible = _visible(value)
    mark = "`" * (max(0, *(len(run) for run in re.findall("`+", visible)), 0) + 1)
    padding = " " if visible[:1] in "` " or visible[-1:] in "` " else ""
    return f"{mark}{padding}{visible}{padding}{mark}"


def _visible(text: str, *, keep: str = "") -> str:
    """Characters that can't be seen, or that turn or break lines, as their code points."""
    keep += "\u00a0\u3000"
    return "".join(one if one.isprintable() or one in keep else f"\\u{{{ord(one):x}}}" for one in text)
