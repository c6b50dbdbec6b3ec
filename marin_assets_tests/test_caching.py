"""What is reused and what is computed again, however the pipeline is run."""

from collections.abc import Iterator

import pytest

from marin_assets_tests.drivers import CommandLine, Driver, InProcess, Outcome, webserver
from marin_assets_tests.project import ASSETS, Project, copy_project

DEDUP = "marin_assets.stages.exact_paragraph_dedup"
ALL_HIT = dict.fromkeys(ASSETS, Outcome("hit"))

SAME_RESULT = "_ANOTHER_CONSTANT = 1"
OTHER_RESULT = """
_first = exact_paragraph_dedup


def exact_paragraph_dedup(documents, config, out, **others):
    return _first(documents, config.model_copy(update={"min_paragraph_chars": 100_000}), out, **others)
"""


@pytest.fixture(scope="module", params=["dg.materialize", "command line", "fresh DAGSTER_HOME", "GraphQL"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Driver]]:
    """A project that was run once, and the way it is run. Each test leaves it as it found it."""
    project = copy_project(tmp_path_factory.mktemp("project"))
    if request.param == "GraphQL":
        with webserver(project) as server:
            _assert_never_built(server.run())
            yield project, server
        return
    drivers: dict[str, Driver] = {
        "dg.materialize": InProcess(project),
        "command line": CommandLine(project),
        "fresh DAGSTER_HOME": CommandLine(project, fresh_home=True),
    }
    driver = drivers[request.param]
    _assert_never_built(driver.run())
    yield project, driver


def _assert_never_built(outcomes: dict[str, Outcome]) -> None:
    assert outcomes == dict.fromkeys(ASSETS, Outcome("miss", "never built"))


@pytest.fixture
def project(ran: tuple[Project, Driver]) -> Iterator[Project]:
    """The project; its code is put back after the test."""
    project = ran[0]
    path = project.folder / "marin_assets/stages/exact_paragraph_dedup.py"
    original = path.read_text()
    yield project
    path.write_text(original)


@pytest.fixture
def driver(ran: tuple[Project, Driver]) -> Driver:
    return ran[1]


def test_a_second_run_computes_nothing(driver: Driver) -> None:
    assert driver.run() == ALL_HIT


def test_a_comment_changes_nothing(project: Project, driver: Driver) -> None:
    project.append(DEDUP, "# A remark that explains nothing new.")

    assert driver.run() == ALL_HIT


def test_code_with_the_same_result_leaves_what_follows_alone(project: Project, driver: Driver) -> None:
    project.append(DEDUP, SAME_RESULT)

    assert driver.run() == {**ALL_HIT, "duplicate_paragraphs": Outcome("miss", "code changed")}


def test_code_with_another_result_recomputes_what_follows(project: Project, driver: Driver) -> None:
    project.append(DEDUP, OTHER_RESULT)

    assert driver.run() == {
        "markdown_documents": Outcome("hit"),
        "normalized_documents": Outcome("hit"),
        "duplicate_paragraphs": Outcome("miss", "code changed"),
        "consolidated_documents": Outcome("miss", "input changed: duplicate_paragraphs"),
        "token_cache": Outcome("miss", "input changed: consolidated_documents"),
        "gpt2_model": Outcome("miss", "input changed: token_cache"),
    }


def test_going_back_to_earlier_code_reuses_what_it_made(driver: Driver) -> None:
    assert driver.run() == ALL_HIT


def test_a_changed_setting_is_named(driver: Driver) -> None:
    config = {"ops": {"duplicate_paragraphs": {"config": {"min_paragraph_chars": 3}}}}

    assert driver.run(config=config) == {
        **ALL_HIT,
        "duplicate_paragraphs": Outcome("miss", "config changed: min_paragraph_chars"),
    }


def test_a_deleted_file_is_noticed_and_only_its_artifact_rebuilt(project: Project, driver: Driver) -> None:
    driver.run()
    lost = project.artifact("normalized_documents") / "part-00000-of-00001.parquet"
    before = lost.read_bytes()
    lost.unlink()

    assert driver.run() == {**ALL_HIT, "normalized_documents": Outcome("miss", f"file missing: {lost.name}")}
    assert lost.read_bytes() == before


def test_one_asset_in_the_middle_alone(project: Project, driver: Driver) -> None:
    alone = ("duplicate_paragraphs",)

    assert driver.run(alone) == {"duplicate_paragraphs": Outcome("hit")}
    project.append(DEDUP, f"{SAME_RESULT}\n_AND_ONE_MORE = 2")
    assert driver.run(alone) == {"duplicate_paragraphs": Outcome("miss", "code changed")}


EDITS_ITSELF = """
_first = exact_paragraph_dedup


def exact_paragraph_dedup(documents, config, out, **more):
    with open(__file__, "a") as code:
        code.write("EDITED_WHILE_IT_RAN = True\\n")
    return _first(documents, config, out, **more)
"""


def test_code_that_is_edited_while_it_runs_publishes_nothing(project: Project, driver: Driver) -> None:
    project.append(DEDUP, EDITS_ITSELF)
    before = project.artifact("duplicate_paragraphs")

    with pytest.raises(AssertionError, match="edited after the run had begun"):
        driver.run()

    assert project.artifact("duplicate_paragraphs") == before


def test_a_wrong_setting_of_the_last_asset_is_told_before_the_first_is_made(project: Project, driver: Driver) -> None:
    config = {
        "ops": {
            "markdown_documents": {"config": {"include_links": True}},
            "gpt2_model": {"config": {"heads": 3}},
        }
    }
    before = project.artifact("markdown_documents")

    with pytest.raises(AssertionError, match="hidden_size 32 does not split into 3 heads"):
        driver.run(config=config)

    assert project.artifact("markdown_documents") == before
