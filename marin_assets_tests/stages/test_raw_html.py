"""Which files count as input, and when two inputs are the same."""

import logging
import os
from pathlib import Path

import pytest

from marin_assets.errors import InputError
from marin_assets.stages.raw_html import format_of, raw_html


def _write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))


def test_files_are_found_below_the_root_and_sorted_by_name(tmp_path: Path) -> None:
    _write(tmp_path, "b.html", "a/z.jsonl.gz", "a/y.PARQUET", "a-b.htm", "c/d/e.ndjson.zst", "x.xhtml")
    names = [file.name for file in raw_html(tmp_path).files]
    assert names == ["a-b.htm", "a/y.PARQUET", "a/z.jsonl.gz", "b.html", "c/d/e.ndjson.zst", "x.xhtml"]
    assert [file.bytes for file in raw_html(tmp_path).files] == [len(name) for name in names]


def test_hidden_files_and_folders_are_left_out_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _write(tmp_path, "a.html", ".b.html", ".git/c.html")
    assert [file.name for file in raw_html(tmp_path).files] == ["a.html"]
    assert not caplog.records


def test_other_files_are_counted_in_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _write(tmp_path, "a.html", "b.txt", "c.txt", "README")
    with caplog.at_level(logging.WARNING):
        assert len(raw_html(tmp_path).files) == 1
    (record,) = caplog.records
    assert record.getMessage() == "3 files of other types are left out (2 × .txt, 1 × no suffix), the first is README"


def test_the_root_may_be_one_file(tmp_path: Path) -> None:
    _write(tmp_path, "pages.jsonl")
    assert [file.name for file in raw_html(tmp_path / "pages.jsonl").files] == ["pages.jsonl"]


def test_names_need_not_be_utf8_and_pipes_and_loops_are_passed_over(tmp_path: Path) -> None:
    _write(tmp_path, "b.html", "line\nbreak.html", os.fsdecode(b"latin-\xe9.html"))
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "loop.html").symlink_to(tmp_path / "loop.html")
    (tmp_path / "up").symlink_to(tmp_path)
    pages = raw_html(tmp_path, remember=tmp_path / ".memory")
    assert [file.printable_name for file in pages.files] == ["b.html", "latin-\\xe9.html", "line\nbreak.html"]
    assert raw_html(tmp_path, remember=tmp_path / ".memory").digest == pages.digest == raw_html(tmp_path).digest
    with pytest.raises(InputError, match="is neither a file nor a folder"):
        raw_html(tmp_path / "pipe.html")


@pytest.mark.parametrize("content", ["missing", "empty", "no pages"])
def test_an_input_without_pages_names_the_variable(tmp_path: Path, content: str) -> None:
    root = tmp_path / "input"
    if content != "missing":
        root.mkdir()
    if content == "no pages":
        _write(root, "a.txt")
    with pytest.raises(InputError, match="MARIN_INPUT"):
        raw_html(root)


def test_the_digest_changes_with_names_and_contents_only(tmp_path: Path) -> None:
    _write(tmp_path / "one", "a.html", "b.html")
    _write(tmp_path / "two", "b.html", "a.html")
    first = raw_html(tmp_path / "one").digest
    assert raw_html(tmp_path / "two", remember=tmp_path / "memory").digest == first
    (tmp_path / "two" / "a.html").rename(tmp_path / "two" / "c.html")
    renamed = raw_html(tmp_path / "two").digest
    (tmp_path / "one" / "a.html").write_bytes(b"other")
    assert len({first, renamed, raw_html(tmp_path / "one").digest}) == 3


def test_formats_are_told_by_suffixes() -> None:
    assert format_of("a.html") == ("html", None)
    assert format_of("a.b.JSONL.GZ") == ("jsonl", "gzip")
    assert format_of("a.parquet.zst") == ("parquet", "zstd")
    assert format_of("a.warc.gz") == ("warc", "gzip")
    assert format_of("a.ZIP") == ("zip", None)
    assert format_of("a.gz") is None
    assert format_of("html") is None
