"""An HTTP response as a crawler stored it, back to its headers and the bytes of its body.

Belongs here: header lines, chunks and content codings (RFC 9112, RFC 9110 §8.4). Does not: what the body says.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastwarc.stream_io import BrotliReader, ZstdReader

_STATUS_LINE = re.compile(rb"HTTP/[\d.]+ +(\d{3})[^\n]*\n")
_END_OF_HEADERS = re.compile(rb"(?:\A|\r?\n)\r?\n")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_BLOCK_BYTES = 1 << 12


@dataclass(frozen=True)
class HttpResponse:
    """A response, its body as it was sent."""

    status: int
    headers: Message
    body: bytes

    @property
    def media_type(self) -> str:
        """Type and subtype in lower case; empty when the response names none."""
        return str(self.headers.get("Content-Type", "")).partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The encoding that `Content-Type` names."""
        charset = self.headers.get_param("charset")
        return charset.strip() or None if isinstance(charset, str) else None


def parse_response(block: bytes) -> HttpResponse | None:
    """Cut a response into its parts; None for bytes that do not begin as one."""
    status = _STATUS_LINE.match(block)
    if status is None:
        return None
    end = _END_OF_HEADERS.search(block, status.end() - 1)
    # The blank line may follow the status line at once, whose own line end then begins the match.
    lines, body = (
        (block[status.end() :], b"") if end is None else (block[status.end() : end.start()], block[end.end() :])
    )
    headers = HeaderParser().parsestr(lines.decode("latin-1").replace("\r\n", "\n"))
    return HttpResponse(int(status[1]), headers, body)


def decoded_body(response: HttpResponse, limit: int) -> bytes:
    """The body without chunks and content codings, cut to one byte more than the limit.

    Of a body that is cut or corrupt, what comes before that place. A coding that the body does not have is passed
    over, since many crawlers store bodies decoded and headers as they came.
    """
    body = response.body
    if "chunked" in _codings(response.headers, "Transfer-Encoding"):
        body = _without_chunks(body) or body
    for coding in reversed(_codings(response.headers, "Content-Encoding")):
        decode = _DECODERS.get(coding)
        if decode is not None:
            body = decode(body, limit + 1) or body
    return body[: limit + 1]


def _codings(headers: Message, name: str) -> list[str]:
    values = ",".join(str(value) for value in headers.get_all(name, []))
    return [coding.strip().lower() for coding in values.split(",") if coding.strip()]


def _without_chunks(body: bytes) -> bytes:
    chunks, position = [], 0
    while size := _CHUNK_SIZE.match(body, position):
        length = int(size[1], 16)
        if length == 0:
            break
        chunks.append(body[size.end() : size.end() + length])
        position = size.end() + length
        position += 2 if body.startswith(b"\r\n", position) else body.startswith(b"\n", position)
    return b"".join(chunks)


def _gunzip(body: bytes, size: int) -> bytes:
    """All members of a gzip stream."""
    found = b""
    while body[:2] == b"\x1f\x8b" and len(found) < size:
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
        found += _inflate(decoder.decompress, body, size - len(found))
        body = decoder.unused_data
    return found


def _undeflate(body: bytes, size: int) -> bytes:
    """`deflate` is zlib's format; some servers send it without its header and checksum."""
    wrapped = _inflate(zlib.decompressobj().decompress, body, size)
    return wrapped or _inflate(zlib.decompressobj(-zlib.MAX_WBITS).decompress, body, size)


def _inflate(decompress: Callable[[bytes, int], bytes], body: bytes, size: int) -> bytes:
    try:
        return decompress(body, size)
    except zlib.error:
        return b""


def _unbrotli(body: bytes, size: int) -> bytes:
    from fastwarc.stream_io import BrotliReader

    return _read(BrotliReader(io.BytesIO(body)), size)


def _unzstd(body: bytes, size: int) -> bytes:
    from fastwarc.stream_io import ZstdReader

    return _read(ZstdReader(io.BytesIO(body)), size)


def _read(reader: BrotliReader | ZstdReader, size: int) -> bytes:
    found = bytearray()
    try:
        while len(found) < size and (block := reader.read(min(_BLOCK_BYTES, size - len(found)))):
            found += block
    except OSError:
        return bytes(found)
    return bytes(found)


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
