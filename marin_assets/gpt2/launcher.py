"""Starts the ranks of a job on this machine by `torchrun`, and ends them when whoever asked for them ends.

Belongs here: how processes find each other. `python -m marin_assets.gpt2.launcher PARENT …` takes torchrun's arguments.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from torch.distributed.run import main as torchrun

from marin_assets.child_process import die_with
from marin_assets.errors import SettingsError


@dataclass(frozen=True)
class Launch:
    """How many processes on how many machines.

    Raises:
        SettingsError: several machines, and no place where they meet.
    """

    processes: int = 1
    """On each machine."""
    nnodes: int = 1
    """Machines."""
    rendezvous: str = ""
    """`host:port` of the first machine, on a free port, where the others find it."""

    def __post_init__(self) -> None:
        if self.nnodes > 1 and not self.rendezvous:
            raise SettingsError(
                f"nnodes is {self.nnodes} and rendezvous is empty; set it to host:port of this machine, as the others "
                "reach it"
            )

    def command(self, job: Path) -> list[str]:
        """Starts this machine's ranks as a child of this process."""
        return [sys.executable, "-m", "marin_assets.gpt2.launcher", str(os.getpid()), *self._torchrun(job, node=0)]

    def commands_elsewhere(self, job: Path) -> list[str]:
        """What to run on each of the other machines, which must see the same directories."""
        return [" ".join(["torchrun", *self._torchrun(job, node)]) for node in range(1, self.nnodes)]

    def _torchrun(self, job: Path, node: int) -> list[str]:
        meeting = ["--standalone", "--local-addr", "127.0.0.1"]
        if self.nnodes > 1:
            meeting = ["--rdzv-backend", "static", "--rdzv-endpoint", self.rendezvous]
            meeting += ["--nnodes", str(self.nnodes), "--node-rank", str(node)]
        return [*meeting, "--nproc-per-node", str(self.processes), "-m", "marin_assets.training_rank", str(job)]


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    torchrun(sys.argv[2:])
