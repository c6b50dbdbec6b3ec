"""A seeded corpus of extracted pages: as large as asked for, repetitive as the web is, the same on every machine.

Belongs here: the pages, and the folder that keeps them between runs. They come in sites: the pages of a site share its
notices and its footer, popular paragraphs occur on many sites, some pages are there twice, some are empty. Beside plain
paragraphs there are headings, lists, tables, code, and text beyond ASCII. About a fifth of the text repeats.
"""

import random
import shutil
import tempfile
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import polars as pl

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.stages import html_to_markdown
from marin_assets.stages.tables import column_types, part_name, write_part
from marin_assets_tests.artifacts import in_memory

VERSION = 2
"""Raised when the corpus changes, so that no older one is taken for it."""
SEED = 7
_PART_BYTES = 64_000_000
_LETTERS = "eeeeeeetttttaaaaaooooiiiinnnnsssshhhrrrrddllluuccmmwffggyyppbvk"
_OTHER_WORDS = ["naïve", "café", "’tis", "–", "Größe", "漢字", "ひらがな", "слово", "λόγος", "🙂", "“quoted”"]


def corpus(size: int) -> Artifact:
    """About `size` bytes of text as `markdown_documents`; made once, then kept in the folder for temporary files."""
    folder = Path(tempfile.gettempdir()) / "marin-benchmarks" / f"corpus-{VERSION}-{SEED}-{size}"
    count = max(1, round(size / _PART_BYTES))
    names = [part_name(index, count) for index in range(count)]
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for index, name in enumerate(names):
            _write_part(unfinished / name, index, size // count)
        unfinished.rename(folder)
    out = ArtifactWriter(folder)
    for name in names:
        out.add(name)
    out.columns = column_types(html_to_markdown.COLUMNS)
    return in_memory.published(out, "markdown_documents")


def _write_part(path: Path, index: int, size: int) -> None:
    rows, held = [], 0
    for row in _pages(index):
        rows.append(row)
        held += len((row["text"] or "").encode())
        if held >= size:
            break
    schema = {column.name: pl.String() for column in html_to_markdown.COLUMNS}
    write_part(path, pl.DataFrame(rows, schema=schema), html_to_markdown.COLUMNS)


class _Words:
    """Words by their frequency (Zipf)."""

    def __init__(self) -> None:
        spelling = random.Random(SEED)
        self.words = ["".join(spelling.choices(_LETTERS, k=1 + rank.bit_length() // 2)) for rank in range(1, 40_001)]
        self.words[50::400] = (_OTHER_WORDS * 10)[: len(self.words[50::400])]
        self.weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))

    def some(self, choose: random.Random, count: int) -> list[str]:
        return choose.choices(self.words, cum_weights=self.weights, k=count)


def _pages(part: int) -> Iterator[dict[str, str | None]]:
    words = _Words()
    shared = random.Random(SEED + 1)
    popular = [_paragraph(shared, words) for _ in range(2000)]
    choose = random.Random(f"{SEED} {part}")
    number = 0
    last: str | None = None
    while True:
        site = f"https://site-{part}-{number}.example.org"
        notices = [_paragraph(choose, words) for _ in range(choose.randint(1, 6))]
        for _ in range(choose.randint(1, 80)):
            text = _page(choose, words, notices, popular)
            kind = choose.random()
            if kind < 0.02 and last is not None:
                text = last
            empty = kind > 0.99
            yield {
                "source_id": f"{part}-{number:08d}",
                "url": f"{site}/{number}",
                "source": f"crawl-{part}",
                "title": " ".join(words.some(choose, 5)),
                "text": None if empty else text,
                "status": "empty" if empty else "ok",
                "error": None,
                "metadata": "{}",
            }
            last = text
            number += 1


def _page(choose: random.Random, words: _Words, notices: list[str], popular: list[str]) -> str:
    blocks = [f"# {' '.join(words.some(choose, 6))}"]
    for _ in range(choose.randint(2, 30)):
        kind = choose.random()
        if kind < 0.08:
            blocks.append(f"## {' '.join(words.some(choose, 4))}")
        elif kind < 0.14:
            blocks.append("\n".join(f"- {' '.join(words.some(choose, 7))}" for _ in range(choose.randint(2, 8))))
        elif kind < 0.145:
            code = "\n\n".join(" ".join(words.some(choose, 6)) for _ in range(choose.randint(1, 5)))
            blocks.append(f"```python\n{code}\n```")
        elif kind < 0.155:
            lines = [" | ".join(words.some(choose, 3)) for _ in range(5)]
            blocks.append("\n".join(["| a | b | c |", "|---|---|---|", *(f"| {line} |" for line in lines)]))
        elif kind < 0.25:
            blocks.append(popular[int(len(popular) * choose.random() ** 3)])
        else:
            blocks.append(_paragraph(choose, words))
    return "\n\n".join([*blocks, *notices])


def _paragraph(choose: random.Random, words: _Words) -> str:
    return f"{' '.join(words.some(choose, choose.randint(3, 60))).capitalize()}."
