"""Every page of the input is one row, whatever becomes of it; names and workers change nothing."""

import gzip
import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError, SettingsError
from marin_assets.stages import html_to_markdown as stage
from marin_assets.stages.html_to_markdown import COLUMNS, HtmlToMarkdownConfig, HtmlToMarkdownStats, html_to_markdown
from marin_assets.stages.raw_html import raw_html
from marin_assets.stages.tables import polars_schema
from marin_assets_tests.artifacts.in_memory import published, writer
from marin_assets_tests.stages.page_trouble import extract_when_cheaper, extract_with_trouble

_SENTENCE = "Good bread is made of flour and water, salt and time, and of the patience of those who bake it. "


def _html(name: str) -> str:
    return (
        f"<html><head><title>{name}</title></head><body><article><p>{name}: {2 * _SENTENCE}</p></article></body></html>"
    )


def _write_input(root: Path) -> Path:
    (root / "pos").mkdir(parents=True)
    records = [
        {"id": f"r{number}", "text": _html(f"record {number}"), "source": "s", "lang": "en"} for number in range(6)
    ]
    lines = [json.dumps(record) for record in records]
    lines.insert(3, "{broken")
    (root / "pos" / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (root / "one.html").write_text(_html("one"))
    (root / "twin.html").write_text(_html("one"))
    (root / "empty.html").write_bytes(b" \n ")
    (root / "paper.html").write_bytes(b"%PDF-1.7 rest of it")
    pl.DataFrame({"html": [_html("row"), None]}).write_parquet(root / "t.parquet")
    return root


def _run(root: Path, directory: Path, **options: object) -> tuple[Artifact, HtmlToMarkdownStats]:
    out = writer(directory)
    stats = html_to_markdown(raw_html(root), HtmlToMarkdownConfig.model_validate(options), out)
    return published(out, stats=stats), stats


def _rows(artifact: Artifact) -> pl.DataFrame:
    return pl.concat(pl.read_parquet(path) for path in artifact.paths("part-*"))


def _provenance(artifact: Artifact) -> pl.DataFrame:
    return pl.concat(pl.read_parquet(artifact.path(entry.name)) for entry in artifact.files("provenance/*"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, HtmlToMarkdownStats]:
    folder = tmp_path_factory.mktemp("run")
    return _run(_write_input(folder / "in"), folder / "out", workers=1)


def test_every_page_is_a_row_and_the_counts_add_up(run: tuple[Artifact, HtmlToMarkdownStats]) -> None:
    artifact, stats = run
    rows = _rows(artifact)
    assert rows.schema == polars_schema(COLUMNS)
    assert artifact.manifest.columns == {column.name: column.type for column in COLUMNS}
    assert stats.by_status == {
        "ok": 9, "empty": 1, "not_html": 1, "too_large": 0, "timeout": 0, "crashed": 0, "error": 2,
    }  # fmt: skip
    assert (stats.files, stats.shards, stats.pages) == (6, 1, 13)
    assert sum(stats.by_status.values()) == stats.pages == rows.height == artifact.files("part-*")[0].rows
    assert stats.text_bytes == rows["text"].str.len_bytes().sum()
    record = rows.row(by_predicate=pl.col("source_id") == "r0", named=True)
    assert record["title"] == "record 0"
    assert record["text"] == f"record 0: {2 * _SENTENCE}".strip()
    assert (record["source"], record["metadata"], record["error"]) == ("s", '{"lang": "en"}', None)
    failed = rows.filter(status="error")["error"].to_list()
    assert sorted(reason[:25] for reason in failed) == ["the line is not JSON: Exp", "the record has no any of "]


def test_provenance_names_file_and_record_of_every_row(run: tuple[Artifact, HtmlToMarkdownStats]) -> None:
    artifact, _ = run
    provenance = _provenance(artifact)
    assert not artifact.files("provenance/*")[0].content
    assert provenance["source_id"].to_list() == _rows(artifact)["source_id"].to_list()
    assert provenance.row(by_predicate=pl.col("source_id") == "r5")[1:] == ("pos/a.jsonl.gz", 6)


def test_names_of_files_and_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "SHARD_BYTES", 1000)
    root = _write_input(tmp_path / "in")
    expected, stats = _run(root, tmp_path / "1", workers=1, extract_method="resiliparse")
    assert stats.shards >= 3
    renamed = tmp_path / "renamed"
    for number, path in enumerate(sorted((path for path in root.rglob("*") if path.is_file()), reverse=True)):
        target = renamed / f"{number}{''.join(path.suffixes)}"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(path, target)
    actual, _ = _run(renamed, tmp_path / "2", workers=2, extract_method="resiliparse")
    assert actual.content_digest == expected.content_digest


def test_a_large_file_is_shared_by_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "in"
    root.mkdir()
    monkeypatch.setattr(stage, "extract_page", extract_with_trouble)
    records = [{"id": str(number), "text": f"page {number} {_SENTENCE}"} for number in range(10)]
    (root / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    pl.DataFrame(records[:4]).write_parquet(root / "b.parquet")
    whole, _ = _run(root, tmp_path / "whole", workers=1)
    monkeypatch.setattr(stage, "SHARD_BYTES", 900)
    parts, stats = _run(root, tmp_path / "parts", workers=1)
    assert stats.shards == 4
    assert _rows(parts).equals(_rows(whole))
    assert _provenance(parts).equals(_provenance(whole))


def test_bad_pages_cost_themselves_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "extract_page", extract_with_trouble)
    pages = ["first", "kill", "second", "hang", "third", "raise", "fourth"]
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.jsonl").write_text("\n".join(json.dumps({"text": page}) for page in pages))
    artifact, stats = _run(root, tmp_path / "out", workers=1, page_timeout_seconds=0.5)
    rows = _rows(artifact)
    assert rows["text"].to_list() == ["first", "", "second", "", "third", "", "fourth"]
    assert rows["status"].to_list() == ["ok", "crashed", "ok", "timeout", "ok", "error", "ok"]
    assert rows["error"].to_list()[1::2] == [
        "its process was ended by SIGKILL",
        "took more than 2 s",
        "ValueError: no way",
    ]
    assert stats.by_status["crashed"] == stats.by_status["timeout"] == stats.by_status["error"] == 1


@pytest.mark.parametrize(("method", "cheaper"), [("trafilatura", "fast"), ("fast", "plain text")])
def test_a_page_that_fails_is_tried_once_more_with_a_cheaper_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, cheaper: str
) -> None:
    monkeypatch.setattr(stage, "extract_page", extract_when_cheaper)
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.jsonl").write_text("\n".join(json.dumps({"text": page}) for page in ["kill", "hang", "good", "raise"]))
    artifact, stats = _run(root, tmp_path / "out", workers=1, page_timeout_seconds=0.5, extract_method=method)
    rows = _rows(artifact)
    assert rows["text"].to_list() == ["all of its text", "all of its text", "good", "all of its text"]
    assert rows["error"].to_list() == [
        f"crashed with {method} (its process was ended by SIGKILL); extracted with {cheaper}",
        f"timeout with {method} (took more than 2 s); extracted with {cheaper}",
        None,
        f"error with {method} (ValueError: no way); extracted with {cheaper}",
    ]
    assert (stats.by_status["ok"], stats.by_other_method) == (4, 3)


