"""Artifacts in an S3 bucket: prepared on local disk, uploaded file by file, made visible by their manifest.

Belongs here: the order in which objects are written and removed. Does not: requests (`s3_objects`), leases
(`s3_lease`), the local cache (`download_cache`). Keys below the root are those of the local layout:
`<asset key>/<fingerprint>/`, `<asset key>/latest.json`, `<asset key>/.leases/<fingerprint>`. There is no rename on
S3, so an artifact is visible exactly while its manifest is: written last, removed first.
"""

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from marin_assets.artifacts.download_cache import DownloadCache, cache_limit_bytes, default_cache
from marin_assets.artifacts.local_storage import LocalStorage
from marin_assets.artifacts.manifest import MANIFEST_NAME, FileEntry, Manifest
from marin_assets.artifacts.s3_lease import STALE_SECONDS, S3Lease, hold_lease
from marin_assets.artifacts.s3_objects import S3Objects
from marin_assets.artifacts.s3_options import S3Options
from marin_assets.artifacts.s3_uploads import Uploads
from marin_assets.errors import DamagedArtifactError, LeaseLostError

_PARALLEL_REQUESTS = 16


@dataclass
class _Attempt:
    """One artifact being computed by this process, from the lease to its release."""

    lease: S3Lease
    uploads: Uploads
    replaces: bool = False
    """An artifact is visible under this fingerprint: it stays whole until the new one is ready."""


