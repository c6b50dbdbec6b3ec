"""Reads pages, one after the other in bounded memory, from the files of `raw_html`.

Belongs here: file formats and the fields of records. Does not: what a page's bytes mean. A new format is a function
in `_READERS` and a suffix in `raw_html.FORMATS`.
"""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import xxhash

from marin_assets.stages.raw_html import PageFile, format_of

if TYPE_CHECKING:
    import polars as pl

TEXT_COLUMNS = ("text", "html", "html_bytes")
"""Where a page's HTML is looked for when no column is named: the first that a record has."""
_BLOCK_BYTES = 1 << 20
_BATCH_BYTES = 32 << 20
_JSON_OVERHEAD = 6
"""A character may take six bytes in JSON, as `\\u00e9`."""


@dataclass(frozen=True)
class Page:
    """One page as it was collected. `failure` says why there is no `html`."""

    file: str
    """Name of its file below the input's root."""
    record: int
    """Its place in the file, from 0."""
    source_id: str
    """Its own id, or the xxh3-128 of what was collected for it."""
    url: str | None = None
    source: str | None = None
    metadata: str = "{}"
    """JSON object of all other fields of its record, keys sorted."""
    html: bytes | str = b""
    failure: str | None = None


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_pages(
    file: PageFile, *, text_column: str = "", max_page_bytes: int, part: int = 0, parts: int = 1
) -> Iterator[Page]:
    """The pages of one file, in order. What can't be read is a page with a `failure`, never an exception.

    A compressed file that is cut or corrupt gives what could be read, then one failed page that names it.

    Args:
        text_column: the field of a record that holds HTML; empty takes the first of `TEXT_COLUMNS` that is there.
        max_page_bytes: longer pages are not read to their end: of an HTML file, one byte more than this is given.
        part: with `parts`, only every `parts`-th record, from the `part`-th on, so that several readers can share
            one large file.
    """
    known = format_of(file.name)
    if known is None:
        raise ValueError(f"{file.name} is no file of pages")
    page_format, compression = known
    yield from _READERS[page_format](file, compression, _Selection(text_column, max_page_bytes, part, parts))


@dataclass(frozen=True)
class _Selection:
    text_column: str
    max_page_bytes: int
    part: int
    parts: int

    def wants(self, record: int) -> bool:
        return record % self.parts == self.part


def _read_html(file: PageFile, compression: str | None, selection: _Selection) -> Iterator[Page]:
    if not selection.wants(0):
        return
    content, damage = bytearray(), None
    with _decompressed(file.path, compression) as stream:
        try:
            while len(content) <= selection.max_page_bytes and (block := stream.read(_BLOCK_BYTES)):
                content += block
        except _DAMAGE as error:
            damage = error
    html = bytes(content[: selection.max_page_bytes + 1])
    if html or damage is None:
        yield Page(file.name, 0, xxhash.xxh3_128_hexdigest(html), html=html)
    if damage is not None:
        yield _damaged(file, 1 if html else 0, damage)


def _read_jsonl(file: PageFile, compression: str | None, selection: _Selection) -> Iterator[Page]:
    record = 0
    longest = _JSON_OVERHEAD * selection.max_page_bytes + _BLOCK_BYTES
    with _decompressed(file.path, compression) as stream:
        lines = _lines(stream, longest)
        while True:
            try:
                line = next(lines, None)
            except _DAMAGE as error:
                if selection.part == 0:
                    yield _damaged(file, record, error)
                return
            if line is None:
                return
            if line and not line.isspace():
                if selection.wants(record):
                    yield _page_of_line(line, longest, file, record, selection)
                record += 1


def _page_of_line(line: bytes, longest: int, file: PageFile, record: int, selection: _Selection) -> Page:
    identity = xxhash.xxh3_128_hexdigest(line)
    if len(line) > longest:
        return Page(file.name, record, identity, failure=f"the line is longer than {longest:,} bytes")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Page(file.name, record, identity, failure=f"the line is not JSON: {error}")
    if not isinstance(fields, dict):
        return Page(file.name, record, identity, failure=f"the line holds {type(fields).__name__}, not a JSON object")
    return _page_of_record(fields, identity, file, record, selection)


def _read_parquet(file: PageFile, compression: str | None, selection: _Selection) -> Iterator[Page]:
    import polars as pl

    with tempfile.TemporaryDirectory() as folder:
        path = file.path
        record = 0
        try:
            if compression is not None:
                path = Path(folder) / "pages.parquet"
                with _decompressed(file.path, compression) as stream, path.open("wb") as target:
                    while block := stream.read(_BLOCK_BYTES):
                        target.write(block)
            for frame in _frames(pl.scan_parquet(path, glob=False), path.stat().st_size):
                for fields in frame.iter_rows(named=True):
                    if selection.wants(record):
                        yield _page_of_record(fields, None, file, record, selection)
                    record += 1
        except (*_DAMAGE, pl.exceptions.PolarsError) as error:
            if selection.part == 0:
                yield _damaged(file, record, error)


