"""The three ways to run the pipeline, as a user would, and what each says of its cache.

Belongs here: starting runs in real processes and reading their outcome. Does not: expectations.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from marin_assets_tests.project import ASSETS, Project

RunConfig = Mapping[str, object]
Answer = dict[str, dict[str, Any]]
"""What GraphQL answers: its shape is the query's."""
TIMEOUT_SECONDS = 240


@dataclass(frozen=True)
class Outcome:
    """What one asset said of its cache: `hit`, or `miss` with a reason."""

    cache: str
    reason: str = ""


class Driver(Protocol):
    """A way to run assets; `run` gives the outcome by asset of one successful run."""

    def run(self, select: tuple[str, ...] = ASSETS, config: RunConfig | None = None) -> dict[str, Outcome]: ...


SCRIPT = """
import json, sys
import dagster as dg
from marin_assets.definitions import ASSETS, defs

select, config = json.loads(sys.argv[1])
with dg.DagsterInstance.ephemeral() as instance:
    result = dg.materialize(
        ASSETS, selection=select, run_config=config, instance=instance, resources=defs.resources
    )
    found = {}
    for event in result.get_asset_materialization_events():
        metadata = event.step_materialization_data.materialization.metadata
        found[event.asset_key.to_user_string()] = {
            "cache": metadata["cache"].value, "reason": metadata["reason"].value if "reason" in metadata else ""
        }
print("OUTCOME " + json.dumps(found))
"""


@dataclass(frozen=True)
class InProcess:
    """`dg.materialize()` on an ephemeral instance, in a Python process of its own."""

    project: Project

    def run(self, select: tuple[str, ...] = ASSETS, config: RunConfig | None = None) -> dict[str, Outcome]:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps([list(select), config or {}])],
            cwd=self.project.folder,
            env=self.project.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        line = next(line for line in done.stdout.splitlines() if line.startswith("OUTCOME "))
        return {name: Outcome(**value) for name, value in json.loads(line.removeprefix("OUTCOME ")).items()}


@dataclass
class CommandLine:
    """`dagster asset materialize`. With `fresh_home`, each run has a history of its own."""

    project: Project
    fresh_home: bool = False
    runs: int = field(default=0, init=False)

    def run(self, select: tuple[str, ...] = ASSETS, config: RunConfig | None = None) -> dict[str, Outcome]:
        self.runs += 1
        home = self._home()
        command = ["dagster", "asset", "materialize", "-m", "marin_assets.definitions", "--select", ",".join(select)]
        if config is not None:
            path = self.project.folder / "run.yaml"
            path.write_text(yaml.safe_dump(config))
            command += ["--config", str(path)]
        done = subprocess.run(
            command,
            cwd=home,
            env=self.project.environment(home),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return outcomes_in(done.stdout + done.stderr)

    def _home(self) -> Path:
        home = self.project.folder / (f"home-{self.runs}" if self.fresh_home else "home")
        home.mkdir(exist_ok=True)
        (home / "dagster.yaml").write_text((self.project.folder / "dagster.yaml").read_text())
        return home


def outcomes_in(log: str) -> dict[str, Outcome]:
    """Read what the run's log says, as a person would."""
    found = {}
    for line in log.splitlines():
        for name in ASSETS:
            if f" - {name} - cache hit" in line:
                found[name] = Outcome("hit")
            elif f" - {name} - cache miss: " in line:
                found[name] = Outcome("miss", line.split("cache miss: ")[1].split("\x1b")[0])
    return found


@dataclass(frozen=True)
class Webserver:
    """A running `dagster dev`; runs are launched by GraphQL, as the UI does."""

    url: str

    def run(self, select: tuple[str, ...] = ASSETS, config: RunConfig | None = None) -> dict[str, Outcome]:
        self.reload()
        run_id = self.launch(select, config or {})
        status = self.wait(run_id)
        assert status == "SUCCESS", f"run {run_id} ended with {status}: {self.errors(run_id)}"
        return self.outcomes(run_id)

    def reload(self) -> None:
        """Load the code location anew, as the UI's button does."""
        answer = self.query(
            "mutation($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }",
            {"name": "marin_assets.definitions"},
        )
        assert answer["reloadRepositoryLocation"]["__typename"] == "WorkspaceLocationEntry", answer

    def launch(self, select: tuple[str, ...], config: RunConfig) -> str:
        answer = self.query(
            """mutation($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
                __typename ... on LaunchRunSuccess { run { runId } }
                ... on RunConfigValidationInvalid { errors { message } } ... on PythonError { message } } }""",
            {
                "params": {
                    "selector": {
                        "repositoryLocationName": "marin_assets.definitions",
                        "repositoryName": "__repository__",
                        "jobName": "__ASSET_JOB",
                        "assetSelection": [{"path": [name]} for name in select],
                    },
                    "runConfigData": json.dumps(config),
                    "mode": "default",
                }
            },
        )
        launched = answer["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def wait(self, run_id: str) -> str:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            answer = self.query("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", {"id": run_id})
            status = str(answer["runOrError"]["status"])
            if status in {"SUCCESS", "FAILURE", "CANCELED"}:
                return status
            time.sleep(0.3)
        raise TimeoutError(f"run {run_id} did not end in {TIMEOUT_SECONDS} s")

    def outcomes(self, run_id: str) -> dict[str, Outcome]:
        answer = self.query(
            """query($id: ID!) { runOrError(runId: $id) { ... on Run { assetMaterializations {
                assetKey { path } metadataEntries { label ... on TextMetadataEntry { text } } } } } }""",
            {"id": run_id},
        )
        found = {}
        for one in answer["runOrError"]["assetMaterializations"]:
            values = {entry["label"]: entry.get("text", "") for entry in one["metadataEntries"]}
            found["/".join(one["assetKey"]["path"])] = Outcome(values["cache"], values.get("reason", ""))
        return found

    def errors(self, run_id: str) -> str:
        answer = self.query(
            """query($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
                ... on ExecutionStepFailureEvent { stepKey error { message stack } } } } } }""",
            {"id": run_id},
        )
        return json.dumps([event for event in answer["logsForRun"]["events"] if event], indent=1)

    def query(self, text: str, variables: Mapping[str, object] | None = None) -> Answer:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": text, "variables": variables or {}}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            content = json.load(response)
        assert "errors" not in content, content["errors"]
        data: Answer = content["data"]
        return data


@contextmanager
def webserver(project: Project, **environment: str) -> Iterator[Webserver]:
    """Start `dagster dev` on a free port of the loopback interface; stop it and its children at the end."""
    port = _free_port()
    log = project.folder / "dagster-dev.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            ["dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)],
            cwd=project.folder,
            env=project.environment(more=environment),
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    server = Webserver(f"http://127.0.0.1:{port}")
    try:
        _wait_until_ready(server, process, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(server: Webserver, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{server.url}/server_info", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.3)
    raise TimeoutError(f"dagster dev was not ready in {TIMEOUT_SECONDS} s: {log.read_text()}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
