"""Cross entropy from the last hidden state, in chunks of tokens.

Belongs here: the sum of the loss and its gradient. All logits of a batch at a vocabulary of 50,257 need gigabytes,
and again as much for their gradient; a chunk's are used up before the next chunk's are made.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

IGNORED = -100
"""Target of a token that is not to be predicted."""

CHUNK_LOGITS = 1 << 24
"""Logits that stand in memory at once: 64 MiB in float32."""

_SMALLEST_LIKELIHOOD = torch.finfo(torch.float32).tiny
"""A token's loss is at most 87 nats. Probabilities, unlike their logarithms, are the gradient but for the target's
place: that saves a pass over all logits, a sixth of the step at the smallest size."""


def cross_entropy_sum(hidden: Tensor, head: Tensor, targets: Tensor, *, matmul_dtype: torch.dtype) -> Tensor:
    """Sum over tokens of minus the log-probability of the target, in nats: a float32 scalar.

    Logits are float32 products in every precision: logits rounded to bfloat16 shift the loss by up to 0.1.

    Args:
        hidden: N, C.
        head: V, C.
        targets: N token ids; those that are `IGNORED` do not count.
        matmul_dtype: of the two products of the backward pass.
    """
    if not torch.is_grad_enabled():
        return _chunked(hidden, head, targets, None, None, matmul_dtype)
    total: Tensor = _CrossEntropySum.apply(hidden, head, targets, matmul_dtype)  # type: ignore[no-untyped-call]
    return total


class _CrossEntropySum(torch.autograd.Function):
    """The forward pass makes the gradients too, while a chunk's probabilities are at hand."""

    @staticmethod
    def forward(ctx: FunctionCtx, hidden: Tensor, head: Tensor, targets: Tensor, matmul_dtype: torch.dtype) -> Tensor:
        hidden_gradient = torch.empty_like(hidden)
        head_gradient = torch.zeros_like(head)
        total = _chunked(hidden, head, targets, hidden_gradient, head_gradient, matmul_dtype)
        ctx.save_for_backward(hidden_gradient, head_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, scale: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden_gradient, head_gradient = ctx.saved_tensors  # type: ignore[attr-defined]
        return hidden_gradient * scale, head_gradient * scale, None, None


def _chunked(
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    hidden_gradient: Tensor | None,
    head_gradient: Tensor | None,
    matmul_dtype: torch.dtype,
) -> Tensor:
    """The sum; fills the gradients where they are given."""
    rows = max(1, CHUNK_LOGITS // head.shape[0])
    total = torch.zeros((), dtype=torch.float32, device=hidden.device)
    with torch.autocast(hidden.device.type, enabled=False):
        rounded_head = head.to(matmul_dtype) if head_gradient is not None else head
        for start in range(0, hidden.shape[0], rows):
            chunk = hidden[start : start + rows]  # n, C
            target = targets[start : start + rows]
            counted = (target != IGNORED)[:, None]  # n, 1
            target = target.clamp(min=0)[:, None]  # n, 1
            probabilities = torch.softmax(chunk.float() @ head.float().T, dim=-1)  # n, V
            likelihood = probabilities.gather(1, target).clamp(min=_SMALLEST_LIKELIHOOD)  # n, 1
            total -= (likelihood.log() * counted).sum()
            if hidden_gradient is None or head_gradient is None:
                continue
            gradient = probabilities
            gradient.scatter_add_(1, target, torch.full_like(gradient[:, :1], -1.0))
            gradient = gradient.mul_(counted).to(matmul_dtype)
            hidden_gradient[start : start + rows] = gradient @ rounded_head
            if matmul_dtype == head_gradient.dtype:
                head_gradient.addmm_(gradient.T, chunk.to(matmul_dtype))
            else:
                head_gradient += gradient.T @ chunk.to(matmul_dtype)
    return total
