"""What a run computes on: device, threads, and how the process keeps its memory.

Belongs here: what must be set in the process before torch works, and is set back afterwards. Does not: anything that
the result is meant to depend on. The same run gives the same bytes for the same device, number of threads and
versions; another number of threads splits sums elsewhere and differs in the last bits.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from marin_assets.cores import available_cores
from marin_assets.errors import SettingsError
from marin_assets.gpt2.ranks import ALONE, Ranks


@dataclass(frozen=True)
class Machine:
    """Where to train."""

    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:N`."""
    threads: int = 0
    """CPU threads. 0 takes one for a step as small as the quick start's, else all cores that the process may use.
    More threads than free cores are slower than fewer."""

    compile: bool = False
    """Compile the blocks of the model; costs half a minute at the start. Where that fails, training goes on without."""
    checkpoint_activations: bool = False
    """Compute what is inside a block a second time in the backward pass, in place of keeping it in memory."""
    shard: bool = False
    """With more than one process: keep a share of the weights on each (FSDP2), not a copy (DDP)."""
    token_files: Path | None = None
    """Where flat token files are kept from run to run. None keeps them for one run alone."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise SettingsError(f"threads is {self.threads}; give the number of CPU threads, or 0 for all cores")

    @contextmanager
    def use(self, step_operations: float, ranks: Ranks = ALONE, *, tf32: bool = False) -> Iterator[torch.device]:
        """Set threads and memory for the time of a run; the caller's random state and threads are left as found.

        Args:
            step_operations: floating-point operations of one pass forward and back.
            ranks: the processes of the run, which meet here. Those on one machine share its devices and cores.
            tf32: let GPUs multiply float32 matrices as TF32.

        Raises:
            SettingsError: the device is not there.
        """
        device = self._torch_device(ranks)
        threads_before = torch.get_num_threads()
        tf32_before = torch.backends.cuda.matmul.allow_tf32
        gpus = [device] if device.type == "cuda" else []
        torch.set_num_threads(self.threads or _threads_for(step_operations, ranks))
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            with torch.random.fork_rng(devices=gpus), _freed_memory_kept(), ranks.joined(device):
                yield device
        finally:
            torch.set_num_threads(threads_before)
            torch.backends.cuda.matmul.allow_tf32 = tf32_before

    def _torch_device(self, ranks: Ranks) -> torch.device:
        """This rank's device: on a machine with several GPUs, each rank has its own."""
        kind, _, number = self.device.partition(":")
        if kind not in ("auto", "cpu", "cuda") or not (number.isdigit() or self.device == kind):
            raise SettingsError(f"device {self.device!r} is unknown; choose auto, cpu, cuda or cuda:N")
        if kind == "cpu" or (kind == "auto" and not torch.cuda.is_available()):
            return torch.device("cpu")
        gpus, index = torch.cuda.device_count(), int(number or ranks.rank_on_node)
        if index >= gpus and ranks.count_on_node > 1:
            raise SettingsError(f"{ranks.count_on_node} processes need a GPU each and there are {gpus}; set processes")
        if index >= gpus:
            raise SettingsError(
                f"device {self.device!r} was asked for and torch {torch.__version__} sees "
                f"{gpus} CUDA devices; choose auto or cpu, or install a CUDA build of torch"
            )
        return torch.device("cuda", index)


def _threads_for(step_operations: float, ranks: Ranks) -> int:
    return 1 if step_operations < _SMALL_STEP_OPERATIONS else max(1, available_cores() // ranks.count_on_node)


_SMALL_STEP_OPERATIONS = 10e9
"""Below this a second thread saves milliseconds, and costs ten times the step while another process has its core."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of mallopt's parameters in glibc's malloc.h
_DEFAULT_THRESHOLD = 128 << 10
_LARGEST_MMAP_THRESHOLD = 32 << 20  # of DEFAULT_MMAP_THRESHOLD_MAX; a larger value is refused
_NEVER_TRIM = (1 << 31) - 1


@contextmanager
def _freed_memory_kept() -> Iterator[None]:
    """Keep freed memory in the process while training.

    glibc gives large blocks back to the kernel when they are freed, and every step then pays thousands of page
    faults for the same logits again. Elsewhere than on glibc this does nothing.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER_TRIM)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_THRESHOLD)
        libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_THRESHOLD)
        libc.malloc_trim(0)
