"""What the UI shows of a model: while it is trained, when it is made, and when it is reused."""

import base64
import re
from collections.abc import Iterator

import dagster as dg
import pytest

from marin_assets.artifacts.io_manager import ArtifactIOManager
from marin_assets.definitions import build_defs
from marin_assets.resources import HtmlSource, Tokenizer
from marin_assets_tests.project import TOKENIZER, write_pages

MODEL = dg.AssetKey("gpt2_model")
CONFIG = {"ops": {"gpt2_model": {"config": {"steps": 5, "observe_every": 2}}}}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance in which the pipeline ran twice: the second time all was reused."""
    folder = tmp_path_factory.mktemp("pipeline")
    write_pages(folder / "pages")
    defs = build_defs(
        resources={
            "artifacts": ArtifactIOManager(root=str(folder / "data")),
            "html_source": HtmlSource(input=str(folder / "pages"), remember=str(folder / "remembered")),
            "tokenizer": Tokenizer(tokenizer=str(TOKENIZER)),
        }
    )
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            run = dg.materialize(
                list(defs.assets or []),  # type: ignore[arg-type]  # all of ours are assets
                resources=defs.resources,
                run_config=CONFIG,
                instance=instance,
            )
            assert run.success
        yield instance


@pytest.fixture(params=["hit", "miss"])
def metadata(instance: dg.DagsterInstance, request: pytest.FixtureRequest) -> dict[str, dg.MetadataValue]:
    """Of the model's materialization in that run."""
    records = instance.fetch_materializations(MODEL, limit=9).records
    both = [record.asset_materialization.metadata for record in records if record.asset_materialization]
    return next(dict(one) for one in both if one["cache"].value == request.param)


def test_the_loss_is_shown_as_a_picture(metadata: dict[str, dg.MetadataValue]) -> None:
    loss = metadata["loss_curve"]
    assert isinstance(loss, dg.MarkdownMetadataValue)
    match = re.fullmatch(r"!\[loss by step\]\(data:image/png;base64,(.*)\)", loss.value or "")
    assert match
    assert base64.b64decode(match[1], validate=True).startswith(b"\x89PNG")
    assert len(match[1]) < 150_000


def test_samples_and_card_are_shown(metadata: dict[str, dg.MetadataValue]) -> None:
    assert str(metadata["text_samples"].value).startswith("## Samples after 5 steps")
    card = str(metadata["model_card"].value)
    assert card.startswith("# GPT-2 with ")
    assert str(metadata["fingerprint"].value) in card


def test_the_card_leads_back_to_the_pages(metadata: dict[str, dg.MetadataValue]) -> None:
    made_from = str(metadata["model_card"].value).partition("## Made from")[2].partition("##")[0]
    names = [line.split(" | ")[0].removeprefix("| ") for line in made_from.strip().splitlines()[2:]]
    assert names == [
        "raw_html",
        "tokenizer",
        "markdown_documents",
        "normalized_documents",
        "duplicate_paragraphs",
        "consolidated_documents",
        "token_cache",
    ]
    assert "pages 61" in made_from


def test_a_run_is_observed_every_so_many_steps_and_at_the_end(instance: dg.DagsterInstance) -> None:
    records = instance.fetch_observations(MODEL, limit=99).records
    seen = [record.asset_observation.metadata for record in records if record.asset_observation]
    assert [one["step"].value for one in reversed(seen)] == [2, 4, 5]
    assert all({"training_loss", "tokens_per_second"} <= set(one) for one in seen)
    assert not any(
        "dagster/data_version" in (record.asset_observation.tags or {})
        for record in records
        if record.asset_observation
    )


def test_observations_leave_the_data_version_alone(instance: dg.DagsterInstance) -> None:
    latest = instance.get_latest_materialization_event(MODEL)
    assert latest is not None
    materialization = latest.asset_materialization
    assert materialization is not None
    assert materialization.metadata["content_digest"].value == (materialization.tags or {})["dagster/data_version"]
