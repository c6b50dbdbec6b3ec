"""Loss on text that the model was not trained on.

Belongs here: one number for a split. It draws no random numbers, so how often it runs cannot change the training.
"""

import math
from dataclasses import dataclass

import torch

from marin_assets.gpt2.batches import Samples
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.forward import BatchLoss
from marin_assets.gpt2.ranks import ALONE, Ranks


@dataclass(frozen=True)
class Evaluation:
    """What a model makes of a split after `step` updates."""

    step: int
    loss: float
    """Nats per token."""
    bits_per_byte: float | None
    """Bits per byte of text, which compares across tokenizers; None where the bytes are not known."""
    tokens: int
    """Tokens predicted."""


@torch.no_grad()
def evaluate(
    loss_sum: BatchLoss,
    samples: Samples,
    config: TrainingConfig,
    *,
    step: int,
    bytes_per_token: float | None,
    sequences: int,
    device: torch.device,
    ranks: Ranks = ALONE,
) -> Evaluation:
    """Mean loss over the first `config.eval_sequences` samples, which all ranks share.

    Args:
        sequences: how many a rank reads at once.
        device: where the model is.
    """
    sums = torch.zeros(2, dtype=torch.float64, device=device)  # loss, tokens
    loss_sum.eval()
    for batch in samples.in_order(sequences, config.eval_sequences, ranks):
        for piece in batch.micro_batches(sequences, device):
            sums[0] += loss_sum(piece)
        sums[1] += batch.target_count()
    loss_sum.train()
    total, tokens = ranks.sum(sums).tolist()
    loss = total / max(1, tokens)
    bits = None if not bytes_per_token else loss / math.log(2) / bytes_per_token
    return Evaluation(step=step, loss=loss, bits_per_byte=bits, tokens=int(tokens))
