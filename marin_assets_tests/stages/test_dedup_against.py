"""A new crawl deduplicated against earlier ones."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.stages import memory_budget, paragraph_hashes
from marin_assets.stages.exact_paragraph_dedup import (
    ExactParagraphDedupConfig,
    ExactParagraphDedupStats,
    Unit,
    exact_paragraph_dedup,
)
from marin_assets.stages.paragraph_hashes import HASH, Index, index_digest, which_index, write_index
from marin_assets_tests.artifacts import in_memory
from marin_assets_tests.stages import documents, reference
from marin_assets_tests.stages.test_exact_paragraph_dedup import spans


def run(
    directory: Path,
    *parts: list[str],
    earlier: list[Artifact] | None = None,
    config: dict[str, object] | None = None,
    **more: object,
) -> tuple[Artifact, ExactParagraphDedupStats]:
    out = in_memory.writer(directory / "out")
    settings = ExactParagraphDedupConfig.model_validate({"workers": 1, **(config or {}), **more})
    stats = exact_paragraph_dedup(documents.published(directory / "in", *parts), settings, out, earlier=earlier or [])
    return in_memory.published(out, stats=stats), stats


corpora = st.lists(st.lists(reference.markdown_texts, max_size=3), min_size=1, max_size=2)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(corpora, min_size=1, max_size=2),
    corpora,
    st.sampled_from(Unit),
    st.sampled_from([0, 4]),
    st.booleans(),
    st.sampled_from([1, 2000, 2 << 30]),
)
def test_as_if_the_earlier_corpora_stood_before_the_new_one(
    old: list[list[list[str]]], new: list[list[str]], unit: Unit, minimum: int, within_document: bool, budget: int
) -> None:
    old_texts = [text for corpus in old for part in corpus for text in part]
    new_texts = [text for part in new for text in part]
    ordered = {f"0 {number:04}": text for number, text in enumerate(old_texts)}
    ordered |= {f"1 {number:04}": text for number, text in enumerate(new_texts)}
    expected = reference.repeated(ordered, unit=unit.value, minimum=minimum, within_document=within_document)
    config: dict[str, object] = {
        "unit": unit,
        "min_paragraph_chars": minimum,
        "within_document": within_document,
        "memory_budget": budget,
    }
    with TemporaryDirectory() as directory:
        earlier = [run(Path(directory, f"old-{n}"), *corpus, config=config)[0] for n, corpus in enumerate(old)]
        artifact, stats = run(Path(directory, "new"), *new, earlier=earlier, config=config)
        assert list(spans(artifact).values()) == [found for name, found in expected.items() if name.startswith("1")]
        if within_document:
            kept = stats.paragraphs_distinct - stats.paragraphs_distinct_in_earlier
            assert stats.paragraphs == kept + stats.paragraphs_duplicate


def test_what_earlier_corpora_have_is_counted_apart(tmp_path: Path) -> None:
    old, _ = run(tmp_path / "old", ["known\n\nother"])
    _, stats = run(tmp_path / "new", ["known\n\nnew\n\nnew", "known\n\nown"], earlier=[old])
    assert (stats.paragraphs, stats.paragraphs_distinct, stats.paragraphs_distinct_in_earlier) == (5, 3, 1)
    assert (stats.paragraphs_duplicate, stats.paragraphs_duplicate_of_earlier) == (3, 2)
    assert (stats.duplicate_bytes, stats.duplicate_bytes_of_earlier) == (13, 10)


def test_an_index_holds_each_paragraph_of_its_own_corpus_once(tmp_path: Path) -> None:
    old, _ = run(tmp_path / "old", ["known"])
    new, _ = run(tmp_path / "new", ["known\n\nb\n\na", "# no paragraph\n\nb"], earlier=[old])
    (path,) = new.paths("paragraph_hashes/part-*")
    assert np.load(path).dtype == HASH
    assert len(np.load(path)) == 3
    (known,) = old.paths("paragraph_hashes/part-*")
    assert set(np.load(known).tolist()) < set(np.load(path).tolist())


def test_the_index_does_not_depend_on_budget_or_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paragraph_hashes, "HASHES_PER_PART", 10)
    monkeypatch.setattr(paragraph_hashes, "_HASHES_AT_ONCE", 4)
    texts = ["\n\n".join(f"paragraph {number * step % 37}" for number in range(20)) for step in range(1, 5)]
    small, _ = run(tmp_path / "small", texts, memory_budget=3000)
    large, _ = run(tmp_path / "large", texts)
    assert small.manifest.files == large.manifest.files
    parts = [np.load(path) for path in large.paths("paragraph_hashes/part-*")]
    assert [len(part) for part in parts] == [10, 10, 10, 5]
    hashes = np.concatenate(parts)
    assert (hashes["high"][1:] > hashes["high"][:-1]).all()
    new, stats = run(tmp_path / "new", texts, ["paragraph 3\n\nunseen"], earlier=[large], memory_budget=3000)
    assert stats.paragraphs_duplicate == stats.paragraphs_duplicate_of_earlier == 81
    assert list(spans(new).values())[-1] == [(0, 11)]


def test_workers_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "BYTES_WORTH_A_WORKER", 1)
    texts = [f"p{number % 7}\n\nq{number % 5}" for number in range(40)]
    old, _ = run(tmp_path / "old", ["p3\n\nq1"])
    alone, _ = run(tmp_path / "alone", texts[:20], texts[20:], earlier=[old])
    together, _ = run(tmp_path / "two", texts[:20], texts[20:], earlier=[old], workers=2, memory_budget=5000)
    assert alone.manifest.files == together.manifest.files


def test_the_digest_depends_on_what_the_indexes_hold_alone(tmp_path: Path) -> None:
    first, _ = run(tmp_path / "first", ["a\n\nb"])
    same, _ = run(tmp_path / "same", ["b", "a\n\nb"])
    other, _ = run(tmp_path / "other", ["c"])
    assert index_digest([first]) == index_digest([same]) == index_digest([first, same])
    assert index_digest([first, other]) == index_digest([other, first])
    assert len({index_digest([]), index_digest([first]), index_digest([other]), index_digest([first, other])}) == 4


def test_an_index_of_another_unit_is_refused(tmp_path: Path) -> None:
    old, _ = run(tmp_path / "old", ["a"], unit="line")
    with pytest.raises(InputError, match=r"index.json: an index of `unit: line` cannot serve `unit: paragraph`"):
        run(tmp_path / "new", ["a"], earlier=[old])


def test_an_index_that_lacks_the_short_paragraphs_is_refused(tmp_path: Path) -> None:
    old, _ = run(tmp_path / "old", ["a\n\nlonger"], min_paragraph_chars=3)
    with pytest.raises(InputError, match="only paragraphs of 3 characters or more, but `min_paragraph_chars` is 0"):
        run(tmp_path / "new", ["a"], earlier=[old])
    _, stats = run(tmp_path / "longer", ["longer"], earlier=[old], min_paragraph_chars=4)
    assert stats.paragraphs_duplicate_of_earlier == 1


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    old, _ = run(tmp_path / "old", ["a"])
    path = old.path("paragraph_hashes/index.json")
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(InputError, match=r"index.json: `format_version`: .*; compute the artifact again"):
        run(tmp_path / "new", ["a"], earlier=[old])


def test_an_artifact_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no folder `paragraph_hashes`"):
        run(tmp_path / "new", ["a"], earlier=[documents.published(tmp_path / "documents", ["a"])])


hashes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12, unique=True).map(
    lambda pairs: np.array(sorted(pairs), dtype=HASH)
)


@settings(deadline=None, max_examples=80)
@given(hashes, st.lists(hashes, max_size=3), st.integers(1, 4))
def test_hashes_are_found_by_both_halves(
    wanted: np.ndarray[tuple[int], np.dtype[np.void]],
    stored: list[np.ndarray[tuple[int], np.dtype[np.void]]],
    at_once: int,
) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(paragraph_hashes, "_HASHES_AT_ONCE", at_once)
        patch.setattr(paragraph_hashes, "HASHES_PER_PART", 5)
        indexes = []
        for number, one in enumerate(stored):
            out = in_memory.writer(Path(directory, f"{number}"))
            np.save(out.path("source.npy"), one)
            write_index(out, [out.path("source.npy")], unit="line", min_paragraph_chars=0)
            indexes.append(Index("", len(one), in_memory.published(out).paths("*part-*")))
        known = [set(one.tolist()) for one in stored]
        expected = [next((n for n, one in enumerate(known) if pair in one), -1) for pair in wanted.tolist()]
        assert which_index(wanted, indexes, 0, 4).tolist() == expected
