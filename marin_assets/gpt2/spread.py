"""A model over several processes: a copy on each (DDP), or a share of each weight on each (FSDP2).

Belongs here: wrapping, and tensors whole again for those who must see all of them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.ranks import Ranks

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

    from marin_assets.gpt2.forward import BatchLoss


def spread(loss: BatchLoss, ranks: Ranks, device: torch.device, *, shard: bool) -> nn.Module:
    """The module to call while training: its gradients are the mean over all ranks of what each computes.

    Args:
        loss: on the CPU, the same on every rank. Its parameters end on `device`.
        shard: keep only a share of each weight, its gradient and its optimizer state on a rank, and gather a block's
            weights when it runs (Zhao et al. 2023, "PyTorch FSDP").
    """
    if ranks.count == 1:
        return loss.to(device)
    if not shard:
        return DistributedDataParallel(loss.to(device), gradient_as_bucket_view=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # costs half a second

    mesh = init_device_mesh(device.type, (ranks.count,))
    for block in loss.model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(loss, mesh=mesh)
    return loss


def gradients_kept_apart(module: nn.Module) -> AbstractContextManager[None]:
    """Within, DDP does not yet sum gradients over ranks: for all micro-batches of a step but the last."""
    if isinstance(module, DistributedDataParallel):
        return cast("AbstractContextManager[None]", module.no_sync())
    return nullcontext()


def is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor; where it is sharded, all ranks must ask for it."""
    return cast("DTensor", tensor).full_tensor() if is_sharded(tensor) else tensor


def share(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor; changes to it change the tensor."""
    return cast("DTensor", tensor).to_local() if is_sharded(tensor) else tensor


def whole_model(model: Gpt2) -> Gpt2:
    """The model itself, or a copy on the CPU if it is sharded; then all ranks must ask for it."""
    if not any(is_sharded(parameter) for parameter in model.parameters()):
        return model
    copy = Gpt2(model.size, vocabulary_size=model.vocabulary_size, positions=model.positions, dropout=model.dropout)
    for mine, theirs in zip(copy.parameters(), model.parameters(), strict=True):
        fill(mine, whole(theirs.detach()))
    return copy


@torch.no_grad()
def fill(tensor: Tensor, value: Tensor) -> None:
    """Copy all of a value into a tensor; into a sharded one, this rank's share of it."""
    if is_sharded(tensor):
        from torch.distributed.tensor import distribute_tensor

        sharded = cast("DTensor", tensor)
        value = distribute_tensor(value.to(sharded.device), sharded.device_mesh, sharded.placements, src_data_rank=None)
    tensor.copy_(value)
