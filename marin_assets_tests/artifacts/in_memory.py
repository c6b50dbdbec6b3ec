"""Artifacts that a test makes in a directory of its own, without a store."""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.manifest import Manifest, Recipe, content_digest


def writer(directory: Path) -> ArtifactWriter:
    """A writer into `directory`, which is made."""
    directory.mkdir(parents=True, exist_ok=True)
    return ArtifactWriter(directory)


def published(writer: ArtifactWriter, asset_key: str = "test", stats: dict[str, JsonValue] | None = None) -> Artifact:
    """The artifact of the files that were added to a writer, read where they lie."""
    recipe = Recipe(asset_key=asset_key, code_version="test", libraries={}, config={}, inputs={})
    manifest = Manifest(
        fingerprint=recipe.fingerprint,
        recipe=recipe,
        content_digest=content_digest(writer.entries),
        files=writer.entries,
        stats=stats or {},
        columns=writer.columns,
        wall_seconds=0.0,
        created_at=datetime(2000, 1, 1, tzinfo=UTC),
    )
    return Artifact(manifest, str(writer.directory), lambda entry: writer.directory / entry.name)
