"""What a process and all that it starts costs.

Belongs here: running a command and measuring it. Does not: which commands.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Cost:
    """Of one command, its imports included."""

    cpu_seconds: float
    """User and system, of all its processes."""
    wall_seconds: float
    peak_memory_bytes: int
    """Resident memory of all its processes together, sampled twenty times a second."""
    output: str


def measured(
    command: Sequence[str], log: Path, *, cores: int | None = None, more: Mapping[str, str] | None = None
) -> Cost:
    """Run a command to its end. `cores` pins it to so many of the cores that there are.

    Raises:
        RuntimeError: it failed; the message ends with what it wrote last.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = set(allowed[-cores:]) if cores else set(allowed)
    started = time.perf_counter()
    with log.open("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(more or {})},
            preexec_fn=lambda: os.sched_setaffinity(0, chosen),
        )
        assert process.stdout is not None
        peak, pid, status, usage = 0, 0, 0, None
        while not pid:
            peak = max(peak, _resident(process.pid))
            time.sleep(_SAMPLE_SECONDS)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        output = process.stdout.read()
        process.stdout.close()
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{log.read_text(encoding='utf-8')[-3000:]}")
    assert usage is not None
    return Cost(usage.ru_utime + usage.ru_stime, wall, peak, output)


def _resident(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for one in family:
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
