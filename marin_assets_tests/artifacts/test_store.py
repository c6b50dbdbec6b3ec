"""What the store reuses, and the reasons that it gives where it doesn't."""

import json
from pathlib import Path

import pytest

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.manifest import FileEntry, Manifest, Recipe, content_digest, digest_of_json
from marin_assets.artifacts.store import ArtifactStore, differences
from marin_assets.errors import DamagedArtifactError, InputError
from marin_assets_tests.artifacts.sites import LocalSite, begun, published, recipe, write_files

FILES = {"part-0": b"zero", "part-1": b"one"}


@pytest.fixture
def site(tmp_path: Path) -> LocalSite:
    return LocalSite(str(tmp_path / "store"))


@pytest.fixture
def store(site: LocalSite) -> ArtifactStore:
    return ArtifactStore(site.open())


def manifest_key(manifest: Manifest) -> str:
    return f"{manifest.asset_key}/{manifest.fingerprint}/manifest.json"


def edit_manifest(site: LocalSite, manifest: Manifest, **changes: object) -> None:
    fields = json.loads(manifest.model_dump_json()) | changes
    site.overwrite(manifest_key(manifest), json.dumps(fields).encode())


def test_a_recipe_that_was_never_built_has_that_reason(store: ArtifactStore) -> None:
    decision = store.decide(recipe())
    assert decision.artifact is None
    assert decision.reason == "never built"


def test_a_published_artifact_is_reused_without_a_reason(store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    decision = store.decide(recipe())
    assert decision.artifact is not None
    assert decision.artifact.manifest == manifest
    assert decision.reason == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code_version": "c2"}, "code changed"),
        ({"libraries": {"polars": "2.2.0"}}, "library changed: polars 2.1.0 → 2.2.0"),
        ({"libraries": {"polars": "2.1.0", "numpy": "2"}}, "library changed: numpy absent → 2"),
        ({"libraries": {}}, "library changed: polars 2.1.0 → absent"),
        ({"config": {"words": 2}}, "config changed: words"),
        ({"config": {"words": None}}, "config changed: words"),
        ({"config": {"words": 1, "added": None}}, "config changed: added"),
        ({"inputs": {"raw_html": "d2"}}, "input changed: raw_html"),
        (
            {"code_version": "c2", "inputs": {"raw_html": "d2"}, "config": {"words": 3}},
            "code changed; config changed: words; input changed: raw_html",
        ),
    ],
)
def test_what_changed_since_the_latest_is_named(store: ArtifactStore, changes: dict[str, object], reason: str) -> None:
    published(store, FILES)
    assert store.decide(recipe(**changes)).reason == reason


def test_each_recipe_keeps_its_artifact(store: ArtifactStore) -> None:
    published(store, FILES)
    published(store, FILES, recipe(code_version="c2"))
    assert store.decide(recipe()).artifact is not None
    assert store.decide(recipe(code_version="c2")).artifact is not None
    assert len(store.artifacts("pages")[0]) == 2


def test_recipes_that_differ_in_key_order_alone_are_the_same() -> None:
    one = recipe(config={"a": 1, "b": 2})
    other = recipe(config={"b": 2, "a": 1})
    assert one.fingerprint == other.fingerprint
    assert differences(one, other) == ()


def test_force_is_a_reason_and_builds_anew(store: ArtifactStore) -> None:
    published(store, FILES)
    assert store.decide(recipe(), force=True).reason == "forced"
    build = begun(store, force=True)
    assert build.reason == "forced"
    store.abandon(build, keep=False)


