"""Training in processes that the resource starts, as a user sees it in the run."""

import signal
import subprocess
import time
from pathlib import Path

import dagster as dg
import psutil
import pytest
import yaml
from safetensors.torch import load_file
from torch.testing import assert_close

from marin_assets_tests.project import Project, copy_project

COMMAND = ("dagster", "asset", "materialize", "-m", "marin_assets.definitions", "--select", "*", "--config", "run.yaml")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_project(tmp_path_factory.mktemp("project"))


def start(project: Project, processes: int, **settings: object) -> "subprocess.Popen[str]":
    config = {
        "resources": {"gpt2_trainer": {"config": {"processes": processes, "device": "cpu", "threads": 1}}},
        "ops": {"gpt2_model": {"config": settings}},
    }
    (project.folder / "run.yaml").write_text(yaml.safe_dump(config))
    return subprocess.Popen(
        COMMAND,
        cwd=project.folder,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(project: Project, processes: int, **settings: object) -> tuple[int, str]:
    process = start(project, processes, **settings)
    log, _ = process.communicate(timeout=300)
    return process.returncode, log


def observed_steps(project: Project) -> list[object]:
    with dg.DagsterInstance.from_config(str(project.folder)) as instance:
        records = instance.fetch_observations(dg.AssetKey("gpt2_model"), limit=10).records
    observed = [record.asset_observation for record in records]
    return [one.metadata["step"].value for one in observed if one is not None]


def test_two_processes_publish_what_one_does_and_report_as_they_go(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)  # where dagster.yaml says that events are
    settings = {"steps": 4, "log_every": 2, "observe_every": 3}
    code, log = run(project, 2, **settings)
    together = project.artifact("gpt2_model")
    assert code == 0, log
    assert "gpt2_model - step 2 of 4: loss" in log
    assert observed_steps(project) == [4, 3]
    assert project.manifest("gpt2_model")["stats"]["steps"] == 4  # type: ignore[index]

    weights = load_file(together / "hf/model.safetensors")
    code, log = run(project, 1, force=True, **settings)
    assert code == 0, log
    assert observed_steps(project) == [4, 3, 4, 3]
    for name, tensor in load_file(project.artifact("gpt2_model") / "hf/model.safetensors").items():
        assert_close(tensor, weights[name], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_what_a_process_refuses_ends_the_run_with_its_message(project: Project) -> None:
    code, log = run(project, 2, batch_size=7)
    assert code != 0
    assert "batch_size 7 does not divide over 2 processes; set it to 6 or 8" in log


def made_since(moment: float, project: Project, pattern: str) -> list[Path]:
    """Files of the unfinished model that were written since then."""
    found = (project.store / "gpt2_model/.staging").glob(f"*/{pattern}")
    return [path for path in found if path.stat().st_size and path.stat().st_mtime > moment]


def wait_for_steps(project: Project, process: "subprocess.Popen[str]", moment: float) -> list[psutil.Process]:
    """Wait for the first line of metrics. Returns the processes of the run."""
    while not made_since(moment, project, "metrics.jsonl"):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_that_is_terminated_saves_and_the_next_goes_on(project: Project, processes: int) -> None:
    endless = {"steps": 1_000_000, "checkpoint_every": 0, "eval_every": 0, "seed": processes, "log_every": 10_000}
    moment = time.time()
    with start(project, processes, **endless) as process:
        children = wait_for_steps(project, process, moment)
        process.send_signal(signal.SIGTERM)
        log, _ = process.communicate(timeout=120)
    assert process.returncode != 0, log
    assert len(made_since(moment, project, "checkpoints/*/complete.json")) == 1, log
    assert not psutil.wait_procs(children, timeout=10)[1]

    moment = time.time()
    with start(project, processes, **endless) as process:
        children = wait_for_steps(project, process, moment)
        process.kill()
        log, _ = process.communicate(timeout=120)
    assert "going on from " in log
    assert not psutil.wait_procs(children, timeout=10)[1], "processes outlived the run that started them"


EDITS_THE_MODEL_FIRST = """
_first = train_in_processes


def train_in_processes(*args, **more):
    from marin_assets.gpt2 import model

    with open(model.__file__, "a") as code:
        code.write("EDITED_AFTER_THE_RUN_HAD_BEGUN = True\\n")
    return _first(*args, **more)
"""


def test_processes_refuse_code_that_was_edited_since_the_run_began(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    project.append("marin_assets.training_processes", EDITS_THE_MODEL_FIRST)

    code, log = run(project, 2)

    assert code != 0
    assert "edited after the run had begun" in log
    assert not (project.store / "gpt2_model" / "latest.json").exists()