def test_odd_names_and_what_is_no_file_trouble_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "extract_page", extract_with_trouble)
    root = tmp_path / "in"
    root.mkdir()
    names = [b"a b.html", "ü文.html".encode(), b"line\nbreak.html", b"latin-\xe9.html"]
    for name in names:
        (root / os.fsdecode(name)).write_bytes(name)
    os.mkfifo(root / "pipe.html")
    (root / "loop.html").symlink_to(root / "loop.html")
    (root / "up").symlink_to(root)
    (root / "dangling.jsonl").symlink_to(root / "nothing")
    artifact, stats = _run(root, tmp_path / "out", workers=1)
    assert stats.by_status["ok"] == stats.pages == len(names)
    assert sorted(_provenance(artifact)["file"]) == ["a b.html", "latin-\\xe9.html", "line\nbreak.html", "ü文.html"]


def test_a_file_that_goes_after_it_was_listed_costs_itself_alone(tmp_path: Path) -> None:
    root = _write_input(tmp_path / "in")
    pages = raw_html(root)
    (root / "twin.html").unlink()
    (root / "t.parquet").unlink()
    (root / "one.html").unlink()
    out = writer(tmp_path / "out")
    stats = html_to_markdown(pages, HtmlToMarkdownConfig(workers=1), out)
    assert (stats.pages, stats.by_status["ok"]) == (12, 6)
    reasons = _rows(published(out)).filter(status="error")["error"].to_list()
    gone = "can't be read beyond record 0: No such file or directory"
    assert {f"{name} {gone}" for name in ("one.html", "twin.html", "t.parquet")} <= set(reasons)


def test_too_many_failures_name_reasons_and_examples(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.jsonl").write_text("\n".join(json.dumps({"body": _html("page"), "id": "1"}) for _ in range(3)))
    with pytest.raises(InputError) as caught:
        _run(root, tmp_path / "out", workers=1)
    assert str(caught.value) == (
        "3 of 3 pages failed: 3 × error: the record has no any of text, html, html_bytes; it has body "
        "(first: record 0 of a.jsonl). That is more than max_failed_fraction=0.5 allows: check the input and "
        "text_column, or raise it."
    )
    _, stats = _run(root, tmp_path / "out", workers=1, max_failed_fraction=1.0)
    assert stats.by_status["error"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"extract_method": "resiliparse", "favor_recall": True},
            "favor_recall is an option that resiliparse does not",
        ),
        ({"hidden_elements": True}, "hidden_elements is an option that fast does not have"),
        ({"favor_recall": True, "favor_precision": True}, "favor_precision and favor_recall exclude each other"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    (tmp_path / "a.html").write_text(_html("a"))
    with pytest.raises(SettingsError, match=message):
        _run(tmp_path / "a.html", tmp_path / "out", **options)


def test_workers_are_no_part_of_the_recipe() -> None:
    assert HtmlToMarkdownConfig(workers=3).semantic() == HtmlToMarkdownConfig().semantic()