def _frames(table: pl.LazyFrame, file_bytes: int) -> Iterator[pl.DataFrame]:
    """A table in slices that were about `_BATCH_BYTES` in the file."""
    import polars as pl

    rows = table.select(pl.len()).collect().item()
    step = max(1, rows * _BATCH_BYTES // max(file_bytes, 1))
    for start in range(0, rows, step):
        yield table.slice(start, step).collect()


_READERS: dict[str, Callable[[PageFile, str | None, _Selection], Iterator[Page]]] = {
    "html": _read_html,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
}


def _page_of_record(
    fields: dict[str, object], identity: str | None, file: PageFile, record: int, selection: _Selection
) -> Page:
    """Sort a record's fields into those of a page. A field of an unexpected type stays in the metadata."""
    column = selection.text_column or next((name for name in TEXT_COLUMNS if fields.get(name) is not None), "")
    html = fields.pop(column, None)
    own_id = _text(fields, "id", numbers=True)
    url = _text(fields, "url") or _crawled_url(fields)
    source = _text(fields, "source")
    metadata = json.dumps(_portable(fields), sort_keys=True, ensure_ascii=False)
    failure = None
    if html is None:
        wanted = f"{selection.text_column!r}" if selection.text_column else f"any of {', '.join(TEXT_COLUMNS)}"
        failure = f"the record has no {wanted}; it has {', '.join(sorted(fields)) or 'nothing'}"
    elif not isinstance(html, str | bytes):
        failure = f"{column!r} holds {type(html).__name__}, not text"
    content = html if isinstance(html, str | bytes) else b""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if failure is not None:
        identity = identity or xxhash.xxh3_128_hexdigest(metadata.encode("utf-8", "surrogatepass"))
    return Page(
        file.name,
        record,
        own_id or (xxhash.xxh3_128_hexdigest(data) if failure is None else str(identity)),
        _whole(url),
        _whole(source),
        cast("str", _whole(metadata)),
        content,
        failure,
    )


def _text(fields: dict[str, object], name: str, *, numbers: bool = False) -> str | None:
    """Take a field out of a record when it is text (or a whole number, for ids) and not empty."""
    value = fields.get(name)
    if isinstance(value, str) or (numbers and isinstance(value, int) and not isinstance(value, bool)):
        del fields[name]
        return _whole(str(value)) or None
    return None


def _crawled_url(fields: dict[str, object]) -> str | None:
    """The address where FineWeb's records keep it: `metadata.fineweb_metadata.url`."""
    value: object = fields
    for name in ("metadata", "fineweb_metadata", "url"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _portable(value: object) -> object:
    """The value in types that JSON has: bytes as base64, times in ISO 8601, durations in seconds, others as text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON lacks infinities and NaN
    if isinstance(value, dict):
        return {str(key): _portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)


def _whole(text: str | None) -> str | None:
    """Text in which lone surrogates, which UTF-8 can't hold, are replaced."""
    return text if text is None else text.encode("utf-8", "replace").decode("utf-8") if _has_surrogate(text) else text


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


_DAMAGE = (EOFError, OSError, zlib.error)


def _damaged(file: PageFile, record: int, error: BaseException) -> Page:
    reason = " ".join(str(error).split()) or type(error).__name__
    failure = f"{file.name} can't be read beyond record {record}: {reason}"
    return Page(file.name, record, xxhash.xxh3_128_hexdigest(f"{file.digest} is damaged".encode()), failure=failure)


@contextmanager
def _decompressed(path: Path, compression: str | None) -> Iterator[_Reader]:
    """A stream whose `read` gives what there is, so that nothing before a damaged place is lost."""
    with path.open("rb") as raw:
        if compression is None:
            yield raw
        elif compression == "gzip":
            with gzip.GzipFile(fileobj=raw) as stream:
                yield _AsAvailable(stream)
        else:
            from fastwarc.stream_io import ZstdReader

            with closing(ZstdReader(cast("BinaryIO", raw))) as stream:
                yield stream


@dataclass(frozen=True)
class _AsAvailable:
    stream: gzip.GzipFile

    def read(self, size: int, /) -> bytes:
        return self.stream.read1(size)


def _lines(stream: _Reader, longest: int) -> Iterator[bytes]:
    """Lines without their ends. A line over `longest` bytes comes cut to one byte more than that."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from (line[: longest + 1] for line in lines)
        rest = rest[: longest + 1]
    if rest:
        yield rest