def test_a_missing_file_is_the_reason(site: LocalSite, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    site.remove(f"pages/{manifest.fingerprint}/part-1")
    assert store.decide(recipe()).reason == "file missing: part-1"


def test_a_missing_manifest_is_the_reason(site: LocalSite, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    site.remove(manifest_key(manifest))
    assert store.decide(recipe()).reason == "file missing: manifest.json"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 1}'])
def test_a_damaged_manifest_is_the_reason_and_is_never_read(site: LocalSite, store: ArtifactStore, text: str) -> None:
    manifest = published(store, FILES)
    site.overwrite(manifest_key(manifest), text.encode())
    assert store.decide(recipe()).reason.startswith("manifest damaged: ")
    with pytest.raises(DamagedArtifactError, match="Materialize pages again"):
        store.latest("pages")
    readable, faults = store.artifacts("pages")
    assert not readable
    assert "manifest damaged" in faults[0]
    published(store, FILES)
    assert store.decide(recipe()).artifact is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format_version": 99}, "manifest has format 99, this program reads 1"),
        ({"fingerprint": "0" * 32}, "manifest altered: its fingerprint is not its recipe's"),
        ({"content_digest": "0" * 32}, "manifest altered: its content digest is not its files'"),
    ],
)
def test_an_altered_manifest_is_the_reason(
    site: LocalSite, store: ArtifactStore, changes: dict[str, object], reason: str
) -> None:
    edit_manifest(site, published(store, FILES), **changes)
    assert store.decide(recipe()).reason == reason


def test_another_recipes_manifest_is_not_taken_for_ours(site: LocalSite, store: ArtifactStore) -> None:
    other = published(store, {"part-0": b"other"}, recipe(code_version="c2"))
    ours = published(store, FILES)
    site.overwrite(manifest_key(ours), other.model_dump_json().encode())
    assert store.decide(recipe()).reason == "manifest altered: its fingerprint is not its recipe's"


def test_the_latest_is_what_was_published_or_pointed_to_last(store: ArtifactStore) -> None:
    first = store.artifact("pages", published(store, FILES).fingerprint)
    second = published(store, FILES, recipe(code_version="c2"))
    latest = store.latest("pages")
    assert latest is not None
    assert latest.manifest == second
    assert first is not None
    store.point_to(first)
    assert store.required("pages").manifest == first.manifest


@pytest.mark.parametrize("pointer", [b"{ca", b"{}"])
def test_where_no_pointer_can_be_read_the_newest_artifact_is_the_latest(
    site: LocalSite, store: ArtifactStore, pointer: bytes
) -> None:
    published(store, FILES)
    newest = published(store, FILES, recipe(config={"size": 2}))
    site.overwrite("pages/latest.json", pointer)

    assert store.required("pages").manifest == newest


def test_what_is_required_and_not_there_is_an_error_that_says_what_to_do(store: ArtifactStore) -> None:
    with pytest.raises(InputError, match=r"there is no pages in .*Materialize pages first, or set MARIN_PREFIX"):
        store.required("pages")
    with pytest.raises(InputError, match="Materialize pages first"):
        store.required("pages", "0" * 32)


def test_a_second_build_of_a_recipe_gets_the_first_ones_artifact(store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    again = store.begin(recipe())
    assert isinstance(again, Artifact)
    assert again.manifest == manifest
    assert isinstance(store.begin(recipe()), Artifact), "the lease was given back"


def test_the_manifest_says_what_was_built_and_how(store: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, {"part-0": b"zero"})
    build.out.path("timing.json").write_bytes(b"{}")
    build.out.add("timing.json", content=False)
    build.out.columns = {"id": "string"}
    build.stats = {"rows_in": 3}
    manifest = store.publish(build, run_id="run-1").manifest
    assert manifest.recipe == recipe()
    assert manifest.fingerprint == recipe().fingerprint
    assert manifest.stats == {"rows_in": 3}
    assert manifest.columns == {"id": "string"}
    assert manifest.run_id == "run-1"
    assert manifest.total_bytes == 6
    assert [entry.name for entry in manifest.files] == ["part-0", "timing.json"]
    assert manifest.wall_seconds >= 0


def test_the_content_digest_is_of_names_and_contents_alone() -> None:
    part, other = (FileEntry(name=name, bytes=1, digest=name) for name in ("a", "b"))
    timing = FileEntry(name="timing.json", bytes=1, digest="t", content=False)
    assert content_digest([part, other]) == content_digest([other, timing, part])
    assert content_digest([part, other]) != content_digest([part])
    renamed = part.model_copy(update={"name": "c"})
    assert content_digest([renamed]) != content_digest([part])


def test_the_digest_of_json_tells_values_apart() -> None:
    assert digest_of_json({"a": 1}) != digest_of_json({"a": "1"})
    assert digest_of_json(["ab", "c"]) != digest_of_json(["a", "bc"])
    assert Recipe.model_validate_json(recipe().model_dump_json()).fingerprint == recipe().fingerprint
