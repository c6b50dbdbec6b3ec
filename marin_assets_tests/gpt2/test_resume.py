"""A run that was stopped ends as if it had not been."""

import json
import logging
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from marin_assets.errors import TrainingError
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.results import TrainingStats
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import corpus, words
from marin_assets_tests.gpt2.interrupted_run import MACHINE

CONFIG = TrainingConfig(steps=4, checkpoint_every=1, eval_every=1, keep_checkpoints=4, dropout=0.1)


class StoppedError(Exception):
    pass


def stop_after(step: int) -> Callable[[StepMetrics], None]:
    def stop(metrics: StepMetrics) -> None:
        if metrics.step == step:
            raise StoppedError

    return stop


def run(
    directory: Path, config: TrainingConfig = CONFIG, on_metrics: Callable[[StepMetrics], None] | None = None
) -> TrainingStats:
    return train_on(corpus(directory / "corpus"), config, MACHINE, writer(directory / "out"), on_metrics)


def content(directory: Path) -> dict[str, bytes]:
    """Every file of a run that holds no timings."""
    out = directory / "out"
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and ".scratch" not in path.parts]
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in files
        if path.name not in ("metrics.jsonl", "loss.png")
    }


def steps_of(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_two_runs_have_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "one")
    run(tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_killed_run_resumes_bit_for_bit(tmp_path: Path, killed_at: int) -> None:
    command = [sys.executable, "-m", "marin_assets_tests.gpt2.interrupted_run"]
    with subprocess.Popen(
        [*command, str(tmp_path / "killed"), str(killed_at), CONFIG.model_dump_json()],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL

    resumed = run(tmp_path / "killed")
    run(tmp_path / "whole")

    assert resumed.resumed_at_step == killed_at - 1
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    assert steps_of(tmp_path / "killed/out/metrics.jsonl") == [1, 2, 3, 4]
    assert steps_of(tmp_path / "killed/out/evaluations.jsonl") == [0, 1, 2, 3, 4]


def test_resuming_crosses_the_end_of_an_epoch(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"steps": 14})
    with pytest.raises(StoppedError):
        run(tmp_path / "stopped", config, stop_after(5))
    stats = run(tmp_path / "stopped", config)
    whole = run(tmp_path / "whole", config)
    read_before = stats.resumed_at_step * config.batch_size
    assert read_before < stats.samples < read_before + config.batch_size
    assert whole.epochs > 2
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def test_how_often_a_run_evaluates_does_not_change_the_weights(tmp_path: Path) -> None:
    run(tmp_path / "often")
    run(tmp_path / "never", CONFIG.model_copy(update={"eval_every": 0}))
    name = "hf/model.safetensors"
    assert content(tmp_path / "often")[name] == content(tmp_path / "never")[name]


def test_a_run_that_ended_before_it_was_published_trains_no_more(tmp_path: Path) -> None:
    first = run(tmp_path)
    before = content(tmp_path)
    trained: list[StepMetrics] = []
    second = run(tmp_path, on_metrics=trained.append)
    assert not trained
    assert second.resumed_at_step == 4
    assert second.train_loss == first.train_loss
    assert content(tmp_path) == before


def test_a_checkpoint_that_is_half_deleted_is_not_published(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "out/checkpoints/step-000001/model.safetensors").unlink()
    out = writer(tmp_path / "out")
    train_on(corpus(tmp_path / "corpus"), CONFIG, MACHINE, out)
    published = {entry.name.split("/")[1] for entry in out.entries if entry.name.startswith("checkpoints/")}
    assert published == {"step-000002", "step-000003", "step-000004"}


def test_damaged_checkpoints_do_not_push_out_good_ones(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"keep_checkpoints": 1})
    run(tmp_path, CONFIG)
    for step in (2, 3, 4):
        (tmp_path / f"out/checkpoints/step-00000{step}/complete.json").unlink()
    with pytest.raises(StoppedError):
        run(tmp_path, config, stop_after(3))
    assert run(tmp_path, config).resumed_at_step == 2


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    run(tmp_path, CONFIG.model_copy(update={"keep_checkpoints": 2}))
    assert sorted(path.name for path in (tmp_path / "out/checkpoints").iterdir()) == ["step-000003", "step-000004"]


