"""Settings are checked when they are made, and each refusal says what to set instead."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from marin_assets.gpt2.config import Gpt2Size, TrainingConfig


def refusal(**settings: object) -> str:
    with pytest.raises(ValidationError) as caught:
        TrainingConfig.model_validate(settings)
    return str(caught.value.errors()[0]["msg"])


def test_a_size_by_name_can_be_changed_by_numbers() -> None:
    assert TrainingConfig().size == Gpt2Size(layers=2, heads=2, hidden_size=32)
    assert TrainingConfig(model="gpt2").size == Gpt2Size(layers=12, heads=12, hidden_size=768)
    assert TrainingConfig(model="gpt2", layers=6).size == Gpt2Size(layers=6, heads=12, hidden_size=768)


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    assert "'gpt3' is not a known size; choose one of quickstart, gpt2, gpt2-medium" in refusal(model="gpt3")


def test_heads_must_split_the_width_evenly() -> None:
    assert "set hidden_size to 30 or 33, or choose another number of heads" in refusal(hidden_size=32, heads=3)
    assert "set hidden_size to 3, or choose another number of heads" in refusal(hidden_size=2, heads=3)


@pytest.mark.parametrize(
    ("batch_size", "micro_batch_size", "nearest"),
    [(8, 3, "2 or 4"), (12, 5, "4 or 6"), (8, 9, "8"), (7, 2, "1 or 7"), (8, 100, "8")],
)
def test_a_micro_batch_must_divide_the_batch(batch_size: int, micro_batch_size: int, nearest: str) -> None:
    message = refusal(batch_size=batch_size, micro_batch_size=micro_batch_size)
    refused = f"micro_batch_size {micro_batch_size} does not divide batch_size {batch_size}"
    assert message == f"Value error, {refused}; set it to {nearest}"


def test_warm_up_must_leave_steps_to_train() -> None:
    assert "warmup_steps 10 leaves none of the 10 steps" in refusal(steps=10, warmup_steps=10)


def test_unset_learning_rate_and_warm_up_follow_size_and_steps() -> None:
    config = TrainingConfig(model="gpt2-medium", steps=5000)
    assert (config.peak_learning_rate, config.warmup) == (3e-4, 50)
    explicit = TrainingConfig(learning_rate=1e-5, warmup_steps=0, steps=5000)
    assert (explicit.peak_learning_rate, explicit.warmup) == (1e-5, 0)


def test_the_log_interval_is_no_part_of_the_fingerprint_and_reports_do_not_decide_the_weights() -> None:
    assert TrainingConfig(log_every=1).semantic() == TrainingConfig(log_every=2).semantic()
    assert TrainingConfig(eval_every=1).semantic() != TrainingConfig(eval_every=2).semantic()
    assert TrainingConfig(eval_every=1).decides_weights() == TrainingConfig(eval_every=2).decides_weights()
    assert TrainingConfig(seed=1).decides_weights() != TrainingConfig(seed=2).decides_weights()


def test_every_setting_has_a_description() -> None:
    missing = [name for name, field in TrainingConfig.model_fields.items() if not field.description]
    assert not missing


def test_settings_can_be_made_without_torch() -> None:
    code = "import sys, marin_assets.gpt2.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
