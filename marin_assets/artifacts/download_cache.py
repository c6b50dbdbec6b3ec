"""Files of remote artifacts, kept on local disk: checked when used, bounded in size, least recently used out first.

Belongs here: the cache's folder and what stays in it. Does not: where files come from. Several processes may share
a folder: each locks the artifacts that it uses (`flock`, shared) until it ends, and what is locked is not removed.
Layout: `files/<artifact>/<name>` and the lock `in-use/<artifact>`.
"""

import fcntl
import logging
import math
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.artifacts.manifest import FileEntry
from marin_assets.errors import SettingsError, StorageError

logger = logging.getLogger(__name__)

_DEFAULT_LIMIT_GIB = 20.0
_SHARE_LEFT = 0.9
"""What eviction leaves of the limit, so that the next file does not cause another one."""

_holding = threading.Lock()
_held_by_this_process: dict[Path, int] = {}
"""Descriptors of the lock files of artifacts in use, by path; the kernel drops the locks when the process ends."""


def cache_limit_bytes() -> int:
    """`MARIN_CACHE_GIB`, or 20 GiB. Raises `SettingsError` where it is no positive number."""
    text = os.environ.get("MARIN_CACHE_GIB", str(_DEFAULT_LIMIT_GIB))
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < math.inf:
        raise SettingsError(f"MARIN_CACHE_GIB is {text!r}; set it to the size of the download cache in GiB, e.g. 20.")
    return int(limit * (1 << 30))


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/marin_assets`, or `~/.cache/marin_assets`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marin_assets"


@dataclass
class DownloadCache:
    """`artifact` names one artifact among all that share the folder; it may contain `/`.

    What this process has used stays, so the folder may be larger than the limit while a run needs it.
    """

    folder: Path
    limit_bytes: int
    _known_bytes: int | None = None
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def find(self, artifact: str, entry: FileEntry) -> Path | None:
        """A cached file, if it is whole; one that is not is removed."""
        self._use(artifact)
        path = self._path(artifact, entry.name)
        try:
            if path.stat().st_size == entry.bytes and file_digest(path) == entry.digest:
                os.utime(path)
                return path
            logger.warning("%s was altered; it is fetched again", path)
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            pass
        return None

    def find_of_size(self, artifact: str, name: str, size: int) -> Path | None:
        """A cached file that has that many bytes; what it holds is not read."""
        self._use(artifact)
        path = self._path(artifact, name)
        try:
            if path.stat().st_size != size:
                return None
            os.utime(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return path

    def add(self, artifact: str, name: str, write: Callable[[Path], None]) -> Path:
        """Take in a file: `write` makes it under another name; it appears only when `write` has returned."""
        self._use(artifact)
        path = self._path(artifact, name)
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write(partial)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        self._grown(path.stat().st_size)
        return path

    def adopt(self, artifact: str, name: str, path: Path) -> None:
        """Take in a file that lies on the same disk, by moving it."""

        def move(destination: Path) -> None:
            path.replace(destination)

        self.add(artifact, name, move)

    def drop(self, artifact: str) -> None:
        """Forget an artifact that was deleted or replaced."""
        shutil.rmtree(self._path(artifact, ""), ignore_errors=True)

    def _path(self, artifact: str, name: str) -> Path:
        return self.folder / "files" / _flat(artifact) / name

    def _use(self, artifact: str) -> None:
        """Keep others from removing this artifact's files until this process ends."""
        path = self._lock_file(artifact)
        with _holding:
            if path not in _held_by_this_process:
                descriptor = self._open(path)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                _held_by_this_process[path] = descriptor

    def _lock_file(self, artifact: str) -> Path:
        return self.folder / "in-use" / _flat(artifact)

    def _open(self, lock_file: Path) -> int:
        with self._explained():
            lock_file.parent.mkdir(parents=True, exist_ok=True)
            return os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _grown(self, size: int) -> None:
        with self._changing:
            if self._known_bytes is None:
                self._known_bytes = sum(status.st_size for _, status in self._files())
            else:
                self._known_bytes += size
            if self._known_bytes > self.limit_bytes:
                self._known_bytes = self._evict()

    def _evict(self) -> int:
        """Remove files of unused artifacts, least recently used first. Returns the bytes that are left."""
        found = [(status.st_mtime, status.st_size, path) for path, status in self._files()]
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit_bytes * _SHARE_LEFT:
                break
            with self._unused(path) as unused:
                if unused:
                    path.unlink(missing_ok=True)
                    total -= size
        return total

    @contextmanager
    def _unused(self, path: Path) -> Iterator[bool]:
        """Lock a file's artifact against use; gives False where somebody uses it."""
        descriptor = self._open(self._lock_file(path.relative_to(self.folder / "files").parts[0]))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """All that is cached. Files come and go while this looks, by other processes' doing."""
        for folder, _, names in os.walk(self.folder / "files"):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    yield path, path.stat()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot write to the cache {self.folder}: {error.strerror}. Free space there, or set XDG_CACHE_HOME "
                "to a folder that you may write to."
            ) from error


def _flat(artifact: str) -> str:
    return artifact.replace("/", "+")
