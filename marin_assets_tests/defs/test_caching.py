"""The cache check inside an asset, in one process: what Dagster is told, and what two runs at once do to each other."""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.io_manager import ArtifactIOManager
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.defs.caching import reuse_or_compute
from marin_assets.defs.recipes import CachedAsset
from marin_assets.defs.settings import CachedAssetSettings
from marin_assets.errors import InputError

THIS_MODULE = "marin_assets.stages.tables"


class NumberSettings(CachedAssetSettings):
    number: int = 1
    fails: bool = False


NUMBER = CachedAsset("number", THIS_MODULE, NumberSettings)
DOUBLE = CachedAsset("double", THIS_MODULE, CachedAssetSettings, assets=("number",))


@dataclass(frozen=True)
class Count:
    count: int


def _write(out: ArtifactWriter, number: int) -> Count:
    out.path("number.json").write_text(json.dumps(number))
    out.add("number.json", rows=1)
    return Count(number)


def _read(artifact: Artifact) -> int:
    value: int = json.loads(artifact.path("number.json").read_text())
    return value


between = threading.Event()
"""Set by a test that wants `double` to wait until another run has gone by."""
go_on = threading.Event()


@dg.asset(io_manager_key="artifacts")
def number(
    context: dg.AssetExecutionContext, config: NumberSettings, artifacts: dg.ResourceParam[ArtifactIOManager]
) -> dg.MaterializeResult:
    def compute(out: ArtifactWriter) -> Count:
        if config.fails:
            raise InputError("record 7 of numbers.txt is no number; remove it")
        return _write(out, config.number)

    return reuse_or_compute(context, NUMBER, config, artifacts.store(), {}, compute)


@dg.asset(deps=[number])
def pause() -> None:
    """Stands between the two, so that a test can let another run go by."""
    if between.is_set():
        assert go_on.wait(30)


@dg.asset(io_manager_key="artifacts", deps=[pause])
def double(
    context: dg.AssetExecutionContext,
    config: CachedAssetSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    number: Artifact,
) -> dg.MaterializeResult:
    digests = {"number": number.content_digest}
    return reuse_or_compute(
        context, DOUBLE, config, artifacts.store(), digests, lambda out: _write(out, 2 * _read(number))
    )


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def run(
    instance: dg.DagsterInstance,
    root: Path,
    settings: Mapping[str, object] | None = None,
    selection: list[str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [number, pause, double],
        selection=selection,
        resources={"artifacts": ArtifactIOManager(root=str(root))},
        run_config={"ops": {"number": {"config": dict(settings)}}} if settings else {},
        instance=instance,
        tags=tags,
        raise_on_error=False,
    )


def materialization(result: dg.ExecuteInProcessResult, node: str) -> dg.AssetMaterialization:
    return result.asset_materializations_for_node(node)[0]


def cache(result: dg.ExecuteInProcessResult, node: str) -> object:
    return materialization(result, node).metadata["cache"].value


def data_version(result: dg.ExecuteInProcessResult, node: str) -> str:
    return (materialization(result, node).tags or {})["dagster/data_version"]


def failure(result: dg.ExecuteInProcessResult) -> str:
    """The description of the first failure."""
    event = result.filter_events(lambda one: one.event_type == dg.DagsterEventType.STEP_FAILURE)[0]
    data = event.step_failure_data.user_failure_data
    assert data is not None
    return data.description or ""


def latest(root: Path, name: str) -> Artifact:
    return ArtifactStore(open_storage(str(root))).required(name)


def test_hit_and_miss_give_the_same_data_version_and_counts(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    first, second = run(instance, tmp_path), run(instance, tmp_path)

    assert (cache(first, "double"), cache(second, "double")) == ("miss", "hit")
    assert data_version(first, "double") == data_version(second, "double")
    counts = [materialization(one, "double").metadata["count"].value for one in (first, second)]
    assert counts == [2, 2]


def test_a_reused_artifact_becomes_the_latest(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    run(instance, tmp_path, {"number": 1})
    run(instance, tmp_path, {"number": 5})
    back = run(instance, tmp_path, {"number": 1})

    assert cache(back, "number") == "hit"
    assert _read(latest(tmp_path, "number")) == 1
    assert _read(latest(tmp_path, "double")) == 2


def test_a_run_reads_what_its_own_steps_made_though_another_run_went_by(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    results: list[dg.ExecuteInProcessResult] = []
    between.set()
    go_on.clear()
    slow = threading.Thread(target=lambda: results.append(run(instance, tmp_path, {"number": 10})))
    slow.start()
    try:
        while not (tmp_path / "number" / "latest.json").exists():
            slow.join(0.05)
            assert slow.is_alive()
        with dg.DagsterInstance.ephemeral() as other:
            run(other, tmp_path, {"number": 20}, selection=["number"])
    finally:
        go_on.set()
        slow.join()
        between.clear()

    assert results[0].success
    assert _read(latest(tmp_path, "number")) == 20
    assert _read(latest(tmp_path, "double")) == 20, "double of the slow run's own number, 10"


@pytest.mark.parametrize("how", ["setting", "tag"])
def test_force_recomputes_though_there_is_an_artifact(instance: dg.DagsterInstance, tmp_path: Path, how: str) -> None:
    run(instance, tmp_path)
    forced = run(
        instance,
        tmp_path,
        {"force": True} if how == "setting" else {},
        selection=["number"],
        tags={"marin/force": "true"} if how == "tag" else None,
    )

    assert cache(forced, "number") == "miss"
    assert materialization(forced, "number").metadata["reason"].value == "forced"


def test_an_error_that_a_user_can_mend_is_the_failure_of_the_step(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    failed = run(instance, tmp_path, {"fails": True})

    assert not failed.success
    assert failure(failed) == "record 7 of numbers.txt is no number; remove it"
    assert not list((tmp_path / "number" / ".staging").iterdir()), "nothing half-done stays"
    assert run(instance, tmp_path).success


def test_a_missing_upstream_artifact_says_what_to_materialize(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    failed = run(instance, tmp_path, selection=["double"])

    assert "Materialize number first" in failure(failed)


def test_an_asset_names_every_input_of_its_recipe(tmp_path: Path) -> None:
    store = ArtifactStore(open_storage(str(tmp_path)))
    with pytest.raises(ValueError, match="is made from"):
        DOUBLE.recipe("double", CachedAssetSettings(), {"something_else": "0"}, store)
