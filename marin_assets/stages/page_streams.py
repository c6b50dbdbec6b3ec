"""Bytes of input files: decompressed, and cut into lines, in bounded memory.

Belongs here: how bytes come out of a file. Does not: what they mean.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from fastwarc.stream_io import ZstdReader

BLOCK_BYTES = 1 << 20
_ZSTD_READ_BYTES = 1 << 16
DAMAGE = (EOFError, OSError, zlib.error)
"""What reading raises when a file is gone, cut or corrupt."""


class Reader(Protocol):
    """A stream whose `read` gives some bytes, at most as many as asked for, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...


@contextmanager
def decompressed(path: Path, compression: str | None, start: int = 0, end: int | None = None) -> Iterator[Reader]:
    """A stream that gives what there is, so that nothing before a damaged place is lost.

    Args:
        compression: `gzip`, `zstd` or None.
        start: first byte of the file to read; with `end`, the byte after the last. A compressed file must have a
            compressed stream of its own there.
    """
    with path.open("rb") as raw:
        raw.seek(start)
        part = raw if end is None else cast("BinaryIO", _Range(raw, end))
        if compression == "gzip":
            with gzip.GzipFile(fileobj=part, mode="rb") as stream:
                yield _AsAvailable(stream)
        elif compression == "zstd":
            yield _Zstd(part, start)
        else:
            yield part


@dataclass(frozen=True)
class _AsAvailable:
    stream: gzip.GzipFile

    def read(self, size: int, /) -> bytes:
        return self.stream.read1(size)


class _Zstd:
    """fastwarc's reader, which loses what it has decoded when it meets damage before it has the bytes asked for."""

    def __init__(self, raw: BinaryIO, start: int) -> None:
        self._raw = raw
        self._start = start
        self._reader = self._open()
        self._given = 0
        self._damage: OSError | None = None

    def read(self, size: int, /) -> bytes:
        if self._damage is not None:
            raise self._damage
        try:
            block = self._reader.read(min(size, _ZSTD_READ_BYTES))
        except OSError:
            return self._up_to_damage()
        self._given += len(block)
        return block

    def _up_to_damage(self) -> bytes:
        """Decode it all again, and the last bytes one by one."""
        reader = self._open()
        left = self._given
        while left:
            left -= len(reader.read(min(left, BLOCK_BYTES)))
        found = bytearray()
        try:
            while byte := reader.read(1):
                found += byte
        except OSError as damage:
            self._damage = damage
            if not found:
                raise
        return bytes(found)

    def _open(self) -> ZstdReader:
        from fastwarc.stream_io import ZstdReader

        self._raw.seek(self._start)
        return ZstdReader(self._raw)


@dataclass(frozen=True)
class _Range:
    stream: BinaryIO
    end: int

    def read(self, size: int, /) -> bytes:
        return self.stream.read(max(0, min(size, self.end - self.stream.tell())))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()


class Line(NamedTuple):
    """A line of a file."""

    content: bytes
    """The line without its end, cut to one byte more than the limit when it is over that."""
    size: int
    """Bytes that it takes in the file, its end included."""
    is_blank: bool


def lines(stream: Reader, limit: int) -> Iterator[Line]:
    """Each line, in memory of a few times the limit, in bytes."""
    pieces: list[bytes] = []
    size, blank = 0, True
    while block := stream.read(BLOCK_BYTES):
        *ended, rest = block.split(b"\n")
        for piece in ended:
            content = b"".join([*pieces, piece]) if pieces else piece
            yield Line(content[: limit + 1], size + len(piece) + 1, blank and _is_blank(piece))
            pieces, size, blank = [], 0, True
        if rest:
            if size <= limit:
                pieces.append(rest)
            size += len(rest)
            blank = blank and _is_blank(rest)
    if size:
        yield Line(b"".join(pieces)[: limit + 1], size, blank)


def _is_blank(piece: bytes) -> bool:
    return not piece or piece.isspace()
