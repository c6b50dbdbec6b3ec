"""Several processes train the model that one trains alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from marin_assets.errors import SettingsError
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.ranks import Ranks
from marin_assets.gpt2.run import prepare
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import uneven_corpus
from marin_assets_tests.gpt2.interrupted_run import MACHINE

CONFIG = TrainingConfig(steps=4, micro_batch_size=2, checkpoint_every=2, eval_every=2, layers=1)


def train_alone(directory: Path) -> int:
    """Returns the step at which it went on."""
    return train_on(uneven_corpus(directory / "corpus"), CONFIG, MACHINE, writer(directory / "out")).resumed_at_step


def train_on_two_ranks(directory: Path, *, shard: bool) -> None:
    uneven_corpus(directory / "corpus")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command += ["--nproc-per-node", "2", "-m", "marin_assets_tests.gpt2.several_ranks"]
    done = subprocess.run(
        [*command, str(directory), CONFIG.model_dump_json(), str(shard)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def weights(directory: Path) -> dict[str, Tensor]:
    """The final model and optimizer, which no rank may hold another part of."""
    checkpoint = directory / "out/checkpoints/step-000004"
    return load_file(checkpoint / "model.safetensors") | load_file(checkpoint / "optimizer.safetensors")


def losses(directory: Path, name: str) -> list[tuple[int, float]]:
    lines = (directory / "out" / name).read_text().splitlines()
    return [(line["step"], line["loss"]) for line in map(json.loads, lines)]


def assert_same_training(one: Path, other: Path) -> None:
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert [step for step, _ in losses(one, name)] == [step for step, _ in losses(other, name)]
        assert [loss for _, loss in losses(one, name)] == pytest.approx(
            [loss for _, loss in losses(other, name)], abs=1e-5
        )
    assert weights(one).keys() == weights(other).keys()
    for name, tensor in weights(one).items():
        torch.testing.assert_close(tensor, weights(other)[name], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("alone")
    train_alone(directory)
    return directory


@pytest.fixture(scope="module", params=[False, True], ids=["DDP", "FSDP2"])
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("together")
    train_on_two_ranks(directory, shard=request.param)
    return directory


def test_two_ranks_train_the_model_of_one(alone: Path, together: Path) -> None:
    assert_same_training(together, alone)


def test_one_process_goes_on_from_the_checkpoint_of_two(alone: Path, together: Path, tmp_path: Path) -> None:
    shutil.copytree(together, tmp_path, dirs_exist_ok=True)
    (tmp_path / "out/checkpoints/step-000004/complete.json").unlink()
    assert train_alone(tmp_path) == 2
    assert_same_training(tmp_path, alone)


def refusal(tmp_path: Path, config: TrainingConfig, count: int) -> str:
    with pytest.raises(SettingsError) as caught:
        prepare(
            uneven_corpus(tmp_path / "corpus"),
            config,
            MACHINE,
            torch.device("cpu"),
            Ranks(0, count),
            writer(tmp_path / "out"),
            None,
        )
    return str(caught.value)


def test_a_batch_that_does_not_divide_over_the_ranks_is_refused_with_the_nearest_that_do(tmp_path: Path) -> None:
    message = refusal(tmp_path, TrainingConfig(batch_size=8), 3)
    assert message == "batch_size 8 does not divide over 3 processes; set it to 6 or 9"


def test_a_micro_batch_that_does_not_divide_the_share_of_a_rank_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, TrainingConfig(batch_size=12, micro_batch_size=4), 2)
    assert message == (
        "micro_batch_size 4 does not divide the 6 sequences that each of 2 processes has of batch_size 12; "
        "set it to 3 or 6"
    )


def test_ranks_on_one_machine_share_its_cores() -> None:
    with Machine("cpu").use(1e12, Ranks(0, 1, 0, 10_000)):
        assert torch.get_num_threads() == 1
