"""The HTML pages among the members of a zip archive.

Belongs here: which members are pages, and their bytes. Nothing is unpacked to disk: a member's name is only a name.
"""

from __future__ import annotations

import lzma
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from marin_assets.stages.page_streams import DAMAGE

ZIP_DAMAGE = (*DAMAGE, zipfile.BadZipFile, NotImplementedError, RuntimeError, lzma.LZMAError, ValueError)
"""What a damaged archive, or a compression or password that is not known here, raises."""
_READ_BYTES = 1 << 12
"""bzip2 and LZMA decode at once all that they are given, which is as much as they are asked for."""
_ENCRYPTED = 1
_OTHER_PAGES = (".jsonl", ".ndjson", ".parquet", ".warc", ".zip", ".gz", ".zst")


class Member(NamedTuple):
    """A member that holds a page. `failure` says why its bytes are missing or end early."""

    record: int
    """Its place in the archive's directory, from 0."""
    name: str
    html: bytes
    failure: str | None


def members(
    path: Path, suffixes: frozenset[str], max_page_bytes: int, start: int = 0, end: int | None = None
) -> Iterator[Member]:
    """The HTML members, in the order of the archive's directory; hidden ones are left out as hidden files are.

    A member that can't be read costs itself alone. So does one with pages in another format, which is not read here.

    Args:
        suffixes: of the names of HTML files, in lower case.
        max_page_bytes: longer members are read up to one byte more.
        start: first place in the directory; with `end`, the place after the last.

    Raises:
        ZIP_DAMAGE: the archive has no readable directory.
    """
    with zipfile.ZipFile(path) as archive:
        for record, info in list(enumerate(archive.infolist()))[start:end]:
            name = PurePosixPath(info.filename)
            if info.filename.endswith("/") or any(part.startswith(".") and part != ".." for part in name.parts):
                continue
            suffix = name.suffix.lower()
            if suffix in suffixes:
                yield Member(record, info.filename, *_content(archive, info, max_page_bytes))
            elif suffix in _OTHER_PAGES:
                failure = f"only HTML files are read from a zip archive, and {info.filename} is none: unpack it"
                yield Member(record, info.filename, b"", failure)


def member_sizes(path: Path) -> list[int]:
    """Compressed bytes of each member, in the order of the archive's directory."""
    with zipfile.ZipFile(path) as archive:
        return [info.compress_size for info in archive.infolist()]


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> tuple[bytes, str | None]:
    if info.flag_bits & _ENCRYPTED:
        return b"", f"{info.filename} is encrypted"
    content = bytearray()
    try:
        with archive.open(info) as stream:
            while len(content) <= limit and (block := stream.read(_READ_BYTES)):
                content += block
    except ZIP_DAMAGE as error:
        return bytes(content[: limit + 1]), f"{info.filename} can't be read: {error or type(error).__name__}"
    return bytes(content[: limit + 1]), None
