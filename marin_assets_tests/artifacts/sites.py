"""Places to keep artifacts in, for tests that must hold on each: how to open them, and how to damage them."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import obstore

from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.local_storage import LocalStorage
from marin_assets.artifacts.manifest import Manifest, Recipe
from marin_assets.artifacts.s3_options import S3Options
from marin_assets.artifacts.s3_storage import S3Storage
from marin_assets.artifacts.storage import Storage
from marin_assets.artifacts.store import ArtifactStore, Build

STALE_SECONDS = 1.5
"""Short, so that tests see leases being taken over."""


class Site(Protocol):
    """A storage that can be opened by several "machines", each with local disk of its own."""

    @property
    def root(self) -> str: ...

    def open(self, machine: str = "first") -> Storage: ...

    def arguments(self, machine: str) -> list[str]:
        """What `open_site` takes in another process."""
        ...

    def names(self) -> set[str]:
        """All keys below the root but those of leases."""
        ...

    def remove(self, key: str) -> None: ...

    def overwrite(self, key: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class LocalSite:
    root: str

    def open(self, machine: str = "first") -> LocalStorage:
        return LocalStorage(Path(self.root))

    def arguments(self, machine: str) -> list[str]:
        return [self.root]

    def names(self) -> set[str]:
        found = [path for path in Path(self.root).rglob("*") if path.is_file()]
        return {key for path in found if ".leases/" not in (key := path.relative_to(self.root).as_posix())}

    def remove(self, key: str) -> None:
        path = Path(self.root, key)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    def overwrite(self, key: str, data: bytes) -> None:
        Path(self.root, key).write_bytes(data)


@dataclass(frozen=True)
class S3Site:
    root: str
    options: S3Options
    caches: Path

    def open(self, machine: str = "first") -> S3Storage:
        return S3Storage.open(self.root, cache=self.caches / machine, options=self.options, stale_seconds=STALE_SECONDS)

    def arguments(self, machine: str) -> list[str]:
        options = self.options
        assert options.endpoint_url
        assert options.access_key_id
        assert options.secret_access_key
        cache = str(self.caches / machine)
        return [self.root, cache, options.endpoint_url, options.access_key_id, options.secret_access_key]

    def names(self) -> set[str]:
        return {key for key in self.open().objects.keys("") if ".leases/" not in key}

    def remove(self, key: str) -> None:
        self.open().objects.delete([key])

    def overwrite(self, key: str, data: bytes) -> None:
        """As another program would, which knows nothing of our digests."""
        obstore.put(self.open().objects.patient, key, data)


def open_site(arguments: list[str]) -> Storage:
    """The site of `Site.arguments`."""
    if len(arguments) == 1:
        return LocalStorage(Path(arguments[0]))
    root, cache, endpoint, key, secret = arguments
    options = S3Options("us-east-1", endpoint, key, secret)
    return S3Storage.open(root, cache=Path(cache), options=options, stale_seconds=STALE_SECONDS)


def recipe(**changes: object) -> Recipe:
    """A recipe of no stage in particular."""
    fields = {
        "asset_key": "pages",
        "code_version": "c1",
        "libraries": {"polars": "2.1.0"},
        "config": {"words": 1},
        "inputs": {"raw_html": "d1"},
    }
    return Recipe.model_validate(fields | changes)


def begun(store: ArtifactStore, of: Recipe | None = None, *, force: bool = False, resumable: bool = False) -> Build:
    """A build that must not find an artifact to reuse."""
    build = store.begin(of or recipe(), force=force, resumable=resumable)
    assert isinstance(build, Build)
    return build


def write_files(out: ArtifactWriter, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        out.path(name).write_bytes(data)
        out.add(name)


def published(store: ArtifactStore, files: dict[str, bytes], of: Recipe | None = None) -> Manifest:
    """Build and publish an artifact of these files."""
    build = begun(store, of)
    write_files(build.out, files)
    return store.publish(build).manifest
