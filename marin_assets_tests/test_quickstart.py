"""The quick start, run as pytest users run it: every number as stated by hand, and a model that Transformers opens."""

import warnings
from pathlib import Path

import dagster as dg
import pytest
import torch

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.io_manager import ArtifactIOManager
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.definitions import ASSETS as PIPELINE
from marin_assets.definitions import build_defs
from marin_assets.gpt2.hf_export import from_hf
from marin_assets.resources import HtmlSource, Tokenizer
from marin_assets_tests.project import ASSETS, REPOSITORY, TOKENIZER
from marin_assets_tests.quickstart_expected import EXPECTED
from marin_assets_tests.quickstart_reference import counts_of

Artifacts = dict[str, Artifact]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    """What the quick start makes, with the settings that `make run` has."""
    root = tmp_path_factory.mktemp("store")
    defs = build_defs(
        resources={
            "artifacts": ArtifactIOManager(root=str(root)),
            "html_source": HtmlSource(
                input=str(REPOSITORY / "fixtures" / "quickstart"), remember=str(root / "digests.sqlite")
            ),
            "tokenizer": Tokenizer(tokenizer=str(TOKENIZER)),
        }
    )
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(PIPELINE, resources=defs.resources, instance=instance)
    assert result.success
    store = ArtifactStore(open_storage(str(root)))
    return {name: store.required(name) for name in ASSETS}


def test_every_stage_gives_the_numbers_that_were_stated_by_hand(artifacts: Artifacts) -> None:
    stages = [artifacts[name] for name in ASSETS if name != "gpt2_model"]

    assert counts_of(*stages) == EXPECTED


def test_counts_add_up_from_stage_to_stage(artifacts: Artifacts) -> None:
    stats = {name: artifact.stats for name, artifact in artifacts.items()}

    assert stats["markdown_documents"]["pages"] == stats["normalized_documents"]["rows_in"]
    assert stats["normalized_documents"]["rows_out"] == stats["duplicate_paragraphs"]["rows_in"]
    assert stats["normalized_documents"]["rows_out"] == stats["consolidated_documents"]["rows_in"]
    assert stats["duplicate_paragraphs"]["paragraphs_duplicate"] == stats["consolidated_documents"]["spans_removed"]
    assert stats["consolidated_documents"]["rows_out"] == stats["token_cache"]["documents"]
    assert stats["consolidated_documents"]["text_bytes_out"] == stats["token_cache"]["text_bytes"]
    train = stats["token_cache"]["train"]
    assert isinstance(train, dict)
    assert train["tokens"] == stats["gpt2_model"]["train_tokens"]


def test_both_splits_have_documents(artifacts: Artifacts) -> None:
    stats = artifacts["token_cache"].stats

    for split in ("train", "validation"):
        counts = stats[split]
        assert isinstance(counts, dict)
        assert counts["documents"] != 0


def test_transformers_opens_the_model_and_gives_our_logits(artifacts: Artifacts) -> None:
    from transformers import AutoTokenizer, GPT2LMHeadModel

    directory = artifacts["gpt2_model"].paths("hf/*")[0].parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what transformers imports
        theirs = GPT2LMHeadModel.from_pretrained(directory)
        tokenizer = AutoTokenizer.from_pretrained(directory)
    ids = torch.tensor([tokenizer("The mountain — 山 — is old.")["input_ids"]])
    ours = from_hf(directory)

    with torch.no_grad():
        difference = (theirs(ids).logits - ours.logits(ours.eval()(ids))).abs().max()

    assert float(difference) < 1e-5


def test_every_file_is_listed_in_its_manifest(artifacts: Artifacts) -> None:
    for artifact in artifacts.values():
        folder = Path(artifact.location)
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert found == {entry.name for entry in artifact.manifest.files} | {"manifest.json"}
