"""Canonical text, ids, and what becomes of rows without text and of exact duplicates."""

import itertools
import re
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.stages import memory_budget, normalize
from marin_assets.stages.normalize import NormalizeConfig, NormalizeStats, canonical_text
from marin_assets_tests.artifacts import in_memory
from marin_assets_tests.stages import reference

Row = dict[str, str | None]


def row(source_id: str, text: str | None, **others: str | None) -> Row:
    return {
        "source_id": source_id,
        "url": f"https://example.org/{source_id}",
        "source": "test",
        "title": None,
        "text": text,
        "status": "ok",
        "error": None,
        "metadata": "{}",
        **others,
    }


def markdown(directory: Path, *parts: list[Row]) -> Artifact:
    out = in_memory.writer(directory)
    for index, rows in enumerate(parts):
        name = f"part-{index:05d}-of-{len(parts):05d}.parquet"
        pl.DataFrame(rows, schema=dict.fromkeys(row("", ""), pl.String)).write_parquet(out.path(name))
        out.add(name)
    return in_memory.published(out)


def run(directory: Path, *parts: list[Row], config: NormalizeConfig | None = None) -> tuple[Artifact, NormalizeStats]:
    out = in_memory.writer(directory / "out")
    stats = normalize.normalize(markdown(directory / "in", *parts), config or NormalizeConfig(), out)
    assert stats.rows_in == stats.rows_out + stats.rows_blank + stats.rows_duplicate
    return in_memory.published(out, stats=stats), stats


def table(artifact: Artifact, pattern: str = "part-*") -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in artifact.paths(pattern)])


def one(text: str) -> str:
    return str(canonical_text(pl.Series("text", [text]))[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("a\x00b\x07c\x7fd\x85e\x0bf", "abcdef"),
        ("tab\tstays", "tab\tstays"),
        ("\r\x00\n", "\n\n"),
        ("e\u0301", "é"),
        ("\u1112\u1161\u11ab", "한"),
        ("a\u0323\u0307", "ạ\u0307"),
        ("a" + " " * 129 + "b", "a" + " " * 128 + "b"),
        ("a" + " \u00a0\u3000\u2028\n" * 100 + "b", "a" + (" \u00a0\u3000\u2028\n" * 100)[:128] + "b"),
        ("a" + " " * 128 + "b", "a" + " " * 128 + "b"),
        ("a" + " " * 100 + "\x00" + " " * 100 + "b", "a" + " " * 128 + "b"),
    ],
)
def test_text_is_made_canonical(before: str, after: str) -> None:
    assert one(before) == after


@settings(deadline=None, max_examples=300)
@given(st.lists(reference.any_texts, max_size=5))
def test_canonical_text_equals_the_reference_and_is_a_fixed_point(texts: list[str]) -> None:
    once = canonical_text(pl.Series("text", texts, dtype=pl.String))
    assert once.to_list() == [reference.normalize_text(text) for text in texts]
    assert canonical_text(once).to_list() == once.to_list()


def test_settled_characters_need_no_normalization_wherever_they_stand() -> None:
    settled = re.compile(
        f"[{re.sub(r'x{([0-9A-F]+)}', lambda m: f'U{int(m[1], 16):08X}', normalize.SETTLED_CHARACTERS)}]"
    )
    seconds = {
        chr(int(parts[1], 16))
        for code in range(0x110000)
        if len(parts := unicodedata.decomposition(chr(code)).split()) == 2 and not parts[0].startswith("<")
    }
    count = 0
    for character in filter(settled.match, map(chr, range(0x110000))):
        count += 1
        assert unicodedata.category(character) != "Cc" or character in "\t\n", ascii(character)
        assert unicodedata.combining(character) == 0, ascii(character)
        assert unicodedata.normalize("NFC", character) == character, ascii(character)
        assert character not in seconds, ascii(character)
    assert count > 40_000


def test_rows_are_sorted_by_the_hash_of_their_text_and_keep_their_source_id(tmp_path: Path) -> None:
    artifact, stats = run(tmp_path, [row(str(number), f"text é {number}\r\n") for number in range(20)])
    documents = table(artifact)
    assert documents["id"].is_sorted()
    assert documents.columns == ["id", "source_id", "url", "source", "title", "text", "metadata"]
    for found in documents.to_dicts():
        assert found["text"] == f"text é {found['source_id']}\n"
        assert found["id"] == xxhash.xxh3_128_hexdigest(found["text"].encode())
        assert found["url"] == f"https://example.org/{found['source_id']}"
    assert (stats.rows_out, stats.rows_changed, stats.parts) == (20, 20, 1)
    assert stats.text_bytes_out == stats.text_bytes_in - 20


def test_rows_without_text_are_dropped_and_counted_by_status(tmp_path: Path) -> None:
    rows = [
        row("a", "text"),
        row("b", None, status="timeout"),
        row("c", "", status="empty"),
        row("d", " \u00a0\u3000\n\t", status="empty"),
        row("e", "\x00\x07"),
    ]
    _, stats = run(tmp_path, rows)
    assert (stats.rows_in, stats.rows_out, stats.rows_blank) == (5, 1, 4)
    assert stats.rows_blank_by_status == {"empty": 2, "ok": 1, "timeout": 1}


