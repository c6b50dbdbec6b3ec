"""Shards keep their order and their errors; a guarded item that hangs or kills its process costs itself alone."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from marin_assets.cores import available_cores
from marin_assets.errors import InputError, WorkerError
from marin_assets.workers import Failed, FailureKind, Guard, Returned, map_shards

_MIB = 1 << 20


def _square(number: int) -> int:
    return number * number


def _square_slow_when_early(number: int) -> int:
    time.sleep(0.3 if number == 0 else 0)
    return number * number


def _hang_at_first(mark: Path) -> str:
    """Wait to be killed in the first attempt."""
    if mark.exists():
        return "done"
    mark.write_text(str(os.getpid()))
    time.sleep(60)
    return "not killed"


def _kill_when_written(mark: Path) -> threading.Thread:
    """End the process that writes its id there, from outside, as an out-of-memory killer does."""

    def kill() -> None:
        while not (mark.exists() and (process := mark.read_text())):
            time.sleep(0.01)
        psutil.Process(int(process)).kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def _fail_on_three(number: int) -> int:
    if number == 3:
        raise InputError("shard three is bad")
    time.sleep(30 if number == 0 else 0)
    return number


def _die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _thread_cap(_: int) -> str | None:
    return os.environ.get("POLARS_MAX_THREADS")


def _misbehave(how: str) -> object:
    match how:
        case "sleep":
            time.sleep(60)
        case "spin in C":
            return sum(range(10**13))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(3)
        case "eat memory":
            return len(bytearray(b"x") * (4096 * _MIB))
        case "raise":
            raise ValueError("no such tag\nin the page")
        case "unpicklable":
            return threading.Lock()
        case "recurse":
            return _misbehave(how)
    return f"good {how}"


def _grow(state: list[int], number: int) -> int:
    state.append(number)
    return len(state)


_STATE: list[int] = []


def _calls_in_this_process(number: int) -> tuple[int, int]:
    return _grow(_STATE, number), os.getpid()


def _crash_when_used(number: int) -> int:
    if _grow(_STATE, number) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _guard(**options: float) -> Guard[str, object]:
    budget = {"cpu_seconds": 20.0, "wall_seconds": 60.0, **options}
    return Guard(
        _misbehave, cpu_seconds=budget["cpu_seconds"], wall_seconds=budget["wall_seconds"], memory_bytes=512 * _MIB
    )


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_shards(workers: int) -> None:
    squares = list(map_shards(_square_slow_when_early, range(9), workers=workers))
    assert squares == [number * number for number in range(9)]


def test_no_shards_give_no_results() -> None:
    assert list(map_shards(_square, [])) == []


def test_one_shard_runs_in_this_process() -> None:
    assert next(map_shards(_calls_in_this_process, [1], workers=4))[1] == os.getpid()


def test_workers_share_the_cores() -> None:
    caps = list(map_shards(_thread_cap, range(2), workers=2))
    assert caps == [str(max(1, available_cores() // 2))] * 2


def test_the_first_exception_is_raised_at_once_with_the_worker_traceback() -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match="shard three is bad") as caught:
        list(map_shards(_fail_on_three, range(6), workers=2))
    assert time.monotonic() - started < 20
    assert "_fail_on_three" in caught.value.__notes__[0]
    assert psutil.Process().children() == []


def test_a_shard_that_kills_two_workers_is_named() -> None:
    with pytest.raises(WorkerError, match=r"shard 1 was ended by SIGKILL before it was done, twice"):
        list(map_shards(_die, range(4), workers=2))
    assert psutil.Process().children() == []


def test_a_shard_whose_worker_is_killed_from_outside_is_done_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killer = _kill_when_written(tmp_path / "mark")
    assert list(map_shards(_hang_at_first, [tmp_path / "mark", tmp_path], workers=2)) == ["done", "done"]
    killer.join()
    assert "the worker process on shard 0 was ended by SIGKILL before it was done" in caplog.text


def test_workers_end_when_the_results_are_left_unread() -> None:
    results = map_shards(_square, range(50), workers=2)
    next(results)
    results.close()  # type: ignore[attr-defined] # it is a generator
    assert psutil.Process().children() == []


_BAD_ITEMS = [
    ("kill", FailureKind.crashed, "its process was ended by SIGKILL"),
    ("exit", FailureKind.crashed, "its process exited with code 3"),
    ("eat memory", FailureKind.crashed, "needed more than 536,870,912 bytes of memory"),
    ("raise", FailureKind.error, "ValueError: no such tag in the page"),
    ("unpicklable", FailureKind.error, "TypeError: cannot pickle '_thread.lock' object"),
    ("recurse", FailureKind.error, "RecursionError: maximum recursion depth exceeded"),
]


def test_a_bad_item_costs_itself_alone() -> None:
    with _guard() as guard:
        for how, kind, reason in _BAD_ITEMS:
            assert guard("before") == Returned("good before")
            failure = guard(how)
            assert isinstance(failure, Failed), how
            assert failure.kind is kind
            assert failure.reason.startswith(reason)
        assert guard("after") == Returned("good after")


@pytest.mark.parametrize(
    ("how", "reason"),
    [("sleep", "took more than 1.5 s"), ("spin in C", "took more than 0.2 s of processor time")],
)
def test_a_hung_item_is_stopped(how: str, reason: str) -> None:
    started = time.monotonic()
    wall = 1.5 if how == "sleep" else 30.0
    with _guard(cpu_seconds=0.2, wall_seconds=wall) as guard:
        assert guard(how) == Failed(FailureKind.timeout, reason)
        assert guard("after") == Returned("good after")
    assert time.monotonic() - started < 20


def test_the_budget_is_of_one_call_not_of_the_process() -> None:
    with Guard(_burn, cpu_seconds=0.2, wall_seconds=30) as guard:
        assert [guard(0.1) for _ in range(13)] == [Returned(None)] * 13


def _burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_a_child_that_does_not_listen_cannot_hold_the_parent() -> None:
    with _guard(wall_seconds=1.5) as guard:
        assert guard("before") == Returned("good before")
        (child,) = psutil.Process().children()
        child.suspend()
        too_much_for_a_pipe = "x" * (4 * _MIB)
        assert guard(too_much_for_a_pipe) == Failed(FailureKind.timeout, "took more than 1.5 s")
        assert guard("after") == Returned("good after")


def test_an_item_whose_process_is_killed_from_outside_is_done_again(tmp_path: Path) -> None:
    killer = _kill_when_written(tmp_path / "mark")
    with Guard(_hang_at_first, cpu_seconds=20, wall_seconds=60) as guard:
        assert guard(tmp_path) == guard(tmp_path / "mark") == Returned("done")
    killer.join()


def test_a_child_is_replaced_after_its_calls() -> None:
    with Guard(_calls_in_this_process, cpu_seconds=20, wall_seconds=60, recycle_after=2) as guard:
        outcomes = [guard(number) for number in range(5)]
    calls, processes = zip(*(outcome.value for outcome in outcomes if isinstance(outcome, Returned)), strict=True)
    assert calls == (1, 2, 1, 2, 1)
    assert len(set(processes)) == 3


def test_what_came_before_an_item_does_not_decide_its_outcome() -> None:
    with Guard(_crash_when_used, cpu_seconds=20, wall_seconds=60) as guard:
        assert [guard(number) for number in range(3)] == [Returned(0), Returned(1), Returned(2)]


@pytest.mark.parametrize("how", ["SIGKILL of the parent", "Ctrl-C"])
def test_a_script_without_main_guard_works_and_leaves_no_child_behind(tmp_path: Path, how: str) -> None:
    (tmp_path / "work.py").write_text(
        textwrap.dedent("""
        import os, time
        from marin_assets.workers import Guard
        def item(seconds):
            os.write(1, b"%d\\n" % os.getpid())
            time.sleep(seconds)
            return 1
        def shard(seconds):
            os.write(1, b"%d\\n" % os.getpid())
            with Guard(item, cpu_seconds=60, wall_seconds=60) as guard:
                return guard(seconds).value
        """)
    )
    script = tmp_path / "script.py"
    script.write_text(
        "from marin_assets.workers import map_shards\nfrom work import shard\n"
        "list(map_shards(shard, [60, 60, 60], workers=2))\n"
    )
    root = str(Path(__file__).resolve().parents[1])
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        children = [int(parent.stdout.readline()) for _ in range(4)]
        if how == "Ctrl-C":
            os.killpg(parent.pid, signal.SIGINT)
        else:
            parent.kill()
        _, errors = parent.communicate(timeout=30)
    _wait_until_gone(children)
    assert errors.strip().rpartition("\n")[2] == ("KeyboardInterrupt" if how == "Ctrl-C" else "")


def _wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(process) for process in processes):
        assert time.monotonic() < deadline, "a child outlived its parent"
        time.sleep(0.05)
