"""Where a large file can be cut, so that several shards share it and none reads what is another's.

Belongs here: cuts. Does not: which files are large, and what stands between the cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from marin_assets.stages.page_streams import DAMAGE, decompressed, lines
from marin_assets.stages.raw_html import PageFile, format_of
from marin_assets.stages.zip_members import ZIP_DAMAGE, member_sizes


@dataclass(frozen=True)
class PageSlice:
    """A file, or a part of it that begins and ends between records."""

    file: PageFile
    start: int = 0
    """First byte of JSONL and WARC, first row of Parquet, first member of a zip archive."""
    end: int | None = None
    """What comes after the last one, counted likewise; None for the file's end."""
    first_record: int = 0
    """Place in the file of the first record."""


def slices_of(file: PageFile, parts: int) -> list[PageSlice]:
    """Cut a file into at most so many slices of about one size. One that can't be cut, or read, is one slice.

    JSONL is cut at the first line that begins in each part, Parquet anywhere between rows, a zip archive between
    members. WARC is cut between records, also where each is compressed by itself, as crawlers do. No other compressed
    file can be cut, since its middle can't be read without its beginning.
    """
    page_format, compression = format_of(file.name) or ("", None)
    cut = _CUTS.get(page_format)
    if parts < 2 or cut is None or (compression is not None and page_format != "warc"):
        return [PageSlice(file)]
    return cut(file, parts)


def _cut_jsonl(file: PageFile, parts: int) -> list[PageSlice]:
    """Reads the file once, to give each slice the number of its first record."""
    starts = [(0, 0)]
    position = record = 0
    try:
        with decompressed(file.path, None) as stream:
            for line in lines(stream, limit=0):
                if position >= file.bytes * len(starts) / parts:
                    starts.append((position, record))
                position += line.size
                record += not line.is_blank
    except DAMAGE:
        return [PageSlice(file)]
    ends = [*starts[1:], (position, record)]
    return [PageSlice(file, start, end, record) for (start, record), (end, _) in zip(starts, ends, strict=True)]


def _cut_parquet(file: PageFile, parts: int) -> list[PageSlice]:
    import polars as pl

    try:
        rows = pl.scan_parquet(file.path, glob=False).select(pl.len()).collect().item()
    except (*DAMAGE, pl.exceptions.PolarsError):
        return [PageSlice(file)]
    cuts = sorted({rows * part // parts for part in range(parts + 1)})
    return [PageSlice(file, start, end, start) for start, end in pairwise(cuts)] or [PageSlice(file)]


def _cut_zip(file: PageFile, parts: int) -> list[PageSlice]:
    try:
        sizes = member_sizes(file.path)
    except ZIP_DAMAGE:
        return [PageSlice(file)]
    starts = [0]
    position, whole = 0, sum(sizes)
    for member, size in enumerate(sizes):
        if position >= whole * len(starts) / parts and member > starts[-1]:
            starts.append(member)
        position += size
    ends = [*starts[1:], None]
    return [PageSlice(file, start, end, start) for start, end in zip(starts, ends, strict=True)]


def _cut_warc(file: PageFile, parts: int) -> list[PageSlice]:
    """Reads the file once, as JSONL is."""
    from fastwarc.warc import ArchiveIterator

    starts = [(0, 0)]
    try:
        with file.path.open("rb") as stream:
            for number, record in enumerate(ArchiveIterator(stream, parse_http=False)):
                position = record.stream_pos
                if position >= file.bytes * len(starts) / parts and _begins(file, position, record.record_id):
                    starts.append((position, number))
    except DAMAGE:
        return [PageSlice(file)]
    ends = [*(start for start, _ in starts[1:]), None]
    return [PageSlice(file, start, end, record) for (start, record), end in zip(starts, ends, strict=True)]


def _begins(file: PageFile, position: int, record_id: str | None) -> bool:
    """Whether a record can be read from there: not when it is compressed together with those before it."""
    from fastwarc.warc import ArchiveIterator

    try:
        with file.path.open("rb") as stream:
            stream.seek(position)
            first = next(ArchiveIterator(stream, parse_http=False), None)
    except DAMAGE:
        return False
    return first is not None and record_id is not None and first.record_id == record_id


_CUTS: dict[str, Callable[[PageFile, int], list[PageSlice]]] = {
    "jsonl": _cut_jsonl,
    "parquet": _cut_parquet,
    "zip": _cut_zip,
    "warc": _cut_warc,
}
