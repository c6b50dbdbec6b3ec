"""Samples: drawn when they are due, shown newest first, the same after a resume."""

import json
from pathlib import Path

import pytest

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.samples import Sample, samples_markdown
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import corpus
from marin_assets_tests.gpt2.interrupted_run import MACHINE

CONFIG = TrainingConfig(steps=5, sample_every=2, sample_prompts=["a", "the"], sample_tokens=8, checkpoint_every=3)


def steps_in(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_prompts_are_continued_every_so_often_and_at_the_end(tmp_path: Path) -> None:
    train_on(corpus(tmp_path / "corpus"), CONFIG, MACHINE, writer(tmp_path / "out"))
    assert steps_in(tmp_path / "out/samples.jsonl") == [2, 2, 4, 4, 5, 5]
    shown = (tmp_path / "out/samples.md").read_text()
    assert [line for line in shown.splitlines() if line.startswith("##")] == [
        f"## Samples after {step} steps" for step in (5, 4, 2)
    ]


def test_sampling_changes_no_weight(tmp_path: Path) -> None:
    for name, every in (("often", 1), ("never", 0)):
        config = CONFIG.model_copy(update={"sample_every": every, "dropout": 0.1})
        train_on(corpus(tmp_path / "corpus"), config, MACHINE, writer(tmp_path / name))
    often, never = (tmp_path / name / "hf/model.safetensors" for name in ("often", "never"))
    assert often.read_bytes() == never.read_bytes()


def test_a_resumed_run_has_each_sample_once(tmp_path: Path) -> None:
    def stop(metrics: StepMetrics) -> None:
        if metrics.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_on(corpus(tmp_path / "corpus"), CONFIG, MACHINE, writer(tmp_path / "stopped"), stop)
    train_on(corpus(tmp_path / "corpus"), CONFIG, MACHINE, writer(tmp_path / "stopped"))
    train_on(corpus(tmp_path / "corpus"), CONFIG, MACHINE, writer(tmp_path / "whole"))
    stopped, whole = (tmp_path / name / "samples.jsonl" for name in ("stopped", "whole"))
    assert stopped.read_bytes() == whole.read_bytes()


def test_what_a_model_writes_is_not_taken_for_markdown() -> None:
    shown = samples_markdown([Sample(1, "# a", "\n```\n| x |")])
    assert shown == "## Samples after 1 steps\n\n````text\n# a\n```\n| x |\n````\n"
