"""Runs a function over shards in worker processes, and over single items under a budget.

Belongs here: pools, budgets, recycling. Does not: what the work is; how a child process is spoken to.
"""

import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from marin_assets.child_process import ChildDiedError, ChildProcess, Raised
from marin_assets.cores import available_cores
from marin_assets.errors import WorkerError

logger = logging.getLogger(__name__)

Shard = TypeVar("Shard")
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_shards(function: Callable[[Shard], Result], shards: Sequence[Shard], *, workers: int = 0) -> Iterator[Result]:
    """Call a function on each shard; results come in the order of the shards.

    With one worker, or one shard, the work runs in this process. Otherwise function, shards and results must be
    picklable, the function by its name in an importable module. Results that wait for their turn are bounded: no
    more than two shards a worker are ahead of the one that is due. A shard whose worker is killed is done once more,
    so the function must not mind what an earlier attempt has left.

    Args:
        workers: processes at most; 0 takes every core.

    Raises:
        WorkerError: a worker process was killed, and so was the one that its shard was given to next.
        Exception: the first exception that any shard raised, as soon as it is known, with the worker's traceback as
            a note. The other workers are ended.
    """
    count = min(workers or available_cores(), len(shards))
    if count <= 1:
        yield from map(function, shards)
        return
    with ExitStack() as stack:
        threads = max(1, available_cores() // count)
        idle = [stack.enter_context(ChildProcess(threads=threads)) for _ in range(count)]
        working: dict[Connection, tuple[ChildProcess, int]] = {}
        finished: dict[int, Result] = {}
        repeated: set[int] = set()
        upcoming = 0

        def give(child: ChildProcess, index: int) -> None:
            child.submit(function, shards[index])
            working[child.connection] = (child, index)

        for due in range(len(shards)):
            while due not in finished:
                while idle and upcoming < min(len(shards), due + 2 * count):
                    give(idle.pop(), upcoming)
                    upcoming += 1
                for connection in wait(list(working)):
                    child, index = working.pop(cast("Connection", connection))
                    try:
                        finished[index] = cast("Result", _shard_result(child, index))
                        idle.append(child)
                    except ChildDiedError as death:
                        _check_first_death(death, index, repeated)
                        give(stack.enter_context(ChildProcess(threads=threads)), index)
            yield finished.pop(due)


def _check_first_death(death: ChildDiedError, index: int, repeated: set[int]) -> None:
    if index in repeated:
        raise WorkerError(
            f"the worker process on shard {index} {death} before it was done, twice; if the machine ran out of "
            "memory, use fewer workers"
        ) from None
    repeated.add(index)
    logger.warning("the worker process on shard %d %s before it was done; the shard is tried once more", index, death)


def _shard_result(child: ChildProcess, index: int) -> object:
    answer = child.receive()
    if isinstance(answer, Raised):
        error = answer.exception or WorkerError(f"shard {index} raised {answer.summary}")
        error.add_note(f"In the worker process on shard {index}:\n{answer.traceback}")
        raise error
    return answer.value


class FailureKind(StrEnum):
    """How a guarded call can fail."""

    timeout = "timeout"
    crashed = "crashed"
    error = "error"


@dataclass(frozen=True)
class Failed:
    """A guarded call gave no result."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True)
class Returned(Generic[Result]):
    """The result of a guarded call."""

    value: Result


class Guard(Generic[Item, Result]):
    """Calls a function on one item after the other in a child process, each call under a budget.

    A call that exceeds its budget or kills the process costs that item alone: the child is started anew for the
    next. A crash in a child that had served other items is tried once more in a fresh one, so that what came
    before an item can't decide its outcome. The child starts with the first call. Function, items and results must
    be picklable, the function by its name in an importable module.

    Args:
        cpu_seconds: processor time of one call, rounded up to the next second.
        wall_seconds: time of one call on the clock, the start of the child included.
        memory_bytes: writable memory of the child, its libraries included; 0 for no limit. Linux only.
        recycle_after: calls after which the child is replaced, so that leaks in libraries stay small.
    """

    def __init__(
        self,
        function: Callable[[Item], Result],
        *,
        cpu_seconds: float,
        wall_seconds: float,
        memory_bytes: int = 0,
        recycle_after: int = 1000,
    ) -> None:
        self._function = function
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._memory_bytes = memory_bytes
        self._recycle_after = recycle_after
        self._child: ChildProcess | None = None
        self._calls = 0

    def __call__(self, item: Item) -> Returned[Result] | Failed:
        """The function's result for the item, or how it failed."""
        was_fresh = self._child is None
        outcome = self._attempt(item)
        if isinstance(outcome, Failed) and outcome.kind is FailureKind.crashed and not was_fresh:
            outcome = self._attempt(item)
        return outcome

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _attempt(self, item: Item) -> Returned[Result] | Failed:
        outcome = self._call(item)
        self._calls += 1
        broken = isinstance(outcome, Failed) and outcome.kind is not FailureKind.error
        if broken or self._calls >= self._recycle_after:
            self.close()
        return outcome

    def _call(self, item: Item) -> Returned[Result] | Failed:
        if self._child is None:
            self._child, self._calls = ChildProcess(threads=1, memory_bytes=self._memory_bytes), 0
        try:
            with self._child.killed_after(self._wall_seconds) as expired:
                self._child.submit(self._function, item, self._cpu_seconds)
                answer = self._child.receive()
        except ChildDiedError as death:
            if expired.is_set():
                return Failed(FailureKind.timeout, f"took more than {self._wall_seconds:g} s")
            if death.exit_code == -signal.SIGXCPU:
                return Failed(FailureKind.timeout, f"took more than {self._cpu_seconds:g} s of processor time")
            return Failed(FailureKind.crashed, f"its process {death}")
        if isinstance(answer, Raised):
            if answer.out_of_memory:
                return Failed(FailureKind.crashed, f"needed more than {self._memory_bytes:,} bytes of memory")
            return Failed(FailureKind.error, answer.summary)
        return Returned(cast("Result", answer.value))