def test_the_best_checkpoint_is_kept_as_well(tmp_path: Path) -> None:
    # The rate rises until the model gets worse.
    config = CONFIG.model_copy(update={"steps": 8, "learning_rate": 0.3, "warmup_steps": 7, "keep_checkpoints": 1})
    run(tmp_path, config)
    evaluations = [json.loads(line) for line in (tmp_path / "out/evaluations.jsonl").read_text().splitlines()]
    best = min(evaluations[1:], key=lambda evaluation: float(evaluation["loss"]))["step"]
    assert best < 8
    assert [path.name for path in sorted((tmp_path / "out/checkpoints").iterdir())] == [
        f"step-{best:06d}",
        "step-000008",
    ]


def without_last_steps(directory: Path) -> Path:
    """Stop a run after step 3, and return its newest checkpoint, that of step 2."""
    with pytest.raises(StoppedError):
        run(directory, on_metrics=stop_after(3))
    return directory / "out/checkpoints/step-000002"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: (path / "complete.json").unlink(), "it has no complete.json"),
        (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda path: (path / "model.safetensors").write_bytes(b"cut"), "model.safetensors has 3 bytes instead of"),
        (lambda path: flip_a_byte(path / "optimizer.safetensors"), "optimizer.safetensors was altered"),
        (lambda path: (path / "complete.json").write_text("{"), "complete.json cannot be read"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    tmp_path: Path, damage: Callable[[Path], None], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    newest = without_last_steps(tmp_path / "damaged")
    damage(newest)
    with caplog.at_level(logging.WARNING):
        stats = run(tmp_path / "damaged")
    run(tmp_path / "whole")
    assert f"skipping checkpoint {newest}: {said}" in caplog.text
    assert stats.resumed_at_step == 1
    assert content(tmp_path / "damaged") == content(tmp_path / "whole")


def flip_a_byte(path: Path) -> None:
    held = bytearray(path.read_bytes())
    held[-1] ^= 1
    path.write_bytes(held)


def test_a_half_written_checkpoint_is_named_and_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    newest = without_last_steps(tmp_path)
    partial = newest.with_name("step-000003.partial")
    shutil.copytree(newest, partial)
    with caplog.at_level(logging.WARNING):
        stats = run(tmp_path)
    assert f"dropping {partial}: its run stopped before it was complete" in caplog.text
    assert stats.resumed_at_step == 2
    assert not partial.exists()


def test_a_checkpoint_of_other_settings_is_refused_with_what_differs(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(TrainingError) as caught:
        run(tmp_path, CONFIG.model_copy(update={"learning_rate": 0.5, "seed": 7}))
    assert "step-000004 belongs to another run (learning_rate was None and is now 0.5; seed was 0 and is now 7)" in str(
        caught.value
    )
    assert "restore these, or train into another directory" in str(caught.value)


def test_a_checkpoint_of_another_token_cache_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    other = corpus(tmp_path / "other", documents=[words(500, seed=77)])
    with pytest.raises(
        TrainingError, match=r"belongs to another run \(token_cache was [0-9a-f]+ and is now [0-9a-f]+\)"
    ):
        train_on(other, CONFIG, MACHINE, writer(tmp_path / "out"))


def test_lost_metrics_do_not_keep_a_finished_run_from_its_artifact(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "out/metrics.jsonl").unlink()
    assert run(tmp_path).train_loss is None


def test_a_metrics_line_that_was_cut_is_written_again(tmp_path: Path) -> None:
    without_last_steps(tmp_path)
    with (tmp_path / "out/metrics.jsonl").open("a") as stream:
        stream.write('{"step": 4, "lo')
    run(tmp_path)
    assert steps_of(tmp_path / "out/metrics.jsonl") == [1, 2, 3, 4]
