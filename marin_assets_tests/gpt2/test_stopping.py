"""A run that is told to stop saves what it has, and goes on later as if it had not stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets_tests.gpt2.test_resume import CONFIG, content, run

SELDOM = CONFIG.model_copy(update={"checkpoint_every": 0, "eval_every": 3})


class ToldToStop(BaseException):
    """What an orchestrator's own handler raises."""


def checkpoints(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "out/checkpoints").glob("*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_obeyed_after_the_step_and_its_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    def tell(metrics: StepMetrics) -> None:
        if metrics.step == 2:
            signal.raise_signal(number)
            assert not checkpoints(tmp_path / "stopped")

    def handler(number: int, frame: object) -> None:
        raise ToldToStop

    before = signal.signal(number, handler)
    try:
        with pytest.raises(ToldToStop):
            run(tmp_path / "stopped", SELDOM, tell)
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    assert checkpoints(tmp_path / "stopped") == ["step-000002"]

    assert run(tmp_path / "stopped", SELDOM).resumed_at_step == 2
    run(tmp_path / "whole", SELDOM)
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, ToldToStop])
def test_an_interrupt_that_is_raised_leaves_a_checkpoint_too(tmp_path: Path, interrupt: type[BaseException]) -> None:
    def stop(metrics: StepMetrics) -> None:
        if metrics.step == 3:
            raise interrupt

    with pytest.raises(interrupt):
        run(tmp_path / "stopped", SELDOM, stop)
    assert checkpoints(tmp_path / "stopped") == ["step-000003"]
    assert run(tmp_path / "stopped", SELDOM).resumed_at_step == 3
    run(tmp_path / "whole", SELDOM)
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def test_a_process_that_gets_sigterm_saves_and_dies_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "marin_assets_tests.gpt2.interrupted_run", str(tmp_path), "0"]
    endless = SELDOM.model_copy(update={"steps": 1_000_000, "eval_every": 0})
    with subprocess.Popen([*command, endless.model_dump_json()], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert len(checkpoints(tmp_path)) == 1


def test_the_checkpoint_of_a_stop_goes_when_the_next_is_written(tmp_path: Path) -> None:
    config = TrainingConfig(steps=4, checkpoint_every=2, eval_every=0, keep_checkpoints=4)

    def stop(metrics: StepMetrics) -> None:
        if metrics.step == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, config, stop)
    assert checkpoints(tmp_path) == ["step-000001"]
    run(tmp_path, config)
    assert checkpoints(tmp_path) == ["step-000002", "step-000004"]
