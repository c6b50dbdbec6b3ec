"""What a machine may do differently without another result."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import corpus

CONFIG = TrainingConfig(dropout=0.1)


def weights(directory: Path, machine: Machine, config: TrainingConfig = CONFIG) -> bytes:
    train_on(corpus(directory / "corpus"), config, machine, writer(directory / "out"))
    return (directory / "out/hf/model.safetensors").read_bytes()


def test_activations_computed_twice_give_the_same_bytes(tmp_path: Path) -> None:
    kept = weights(tmp_path / "kept", Machine("cpu", 1))
    assert weights(tmp_path / "anew", Machine("cpu", 1, checkpoint_activations=True)) == kept


def test_activations_are_in_memory_once_at_a_time(tmp_path: Path) -> None:
    saved: list[int] = []
    for anew in (False, True):
        kept_bytes = 0

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal kept_bytes
            kept_bytes += tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            weights(tmp_path / str(anew), Machine("cpu", 1, checkpoint_activations=anew), TrainingConfig(steps=1))
        saved.append(kept_bytes)
    assert saved[1] < saved[0]


def test_tf32_is_set_for_the_run_alone() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with Machine("cpu").use(0, tf32=not before):
        assert torch.backends.cuda.matmul.allow_tf32 is not before
    assert torch.backends.cuda.matmul.allow_tf32 is before


def test_token_files_are_kept_from_run_to_run(tmp_path: Path) -> None:
    machine = Machine("cpu", 1, token_files=tmp_path / "files")
    weights(tmp_path / "one", machine)
    made = {path: path.stat().st_ino for path in (tmp_path / "files").rglob("*.uint16")}
    weights(tmp_path / "two", machine)
    assert len(made) == 2
    assert {path: path.stat().st_ino for path in (tmp_path / "files").rglob("*.uint16")} == made


FALLS_BACK = """
import logging, sys
from pathlib import Path
from marin_assets_tests.gpt2.test_machine import CONFIG, weights
from marin_assets.gpt2.machine import Machine
logging.basicConfig(level=logging.WARNING)
weights(Path(sys.argv[1]), Machine("cpu", 1, compile=True))
"""


@pytest.mark.slow
def test_where_compiling_fails_training_goes_on_with_one_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FALLS_BACK, str(tmp_path / "compiled")],
        env={"CXX": "/no/such/compiler", "PATH": "", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("training without compile, which failed here: ") == 1
    plain = weights(tmp_path / "plain", Machine("cpu", 1))
    assert (tmp_path / "compiled/out/hf/model.safetensors").read_bytes() == plain


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns of its own parts
def test_compiled_blocks_learn_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = TrainingConfig(steps=5)
    with caplog.at_level(logging.WARNING):
        losses = [
            train_on(corpus(tmp_path / "corpus"), config, machine, writer(tmp_path / str(machine.compile))).train_loss
            for machine in (Machine("cpu", 1), Machine("cpu", 1, compile=True))
        ]
    assert "without compile" not in caplog.text
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
