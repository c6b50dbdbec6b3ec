"""Reads pages, one after the other in bounded memory, from the files of `raw_html`.

Belongs here: file formats and the fields of records. Does not: what a page's bytes mean. A new format is a function
in `_READERS` and a suffix in `raw_html.FORMATS`.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import xxhash

from marin_assets.stages.page_slices import PageSlice
from marin_assets.stages.page_streams import BLOCK_BYTES, DAMAGE, decompressed, lines
from marin_assets.stages.raw_html import FORMATS, PageFile, format_of
from marin_assets.stages.warc_records import WarcDamageError, html_records
from marin_assets.stages.zip_members import ZIP_DAMAGE, Member, members

if TYPE_CHECKING:
    import polars as pl

TEXT_COLUMNS = ("text", "html", "html_bytes")
"""Where a page's HTML is looked for when no column is named: the first that a record has."""
_FRAME_BYTES = 8 << 20
_JSON_OVERHEAD = 6
"""A character may take six bytes in JSON, as `\\u00e9`."""
_HTML_SUFFIXES = frozenset(suffix for suffix, page_format in FORMATS.items() if page_format == "html")
_DEEPEST = 100
"""Far below what Python's recursion limit allows, so that no record depends on where it is read."""


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
    charset: str | None = None
    """The encoding of `html` by the HTTP headers that came with it."""


def read_pages(piece: PageSlice, *, text_column: str = "", max_page_bytes: int) -> Iterator[Page]:
    """The pages of a slice, in order. What can't be read is a page with a `failure`, never an exception.

    A file that is cut or corrupt gives what could be read, then one failed page that names it; so does one that has
    gone since it was listed.

    Args:
        text_column: the field of a record that holds HTML; empty takes the first of `TEXT_COLUMNS` that is there.
        max_page_bytes: longer pages are not read to their end: of an HTML file, one byte more than this is given.
    """
    known = format_of(piece.file.name)
    if known is None:
        raise ValueError(f"{piece.file.name} is no file of pages")
    page_format, compression = known
    yield from _READERS[page_format](piece, compression, _Options(text_column, max_page_bytes))


@dataclass(frozen=True)
class _Options:
    text_column: str
    max_page_bytes: int


def _read_html(piece: PageSlice, compression: str | None, options: _Options) -> Iterator[Page]:
    file = piece.file
    content, damage = bytearray(), None
    try:
        with decompressed(file.path, compression) as stream:
            while len(content) <= options.max_page_bytes and (block := stream.read(BLOCK_BYTES)):
                content += block
    except DAMAGE as error:
        damage = error
    html = bytes(content[: options.max_page_bytes + 1])
    if html or damage is None:
        yield Page(file.printable_name, 0, xxhash.xxh3_128_hexdigest(html), html=html)
    if damage is not None:
        yield _damaged(file, 1 if html else 0, damage)


def _read_jsonl(piece: PageSlice, compression: str | None, options: _Options) -> Iterator[Page]:
    record = piece.first_record
    limit = _JSON_OVERHEAD * options.max_page_bytes + BLOCK_BYTES
    try:
        with decompressed(piece.file.path, compression, piece.start, piece.end) as stream:
            for line in lines(stream, limit):
                if not line.is_blank:
                    yield _page_of_line(line.content, limit, piece.file, record, options)
                    record += 1
    except DAMAGE as error:
        yield _damaged(piece.file, record, error)


def _page_of_line(line: bytes, longest: int, file: PageFile, record: int, options: _Options) -> Page:
    identity = xxhash.xxh3_128_hexdigest(line)
    if len(line) > longest:
        return Page(file.printable_name, record, identity, failure=f"the line is longer than {longest:,} bytes")
    try:
        fields = json.loads(line)
        too_deep = _nests_deeper(fields, _DEEPEST)
    except RecursionError:
        too_deep = True
    except ValueError as error:
        return Page(file.printable_name, record, identity, failure=f"the line is not JSON: {error}")
    if too_deep:
        return Page(file.printable_name, record, identity, failure=f"the line nests deeper than {_DEEPEST} levels")
    if not isinstance(fields, dict):
        return Page(
            file.printable_name, record, identity, failure=f"the line holds {type(fields).__name__}, not a JSON object"
        )
    return _page_of_record(fields, identity, file, record, options)


def _read_parquet(piece: PageSlice, compression: str | None, options: _Options) -> Iterator[Page]:
    import polars as pl

    record = piece.first_record
    try:
        with _seekable(piece.file.path, compression) as path:
            for frame in _frames(path, piece):
                for fields in frame.iter_rows(named=True):
                    yield _page_of_record(fields, None, piece.file, record, options)
                    record += 1
    except (*DAMAGE, pl.exceptions.PolarsError) as error:
        yield _damaged(piece.file, record, error)


