"""A run that is killed at any moment harms nothing: the next one ends well, with what an undisturbed run makes."""

import random
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from marin_assets_tests.drivers import CommandLine
from marin_assets_tests.project import ASSETS, Project, copy_project

MOMENTS = 10


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, object], float]:
    """A project, what a whole run of it makes, and how long that takes."""
    project = copy_project(tmp_path_factory.mktemp("project"))
    started = time.monotonic()
    CommandLine(project).run()
    return project, project.content_digests(), time.monotonic() - started


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_the_run_after_a_kill_ends_well(undisturbed: tuple[Project, dict[str, object], float], moment: int) -> None:
    project, expected, seconds = undisturbed
    killed = Project(project.folder, store_name=f"killed-{moment}")
    # One random moment in each tenth of a run, so that ten of them fall on all of it.
    delay = seconds * (moment + random.Random(moment).random()) / MOMENTS

    _run_and_kill(killed, delay)
    CommandLine(killed).run()

    assert killed.content_digests() == expected
    assert not _leftovers(killed.store)


def _run_and_kill(project: Project, delay: float) -> None:
    process = subprocess.Popen(
        ["dagster", "asset", "materialize", "-m", "marin_assets.definitions", "--select", "*"],
        cwd=project.folder,
        env=project.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(delay)
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive, f"worker processes outlived their parent: {alive}"


def _leftovers(store: Path) -> list[Path]:
    """What half-done work would have left in place after the run that followed."""
    return [path for asset in ASSETS for path in (store / asset / ".staging").glob("*")]
