"""The HTML pages among the records of a WARC file (ISO 28500).

Belongs here: which records are pages, and what they say of themselves. Does not: how HTTP packs a body
(`http_bodies`), how bytes come out of a file (`page_streams`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from marin_assets.stages.http_bodies import decoded_body, parse_response
from marin_assets.stages.page_streams import BLOCK_BYTES, DAMAGE, Reader

if TYPE_CHECKING:
    from typing import BinaryIO

    from fastwarc.warc import WarcRecord

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_WIRE_OVERHEAD = 2
"""A body on the wire is hardly ever longer than this many times the page, for chunks."""


@dataclass(frozen=True)
class HtmlRecord:
    """A response record whose body is HTML. `failure` says why there is no `html`."""

    record: int
    """Its place among all records of the file."""
    id: str | None
    url: str | None
    html: bytes = b""
    charset: str | None = None
    """The encoding that the HTTP headers name."""
    metadata: dict[str, str | int] = field(default_factory=dict)
    failure: str | None = None


class WarcDamageError(OSError):
    """The archive can't be read any further."""

    def __init__(self, record: int, reason: str) -> None:
        super().__init__(reason)
        self.record = record


def html_records(stream: Reader, first_record: int, max_page_bytes: int) -> Iterator[HtmlRecord]:
    """The responses of HTML type, or that name no type, in the order of the file.

    Args:
        stream: the file's bytes, decompressed.
        first_record: number of the stream's first record.
        max_page_bytes: longer pages are cut to one byte more.

    Raises:
        WarcDamageError: the stream is cut or corrupt, or no WARC; what stood before that was given.
    """
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    number = first_record
    source = _Source(stream)
    most = _WIRE_OVERHEAD * max_page_bytes + BLOCK_BYTES
    try:
        for record in ArchiveIterator(cast("BinaryIO", source), parse_http=False, stream_detect=False):
            wanted = record.record_type == WarcRecordType.response and record.is_http
            size = min(record.content_length, most)
            block = _read(record, size) if wanted else b""
            page = _page(record, number, block, max_page_bytes) if block else None
            if page is not None:
                yield page
            missing = record.content_length - len(block) - record.consume()
            if missing or "Content-Length" not in record.headers:
                raise WarcDamageError(number, str(source.damage or "the file ends within the record"))
            number += 1
    except OSError as error:
        raise WarcDamageError(number, str(error)) from error
    if source.damage is not None:
        raise WarcDamageError(number, str(source.damage)) from source.damage


class _Source:
    """A stream as fastwarc wants it, which needs to know where it is, and which an exception would abort."""

    def __init__(self, stream: Reader) -> None:
        self._stream = stream
        self._position = 0
        self.damage: BaseException | None = None
        self.ended = False

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        try:
            block = b"" if self.ended else self._stream.read(size)
        except DAMAGE as error:
            self.damage, block = error, b""
        self.ended = not block
        self._position += len(block)
        return block

    def tell(self) -> int:
        return self._position


def _read(record: WarcRecord, size: int) -> bytes:
    """A record's block; less than its size when the file ends before."""
    block = bytearray()
    while len(block) < size and (more := record.reader.read(min(BLOCK_BYTES, size - len(block)))):
        block += more
    return bytes(block)


def _page(record: WarcRecord, number: int, block: bytes, max_page_bytes: int) -> HtmlRecord | None:
    headers = record.headers
    identity = headers.get("WARC-Record-ID")
    url = (headers.get("WARC-Target-URI") or "").strip("<> ") or None
    metadata: dict[str, str | int] = {
        name: value
        for name, value in (("warc_date", headers.get("WARC-Date")), ("warc_truncated", headers.get("WARC-Truncated")))
        if value
    }
    response = parse_response(block)
    if response is None:
        failure = "the record's block is no HTTP response"
        return HtmlRecord(number, identity, url, metadata=metadata, failure=failure)
    if response.media_type and response.media_type not in _HTML_TYPES:
        return None
    metadata["http_status"] = response.status
    if response.media_type:
        metadata["content_type"] = str(response.headers["Content-Type"])
    html = decoded_body(response, max_page_bytes)
    return HtmlRecord(number, identity, url, html, response.charset, metadata)
