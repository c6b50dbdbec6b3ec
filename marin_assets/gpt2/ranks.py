"""The processes that train one model together.

Belongs here: which of them this one is, and what they say to each other. Does not: how they are started (`torchrun`
does that), or how the model is spread over them (`spread`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class Ranks:
    """This process among all of a run. One that was started by itself is the first of one."""

    rank: int = 0
    count: int = 1
    rank_on_node: int = 0
    count_on_node: int = 1

    @classmethod
    def of_this_process(cls) -> Ranks:
        """What `torchrun` says in the environment of the processes that it starts."""
        if not distributed.is_torchelastic_launched():
            return cls()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls(*(int(os.environ[name]) for name in names))

    @property
    def is_first(self) -> bool:
        """Whether this process writes what one must write."""
        return self.rank == 0

    @contextmanager
    def joined(self, device: torch.device) -> Iterator[None]:
        """Meet the others; all ranks must come here. Alone, this does nothing."""
        if self.count == 1:
            yield
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield
        finally:
            distributed.destroy_process_group()

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.count > 1:
            distributed.all_reduce(values)
        return values

    def any(self, mine: bool, device: torch.device) -> bool:
        """Whether it holds on any rank."""
        return mine if self.count == 1 else bool(self.sum(torch.tensor(float(mine), device=device)) > 0)

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.count > 1:
            distributed.barrier()


ALONE = Ranks()
