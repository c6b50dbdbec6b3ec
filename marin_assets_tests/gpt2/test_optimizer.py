"""Our AdamW makes the updates that torch's own makes, and decays matrices only."""

import subprocess
import sys

import pytest
import torch

from marin_assets.gpt2.config import Gpt2Size, TrainingConfig
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.optimizer import EPSILON, AdamW
from marin_assets.gpt2.schedule import learning_rate


def small_model() -> Gpt2:
    return Gpt2(Gpt2Size(layers=1, heads=2, hidden_size=8), vocabulary_size=11, positions=6)


def set_gradients(model: Gpt2, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("fused", [None, False])
def test_updates_equal_those_of_torch(fused: bool | None) -> None:
    ours, theirs = small_model(), small_model()
    adamw = AdamW(ours, beta1=0.9, beta2=0.95, weight_decay=0.1, fused=fused)
    matrices = [parameter for parameter in theirs.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in theirs.parameters() if parameter.dim() < 2]
    reference = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=0.01,
        betas=(0.9, 0.95),
        eps=EPSILON,
    )
    for step in range(5):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        adamw.step(0.01)
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


def test_state_can_be_taken_over_by_another_optimizer() -> None:
    first, second = small_model(), small_model()
    one = AdamW(first, beta1=0.9, beta2=0.95, weight_decay=0.1)
    set_gradients(first, 0)
    one.step(0.01)
    second.load_state_dict(first.state_dict())
    two = AdamW(second, beta1=0.9, beta2=0.95, weight_decay=0.1)
    two.load_state({name: tensor.clone() for name, tensor in one.state().items()})
    for model, optimizer in ((first, one), (second, two)):
        set_gradients(model, 1)
        optimizer.step(0.01)
    for mine, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_training_does_not_load_the_compiler() -> None:
    code = """
import sys, torch
from marin_assets_tests.gpt2.test_optimizer import small_model, set_gradients
from marin_assets.gpt2.optimizer import AdamW
import marin_assets.gpt2.trainer
model = small_model()
set_gradients(model, 0)
AdamW(model, beta1=0.9, beta2=0.95, weight_decay=0.1).step(0.01)
sys.exit('torch._dynamo' in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_learning_rate_rises_to_the_peak_and_falls_to_the_floor() -> None:
    config = TrainingConfig(steps=100, warmup_steps=10, learning_rate=1.0, min_learning_rate_ratio=0.1)
    rates = [learning_rate(step, config) for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[0] == pytest.approx(1 / 11)
    assert rates[10] == pytest.approx(1.0)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)


def test_a_single_step_runs_at_the_peak() -> None:
    assert learning_rate(0, TrainingConfig(steps=1, learning_rate=0.5)) == 0.5
