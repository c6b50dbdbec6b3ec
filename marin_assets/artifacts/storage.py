"""Where artifacts lie: the interface that local disk and S3 share, and the choice between them.

Belongs here: what the store asks of a storage. Does not: what is stored, or when it is reused.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from marin_assets.artifacts.manifest import FileEntry, Manifest
from marin_assets.artifacts.s3_options import S3Options
from marin_assets.errors import SettingsError


class Lease(Protocol):
    """The right to compute one artifact, held by one process at a time."""

    def check(self) -> None:
        """Raise `LeaseLostError` if another process has taken over."""
        ...


class Storage(Protocol):
    """Bytes below a root. A directory is an artifact's `<asset key>/<fingerprint>`; names and keys use `/`."""

    def location(self, key: str) -> str:
        """Path or URI of a key, for people."""
        ...

    def read(self, key: str) -> bytes | None:
        """A small object, or None where there is none."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """Write a small object; readers see the old one or the new one, never a part."""
        ...

    def problem(self, directory: str, manifest: Manifest) -> str | None:
        """What is wrong with a published artifact's files, at little cost: `file missing: x`, or None."""
        ...

    def fetch(self, directory: str, entry: FileEntry) -> Path:
        """Local path of a published file, its digest checked. Raises `DamagedArtifactError`."""
        ...

    def lease(self, directory: str) -> AbstractContextManager[Lease]:
        """Wait until no other process computes this artifact, then hold the right to."""
        ...

    def staging(self, directory: str, *, keep: bool) -> Path:
        """A local folder to prepare the artifact in, under the lease.

        Args:
            directory: the artifact's directory.
            keep: hand it out as a killed process left it, instead of empty.
        """
        ...

    def discard(self, directory: str) -> None:
        """Drop the staging folder and all that was uploaded from it."""
        ...

    def added(self, directory: str, entry: FileEntry, path: Path) -> None:
        """A staged file is finished; a remote storage may begin to upload it."""
        ...

    def publish(self, directory: str, staging: Path, manifest: Manifest) -> None:
        """Make the staged files durable and visible, the manifest last."""
        ...

    def delete(self, directory: str) -> None:
        """Remove an artifact, the manifest first."""
        ...

    def directories(self, asset_key: str) -> Iterator[str]:
        """Directories of all published artifacts of an asset, in no order."""
        ...


def open_storage(root: str, *, cache: Path | None = None, s3: S3Options | None = None) -> Storage:
    """The storage for a local path or an `s3://bucket/prefix`.

    Raises:
        SettingsError: the path is that of a file.

    Args:
        root: local path, or S3 URI.
        cache: local folder for what is downloaded from S3 and staged for it; by default in the user's cache folder.
        s3: endpoint and credentials; by default from the usual `AWS_*` variables.
    """
    if root.startswith("s3://"):
        from marin_assets.artifacts.s3_storage import S3Storage

        return S3Storage.open(root, cache=cache, options=s3 or S3Options.from_environment())
    from marin_assets.artifacts.local_storage import LocalStorage

    folder = Path(root).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder} is a file. Set MARIN_PREFIX to a folder, or to s3://bucket/prefix.")
    return LocalStorage(folder)
