"""Documents without what attributes say should go."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.stages import memory_budget
from marin_assets.stages.consolidate import ConsolidateConfig, ConsolidateStats, consolidate
from marin_assets.stages.exact_paragraph_dedup import ExactParagraphDedupConfig, Unit, exact_paragraph_dedup
from marin_assets_tests.artifacts import in_memory
from marin_assets_tests.stages import documents, reference

NAME = documents.name
PART = "part-00000-of-00001.parquet"
Part = Sequence[tuple[int, Any]]


def attribute(directory: Path, *parts: Part, dtype: Any = None) -> Artifact:
    """An attribute artifact with the column `value`: in each part, numbers of documents and their values."""
    out = in_memory.writer(directory)
    for index, rows in enumerate(parts):
        name = f"part-{index:05d}-of-{len(parts):05d}.parquet"
        values = pl.Series("value", [value for _, value in rows], dtype=dtype)
        pl.DataFrame([pl.Series("id", [NAME(number) for number, _ in rows], dtype=pl.String), values]).write_parquet(
            out.path(name)
        )
        out.add(name)
    return in_memory.published(out)


SPANS = pl.List(pl.Struct({"start": pl.UInt32, "end": pl.UInt32}))


def spans(directory: Path, *rows: tuple[int, Sequence[tuple[int, int]]]) -> Artifact:
    listed = [(number, [{"start": start, "end": end} for start, end in found]) for number, found in rows]
    return attribute(directory, listed, dtype=SPANS)


def run(
    directory: Path, source: Artifact, attributes: dict[str, Artifact], *filters: dict[str, Any], **config: Any
) -> tuple[Artifact, ConsolidateStats]:
    values = [{"column": "value", **chosen} for chosen in filters]
    out = in_memory.writer(directory)
    stats = consolidate(source, attributes, ConsolidateConfig.model_validate({"filters": values, **config}), out)
    dropped = sum(stats.rows_dropped_by_filter.values()) + stats.rows_dropped_blank
    assert stats.rows_in == stats.rows_out + dropped
    assert stats.text_bytes_in == stats.text_bytes_out + stats.removed_bytes + stats.dropped_bytes
    return in_memory.published(out, stats=stats), stats


def table(artifact: Artifact) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in artifact.paths("part-*")])


def left(tmp_path: Path, texts: list[str], values: Artifact, *filters: dict[str, Any]) -> list[str]:
    source = documents.published(tmp_path / "documents", texts)
    result, _ = run(tmp_path / "out", source, {"a": values}, *({"attribute": "a", **chosen} for chosen in filters))
    return table(result)["text"].to_list()


def deduplicated(
    directory: Path, *parts: list[str], config: ExactParagraphDedupConfig | None = None
) -> tuple[Artifact, ConsolidateStats]:
    source = documents.published(directory / "documents", *parts)
    out = in_memory.writer(directory / "spans")
    exact_paragraph_dedup(source, config or ExactParagraphDedupConfig(workers=1), out)
    result = in_memory.writer(directory / "out")
    stats = consolidate(
        source, {"duplicate_paragraphs": in_memory.published(out)}, ConsolidateConfig(workers=1), result
    )
    return in_memory.published(result, stats=stats), stats


def test_duplicate_paragraphs_go_by_default(tmp_path: Path) -> None:
    texts = ["same\n\none", "漢字 é\n\nsame\n\ntwo 🙂", "same"]
    result, stats = deduplicated(tmp_path, texts)
    found = table(result)
    assert found["text"].to_list() == ["same\n\none", "漢字 é\n\ntwo 🙂"]
    assert found["id"].to_list() == [NAME(0), NAME(1)]
    assert found["removed_bytes"].to_list() == [0, 6]
    assert found.schema["removed_bytes"] == pl.UInt32
    assert (stats.rows_in, stats.rows_out, stats.rows_dropped_blank, stats.rows_changed) == (3, 2, 1, 1)
    assert (stats.spans_removed, stats.removed_bytes, stats.dropped_bytes) == (2, 6, 4)


def test_all_columns_are_kept_and_a_part_stays_where_it_is(tmp_path: Path) -> None:
    result, _ = deduplicated(tmp_path, ["a"], ["a"], ["b"])
    assert [entry.name for entry in result.files("part-*")] == [
        f"part-0000{index}-of-00003.parquet" for index in range(3)
    ]
    frames = [pl.read_parquet(path) for path in result.paths("part-*")]
    assert [frame.height for frame in frames] == [1, 0, 1]
    assert frames[0].schema == frames[1].schema
    assert frames[0].columns == ["id", "source_id", "url", "source", "title", "text", "metadata", "removed_bytes"]
    assert list(result.manifest.columns) == frames[0].columns
    assert frames[0]["title"].to_list() == ["é"]


def test_remove_docs_and_keep_docs(tmp_path: Path) -> None:
    texts = ["a", "b", "c"]
    values = attribute(tmp_path / "a", [(0, True), (1, False)])
    assert left(tmp_path / "remove", texts, values, {"type": "remove_docs"}) == ["b", "c"]
    assert left(tmp_path / "keep", texts, values, {"type": "keep_docs"}) == ["a", "c"]
    assert left(tmp_path / "drop", texts, values, {"type": "keep_docs", "missing": "drop"}) == ["a"]
    numbers = attribute(tmp_path / "n", [(0, 2), (1, 0)])
    assert left(tmp_path / "numbers", texts, numbers, {"type": "remove_docs"}) == ["b", "c"]


def test_thresholds_include_their_bounds(tmp_path: Path) -> None:
    values = attribute(tmp_path / "a", [(0, 0.1), (1, 0.5), (2, 0.9), (3, None), (4, float("nan"))])
    texts = list("abcdef")
    assert left(tmp_path / "1", texts, values, {"type": "threshold", "lower": 0.5}) == list("bcdef")
    assert left(tmp_path / "2", texts, values, {"type": "threshold", "upper": 0.5}) == list("abdef")
    both = {"type": "threshold", "lower": 0.5, "upper": 0.5, "missing": "drop"}
    assert left(tmp_path / "3", texts, values, both) == ["b"]


def test_a_document_is_counted_for_the_first_filter_that_drops_it(tmp_path: Path) -> None:
    source = documents.published(tmp_path / "documents", ["a", "b", "c"])
    values = attribute(tmp_path / "a", [(0, True), (1, True)])
    score = attribute(tmp_path / "s", [(0, 0), (1, 5), (2, 1)])
    _, stats = run(
        tmp_path / "out",
        source,
        {"flag": values, "score": score},
        {"type": "threshold", "attribute": "score", "lower": 1},
        {"type": "remove_docs", "attribute": "flag"},
    )
    assert stats.rows_dropped_by_filter == {"threshold score.value": 1, "remove_docs flag.value": 1}


def test_spans_of_several_filters_are_cut_as_their_union(tmp_path: Path) -> None:
    source = documents.published(tmp_path / "documents", ["abcdefgh"])
    attributes = {"1": spans(tmp_path / "1", (0, [(0, 3), (6, 7)])), "2": spans(tmp_path / "2", (0, [(2, 4)]))}
    filters = [{"type": "remove_spans", "attribute": name} for name in attributes]
    result, stats = run(tmp_path / "out", source, attributes, *filters)
    assert table(result)["text"].to_list() == ["efh"]
    assert stats.spans_removed == 2


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([(0, 99)], "0:99 is empty or out of its text"),
        ([(2, 2)], "2:2 is empty or out of its text"),
        ([(3, 4), (0, 1)], "0:1 is out of order or overlaps"),
        ([(0, 3), (2, 4)], "2:4 is out of order or overlaps"),
        ([(0, 5)], "0:5 splits a character"),
        ([(5, 6)], "5:6 splits a character"),
    ],
)
def test_wrong_spans_are_refused(tmp_path: Path, found: list[tuple[int, int]], why: str) -> None:
    values = spans(tmp_path / "a", (1, found))
    with pytest.raises(InputError, match=rf"{PART}, column `value`, document {NAME(1)}: the span {why}"):
        left(tmp_path, ["x", "abcdéfgh"], values, {"type": "remove_spans"})


def test_missing_things_are_named(tmp_path: Path) -> None:
    values = attribute(tmp_path / "a", [(0, True)])
    with pytest.raises(InputError, match=r"needs the attribute artifact 'quality'; there are \['a'\]"):
        left(tmp_path / "1", ["x"], values, {"type": "keep_docs", "attribute": "quality"})
    with pytest.raises(InputError, match=rf"{PART} lacks the columns \['score'\]"):
        left(tmp_path / "2", ["x"], values, {"type": "keep_docs", "column": "score"})
    with pytest.raises(InputError, match=rf"{PART}: document {NAME(1)} has no value in the column `value`"):
        left(tmp_path / "3", ["x", "y"], values, {"type": "keep_docs", "missing": "error"})
    source = documents.published(tmp_path / "two", ["x"], ["y"])
    with pytest.raises(InputError, match=r"lacks \['part-00000-of-00002.parquet', 'part-00001-of-00002.parquet'\]"):
        run(tmp_path / "out", source, {"a": values}, {"type": "keep_docs", "attribute": "a"})


def test_attributes_of_the_wrong_type_or_order_or_of_other_documents_are_refused(tmp_path: Path) -> None:
    texts = ["x", "y"]
    words = attribute(tmp_path / "w", [(0, "yes")])
    filters: list[dict[str, Any]] = [{"type": "keep_docs"}, {"type": "threshold", "lower": 1}, {"type": "remove_spans"}]
    for index, chosen in enumerate(filters):
        with pytest.raises(InputError, match=rf"{PART}: the column `value` is of type String"):
            left(tmp_path / f"type-{index}", texts, words, chosen)
    disordered = attribute(tmp_path / "d", [(1, True), (0, True)])
    with pytest.raises(InputError, match=rf"{PART}, row 1: its `id` does not follow"):
        left(tmp_path / "order", texts, disordered, {"type": "keep_docs"})
    foreign = attribute(tmp_path / "f", [(0, True), (7, True)])
    with pytest.raises(InputError, match=rf"{PART}, row 1: the documents' part of the same name has no document"):
        left(tmp_path / "foreign", texts, foreign, {"type": "keep_docs"})


@pytest.mark.parametrize(
    "values",
    [
        {"type": "threshold"},
        {"type": "keep_docs", "lower": 1},
        {"type": "sometimes"},
        {"type": "keep_docs", "missing": "maybe"},
        {"type": "keep_docs", "threshold": 1},
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ConsolidateConfig.model_validate({"filters": [{"attribute": "a", "column": "b", **values}]})


def test_settings_are_part_of_the_fingerprint_by_value() -> None:
    assert ConsolidateConfig(workers=3).semantic() == {
        "filters": [
            {
                "type": "remove_spans",
                "attribute": "duplicate_paragraphs",
                "column": "dup_spans",
                "lower": None,
                "upper": None,
                "missing": "keep",
            }
        ]
    }


def test_the_same_bytes_with_any_workers_and_any_memory_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "BYTES_WORTH_A_WORKER", 1)
    parts = [["\n\n".join(f"é {index * step % 17}" for index in range(40)) for step in range(1, 9)] for _ in range(3)]
    first, stats = deduplicated(tmp_path, *parts)
    source = documents.published(tmp_path / "documents", *parts)
    values = in_memory.writer(tmp_path / "spans")
    for path in sorted((tmp_path / "spans").glob("part-*")):
        values.add(path.name)
    for config in (ConsolidateConfig(workers=4), ConsolidateConfig(workers=1, memory_budget=1)):
        out = in_memory.writer(tmp_path / f"out-{config.workers}")
        again = consolidate(source, {"duplicate_paragraphs": in_memory.published(values)}, config, out)
        assert (in_memory.published(out).content_digest, again) == (first.content_digest, stats)


corpora = st.lists(st.lists(reference.markdown_texts, max_size=3), min_size=1, max_size=2)


@settings(deadline=None, max_examples=60)
@given(corpora, st.sampled_from([0, 0, 5]))
def test_no_paragraph_is_left_twice_and_nothing_else_is_lost(parts: list[list[str]], minimum: int) -> None:
    numbered = {NAME(number): text for number, text in enumerate(text for part in parts for text in part)}
    expected = reference.repeated(numbered, minimum=minimum)
    with TemporaryDirectory() as directory:
        config = ExactParagraphDedupConfig(workers=1, min_paragraph_chars=minimum)
        result, _ = deduplicated(Path(directory), *parts, config=config)
        found = dict(table(result).select("id", "text").rows())
    left = {name: reference.without(text, expected[name]) for name, text in numbered.items()}
    assert found == {name: text for name, text in left.items() if not reference.blank(text)}
    kept = [block for text in found.values() for block in reference.blocks(text) if block.kind != "heading"]
    long = [block.content for block in kept if len(block.content) >= minimum]
    assert len(long) == len(set(long))


@settings(deadline=None, max_examples=30)
@given(corpora)
def test_no_line_is_left_twice_in_line_mode(parts: list[list[str]]) -> None:
    with TemporaryDirectory() as directory:
        config = ExactParagraphDedupConfig(workers=1, unit=Unit.line)
        result, _ = deduplicated(Path(directory), *parts, config=config)
        texts = table(result)["text"].to_list()
    lines = [block.content for text in texts for block in reference.lines_as_blocks(text)]
    assert len(lines) == len(set(lines))
    before = {block.content for part in parts for text in part for block in reference.lines_as_blocks(text)}
    assert set(lines) == before


@settings(deadline=None, max_examples=40)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda text: not reference.blank(text)),
    st.sampled_from(["漢字 é", "e\u0301 🙂", "\u00a0", "مرحبا", "| é |\n|---|", "# 漢", "~~~\né\n~~~"]),
    st.sampled_from(["ascii", "後 ü"]),
)
def test_a_repeated_paragraph_behind_other_scripts_goes_and_nothing_else(text: str, before: str, after: str) -> None:
    paragraph = f"p {text}"
    with TemporaryDirectory() as directory:
        result, stats = deduplicated(Path(directory), [paragraph, f"{before}\n\n{paragraph}\n\n{after}"])
        assert table(result)["text"].to_list() == [paragraph, f"{before}\n\n{after}"]
        assert stats.removed_bytes == len(paragraph.encode()) + 2