@contextmanager
def _seekable(path: Path, compression: str | None) -> Iterator[Path]:
    """The file, decompressed whole for formats that are read from their end."""
    if compression is None:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "pages"
        with decompressed(path, compression) as stream, whole.open("wb") as target:
            while block := stream.read(BLOCK_BYTES):
                target.write(block)
        yield whole


def _frames(path: Path, piece: PageSlice) -> Iterator[pl.DataFrame]:
    """The slice's rows in frames that were about `_FRAME_BYTES` in the file."""
    import polars as pl

    size = path.stat().st_size
    table = pl.scan_parquet(path, glob=False)
    rows = table.select(pl.len()).collect().item()
    step = max(1, rows * _FRAME_BYTES // max(size, 1))
    wanted = table.slice(piece.start, None if piece.end is None else piece.end - piece.start)
    return iter(wanted.collect_batches(chunk_size=step))


def _read_zip(piece: PageSlice, compression: str | None, options: _Options) -> Iterator[Page]:
    file, record = piece.file, piece.first_record
    try:
        with _seekable(file.path, compression) as path:
            for member in members(path, _HTML_SUFFIXES, options.max_page_bytes, piece.start, piece.end):
                yield from _pages_of_member(member, file)
                record = member.record + 1
    except ZIP_DAMAGE as error:
        yield _damaged(file, record, error)


def _pages_of_member(member: Member, file: PageFile) -> Iterator[Page]:
    metadata = json.dumps({"member": _whole(member.name)}, ensure_ascii=False)
    name, record = file.printable_name, member.record
    if member.html or member.failure is None:
        identity = xxhash.xxh3_128_hexdigest(member.html)
        yield Page(name, record, identity, metadata=metadata, html=member.html)
    if member.failure is not None:
        identity = xxhash.xxh3_128_hexdigest(f"{file.digest} is damaged at {record}".encode())
        yield Page(name, record, identity, metadata=metadata, failure=_whole(member.failure))


def _read_warc(piece: PageSlice, compression: str | None, options: _Options) -> Iterator[Page]:
    file = piece.file
    try:
        with decompressed(file.path, compression, piece.start, piece.end) as stream:
            for found in html_records(stream, piece.first_record, options.max_page_bytes):
                yield Page(
                    file.printable_name,
                    found.record,
                    _whole(found.id)
                    or xxhash.xxh3_128_hexdigest(found.html or f"{file.digest} {found.record}".encode()),
                    _whole(found.url),
                    metadata=cast("str", _whole(json.dumps(found.metadata, sort_keys=True, ensure_ascii=False))),
                    html=found.html,
                    failure=found.failure,
                    charset=found.charset,
                )
    except WarcDamageError as error:
        yield _damaged(file, error.record, error)
    except DAMAGE as error:
        yield _damaged(file, piece.first_record, error)


_READERS: dict[str, Callable[[PageSlice, str | None, _Options], Iterator[Page]]] = {
    "html": _read_html,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
    "zip": _read_zip,
    "warc": _read_warc,
}


def _page_of_record(
    fields: dict[str, object], identity: str | None, file: PageFile, record: int, options: _Options
) -> Page:
    """Sort a record's fields into those of a page. A field of an unexpected type stays in the metadata."""
    column = options.text_column or next((name for name in TEXT_COLUMNS if fields.get(name) is not None), "")
    html = fields.pop(column, None)
    own_id = _text(fields, "id", numbers=True)
    url = _text(fields, "url") or _crawled_url(fields)
    source = _text(fields, "source")
    metadata = json.dumps(_portable(fields), sort_keys=True, ensure_ascii=False)
    failure = None
    if html is None:
        wanted = f"{options.text_column!r}" if options.text_column else f"any of {', '.join(TEXT_COLUMNS)}"
        failure = f"the record has no {wanted}; it has {', '.join(sorted(fields)) or 'nothing'}"
    elif not isinstance(html, str | bytes):
        failure = f"{column!r} holds {type(html).__name__}, not text"
    content = html if isinstance(html, str | bytes) else b""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if failure is not None:
        identity = identity or xxhash.xxh3_128_hexdigest(metadata.encode("utf-8", "surrogatepass"))
    return Page(
        file.printable_name,
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


def _nests_deeper(value: object, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        below = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in below for item in items]
    return bool(level)


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


def _damaged(file: PageFile, record: int, error: BaseException) -> Page:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error).replace(str(file.path), "it")
    reason = " ".join(said.split()) or type(error).__name__
    failure = f"{file.printable_name} can't be read beyond record {record}: {reason}"
    identity = xxhash.xxh3_128_hexdigest(f"{file.digest} is damaged".encode())
    return Page(file.printable_name, record, identity, failure=failure)
