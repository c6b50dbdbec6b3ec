"""The same input and settings give the same content, whatever the workers and the names of the files."""

import re
import shutil
from pathlib import Path

import pytest

from marin_assets_tests.drivers import InProcess
from marin_assets_tests.project import ASSETS, Project, copy_project

STAGES_WITH_WORKERS = ASSETS[:-1]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy whose shards and parts are so small that the input makes several of each, worth several workers."""
    project = copy_project(tmp_path_factory.mktemp("project"))
    project.edit("marin_assets.stages.html_to_markdown", "SHARD_BYTES = 16 << 20", "SHARD_BYTES = 2_000")
    project.edit("marin_assets.stages.tables", "PART_BYTES = 256 << 20", "PART_BYTES = 15_000")
    project.edit("marin_assets.stages.memory_budget", "BYTES_WORTH_A_WORKER = 16 << 20", "BYTES_WORTH_A_WORKER = 1_000")
    return project


@pytest.fixture(scope="module")
def with_one_worker(project: Project) -> dict[str, object]:
    return _digests(project, store="one-worker", workers=1)


def test_the_input_is_large_enough_for_several_shards_and_parts(
    project: Project, with_one_worker: dict[str, object]
) -> None:
    store = project.folder / "one-worker"

    assert with_one_worker.keys() == set(ASSETS)
    for asset in STAGES_WITH_WORKERS:
        parts = {
            match[0] for path in store.glob(f"{asset}/*/**/*") if (match := re.search(r"part-\d+-of-\d+", str(path)))
        }
        assert len(parts) > 2, asset


def test_four_workers_make_what_one_makes(project: Project, with_one_worker: dict[str, object]) -> None:
    assert _digests(project, store="four-workers", workers=4) == with_one_worker


def test_names_and_order_of_the_input_files_do_not_matter(project: Project, with_one_worker: dict[str, object]) -> None:
    renamed = project.folder / "renamed"
    renamed.mkdir()
    for place, path in enumerate(sorted(project.input.iterdir(), reverse=True)):
        shutil.copy(path, renamed / f"{place}{path.name[path.name.index('.') :]}")

    assert _digests(project, store="renamed-input", workers=2, pages=renamed) == with_one_worker


def _digests(project: Project, *, store: str, workers: int, pages: Path | None = None) -> dict[str, object]:
    """Run the pipeline into a store of its own; content digest by asset."""
    other = Project(project.folder, store_name=store, input_name=pages.name if pages else project.input_name)
    config = {"ops": {asset: {"config": {"workers": workers}} for asset in STAGES_WITH_WORKERS}}
    outcomes = InProcess(other).run(config=config)
    assert {outcome.cache for outcome in outcomes.values()} == {"miss"}
    return other.content_digests()
