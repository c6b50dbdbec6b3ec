"""From an artifact back to all that it was made from."""

from pathlib import Path

import pytest

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.manifest import Recipe
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(open_storage(str(tmp_path)))


def make(store: ArtifactStore, name: str, code: str = "one", **inputs: str) -> Artifact:
    """An artifact whose content is its name, whatever made it."""
    build = store.begin(Recipe(asset_key=name, code_version=code, libraries={}, config={}, inputs=inputs))
    assert not isinstance(build, Artifact)
    build.out.path("text").write_text(name)
    build.out.add("text")
    return store.publish(build)


def test_every_ancestor_stands_once_and_before_what_it_was_made_from(store: ArtifactStore) -> None:
    pages = make(store, "pages", raw="abc")
    spans = make(store, "spans", pages=pages.content_digest)
    texts = make(store, "texts", pages=pages.content_digest, spans=spans.content_digest)
    tokens = make(store, "tokens", texts=texts.content_digest, tokenizer="def")
    found = make(store, "model", tokens=tokens.content_digest).ancestors()
    assert [one.asset_key for one in found] == ["tokens", "texts", "spans", "pages"]


def test_of_several_that_hold_the_same_the_newest_is_taken(store: ArtifactStore) -> None:
    first = make(store, "pages", "one")
    second = make(store, "pages", "two")
    assert first.content_digest == second.content_digest
    (found,) = make(store, "texts", pages=first.content_digest).ancestors()
    assert found.recipe.code_version == "two"


def test_what_the_store_has_lost_is_left_out(store: ArtifactStore) -> None:
    assert make(store, "texts", pages="gone").ancestors() == ()
