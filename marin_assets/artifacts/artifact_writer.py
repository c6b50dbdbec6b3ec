"""Writing side: the directory in which a stage prepares an artifact.

Belongs here: what a stage may do with its output. Does not: publishing, which the store does when the stage is done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.artifacts.manifest import FileEntry, Recipe


@dataclass
class ArtifactWriter:
    """Takes a stage's files. A file counts once `add` was called for it; all others are dropped at publishing.

    `on_added` lets a remote storage start to upload a file while the stage goes on with the next.
    """

    directory: Path
    on_added: Callable[[FileEntry, Path], None] | None = None
    recipe: Recipe | None = None
    """What the artifact is made by; None where it is not made for a store."""
    columns: dict[str, str] = field(default_factory=dict)
    """The stage sets this to the column types of its main table."""
    _entries: dict[str, FileEntry] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Where to write the file `name`, e.g. `duplicates/part-00000-of-00004.parquet`. Makes its folder."""
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts:
            raise ValueError(f"{name!r} must be a relative path below the artifact")
        path = self.directory / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def scratch(self, name: str) -> Path:
        """A folder for temporary files on the same disk, which is never published."""
        path = self.directory / ".scratch" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def add(self, name: str, *, rows: int | None = None, content: bool = True) -> FileEntry:
        """Take the finished file `name` into the artifact. It must not be changed afterwards.

        Args:
            content: False for files that do not belong to the content digest (timings, pictures).
        """
        path = self.path(name)
        entry = FileEntry(name=name, bytes=path.stat().st_size, digest=file_digest(path), rows=rows, content=content)
        self._entries[name] = entry
        if self.on_added is not None:
            self.on_added(entry, path)
        return entry

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """Files taken so far, sorted by name."""
        return tuple(self._entries[name] for name in sorted(self._entries))
