"""The model card says what the model is, and from what it was made as far as that is known."""

from pathlib import Path

import pytest
import yaml

from marin_assets.artifacts.manifest import Manifest, Recipe
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.evaluation import Evaluation
from marin_assets.gpt2.model_card import model_card
from marin_assets.gpt2.results import TrainingStats
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import published, writer
from marin_assets_tests.gpt2.corpora import corpus
from marin_assets_tests.gpt2.interrupted_run import MACHINE


@pytest.fixture(scope="module")
def stats(tmp_path_factory: pytest.TempPathFactory) -> TrainingStats:
    directory = tmp_path_factory.mktemp("run")
    return train_on(corpus(directory / "corpus"), TrainingConfig(), MACHINE, writer(directory / "out"))


def recipe(name: str, inputs: dict[str, str]) -> Recipe:
    return Recipe(asset_key=name, code_version="0123abcd", libraries={"torch": "2.13.0"}, config={}, inputs=inputs)


def manifest(name: str, directory: Path, inputs: dict[str, str], **counts: int) -> Manifest:
    made = published(writer(directory), name, counts).manifest
    return made.model_copy(update={"recipe": recipe(name, inputs), "content_digest": f"digest of {name}"})


def test_the_head_is_what_hugging_face_reads(stats: TrainingStats) -> None:
    card = model_card(TrainingConfig(), stats, [], origin=(), recipe=None)
    _, head, rest = card.split("---\n", 2)
    assert yaml.safe_load(head) == {"library_name": "transformers", "pipeline_tag": "text-generation"}
    assert f"# GPT-2 with {stats.parameters:,} parameters" in rest
    assert "Tokens that were given to the trainer directly." in rest


def test_losses_are_thinned_and_the_last_one_stays(stats: TrainingStats) -> None:
    evaluations = [Evaluation(step, 9 - step / 10, 2.0, 100) for step in range(0, 81, 2)]
    card = model_card(TrainingConfig(), stats, evaluations, origin=(), recipe=None)
    table = [line for line in card.splitlines() if line.endswith("| 100 |")]
    assert 5 <= len(table) <= 12
    assert table[-1] == "| 80 | 1.0000 | 2.0000 | 100 |"


def test_digests_lead_from_the_tokens_to_the_sources(stats: TrainingStats, tmp_path: Path) -> None:
    origin = [
        manifest("token_cache", tmp_path, {"documents": "digest of documents", "tokenizer": "abc"}, tokens=12345),
        manifest("documents", tmp_path, {"raw_html": "def"}, pages=130),
    ]
    card = model_card(TrainingConfig(), stats, [], origin=origin, recipe=recipe("gpt2_model", {}))
    made_from = card.partition("## Made from")[2].partition("##")[0].strip().splitlines()[2:]
    assert made_from == [
        "| raw_html | def |  |",
        "| tokenizer | abc |  |",
        "| documents | digest of documents | pages 130 |",
        "| token_cache | digest of token_cache | tokens 12,345 |",
    ]
    assert "| code version | 0123abcd |\n| torch | 2.13.0 |" in card
