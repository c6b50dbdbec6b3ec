"""Artifacts on a local disk: staged beside their destination, made durable, renamed into place.

Belongs here: paths, renames, fsync, locks by `flock`. Layout below the root:
`<asset key>/<fingerprint>/`, `<asset key>/latest.json`, `<asset key>/.staging/<fingerprint>/`,
`<asset key>/.leases/<fingerprint>`.
"""

import errno
import fcntl
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from marin_assets.artifacts.durability import sync
from marin_assets.artifacts.file_digest import file_digest
from marin_assets.artifacts.manifest import MANIFEST_NAME, FileEntry, Manifest
from marin_assets.errors import DamagedArtifactError, LeaseLostError, StorageError

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_KEEP_MARK = ".keep"


@dataclass(frozen=True)
class LocalLease:
    """A lock file held open; the kernel frees it when the process ends, however it ends."""

    path: Path
    descriptor: int

    def check(self) -> None:
        """Raise `LeaseLostError` if the lock file was removed or replaced while we held it."""
        if not _is_same_file(self.path, self.descriptor):
            raise LeaseLostError(
                f"{self.path} was removed while this process computed the artifact, so another may compute it as "
                "well. Nothing was published; run again, and leave the .leases folders alone."
            )


@dataclass(frozen=True)
class LocalStorage:
    """Implements `Storage` below a folder."""

    root: Path

    def location(self, key: str) -> str:
        return str(self.root / key)

    def read(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        path = self.root / key
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_durably(path, data)

    def problem(self, directory: str, manifest: Manifest) -> str | None:
        """Sizes are compared always; a file touched after the manifest was written is hashed as well."""
        folder = self.root / directory
        manifest_status = _status(folder / MANIFEST_NAME)
        for entry in manifest.files:
            status = _status(folder / entry.name)
            if status is None or manifest_status is None:
                return f"file missing: {entry.name}"
            if status.st_size != entry.bytes:
                return f"file truncated or altered: {entry.name} has {status.st_size} bytes, not {entry.bytes}"
            touched_later = max(status.st_mtime_ns, status.st_ctime_ns) > manifest_status.st_ctime_ns
            if touched_later and file_digest(folder / entry.name) != entry.digest:
                return f"file altered: {entry.name}"
        return None

    def fetch(self, directory: str, entry: FileEntry) -> Path:
        path = self.root / directory / entry.name
        status = _status(path)
        remedy = "Materialize its asset again to rebuild it."
        if status is None:
            raise DamagedArtifactError(f"{path} is missing. {remedy}")
        if status.st_size != entry.bytes:
            raise DamagedArtifactError(f"{path} has {status.st_size} bytes, not {entry.bytes}. {remedy}")
        if file_digest(path) != entry.digest:
            raise DamagedArtifactError(f"{path} was altered: its digest is not the manifest's. {remedy}")
        return path

    @contextmanager
    def lease(self, directory: str) -> Iterator[LocalLease]:
        asset, fingerprint = directory.rsplit("/", 1)
        path = self.root / asset / ".leases" / fingerprint
        _make_folder(path.parent)
        descriptor = _lock(path)
        try:
            yield LocalLease(path, descriptor)
        finally:
            _unlock(path, descriptor)

    def staging(self, directory: str, *, keep: bool) -> Path:
        folder = self._staging(directory)
        self._sweep(folder.parent, other_than=folder)
        if folder.exists() and not keep:
            shutil.rmtree(folder)
        _make_folder(folder)
        if keep:
            (folder / _KEEP_MARK).touch()
        return folder

    def discard(self, directory: str) -> None:
        folder = self._staging(directory)
        if folder.exists():
            shutil.rmtree(folder)

    def added(self, directory: str, entry: FileEntry, path: Path) -> None:
        """Nothing to do: the file already lies on the disk it will be published on."""

    def publish(self, directory: str, staging: Path, manifest: Manifest) -> None:
        target = self.root / directory
        _drop_all_but({entry.name for entry in manifest.files}, staging)
        with _explained(target):
            for entry in manifest.files:
                sync(staging / entry.name)
            for folder in [path for path in staging.rglob("*") if path.is_dir()]:
                sync(folder)
            _write_durably(staging / MANIFEST_NAME, manifest.model_dump_json(indent=2).encode())
            replaced = self._set_aside(directory)
            staging.rename(target)
            sync(target.parent)
        if replaced is not None:
            shutil.rmtree(replaced)

    def delete(self, directory: str) -> None:
        removed = self._set_aside(directory)
        if removed is not None:
            shutil.rmtree(removed)

    def directories(self, asset_key: str) -> Iterator[str]:
        folder = self.root / asset_key
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            if (path / MANIFEST_NAME).is_file():
                yield f"{asset_key}/{path.name}"

    def _staging(self, directory: str) -> Path:
        asset, fingerprint = directory.rsplit("/", 1)
        return self.root / asset / ".staging" / fingerprint

    def _set_aside(self, directory: str) -> Path | None:
        """Take an artifact out of sight in one step, so that nobody meets one that has lost half of its files."""
        target = self.root / directory
        if not target.exists():
            return None
        aside = self._staging(directory).with_name(f"{target.name}.replaced-{uuid.uuid4().hex}")
        with _explained(target):
            aside.parent.mkdir(exist_ok=True)
            target.rename(aside)
        return aside

    def _sweep(self, folder: Path, *, other_than: Path) -> None:
        """Remove what killed processes left behind, unless it was to be kept or its computation is alive."""
        for leftover in folder.iterdir() if folder.is_dir() else ():
            if leftover == other_than or (leftover / _KEEP_MARK).exists():
                continue
            lock = folder.parent / ".leases" / leftover.name.split(".")[0]
            descriptor = _try_to_lock(lock)
            if descriptor is None:
                continue
            logger.info("removing %s, left by a process that was killed", leftover)
            shutil.rmtree(leftover, ignore_errors=True)
            _unlock(lock, descriptor)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_same_file(path: Path, descriptor: int) -> bool:
    status = _status(path)
    return status is not None and os.path.samestat(status, os.fstat(descriptor))


def _lock(path: Path) -> int:
    """Wait for the lock file. Returns its descriptor, open and locked."""
    told = False
    while (descriptor := _try_to_lock(path)) is None:
        if not told:
            logger.info("another process is computing %s/%s; waiting for it", path.parents[1].name, path.name)
            told = True
        time.sleep(_POLL_SECONDS)
    return descriptor


def _try_to_lock(path: Path) -> int | None:
    """Open and lock a file that is surely still at its path, or return None where another holds it."""
    with _explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_same_file(path, descriptor):
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _unlock(path: Path, descriptor: int) -> None:
    """Remove the file under its lock; whoever waits on it notices that the path no longer leads to it."""
    if _is_same_file(path, descriptor):
        path.unlink()
    os.close(descriptor)


def _make_folder(path: Path) -> None:
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {error.filename or path}: {error.strerror}. Free space there, or set MARIN_PREFIX to a "
            "folder that you may write to."
        ) from error


@contextmanager
def full_disk_explained(folder: Path) -> Iterator[None]:
    """Libraries report a full disk each in its own class; say which disk it is."""
    try:
        yield
    except Exception as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise StorageError(
            f"the disk of {folder} is full. Free space there, or set MARIN_PREFIX to a folder on another disk; what "
            "was published before stays good."
        ) from error


def _write_durably(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    sync(path.parent)


def _drop_all_but(names: set[str], folder: Path) -> None:
    """Remove scratch files, and folders that are left empty."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in names:
            path.unlink()