@pytest.mark.parametrize("rows", [[], [row("a", None), row("b", "\u00a0")]])
def test_input_without_any_text_is_an_error_that_names_the_column(tmp_path: Path, rows: list[Row]) -> None:
    with pytest.raises(InputError, match=r"none of the . rows has text in the column `text`"):
        run(tmp_path, rows)


def test_a_missing_column_is_an_error_that_names_it_and_the_file(tmp_path: Path) -> None:
    out = in_memory.writer(tmp_path)
    pl.DataFrame({"source_id": ["a"], "text": ["x"]}).write_parquet(out.path("part-00000-of-00001.parquet"))
    out.add("part-00000-of-00001.parquet")
    with pytest.raises(InputError, match=r"part-00000-of-00001.*'url', 'source', 'title', 'metadata', 'status'"):
        normalize.normalize(in_memory.published(out), NormalizeConfig(), in_memory.writer(tmp_path / "out"))


def test_exact_duplicates_are_set_aside_and_the_smallest_source_id_stays(tmp_path: Path) -> None:
    parts = [[row("c", "same\r\n"), row("x", "other")], [row("b", "same\n"), row("a", "same\x00\n", title="é")]]
    artifact, stats = run(tmp_path, *parts)
    same = xxhash.xxh3_128_hexdigest(b"same\n")
    assert dict(table(artifact).select("source_id", "id").rows())["a"] == same
    repeated = table(artifact, "duplicates/*")
    assert repeated.select("source_id", "id", "text").rows() == [("b", same, "same\n"), ("c", same, "same\n")]
    assert repeated.schema == table(artifact).schema
    assert (stats.rows_out, stats.rows_duplicate) == (2, 2)


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    out = in_memory.writer(tmp_path / "in")
    name = "part-00000-of-00001.parquet"
    frame = pl.DataFrame([row("a", "x"), row("b", None)], schema=dict.fromkeys(row("", ""), pl.String))
    frame.with_columns(text=pl.Series([b"caf\xe9 \xc3\xa9", None])).write_parquet(out.path(name))
    out.add(name)
    result = in_memory.writer(tmp_path / "out")
    normalize.normalize(in_memory.published(out), NormalizeConfig(), result)
    assert table(in_memory.published(result))["text"].to_list() == ["caf\ufffd é"]


def varied_rows() -> list[Row]:
    words = ["é", "漢字", "e\u0301", "plain", "\r\n", "🙂"]
    texts = [" ".join(chosen) for chosen in itertools.product(words, repeat=3)]
    rows = [row(f"{index % 190:03d}", text, title=str(index % 7)) for index, text in enumerate(texts)]
    return [*rows, *rows[::3], row("blank", " ", status="empty")]


def test_the_same_bytes_in_any_order_of_files_and_rows(tmp_path: Path) -> None:
    rows = varied_rows()
    first, _ = run(tmp_path / "1", rows)
    other, _ = run(tmp_path / "2", rows[100:][::-1], [], rows[:100])
    assert first.content_digest == other.content_digest


def test_the_same_bytes_with_any_workers_and_any_memory_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalize, "PART_BYTES", 1000)
    monkeypatch.setattr(memory_budget, "BYTES_WORTH_A_WORKER", 1)
    rows = varied_rows()
    parts = [rows[:50], rows[50:60], rows[60:]]
    first, stats = run(tmp_path / "1", *parts, config=NormalizeConfig(workers=1))
    assert stats.parts > 3
    documents = table(first)
    assert documents["id"].is_sorted()
    assert [len(pl.read_parquet(path)) for path in first.paths("part-*")] != [0] * stats.parts
    assert len(first.paths("duplicates/*")) == stats.parts
    for index, config in enumerate([NormalizeConfig(workers=4), NormalizeConfig(workers=1, memory_budget=1)]):
        other, again = run(tmp_path / f"other-{index}", *parts, config=config)
        assert (other.content_digest, again) == (first.content_digest, stats)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abc"), reference.any_texts), min_size=1, max_size=8))
def test_every_text_is_found_again_once(records: list[tuple[str, str]]) -> None:
    texts = {reference.normalize_text(text) for _, text in records}
    texts = {text for text in texts if text.strip(reference.WHITE_SPACE)}
    with TemporaryDirectory() as directory:
        rows = [row(source_id, text) for source_id, text in records]
        if not texts:
            with pytest.raises(InputError):
                run(Path(directory), rows)
            return
        artifact, _ = run(Path(directory), rows)
        assert sorted(table(artifact)["text"]) == sorted(texts)
        for text, source_id in table(artifact).select("text", "source_id").rows():
            assert source_id == min(name for name, raw in records if reference.normalize_text(raw) == text)
