"""The files of one artifact on their way to S3, several at a time, while the stage goes on.

Belongs here: the threads that upload, and what they may skip. Does not: when an artifact becomes visible.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from marin_assets.artifacts.manifest import FileEntry
from marin_assets.artifacts.s3_objects import S3Objects
from marin_assets.errors import StorageError

_PARALLEL_FILES = 4


class Uploads:
    """Begins at once with each file that is added."""

    def __init__(self, objects: S3Objects, directory: str) -> None:
        self.objects = objects
        self.directory = directory
        self.present: frozenset[str] = frozenset()
        """Keys that lay there before; a file is not sent again where its digest already lies under its key."""
        self._pool = ThreadPoolExecutor(_PARALLEL_FILES, thread_name_prefix="upload")
        self._pending: dict[str, Future[None]] = {}

    def add(self, entry: FileEntry, path: Path) -> None:
        """Send a file; one that was added before under this name is replaced."""
        earlier = self._pending.get(entry.name)
        self._pending[entry.name] = self._pool.submit(self._send, entry, path, earlier)

    def wait(self) -> None:
        """Return when all files have arrived. Raises the `StorageError` of the first that could not."""
        for name in sorted(self._pending):
            self._pending[name].result()
        self._pending.clear()

    def stop(self) -> None:
        """Drop what has not begun, wait for what has."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _send(self, entry: FileEntry, path: Path, earlier: Future[None] | None) -> None:
        if earlier is not None:
            wait([earlier])
        key = f"{self.directory}/{entry.name}"
        if key in self.present and earlier is None and self._has_arrived(key, entry):
            return
        try:
            self.objects.upload(key, path, entry.digest)
        except StorageError:
            # Finishing a large upload may succeed while its answer is lost; trying again then finds no upload.
            if not self._has_arrived(key, entry):
                raise

    def _has_arrived(self, key: str, entry: FileEntry) -> bool:
        status = self.objects.status(key)
        return status is not None and status.bytes == entry.bytes and status.digest == entry.digest
