"""Which paragraphs are duplicates, and where they stand."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.stages import memory_budget, repeated_paragraphs
from marin_assets.stages.exact_paragraph_dedup import (
    ExactParagraphDedupConfig,
    ExactParagraphDedupStats,
    Unit,
    exact_paragraph_dedup,
)
from marin_assets_tests.artifacts import in_memory
from marin_assets_tests.stages import documents, reference


def run(
    directory: Path, *parts: list[str], config: ExactParagraphDedupConfig | None = None
) -> tuple[Artifact, ExactParagraphDedupStats]:
    out = in_memory.writer(directory / "out")
    config = config or ExactParagraphDedupConfig(workers=1)
    stats = exact_paragraph_dedup(documents.published(directory / "in", *parts), config, out)
    return in_memory.published(out, stats=stats), stats


def spans(artifact: Artifact) -> dict[str, list[tuple[int, int]]]:
    frame = pl.concat([pl.read_parquet(path) for path in artifact.paths("part-*")])
    assert frame.schema == {"id": pl.String, "dup_spans": pl.List(pl.Struct({"start": pl.UInt32, "end": pl.UInt32}))}
    return {name: [(span["start"], span["end"]) for span in found] for name, found in frame.rows()}


def duplicates(directory: Path, *parts: list[str], **config: object) -> list[list[str]]:
    """The content of the spans of each document."""
    artifact, _ = run(directory, *parts, config=ExactParagraphDedupConfig.model_validate({"workers": 1, **config}))
    texts = [text.encode() for part in parts for text in part]
    return [
        [text[start:end].decode() for start, end in found]
        for text, found in zip(texts, spans(artifact).values(), strict=True)
    ]


def test_the_first_copy_stays_and_later_ones_are_duplicates(tmp_path: Path) -> None:
    assert duplicates(tmp_path, ["a\n\nb\n\na", "c\n\na"], ["b\nb\n\nb"]) == [["a"], ["a"], ["b"]]


def test_spans_count_bytes_not_characters(tmp_path: Path) -> None:
    artifact, _ = run(tmp_path, ["same", "漢字 é 🙂\n\nsame"])
    assert spans(artifact)[documents.name(1)] == [(16, 20)]


def test_headings_and_thematic_breaks_stay(tmp_path: Path) -> None:
    text = "# Title\nbody\n\n---\n\nSetext\n==="
    assert duplicates(tmp_path, [text, text]) == [[], ["body"]]


def test_a_fenced_code_block_is_compared_as_a_whole(tmp_path: Path) -> None:
    code = "```\nx\n\ny\n```"
    assert duplicates(tmp_path, [code, f"x\n\n{code}", "```\nx\n\nz\n```"]) == [[], [code], []]


def test_lines_in_line_mode(tmp_path: Path) -> None:
    assert duplicates(tmp_path, ["# T\na\nb", "# T\n\nb\nc"], unit="line") == [[], ["# T", "b"]]


def test_short_paragraphs_are_kept_and_characters_are_counted(tmp_path: Path) -> None:
    texts = ["漢字\n\n漢字漢字\n\nabcd", "漢字\n\n漢字漢字\n\nabcd"]
    assert duplicates(tmp_path / "4", texts, min_paragraph_chars=4) == [[], ["漢字漢字", "abcd"]]
    assert duplicates(tmp_path / "5", texts, min_paragraph_chars=5) == [[], []]


def test_repeats_in_the_first_document_stay_without_within_document(tmp_path: Path) -> None:
    found = duplicates(tmp_path, ["a\n\na\n\nb", "a\n\na\n\nc\n\nc"], ["c\n\nb"], within_document=False)
    assert found == [[], ["a", "a"], ["c", "b"]]


def test_one_file_for_each_part_even_without_rows_and_one_row_for_each_document(tmp_path: Path) -> None:
    artifact, stats = run(tmp_path, ["a", "b"], [], ["a"])
    names = [entry.name for entry in artifact.files("part-*")]
    assert names == [f"part-0000{index}-of-00003.parquet" for index in range(3)]
    assert [entry.rows for entry in artifact.files("part-*")] == [2, 0, 1]
    assert list(spans(artifact)) == [documents.name(number) for number in range(3)]
    assert (stats.rows_in, stats.rows_out, stats.rows_with_duplicates) == (3, 3, 1)


def test_documents_without_paragraphs(tmp_path: Path) -> None:
    artifact, stats = run(tmp_path, ["# only a heading"])
    assert spans(artifact) == {documents.name(0): []}
    assert stats.paragraphs == 0


def test_counts_add_up(tmp_path: Path) -> None:
    config = ExactParagraphDedupConfig(min_paragraph_chars=2)
    _, stats = run(tmp_path, ["é é\n\nbb\n\nbb\n\nx", "bb\n\né é\n\ncc"], config=config)
    assert (stats.paragraphs, stats.paragraphs_too_short) == (6, 1)
    assert stats.paragraphs == stats.paragraphs_distinct + stats.paragraphs_duplicate
    assert (stats.paragraphs_distinct, stats.paragraphs_repeated, stats.paragraphs_duplicate) == (3, 2, 3)
    assert stats.duplicate_bytes == 2 + 2 + len("é é".encode())


def test_unsorted_documents_are_refused_by_file_and_row(tmp_path: Path) -> None:
    out = in_memory.writer(tmp_path / "in")
    frame = pl.DataFrame({"id": ["a", "c", "b"], "text": ["x", "y", "z"]})
    frame.write_parquet(out.path("part-00000-of-00001.parquet"))
    out.add("part-00000-of-00001.parquet")
    with pytest.raises(InputError, match=r"part-00000-of-00001.parquet, row 2: its `id`"):
        exact_paragraph_dedup(in_memory.published(out), ExactParagraphDedupConfig(), in_memory.writer(tmp_path / "o"))


def test_parts_out_of_order_are_refused(tmp_path: Path) -> None:
    out = in_memory.writer(tmp_path / "in")
    for index, ids in enumerate((["b", "c"], ["a"])):
        name = f"part-{index:05d}-of-00002.parquet"
        pl.DataFrame({"id": ids, "text": ids}).write_parquet(out.path(name))
        out.add(name)
    with pytest.raises(InputError, match=r"part-00001-of-00002.parquet, row 0"):
        exact_paragraph_dedup(in_memory.published(out), ExactParagraphDedupConfig(), in_memory.writer(tmp_path / "o"))


corpora = st.lists(st.lists(reference.markdown_texts, max_size=3), min_size=1, max_size=3)
configs = st.builds(
    ExactParagraphDedupConfig,
    unit=st.sampled_from(Unit),
    min_paragraph_chars=st.sampled_from([0, 0, 4]),
    within_document=st.booleans(),
    workers=st.just(1),
    memory_budget=st.sampled_from([1, 2000, 2 << 30]),
)


@settings(deadline=None, max_examples=80)
@given(corpora, configs)
def test_spans_equal_the_reference_whatever_the_budget(
    parts: list[list[str]], config: ExactParagraphDedupConfig
) -> None:
    numbered = {documents.name(number): text for number, text in enumerate(text for part in parts for text in part)}
    with TemporaryDirectory() as directory:
        artifact, _ = run(Path(directory), *parts, config=config)
        expected = reference.repeated(
            numbered,
            unit=config.unit.value,
            minimum=config.min_paragraph_chars,
            within_document=config.within_document,
        )
        assert spans(artifact) == expected


def test_the_same_bytes_with_any_workers_and_any_memory_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "BYTES_WORTH_A_WORKER", 1)
    parts = [
        ["\n\n".join(f"paragraph é {index * step % 37}" for index in range(20)) for step in range(1, 5)]
        for _ in range(3)
    ]
    first, stats = run(tmp_path / "first", *parts)
    for budget in (3000, 2 << 30):
        config = ExactParagraphDedupConfig(workers=4, memory_budget=budget)
        other, again = run(tmp_path / f"{budget}", *parts, config=config)
        assert (other.manifest.files, again) == (first.manifest.files, stats)
    assert len(list((tmp_path / "first" / "out" / ".scratch").rglob("bucket-*.hashes.npy"))) == 1
    assert len(list((tmp_path / "3000" / "out" / ".scratch").rglob("bucket-*.hashes.npy"))) > 1


def test_hashes_that_share_their_upper_half_are_told_apart(tmp_path: Path) -> None:
    records = np.zeros(4, dtype=repeated_paragraphs.PARAGRAPH)
    records["high"], records["low"], records["document"] = 7, [2, 1, 2, 1], range(4)
    run = repeated_paragraphs.write_run(tmp_path, "run", records, within_document=True)
    bucket = repeated_paragraphs.decide_bucket([run], 0, 1, tmp_path, within_document=True, most=20)
    assert np.load(run.repeats)["document"].tolist() == [2, 3]
    assert (len(np.load(bucket.repeats)), bucket.distinct, bucket.distinct_repeated) == (0, 2, 2)
