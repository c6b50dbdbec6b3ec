"""Runs a function over shards in worker processes: the one place that knows processes.

Belongs here: pools, budgets, recycling. Does not: what the work is.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Shard = TypeVar("Shard")
Result = TypeVar("Result")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def map_shards(function: Callable[[Shard], Result], shards: Sequence[Shard], *, workers: int = 0) -> Iterator[Result]:
    """Call a picklable function on each shard; results come in the order of the shards.

    With one worker, or one shard, the work runs in this process.

    Args:
        workers: processes at most; 0 takes every core.
    """
    count = min(workers or available_cores(), len(shards))
    if count <= 1:
        yield from map(function, shards)
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("forkserver")) as pool:
        yield from pool.map(function, shards)
