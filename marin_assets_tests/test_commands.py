"""`marin-assets plan`, `summary` and `verify`, run as a person would."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from marin_assets_tests.drivers import InProcess
from marin_assets_tests.project import ASSETS, REPOSITORY, Project, copy_project

Finished = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_project(tmp_path_factory.mktemp("project"))
    InProcess(project).run()
    return project


def command(project: Project, *arguments: str, environment: Mapping[str, str] | None = None) -> Finished:
    return subprocess.run(
        [sys.executable, "-c", "from marin_assets.cli import main; main()", *arguments],
        cwd=project.folder,
        env={**project.environment(), "COLUMNS": "160", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def planned(finished: Finished) -> dict[str, tuple[str, str]]:
    """Outcome and reason by asset."""
    assert finished.returncode == 0, finished.stderr
    lines = [line.split(maxsplit=2) for line in finished.stdout.splitlines() if line.split(maxsplit=1)[0] in ASSETS]
    return {name: (outcome, reason.strip()) for name, outcome, reason in lines}


def test_a_plan_of_an_unchanged_pipeline_is_all_hits(project: Project) -> None:
    assert {outcome for outcome, _ in planned(command(project, "plan")).values()} == {"hit"}


def test_a_plan_names_the_changed_setting_and_what_depends_on_the_result(project: Project, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("ops: {duplicate_paragraphs: {config: {min_paragraph_chars: 7}}}\n")

    outcomes = planned(command(project, "plan", "--config", str(config)))

    assert outcomes["normalized_documents"][0] == "hit"
    assert outcomes["duplicate_paragraphs"] == ("miss", "config changed: min_paragraph_chars")
    assert {outcomes[name][0] for name in ASSETS[3:]} == {"open"}
    assert "new duplicate_paragraphs" in outcomes["consolidated_documents"][1]


def test_a_plan_follows_the_resources_of_the_run_config(project: Project, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(f"resources: {{artifacts: {{config: {{root: '{tmp_path}'}}}}}}\n")

    assert planned(command(project, "plan", "--config", str(config)))["markdown_documents"] == ("miss", "never built")


@pytest.mark.parametrize("config", sorted((REPOSITORY / "configs").iterdir()), ids=lambda path: path.name)
def test_the_run_configs_that_we_ship_are_valid(project: Project, config: Path) -> None:
    assert planned(command(project, "plan", "--config", str(config))).keys() == set(ASSETS)


def test_a_plan_of_an_empty_store_says_never_built(project: Project, tmp_path: Path) -> None:
    outcomes = planned(command(project, "plan", environment={"MARIN_PREFIX": str(tmp_path)}))

    assert outcomes["markdown_documents"] == ("miss", "never built")
    assert not list(tmp_path.iterdir()), "planning writes nothing"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("ops: {no_such_asset: {config: {}}}", "no_such_asset"),
        ("ops: {token_cache: {config: {validation_fraction: 7}}}", "validation_fraction"),
        ("ops: {token_cache: {config: {validation_fracton: 0.1}}}", "validation_fracton"),
        ("ops: [token_cache]", "run.yaml"),
        ("ops: {token_cache: [", "run.yaml"),
    ],
)
def test_a_wrong_run_config_is_named(project: Project, tmp_path: Path, config: str, named: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(config)

    finished = command(project, "plan", "--config", str(path))

    assert finished.returncode == 1
    assert named in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_missing_input_names_the_variable_to_set(project: Project) -> None:
    finished = command(project, "plan", environment={"MARIN_INPUT": "/no/such/folder"})

    assert finished.returncode == 1
    assert "/no/such/folder" in finished.stderr
    assert "MARIN_INPUT" in finished.stderr


def test_the_summary_tells_rows_loss_and_where_the_model_is(project: Project) -> None:
    finished = command(project, "summary")

    assert finished.returncode == 0, finished.stderr
    assert [line.split()[0] for line in finished.stdout.splitlines()[1:7]] == list(ASSETS)
    assert "61" in next(line for line in finished.stdout.splitlines() if line.startswith("markdown_documents"))
    assert "loss" in finished.stdout
    assert str(project.artifact("gpt2_model")) in finished.stdout


def test_the_summary_of_an_empty_store_says_so(project: Project, tmp_path: Path) -> None:
    finished = command(project, "summary", environment={"MARIN_PREFIX": str(tmp_path)})

    assert finished.returncode == 0
    assert finished.stdout.count("not made yet") == len(ASSETS)


def test_verify_finds_a_byte_that_was_changed_in_place(project: Project) -> None:
    path = project.artifact("normalized_documents") / "part-00000-of-00001.parquet"
    good = path.read_bytes()
    assert command(project, "verify").returncode == 0

    path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    try:
        finished = command(project, "verify", "normalized_documents")
    finally:
        path.write_bytes(good)

    assert finished.returncode == 1
    assert str(path) in finished.stdout


def test_verify_refuses_an_unknown_asset(project: Project) -> None:
    finished = command(project, "verify", "normalised_documents")

    assert finished.returncode == 1
    assert "normalised_documents" in finished.stderr


def test_tokens_are_exported_where_they_were_asked_for(project: Project, tmp_path: Path) -> None:
    finished = command(project, "export", "tokens", "--format", "megatron", "--output", str(tmp_path / "out"))

    assert finished.returncode == 0, finished.stderr
    written = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in written][:2] == ["train.bin", "train.idx"]
    assert [line.split()[0] for line in finished.stdout.splitlines()] == [str(path) for path in written]


def test_an_export_without_tokens_says_what_to_do(project: Project, tmp_path: Path) -> None:
    arguments = ("export", "tokens", "--format", "bin", "--output", str(tmp_path / "out"))
    finished = command(project, *arguments, environment={"MARIN_PREFIX": str(tmp_path)})

    assert finished.returncode == 1
    assert "there is no token_cache" in finished.stderr
    assert not (tmp_path / "out").exists()
