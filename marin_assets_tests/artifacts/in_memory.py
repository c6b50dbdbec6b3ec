"""Artifacts without a store: a directory as a stage writes it, and a handle on it as a stage reads it."""

from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.manifest import Manifest, Recipe, content_digest


def writer(directory: Path) -> ArtifactWriter:
    directory.mkdir(parents=True, exist_ok=True)
    return ArtifactWriter(directory)


def published(writer: ArtifactWriter, asset_key: str = "test", stats: Any = None) -> Artifact:
    """What the store would hand to the next stage. `stats` is a dict or a stage's dataclass."""
    recipe = Recipe(asset_key=asset_key, code_version="test", libraries={}, config={}, inputs={})
    manifest = Manifest(
        fingerprint=recipe.fingerprint,
        recipe=recipe,
        content_digest=content_digest(writer.entries),
        files=writer.entries,
        stats=asdict(stats) if is_dataclass(stats) and not isinstance(stats, type) else stats or {},
        columns=writer.columns,
        wall_seconds=0.0,
        created_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    return Artifact(manifest, str(writer.directory), lambda entry: writer.directory / entry.name)
