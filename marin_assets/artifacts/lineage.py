"""What an artifact was made from, and that from what, as far as the store still has it.

Belongs here: the walk from one manifest to its inputs. Does not: anything that reads data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marin_assets.artifacts.manifest import Manifest
    from marin_assets.artifacts.store import ArtifactStore


def ancestors(store: ArtifactStore, manifest: Manifest) -> tuple[Manifest, ...]:
    """Manifests of the artifacts that this one was made from, nearest first, each asset once.

    A recipe names an input by its content, which several recipes may have given; the newest of them is taken. Inputs
    that are no artifacts, such as the pages, stand in the recipes of those that are.
    """
    found: dict[str, Manifest] = {}

    def visit(descendant: Manifest) -> None:
        for name, digest in descendant.recipe.inputs.items():
            made = [one.manifest for one in store.artifacts(name) if one.content_digest == digest]
            if made and name not in found:
                visit(made[-1])
                found[name] = made[-1]

    visit(manifest)
    return tuple(found.values())[::-1]
