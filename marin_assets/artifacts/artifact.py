"""Reading side: a handle on a published artifact.

Belongs here: what a stage may ask of its input. A handle reads no data until it is asked for a path.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import JsonValue

from marin_assets.artifacts.manifest import FileEntry, Manifest

_PARALLEL_FILES = 8


@dataclass(frozen=True)
class Artifact:
    """An immutable, published result. `fetch` brings one of its files to local disk, whole and checked."""

    manifest: Manifest
    location: str
    """Directory or URI, for people."""
    fetch: Callable[[FileEntry], Path]
    ancestors: Callable[[], tuple[Manifest, ...]] = tuple
    """Looks up what this was made from, nearest first, as far as it is still there."""

    @property
    def content_digest(self) -> str:
        return self.manifest.content_digest

    @property
    def stats(self) -> dict[str, JsonValue]:
        return self.manifest.stats

    def files(self, pattern: str = "*") -> tuple[FileEntry, ...]:
        """Files whose name matches a shell pattern, sorted by name. `*` also matches `/`."""
        return tuple(entry for entry in self.manifest.files if fnmatchcase(entry.name, pattern))

    def path(self, name: str) -> Path:
        """Local path of one file.

        Raises:
            KeyError: the artifact has no such file.
            DamagedArtifactError: the file is missing, truncated or altered.
        """
        for entry in self.manifest.files:
            if entry.name == name:
                return self.fetch(entry)
        raise KeyError(f"{self.location} has no file {name!r}; it has {[entry.name for entry in self.manifest.files]}")

    def paths(self, pattern: str = "*") -> tuple[Path, ...]:
        """Local paths of the files that match, sorted by name, fetched several at a time. Raises as `path` does."""
        with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
            return tuple(pool.map(self.fetch, self.files(pattern)))
