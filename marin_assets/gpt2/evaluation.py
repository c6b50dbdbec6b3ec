"""Loss on text that the model was not trained on.

Belongs here: one number for a split. It draws no random numbers, so how often it runs cannot change the training.
"""

import math
from dataclasses import dataclass

import torch

from marin_assets.gpt2.batches import Samples
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.forward import batch_loss_sum
from marin_assets.gpt2.model import Gpt2


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
    model: Gpt2, samples: Samples, config: TrainingConfig, *, step: int, bytes_per_token: float | None
) -> Evaluation:
    """Mean loss over the first `config.eval_sequences` samples."""
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    model.eval()
    for batch in samples.in_order(config.sequences_at_once, config.eval_sequences):
        for piece in batch.micro_batches(config.sequences_at_once, device):
            total += float(batch_loss_sum(model, piece, config.precision))
        tokens += batch.target_count()
    model.train()
    loss = total / max(1, tokens)
    bits = None if not bytes_per_token else loss / math.log(2) / bytes_per_token
    return Evaluation(step=step, loss=loss, bits_per_byte=bits, tokens=tokens)
