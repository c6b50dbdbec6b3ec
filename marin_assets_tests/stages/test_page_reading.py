"""Records become pages with all their fields; what can't be read becomes a failed page that says why."""

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages.page_reading import Page, read_pages
from marin_assets.stages.page_slices import PageSlice, slices_of
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
    return list(read_pages(PageSlice(file), text_column=text_column, max_page_bytes=limit))


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
        (b"null", "the line holds NoneType, not a JSON object"),
        (b'{"b": 1, "a": 2}', "the record has no any of text, html, html_bytes; it has a, b"),
        (b'{"text": 5}', "'text' holds int, not text"),
        (b'{"text": "\xff"}', "the line is not JSON: "),
        (b"[" * 100_000, "the line nests deeper than 100 levels"),
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


@pytest.mark.parametrize("name", ["a.html", "a.jsonl.gz", "a.ndjson", "a.parquet"])
def test_a_file_that_has_gone_is_a_failed_page_that_names_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"x")
    (file,) = raw_html(path).files
    path.unlink()
    (page,) = read_pages(PageSlice(file), max_page_bytes=_LARGE)
    assert page.failure == f"{name} can't be read beyond record 0: No such file or directory"


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\n \t\n"])
def test_line_ends_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path: Path, ends: str) -> None:
    lines = [json.dumps({"text": text, "id": text}) for text in "abc"]
    pages = _pages(tmp_path / "a.jsonl", ("\ufeff" + ends.join(lines) + ends).encode())
    assert [(page.html, page.source_id, page.record) for page in pages] == [("a", "a", 0), ("b", "b", 1), ("c", "c", 2)]


def test_odd_json_is_read_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    deep = b'{"text": "c", "k": ' + b"[" * 400 + b"]" * 400 + b"}"
    lines = [b'{"text": "a", "text": "b", "k": NaN, "l": -Infinity, "m": 1e999}', deep, b'{"text": "d", "": {"": 1}}']
    odd, too_deep, empty_key = _pages(tmp_path / "a.jsonl", b"\n".join(lines))
    assert (odd.html, odd.metadata) == ("b", '{"k": "nan", "l": "-inf", "m": "inf"}')
    assert (too_deep.html, too_deep.failure) == (b"", "the line nests deeper than 100 levels")
    assert empty_key.metadata == '{"": {"": 1}}'


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_members_of_a_compressed_file_are_one_file(tmp_path: Path, suffix: str) -> None:
    members = [_COMPRESS[suffix](_jsonl({"text": text})) for text in ("a", "b", "c" * 5_000_000, "d")]
    pages = _pages(tmp_path / f"a.jsonl{suffix}", b"".join(members), limit=1 << 24)
    assert [str(page.html)[0] for page in pages] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_rubbish_behind_a_compressed_file_is_named(tmp_path: Path, suffix: str) -> None:
    good, failed = _pages(tmp_path / f"a.jsonl{suffix}", _COMPRESS[suffix](_jsonl({"text": "a"})) + b"rubbish")
    assert good.html == "a"
    assert failed.failure is not None
    assert failed.failure.startswith(f"a.jsonl{suffix} can't be read beyond record 1: ")


_PARQUET_TEXTS: dict[str, pl.Series] = {
    "binary": pl.Series([b"a", None]),
    "categorical": pl.Series(["a", None], dtype=pl.Categorical),
    "null": pl.Series([None, None]),
    "struct": pl.Series([{"x": "a"}, None]),
    "list": pl.Series([["a"], None]),
    "number": pl.Series([1.5, None]),
}


@pytest.mark.parametrize("kind", _PARQUET_TEXTS)
def test_parquet_columns_of_any_type_give_a_page_or_a_reason(tmp_path: Path, kind: str) -> None:
    frame = pl.DataFrame({"text": _PARQUET_TEXTS[kind], "other": _PARQUET_TEXTS[kind], "id": [1, 2]})
    first, second = _pages(tmp_path / "a.parquet", _parquet(frame))
    assert second.failure is not None
    assert second.failure.startswith("the record has no any of text, html, html_bytes; it has other, text")
    if kind in {"binary", "categorical"}:
        assert first.html in {"a", b"a"}
    else:
        assert first.failure is not None
    assert (first.source_id, second.source_id) == ("1", "2")


@settings(deadline=None, max_examples=60)
@given(
    content=st.binary(max_size=60)
    | st.lists(st.sampled_from([b'{"text": "a"}', b"\n", b"\r\n", b" ", b"[]", b"x"])).map(b"".join)
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.html.gz", "a.jsonl.zst", "a.parquet"])
def test_no_content_of_a_file_raises(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / name
    pages = _pages(path, content)
    assert pages == _pages(path, content)
    assert [page.record for page in pages] == list(range(len(pages)))
    for page in pages:
        json.loads(page.metadata)
        assert page.failure is None or not page.html


@settings(deadline=None, max_examples=100)
@given(
    lines=st.lists(
        st.sampled_from(['{"text": "a"}', "", " \t", "x" * 40, '{"text": "' + "b" * 300 + '"}', "\r"]), max_size=12
    ),
    parts=st.integers(1, 6),
    end=st.sampled_from(["", "\n"]),
)
def test_the_slices_of_jsonl_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], parts: int, end: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "a.jsonl"
    content = ("\n".join(lines) + end).encode()
    whole = _pages(path, content)
    (file,) = raw_html(path).files
    slices = slices_of(file, parts)
    assert [page for piece in slices for page in read_pages(piece, max_page_bytes=_LARGE)] == whole
    assert 1 <= len(slices) <= parts
    assert slices[0].start == 0
    assert all(before.end == after.start for before, after in pairwise(slices))


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_the_slices_of_parquet_are_the_file(tmp_path: Path, parts: int) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [f"page {number}" for number in range(20)]}).write_parquet(path, row_group_size=3)
    (file,) = raw_html(path).files
    slices = slices_of(file, parts)
    assert len(slices) == min(parts, 20)
    read = [list(read_pages(piece, max_page_bytes=_LARGE)) for piece in slices]
    assert [(page.record, page.html) for pages in read for page in pages] == [(n, f"page {n}") for n in range(20)]
    assert max(map(len, read)) - min(map(len, read)) <= 1


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet.zst", "a.html", "broken.parquet", "empty.jsonl"])
def test_what_cannot_be_cut_is_one_slice(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"" if "empty" in name else b"x")
    (file,) = raw_html(tmp_path / name).files
    (piece,) = slices_of(file, 5)
    assert (piece.start, piece.first_record) == (0, 0)