@dataclass(frozen=True)
class S3Storage:
    """Implements `Storage` below `s3://bucket/prefix`."""

    objects: S3Objects
    cache: DownloadCache
    staged: LocalStorage
    """Staging folders, and locks that keep the processes of this machine apart without a request."""
    name: str
    """Folder name that tells this root from others in the same cache."""
    stale_seconds: float = STALE_SECONDS
    _attempts: dict[str, _Attempt] = field(default_factory=dict)

    @classmethod
    def open(
        cls, root: str, *, cache: Path | None, options: S3Options, stale_seconds: float = STALE_SECONDS
    ) -> "S3Storage":
        """Reach the bucket, so that wrong settings are told before any work is done.

        Args:
            root: `s3://bucket/prefix`.
            cache: local folder; `$XDG_CACHE_HOME/marin_assets` or `~/.cache/marin_assets` by default.
            options: endpoint and credentials.
            stale_seconds: a lease that was not renewed for so long is taken over.

        Raises:
            SettingsError: `root` names no bucket, or the cache size is no number.
            StorageError: credentials, bucket, region, endpoint or network are wrong.
        """
        folder = (cache or default_cache()).expanduser().absolute()
        limit = cache_limit_bytes()
        objects = S3Objects.open(root, options)
        name = _folder_name(objects.root, objects.endpoint)
        return cls(
            objects=objects,
            cache=DownloadCache(folder / "downloads", limit),
            staged=LocalStorage(folder / "staging" / name),
            name=name,
            stale_seconds=stale_seconds,
        )

    def location(self, key: str) -> str:
        return self.objects.uri(key)

    def read(self, key: str) -> bytes | None:
        stored = self.objects.read(key)
        return None if stored is None else stored.data

    def write(self, key: str, data: bytes) -> None:
        self.objects.write(key, data)

    def problem(self, directory: str, manifest: Manifest) -> str | None:
        """One request a file, no listing. A file that something else wrote is read, to learn its digest."""
        with ThreadPoolExecutor(_PARALLEL_REQUESTS) as pool:
            found = pool.map(lambda entry: self._problem_of(directory, entry), manifest.files)
            return next((problem for problem in found if problem is not None), None)

    def fetch(self, directory: str, entry: FileEntry) -> Path:
        return self.cache.find(self._cached(directory), entry) or self._download(directory, entry)

    @contextmanager
    def lease(self, directory: str) -> Iterator[S3Lease]:
        asset, fingerprint = directory.rsplit("/", 1)
        key = f"{asset}/.leases/{fingerprint}"
        with self.staged.lease(directory), hold_lease(self.objects, key, self.stale_seconds) as lease:
            uploads = Uploads(self.objects, directory)
            self._attempts[directory] = _Attempt(lease, uploads)
            try:
                yield lease
            finally:
                del self._attempts[directory]
                uploads.stop()

    def staging(self, directory: str, *, keep: bool) -> Path:
        attempt = self._attempts[directory]
        present = frozenset(self.objects.keys(directory))
        attempt.replaces = f"{directory}/{MANIFEST_NAME}" in present
        attempt.uploads.present = present
        return self.staged.staging(directory, keep=keep)

    def discard(self, directory: str) -> None:
        attempt = self._attempts[directory]
        attempt.uploads.stop()
        self.staged.discard(directory)
        try:
            attempt.lease.confirm()
        except LeaseLostError:
            return  # what lies there is the other process's by now
        if not attempt.replaces:
            self.objects.delete(self.objects.keys(directory))

    def added(self, directory: str, entry: FileEntry, path: Path) -> None:
        """Uploads at once, unless a visible artifact would be spoiled by it."""
        attempt = self._attempts[directory]
        attempt.lease.check()
        if not attempt.replaces:
            attempt.uploads.add(entry, path)

    def publish(self, directory: str, staging: Path, manifest: Manifest) -> None:
        attempt = self._attempts[directory]
        manifest_key = f"{directory}/{MANIFEST_NAME}"
        if attempt.replaces:
            attempt.lease.confirm()
            self.objects.delete([manifest_key])
            for entry in manifest.files:
                attempt.uploads.add(entry, staging / entry.name)
        attempt.uploads.wait()
        wanted = {f"{directory}/{entry.name}" for entry in manifest.files}
        attempt.lease.confirm()
        self.objects.delete(key for key in self.objects.keys(directory) if key not in wanted)
        self.objects.write(manifest_key, manifest.model_dump_json(indent=2).encode())
        self._keep_in_cache(directory, staging, manifest)

    def delete(self, directory: str) -> None:
        self.objects.delete([f"{directory}/{MANIFEST_NAME}"])
        self.objects.delete(self.objects.keys(directory))
        self.cache.drop(self._cached(directory))

    def directories(self, asset_key: str) -> Iterator[str]:
        for directory in self.objects.folders(asset_key):
            if self.objects.status(f"{directory}/{MANIFEST_NAME}") is not None:
                yield directory

    def _problem_of(self, directory: str, entry: FileEntry) -> str | None:
        status = self.objects.status(f"{directory}/{entry.name}")
        if status is None:
            return f"file missing: {entry.name}"
        if status.bytes != entry.bytes:
            return f"file truncated or altered: {entry.name} has {status.bytes} bytes, not {entry.bytes}"
        if status.digest is None:
            try:
                self._download(directory, entry)
            except DamagedArtifactError:
                return f"file altered: {entry.name}"
        elif status.digest != entry.digest:
            return f"file altered: {entry.name}"
        return None

    def _download(self, directory: str, entry: FileEntry) -> Path:
        key = f"{directory}/{entry.name}"
        uri = self.objects.uri(key)
        remedy = "Materialize its asset again to rebuild it."

        def write(path: Path) -> None:
            status = self.objects.status(key)
            if status is None:
                raise DamagedArtifactError(f"{uri} is missing. {remedy}")
            if status.bytes != entry.bytes:
                raise DamagedArtifactError(f"{uri} has {status.bytes} bytes, not {entry.bytes}. {remedy}")
            if self.objects.download(key, path, entry.bytes) != entry.digest:
                raise DamagedArtifactError(f"{uri} was altered: its digest is not the manifest's. {remedy}")

        return self.cache.add(self._cached(directory), entry.name, write)

    def _keep_in_cache(self, directory: str, staging: Path, manifest: Manifest) -> None:
        """What was just uploaded need not be downloaded by the next stage."""
        self.cache.drop(self._cached(directory))
        for entry in manifest.files:
            self.cache.adopt(self._cached(directory), entry.name, staging / entry.name)
        self.staged.discard(directory)

    def _cached(self, directory: str) -> str:
        return f"{self.name}/{directory}"


def _folder_name(root: str, endpoint: str | None) -> str:
    """Readable, and different for each bucket, prefix and server."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", root.removeprefix("s3://"))[:60]
    digest = hashlib.sha256(f"{endpoint or ''} {root}".encode()).hexdigest()[:8]
    return f"{readable}-{digest}"
