"""TensorBoard events, where the extra is installed; else a setting that says what to install."""

import importlib.util
import sys
from pathlib import Path

import pytest

from marin_assets.errors import SettingsError
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import corpus
from marin_assets_tests.gpt2.interrupted_run import MACHINE

INSTALLED = importlib.util.find_spec("tensorboardX") is not None


@pytest.mark.skipif(not INSTALLED, reason="needs the extra `tensorboard`")
def test_events_hold_the_curves_of_a_run(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    out = writer(tmp_path / "out")
    stats = train_on(corpus(tmp_path / "corpus"), TrainingConfig(tensorboard=True), MACHINE, out)
    (path,) = (tmp_path / "out/tensorboard").iterdir()
    assert not next(entry for entry in out.entries if entry.name == f"tensorboard/{path.name}").content

    data, curves = path.read_bytes(), {}
    while data:  # length in 8 bytes, its checksum in 4, the event, its checksum in 4
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        curves.update({(value.tag, event.step): value.simple_value for value in event.summary.value})
        data = data[16 + length :]
    assert curves["loss/training", 2] == pytest.approx(stats.train_loss)
    assert curves["loss/validation", 2] == pytest.approx(stats.validation_loss)
    assert {step for name, step in curves if name == "machine/tokens_per_second"} == {1, 2}


def test_without_the_library_the_setting_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(SettingsError, match=r"run `pip install 'marin-assets\[tensorboard\]'`"):
        train_on(corpus(tmp_path / "corpus"), TrainingConfig(tensorboard=True), MACHINE, writer(tmp_path / "out"))


def test_a_run_writes_no_events_unless_asked(tmp_path: Path) -> None:
    train_on(corpus(tmp_path / "corpus"), TrainingConfig(), MACHINE, writer(tmp_path / "out"))
    assert not (tmp_path / "out/tensorboard").exists()
