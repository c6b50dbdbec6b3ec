"""What an artifact says about itself in Dagster, as plain values.

Belongs here: names and types of metadata that every asset has. Does not: Dagster's classes, pictures, previews.
"""

from pydantic import JsonValue

from marin_assets.artifacts.artifact import Artifact

FINGERPRINT = "fingerprint"
CACHE = "cache"
REASON = "reason"

MetadataValue = str | int | float | dict[str, JsonValue]


def of_artifact(artifact: Artifact) -> dict[str, MetadataValue]:
    """Counts, digests and the place of an artifact. Nested counts stay one JSON value."""
    manifest = artifact.manifest
    counts = {name: value for name, value in manifest.stats.items() if isinstance(value, str | int | float | dict)}
    return {
        FINGERPRINT: manifest.fingerprint,
        "content_digest": manifest.content_digest,
        "location": artifact.location,
        "files": len(manifest.files),
        "bytes": manifest.total_bytes,
        "wall_seconds": manifest.wall_seconds,
        **counts,
    }
