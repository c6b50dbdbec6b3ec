"""A corpus that is larger than the memory that stages may use."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

BUDGET = 100 << 20


class Run(NamedTuple):
    digests: list[list[str]]
    peak: int


def run(folder: Path, megabytes: int, budget: int) -> Run:
    command = [sys.executable, "-m", "marin_assets_tests.stages.budgeted_run", str(folder), str(megabytes), str(budget)]
    # Polars keeps memory for each of its threads.
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Run(**json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_within_the_budget_and_the_result_is_the_same(tmp_path: Path) -> None:
    libraries = run(tmp_path / "little", 1, BUDGET).peak
    small = run(tmp_path / "small", 300, BUDGET)
    large = run(tmp_path / "large", 300, 2 << 30)
    assert small.digests == large.digests
    assert small.peak - libraries < BUDGET
