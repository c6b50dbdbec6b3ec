"""Artifacts of earlier runs that the settings of an asset name, beside those that the graph connects it to.

Belongs here: from a name to an artifact and its digest. Does not: what the artifact is used for.
"""

from collections.abc import Sequence

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.errors import InputError

ASSET_KEY = "duplicate_paragraphs"


def earlier_corpora(store: ArtifactStore, names: Sequence[str]) -> list[Artifact]:
    """The `duplicate_paragraphs` artifacts with these names: fingerprints in the store, or folders anywhere.

    Raises:
        InputError: there is no such artifact.
    """
    return [_artifact(store, name) for name in names]


def _artifact(store: ArtifactStore, name: str) -> Artifact:
    folder, _, fingerprint = name.rstrip("/").rpartition("/")
    root, _, asset_key = folder.rpartition("/")
    if not folder:
        found, place = store.artifact(ASSET_KEY, fingerprint), store.storage.location(ASSET_KEY)
    elif asset_key != ASSET_KEY:
        raise InputError(
            f"dedup_against: {name!r} is no artifact of {ASSET_KEY}. Give a fingerprint, or a folder "
            f"`STORE/{ASSET_KEY}/FINGERPRINT`."
        )
    else:
        found, place = ArtifactStore(open_storage(root or ".")).artifact(ASSET_KEY, fingerprint), folder
    if found is None:
        raise InputError(
            f"dedup_against: there is no artifact {fingerprint!r} in {place}. Give the fingerprint of a published "
            f"{ASSET_KEY}, as its metadata and `manifest.json` show it, or the folder of one."
        )
    return found
