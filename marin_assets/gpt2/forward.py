"""One forward pass in the precision of a run: the only place that knows autocast."""

import torch
from torch import Tensor, nn

from marin_assets.gpt2.batches import Batch
from marin_assets.gpt2.config import Precision
from marin_assets.gpt2.loss import cross_entropy_sum
from marin_assets.gpt2.model import Gpt2


def batch_loss_sum(model: Gpt2, batch: Batch, precision: Precision) -> Tensor:
    """Sum of the loss over the batch's targets, in nats: a float32 scalar."""
    dtype = torch.bfloat16 if precision is Precision.bfloat16 else torch.float32
    with torch.autocast(batch.token_ids.device.type, dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
        hidden = model(batch.token_ids, batch.positions)  # B, T, C
    return cross_entropy_sum(
        hidden.flatten(0, 1), model.token_embedding.weight, batch.targets.flatten(), matmul_dtype=dtype
    )


class BatchLoss(nn.Module):
    """`batch_loss_sum` as one module, so that what wraps a model sees the head's use of its weights as well."""

    def __init__(self, model: Gpt2, precision: Precision) -> None:
        super().__init__()
        self.model = model
        self.precision = precision

    def forward(self, batch: Batch) -> Tensor:
        return batch_loss_sum(self.model, batch, self.precision)
