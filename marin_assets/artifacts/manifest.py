"""What is known of an artifact: the recipe it was made by, its files, its digests, its counts.

Belongs here: the shape of `manifest.json`, and the two hashes that decide reuse. Does not: reading or writing it.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict, JsonValue

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"


def digest_of_json(value: JsonValue) -> str:
    """Hash a JSON value independently of key order: 32 hex digits of SHA-256."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:32]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Recipe(_Record):
    """Everything that decides what an artifact holds. Two equal recipes have one fingerprint."""

    asset_key: str
    """Parts of the asset key joined by `/`."""
    code_version: str
    libraries: dict[str, str]
    """Versions of the distributions that decide the output, by distribution name."""
    config: dict[str, JsonValue]
    """Semantic settings only."""
    inputs: dict[str, str]
    """Content digest of each input, by the input's name."""

    @property
    def fingerprint(self) -> str:
        return digest_of_json(self.model_dump(mode="json"))


class FileEntry(_Record):
    """One data file of an artifact."""

    name: str
    """Path below the artifact's directory, with `/`."""
    bytes: int
    digest: str
    """xxh3-128 of the file's bytes, 32 hex digits."""
    rows: int | None = None
    content: bool = True
    """False for files such as timings and pictures, which are no part of what the artifact says."""


class Manifest(_Record):
    """`manifest.json`: written last, so that its presence means that the artifact is whole."""

    format_version: int = FORMAT_VERSION
    fingerprint: str
    recipe: Recipe
    content_digest: str
    files: tuple[FileEntry, ...]
    """Sorted by name."""
    stats: dict[str, JsonValue]
    """What the stage counted."""
    columns: dict[str, str]
    """Column types of the artifact's main table, by name; empty where it has none."""
    wall_seconds: float
    created_at: datetime
    run_id: str | None = None

    @property
    def asset_key(self) -> str:
        return self.recipe.asset_key

    @property
    def total_bytes(self) -> int:
        return sum(entry.bytes for entry in self.files)


def content_digest(files: Iterable[FileEntry]) -> str:
    """Hash what the data files hold. Times, paths outside the artifact and worker counts are no part of it."""
    held = sorted((entry.name, entry.digest) for entry in files if entry.content)
    return digest_of_json([list(pair) for pair in held])
