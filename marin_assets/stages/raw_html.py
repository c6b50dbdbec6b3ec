"""The pages as they were collected: which files under a root hold pages, and what identifies them.

Belongs here: which files count, their order and digests. Does not: what stands inside them, which is
`page_reading`'s business.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from marin_assets.artifacts.manifest import digest_of_json
from marin_assets.artifacts.remembered_digests import file_digests
from marin_assets.errors import InputError

logger = logging.getLogger(__name__)

FORMATS = {
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".zip": "zip",
    ".warc": "warc",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class PageFile:
    """One file that holds pages."""

    name: str
    """Path below the root, with `/`."""
    path: Path
    bytes: int
    digest: str
    """xxh3-128 of the file as it is stored, 32 hex digits."""

    @property
    def printable_name(self) -> str:
        """The name in UTF-8, which names on disk need not be: other bytes are escaped."""
        return os.fsencode(self.name).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class RawHtml:
    """All files that hold pages, sorted by name."""

    root: Path
    files: tuple[PageFile, ...]

    @cached_property
    def digest(self) -> str:
        """Hash over the files' names and contents, 32 hex digits. A name says how a file is read."""
        return digest_of_json([[file.name, file.digest] for file in self.files])


def format_of(name: str) -> tuple[str, str | None] | None:
    """Format and compression of a file by its suffixes, in any case; None for other files."""
    path = Path(name.lower())
    compression = COMPRESSIONS.get(path.suffix)
    if compression is not None:
        path = path.with_suffix("")
    page_format = FORMATS.get(path.suffix)
    return None if page_format is None else (page_format, compression)


def raw_html(root: Path, *, remember: Path | None = None) -> RawHtml:
    """List the files with pages below a root, which may also be one such file itself.

    Dot-files and dot-folders are left out in silence, files of other types with one warning. A folder that is a
    symbolic link is not followed, a file that is one counts.

    Args:
        remember: folder in which digests are kept between calls (see `remembered_digests`).

    Raises:
        InputError: the root is missing, can't be read, or holds no pages.
    """
    paths = _candidates(root)
    known = [(name, path) for name, path in paths if format_of(name) is not None]
    _warn_of_others([name for name, _ in paths if format_of(name) is None])
    if not known:
        raise InputError(
            f"{root} holds no pages. Set MARIN_INPUT to a folder with {', '.join(FORMATS)} files "
            f"(each also with {' or '.join(COMPRESSIONS)}), or to one such file."
        )
    try:
        digests = list(file_digests((path for _, path in known), remember))
        sizes = [path.stat().st_size for _, path in known]
    except OSError as error:
        raise InputError(f"{error.filename or root} can't be read: {error.strerror}. Check MARIN_INPUT.") from error
    files = zip(known, sizes, digests, strict=True)
    return RawHtml(root, tuple(PageFile(name, path, size, digest) for (name, path), size, digest in files))


def _candidates(root: Path) -> list[tuple[str, Path]]:
    """Name and path of each visible file, sorted by name."""
    if root.is_file():
        return [(root.name, root)]
    if not root.is_dir():
        problem = "is neither a file nor a folder" if root.exists() else "does not exist"
        raise InputError(f"{root} {problem}. Set MARIN_INPUT to the folder or file that holds your pages.")
    return sorted((path.relative_to(root).as_posix(), path) for path in _visible_files(root))


def _visible_files(folder: Path) -> Iterator[Path]:
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
        folders = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
        yield from [entry for entry in entries if entry.is_file()]
    except OSError as error:
        raise InputError(f"{error.filename or folder} can't be read: {error.strerror}. Check MARIN_INPUT.") from error
    for entry in folders:
        yield from _visible_files(entry)


def _warn_of_others(names: list[str]) -> None:
    if names:
        suffixes = Counter(Path(name).suffix.lower() or "no suffix" for name in names)
        counts = ", ".join(f"{count} × {suffix}" for suffix, count in suffixes.most_common())
        logger.warning("%d files of other types are left out (%s), the first is %s", len(names), counts, names[0])
