"""The chunked loss is the plain one: same sum, same gradients."""

import pytest
import torch
from torch.nn import functional

from marin_assets.gpt2 import loss
from marin_assets.gpt2.loss import IGNORED, cross_entropy_sum


def example(tokens: int = 50, width: int = 8, vocabulary: int = 31) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, width, generator=generator)
    head = torch.randn(vocabulary, width, generator=generator)
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator)
    targets[::7] = IGNORED
    return hidden, head, targets


@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_sum_and_gradients_equal_those_of_plain_cross_entropy(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, head, targets = example()
    monkeypatch.setattr(loss, "CHUNK_LOGITS", rows * len(head))
    ours = [hidden.clone().requires_grad_(), head.clone().requires_grad_()]
    plain = [hidden.clone().requires_grad_(), head.clone().requires_grad_()]

    total = cross_entropy_sum(ours[0], ours[1], targets, matmul_dtype=torch.float32)
    expected = functional.cross_entropy(plain[0] @ plain[1].T, targets, ignore_index=IGNORED, reduction="sum")
    (total / 3).backward()  # type: ignore[no-untyped-call]
    (expected / 3).backward()  # type: ignore[no-untyped-call]

    torch.testing.assert_close(total, expected, rtol=1e-6, atol=1e-5)
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-5)


def test_without_gradients_the_sum_is_the_same() -> None:
    hidden, head, targets = example()
    with torch.no_grad():
        quick = cross_entropy_sum(hidden, head, targets, matmul_dtype=torch.float32)
    full = cross_entropy_sum(hidden, head.requires_grad_(), targets, matmul_dtype=torch.float32).detach()
    assert float(quick) == float(full)


def test_bfloat16_rounds_gradients_only() -> None:
    hidden, head, targets = example()
    exact = cross_entropy_sum(hidden, head.clone().requires_grad_(), targets, matmul_dtype=torch.float32)
    head = head.requires_grad_()
    rounded = cross_entropy_sum(hidden, head, targets, matmul_dtype=torch.bfloat16)
    rounded.backward()  # type: ignore[no-untyped-call]
    assert torch.equal(exact, rounded)
    assert head.grad is not None
    assert head.grad.dtype == torch.float32


@pytest.mark.parametrize("scale", [1.0, 20.0, 60.0])
def test_unlikely_targets_cost_what_they_cost_in_float64(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.eye(8)
    head = scale * torch.rand(30, 8, generator=generator)
    targets = torch.arange(8)
    expected = functional.cross_entropy((hidden @ head.T).double(), targets, reduction="sum")
    found = cross_entropy_sum(hidden, head, targets, matmul_dtype=torch.float32)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


def test_what_cannot_happen_costs_87_nats_and_still_teaches() -> None:
    head = torch.tensor([[0.0], [1000.0]], requires_grad=True)
    loss = cross_entropy_sum(torch.ones(1, 1), head, torch.tensor([0]), matmul_dtype=torch.float32)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(87.34, abs=0.01)
    assert head.grad is not None
    assert head.grad.flatten().tolist() == [-1.0, 1.0]
