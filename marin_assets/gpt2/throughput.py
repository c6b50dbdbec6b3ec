"""How much of the machine a run uses: floating-point operations and memory.

Belongs here: what a token costs, what a device can do at most, what memory was held. Does not: seconds, which the
trainer takes.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass

import torch

from marin_assets.gpt2.config import Gpt2Size, Precision

_GPU_PEAK_FLOPS = {
    "H200": {Precision.bfloat16: 989e12, Precision.float32: 495e12},
    "H100 PCIe": {Precision.bfloat16: 756e12, Precision.float32: 378e12},
    "H100": {Precision.bfloat16: 989e12, Precision.float32: 495e12},
    "A100": {Precision.bfloat16: 312e12, Precision.float32: 156e12},
    "L40S": {Precision.bfloat16: 362e12, Precision.float32: 183e12},
    "L4": {Precision.bfloat16: 121e12, Precision.float32: 60e12},
    "A10": {Precision.bfloat16: 125e12, Precision.float32: 62e12},
    "4090": {Precision.bfloat16: 165e12, Precision.float32: 83e12},
    "T4": {Precision.bfloat16: 8e12, Precision.float32: 8e12},
}
"""Dense tensor-core peaks from NVIDIA's data sheets, by a part of the device's name; float32 as TF32 where there is."""

_CPU_MATRIX = 512
_CPU_TRIES = 5


@dataclass(frozen=True)
class Throughput:
    """Turns tokens a second into a share of the device's peak."""

    flops_per_token: float
    """Of a pass forward and back."""
    peak_flops: float | None
    """Floating-point operations in a second that the device, or all devices of the run, can do; None if unknown."""

    @classmethod
    def of(
        cls,
        size: Gpt2Size,
        vocabulary_size: int,
        sequence_length: int,
        device: torch.device,
        precision: Precision,
        *,
        devices: int,
    ) -> Throughput:
        """Of a run on so many devices of one kind."""
        peak = peak_flops(device, precision)
        return cls(flops_per_token(size, vocabulary_size, sequence_length), peak and peak * devices)

    def peak_share(self, tokens_per_second: float) -> float | None:
        if not self.peak_flops:
            return None
        return round(self.flops_per_token * tokens_per_second / self.peak_flops, 4)


def flops_per_token(size: Gpt2Size, vocabulary_size: int, sequence_length: int) -> float:
    """Six for each weight of a matrix, and the attention's products (Chowdhery et al. 2022, PaLM, appendix B).

    Positions are looked up, never multiplied. Attention is counted in full, though half of it is masked, so that the
    number compares with those that others publish.
    """
    weights = size.parameter_count(vocabulary_size, positions=0)
    return 6.0 * weights + 12.0 * size.layers * size.hidden_size * sequence_length


def peak_flops(device: torch.device, precision: Precision) -> float | None:
    """What a GPU's data sheet says, or what this process reaches with one large product on the CPU."""
    if device.type == "cpu":
        return _measured_on_cpu(precision)
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return next((peaks[precision] for part, peaks in _GPU_PEAK_FLOPS.items() if part in name), None)
    return None


def _measured_on_cpu(precision: Precision) -> float:
    """The best of a few products in the threads that the run has, which takes milliseconds."""
    dtype = torch.bfloat16 if precision is Precision.bfloat16 else torch.float32
    matrix = torch.ones(_CPU_MATRIX, _CPU_MATRIX, dtype=dtype)
    seconds = []
    for _ in range(_CPU_TRIES):
        started = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - started)
    return 2.0 * _CPU_MATRIX**3 / min(seconds)


def peak_memory_bytes(device: torch.device) -> int:
    """Most memory held so far: of the process, or on a GPU of its tensors."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
