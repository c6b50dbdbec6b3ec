"""Plain-Python counts of the quick start, straight from the files of its artifacts.

Belongs here: what a reader of the files would count, with no code of the stages. Does not: what the counts must be,
which `quickstart_expected` says.
"""

import re
from collections import Counter
from collections.abc import Iterable

import polars as pl

from marin_assets.artifacts.artifact import Artifact
from marin_assets_tests.quickstart_expected import QuickstartCounts

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_HEADING_OR_BREAK = re.compile(r" {0,3}(#{1,6}( |$)|([-*_] *){3,}$)")


def paragraphs(text: str) -> list[str]:
    """Runs of non-blank lines, and whole fenced code blocks; headings and thematic breaks are left out."""
    found: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if fence:
            found[-1].append(line)
            if line.strip() == fence:
                fence = ""
                found.append([])
        elif opening:
            fence = opening[1]
            found.append([line])
        elif not line.strip() or _HEADING_OR_BREAK.match(line):
            found.append([])
        else:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found if lines]


def duplicate_spans(texts: Iterable[str]) -> int:
    """Paragraphs that stand somewhere before, in any order of the texts."""
    places = Counter(paragraph for text in texts for paragraph in paragraphs(text))
    return places.total() - len(places)


def counts_of(
    markdown: Artifact, normalized: Artifact, duplicates: Artifact, consolidated: Artifact, tokens: Artifact
) -> QuickstartCounts:
    """Count rows, spans and documents in the files of the five artifacts before the model.

    Raises:
        AssertionError: the files contradict each other.
    """
    pages, documents, kept = _table(markdown), _table(normalized), _table(consolidated)
    blank = pages.filter(pl.col("text").fill_null("").str.strip_chars() == "")
    spans = _table(duplicates)
    assert spans["id"].to_list() == documents["id"].to_list() == sorted(documents["id"])
    assert spans["dup_spans"].list.len().sum() == duplicate_spans(documents["text"])
    assert set(kept["id"]) <= set(documents["id"])
    assert duplicate_spans(kept["text"]) == 0
    tokenized = _table(tokens, "*/document_ids/*.parquet")
    assert sorted(tokenized["id"]) == kept["id"].to_list()
    return QuickstartCounts(
        pages=pages.height,
        pages_by_status=Counter(pages["status"]),
        rows_blank=blank.height,
        rows_duplicate=_table(normalized, "duplicates/*.parquet").height,
        documents=documents.height,
        paragraphs=sum(len(paragraphs(text)) for text in documents["text"]),
        duplicate_spans=int(spans["dup_spans"].list.len().sum()),
        documents_dropped=documents.height - kept.height,
        documents_consolidated=kept.height,
        documents_tokenized=tokenized.height,
    )


def _table(artifact: Artifact, pattern: str = "part-*.parquet") -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in artifact.paths(pattern)])
