"""Records become pages with all their fields; what can't be read becomes a failed page that says why."""

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages.page_reading import Page, read_pages
from marin_assets.stages.raw_html import raw_html

_LARGE = 1 << 20


def _zstd(data: bytes) -> bytes:
    from fastwarc.stream_io import ZstdWriter

    target = io.BytesIO()
    writer = ZstdWriter(target)
    assert writer.write(data) == len(data)
    writer.close()
    return target.getvalue()


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": _zstd}


def _pages(path: Path, content: bytes, *, text_column: str = "", limit: int = _LARGE) -> list[Page]:
    path.write_bytes(content)
    (file,) = raw_html(path).files
    return list(read_pages(file, text_column=text_column, max_page_bytes=limit))


def _jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _parquet(frame: pl.DataFrame) -> bytes:
    target = io.BytesIO()
    frame.write_parquet(target)
    return target.getvalue()


@pytest.mark.parametrize("suffix", _COMPRESS)
def test_an_html_file_is_one_page(tmp_path: Path, suffix: str) -> None:
    html = "<p>é</p>".encode("latin-1")
    (page,) = _pages(tmp_path / f"a.html{suffix}", _COMPRESS[suffix](html))
    assert page == Page(f"a.html{suffix}", 0, xxhash.xxh3_128_hexdigest(html), html=html)


@pytest.mark.parametrize("suffix", _COMPRESS)
def test_jsonl_records_keep_all_their_fields(tmp_path: Path, suffix: str) -> None:
    record = {
        "id": 7,
        "text": "<p>é",
        "source": "web",
        "z": [1],
        "metadata": {"fineweb_metadata": {"url": "http://é/"}},
    }
    content = _jsonl(record, {"html": "x", "id": "b", "url": "u", "source": 5}) + b"\n  \n"
    first, second = _pages(tmp_path / f"a.jsonl{suffix}", _COMPRESS[suffix](content))
    assert (first.source_id, first.url, first.source, first.html, first.record) == ("7", "http://é/", "web", "<p>é", 0)
    assert first.metadata == '{"metadata": {"fineweb_metadata": {"url": "http://é/"}}, "z": [1]}'
    assert (second.source_id, second.url, second.source, second.html, second.record) == ("b", "u", None, "x", 1)
    assert second.metadata == '{"source": 5}'


@pytest.mark.parametrize("suffix", _COMPRESS)
def test_parquet_rows_keep_all_their_fields(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame(
        {
            "html_bytes": [b"<p>\xff", b"y"],
            "id": ["a", None],
            "raw": [b"\x00\xff", None],
            "when": [datetime(2020, 1, 2, tzinfo=UTC), None],
            "took": [timedelta(seconds=1.5), None],
            "share": [float("nan"), 0.5],
        }
    )
    first, second = _pages(tmp_path / f"a.parquet{suffix}", _COMPRESS[suffix](_parquet(frame)))
    assert (first.source_id, first.html) == ("a", b"<p>\xff")
    assert json.loads(first.metadata) == {
        "raw": "AP8=",
        "when": "2020-01-02T00:00:00+00:00",
        "took": 1.5,
        "share": "nan",
    }
    assert second.source_id == xxhash.xxh3_128_hexdigest(b"y")


def test_the_text_column_is_the_first_that_is_there_or_the_one_named(tmp_path: Path) -> None:
    record = {"body": "B", "html": "H", "text": None}
    assert _pages(tmp_path / "a.jsonl", _jsonl(record))[0].html == "H"
    named = _pages(tmp_path / "a.jsonl", _jsonl(record), text_column="body")[0]
    assert (named.html, named.metadata) == ("B", '{"html": "H", "text": null}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "x"', "the line is not JSON: "),
        (b"[1]", "the line holds list, not a JSON object"),
        (b'{"b": 1, "a": 2}', "the record has no any of text, html, html_bytes; it has a, b"),
        (b'{"text": 5}', "'text' holds int, not text"),
        (b'{"text": "\xff"}', "the line is not JSON: "),
        (b"[" * 100_000, "the line is not JSON: "),
    ],
)
def test_a_bad_record_is_a_failed_page_between_good_ones(tmp_path: Path, line: bytes, reason: str) -> None:
    good = b'{"text": "good"}'
    before, bad, after = _pages(tmp_path / "a.jsonl", b"\n".join([good, line, good]))
    assert before.html == after.html == "good"
    assert bad.failure is not None
    assert bad.failure.startswith(reason)
    assert bad.record == 1
    assert len(bad.source_id) == 32


def test_a_lone_surrogate_in_a_field_is_replaced(tmp_path: Path) -> None:
    (page,) = _pages(tmp_path / "a.jsonl", b'{"text": "a", "id": "\\ud800", "k": "\\udfff"}')
    assert (page.source_id, page.metadata) == ("?", '{"k": "?"}')


def test_a_line_without_an_end_in_sight_is_cut_off(tmp_path: Path) -> None:
    long, good = _jsonl({"text": "x" * 9_000_000}), _jsonl({"text": "good"})
    pages = _pages(tmp_path / "a.jsonl", good + long + good, limit=1000)
    assert [page.html for page in pages] == ["good", b"", "good"]
    assert pages[1].failure == "the line is longer than 1,054,576 bytes"


def test_a_long_html_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (page,) = _pages(tmp_path / "a.html.gz", gzip.compress(bytes(50_000_000)), limit=1000)
    assert len(page.html) == 1001


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_file_gives_what_could_be_read_and_names_itself(tmp_path: Path, suffix: str) -> None:
    records = [{"text": xxhash.xxh3_128_hexdigest(str(number).encode()) * 50} for number in range(20_000)]
    whole = _COMPRESS[suffix](_jsonl(*records[:5000]))
    *good, failed = _pages(tmp_path / f"a.jsonl{suffix}", whole[: len(whole) * 2 // 3])
    assert 500 < len(good) < 5000
    assert [page.html for page in good] == [record["text"] for record in records[: len(good)]]
    assert failed.failure is not None
    assert failed.failure.startswith(f"a.jsonl{suffix} can't be read beyond record {len(good)}: ")


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.html.gz", "a.html.zst", "a.parquet", "a.parquet.gz"])
def test_a_file_of_rubbish_is_one_failed_page(tmp_path: Path, name: str) -> None:
    (page,) = _pages(tmp_path / name, b"this is rubbish" * 100)
    assert page.failure is not None
    assert page.failure.startswith(f"{name} can't be read beyond record 0: ")


@settings(deadline=None, max_examples=50)
@given(count=st.integers(0, 12), parts=st.integers(1, 5))
def test_the_parts_of_a_file_are_the_file(tmp_path_factory: pytest.TempPathFactory, count: int, parts: int) -> None:
    path = tmp_path_factory.mktemp("parts") / "a.jsonl"
    path.write_bytes(_jsonl(*({"text": f"page {number}"} for number in range(count))))
    (file,) = raw_html(path).files
    read = [list(read_pages(file, max_page_bytes=_LARGE, part=part, parts=parts)) for part in range(parts)]
    assert sorted((page.record, page.html) for pages in read for page in pages) == [
        (number, f"page {number}") for number in range(count)
    ]
