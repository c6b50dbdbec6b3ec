"""A run that is deduplicated against an artifact of an earlier run."""

import json
import shutil
from pathlib import Path

import pytest

from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.defs.earlier_corpora import earlier_corpora
from marin_assets.defs.plan import plan
from marin_assets.errors import InputError
from marin_assets_tests.drivers import InProcess, Outcome
from marin_assets_tests.project import Project, copy_project, write_pages

UP_TO_DEDUP = ("markdown_documents", "normalized_documents", "duplicate_paragraphs")


def against(*names: str) -> dict[str, object]:
    return {"ops": {"duplicate_paragraphs": {"config": {"dedup_against": list(names)}}}}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A store with thirty pages."""
    project = copy_project(tmp_path_factory.mktemp("project"))
    write_pages(project.folder / "old-pages", count=30)
    old = Project(project.folder, store_name="old", input_name="old-pages")
    InProcess(old).run(UP_TO_DEDUP)
    return old


@pytest.fixture(scope="module")
def new(old: Project) -> Project:
    """An empty store, and sixty pages of which thirty are the old ones."""
    return Project(old.folder, store_name="new")


def stats(project: Project) -> dict[str, int]:
    found = project.manifest("duplicate_paragraphs")["stats"]
    assert isinstance(found, dict)
    return found


def test_what_the_index_holds_is_an_input_and_where_it_is_is_not(old: Project, new: Project) -> None:
    driver = InProcess(new)
    assert driver.run(UP_TO_DEDUP)["duplicate_paragraphs"] == Outcome("miss", "never built")
    assert stats(new)["paragraphs_duplicate_of_earlier"] == 0
    first = old.artifact("duplicate_paragraphs")
    changed = Outcome("miss", "input changed: dedup_against")
    assert driver.run(UP_TO_DEDUP, against(str(first)))["duplicate_paragraphs"] == changed
    assert stats(new)["paragraphs_duplicate_of_earlier"] >= 50

    elsewhere = old.folder / "elsewhere" / "duplicate_paragraphs" / first.name
    shutil.copytree(first, elsewhere)
    assert driver.run(UP_TO_DEDUP, against(f"{elsewhere}/"))["duplicate_paragraphs"] == Outcome("hit")


def test_the_plan_knows(old: Project, new: Project) -> None:
    sources = {"raw_html": str(new.manifest("markdown_documents")["recipe"]["inputs"]["raw_html"]), "tokenizer": "t"}  # type: ignore[index] # JSON
    store = ArtifactStore(open_storage(str(new.store)))
    latest = new.manifest("duplicate_paragraphs")["fingerprint"]
    by_name = {one.name: one for one in plan(store, sources, {})}
    assert by_name["duplicate_paragraphs"].outcome == "hit"
    config = {"duplicate_paragraphs": {"dedup_against": [str(latest)]}}
    by_name = {one.name: one for one in plan(store, sources, config)}  # type: ignore[arg-type] # JSON
    assert by_name["duplicate_paragraphs"].reason == "input changed: dedup_against"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("0123", "there is no artifact '0123' in .*duplicate_paragraphs"),
        ("stores/a/duplicate_paragraphs/0123", "there is no artifact '0123' in stores/a/duplicate_paragraphs"),
        ("stores/a/token_cache/0123", "'stores/a/token_cache/0123' is no artifact of duplicate_paragraphs"),
    ],
)
def test_a_name_without_an_artifact_is_refused(tmp_path: Path, name: str, message: str) -> None:
    store = ArtifactStore(open_storage(str(tmp_path)))
    with pytest.raises(InputError, match=message):
        earlier_corpora(store, [name])


def test_a_fingerprint_is_looked_up_in_the_store(old: Project) -> None:
    folder = old.artifact("duplicate_paragraphs")
    store = ArtifactStore(open_storage(str(old.store)))
    by_fingerprint, by_folder = earlier_corpora(store, [folder.name, str(folder)])
    assert by_fingerprint.manifest == by_folder.manifest
    assert json.loads(by_fingerprint.path("paragraph_hashes/index.json").read_text())["unit"] == "paragraph"
