"""How many workers a stage starts."""

from marin_assets.cores import available_cores
from marin_assets.stages.memory_budget import BYTES_WORTH_A_WORKER, affordable_workers


def workers(wanted: int, work: int, budget: int) -> int:
    return affordable_workers(wanted, work_bytes=work, memory_budget=budget, bytes_per_worker=100)


def test_small_work_is_done_in_one_process() -> None:
    assert workers(8, BYTES_WORTH_A_WORKER - 1, 10_000) == 1


def test_large_work_gets_the_workers_asked_for_within_the_budget() -> None:
    assert workers(8, 1 << 40, 10_000) == 8
    assert workers(8, 1 << 40, 399) == 3
    assert workers(8, 1 << 40, 1) == 1


def test_zero_takes_every_core() -> None:
    assert workers(0, 1 << 40, 1 << 40) == available_cores()
