"""A corpus of any size from a seed: the same text on every machine, with the word statistics of a language.

Belongs here: how the text is drawn, and the Parquet files that it is written to.

Words are drawn by rank r with a probability that falls as 1/r up to rank 6,000, and as 1/r^1.92 beyond, up to rank two
million: the two regimes that Ferrer i Cancho and Solé (2001, "Two regimes in the frequency of words and the origins of
complex lexicons") found in the British National Corpus. So common words repeat, and new ones go on to appear. The most
common words are those that the tokenizer learned first; the rare ones are joined from two or three tokens.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl
import xxhash
from tokenizers import Tokenizer

from marin_assets.stages.tables import Column, part_name, write_part
from marin_assets.workers import map_shards

COLUMNS = (Column("id", "string", ""), Column("text", "string", ""))
_WORDS = 2_000_000
_COMMON = 6_000
_STEEP = 1.92
_BATCH_WORDS = 2_000_000
_WORDS_IN_DOCUMENT = 700  # median
_MARKS = (", ", ". ", ".\n\n", "; ", ' "', ") ", " (", ": ", "!\n", "? ")


def write_corpus(folder: Path, tokenizer: Path, total_bytes: int, parts: int) -> None:
    """Write `part-*.parquet` with `id` and `text`, in processes of their own, which leave this one small."""
    folder.mkdir()
    write = partial(_write_part, folder, tokenizer, total_bytes // parts, parts)
    for _ in map_shards(write, range(parts)):
        pass


def _write_part(folder: Path, tokenizer: Path, part_bytes: int, parts: int, part: int) -> None:
    texts: list[str] = []
    size = 0
    for text in _documents(_words(tokenizer), seed=part):
        texts.append(text)
        size += len(text.encode())
        if size >= part_bytes:
            break
    ids = [xxhash.xxh3_128_hexdigest(text.encode()) for text in texts]
    write_part(folder / part_name(part, parts), pl.DataFrame({"id": ids, "text": texts}), COLUMNS)


def text_bytes(folder: Path) -> int:
    """Bytes of text in a corpus."""
    return int(pl.scan_parquet(folder / "*.parquet").select(pl.col("text").str.len_bytes().sum()).collect().item())


@cache
def _words(tokenizer: Path) -> np.ndarray:
    """All words with the white space or mark before them, by rank."""
    by_id = sorted((token_id, token) for token, token_id in Tokenizer.from_file(str(tokenizer)).get_vocab().items())
    starts = [token[1:] for _, token in by_id if re.fullmatch("Ġ([A-Za-z]{2,}|a|I)", token)]
    middles = [token for _, token in by_id if re.fullmatch("[a-z]+", token)]
    generator = np.random.default_rng(0)
    rare = _WORDS - len(starts)
    first, second, third = (generator.integers(len(one), size=rare) for one in (starts, middles, middles))
    has_third = generator.random(rare) < 0.4
    joined = (
        starts[a] + middles[b] + (middles[c] if more else "")
        for a, b, c, more in zip(first, second, third, has_third, strict=True)
    )
    return np.array([*starts, *joined], dtype=object)


def _documents(words: np.ndarray, seed: int) -> Iterator[str]:
    """Texts without end."""
    ranks = np.arange(1, len(words) + 1, dtype=np.float64)
    weights = np.where(ranks <= _COMMON, 1 / ranks, _COMMON ** (_STEEP - 1) / ranks**_STEEP)
    cumulative = np.cumsum(weights / weights.sum())
    generator = np.random.default_rng([seed, 1])
    while True:
        drawn = words[np.searchsorted(cumulative, generator.random(_BATCH_WORDS)).clip(max=len(words) - 1)]
        marks = np.where(generator.random(_BATCH_WORDS) < 0.14, generator.integers(len(_MARKS), size=_BATCH_WORDS), -1)
        lengths = generator.lognormal(np.log(_WORDS_IN_DOCUMENT), 1.0, size=_BATCH_WORDS // 400).astype(int) + 1
        start = 0
        for length in lengths:
            if start + length > _BATCH_WORDS:
                break
            pieces = zip(drawn[start : start + length], marks[start : start + length], strict=True)
            yield "".join(word + (_MARKS[mark] if mark >= 0 else " ") for word, mark in pieces)
            start += length
