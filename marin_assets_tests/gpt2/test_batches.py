"""Samples: how the stream is cut, what may be seen, what must be predicted."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.errors import InputError, TrainingError
from marin_assets.gpt2.batches import Samples, places_in_documents
from marin_assets.gpt2.loss import IGNORED
from marin_assets.gpt2.model import document_mask
from marin_assets.gpt2.token_file import open_token_file
from marin_assets_tests.gpt2.corpora import TokensInMemory


@settings(deadline=None, max_examples=50)
@given(tokens=st.integers(2, 200), length=st.integers(1, 30))
def test_windows_cover_the_stream_and_targets_are_shifted_by_one(tokens: int, length: int) -> None:
    if tokens <= length:
        return
    stream = np.arange(tokens, dtype=np.uint16)
    samples = Samples(stream, length, None, "train")
    batch = samples.batch(np.arange(len(samples)))
    assert len(samples) == (tokens - 1) // length
    assert batch.token_ids.flatten().tolist() == list(range(len(samples) * length))
    assert torch.equal(batch.targets, batch.token_ids + 1)
    assert samples.dropped_tokens == tokens - 1 - len(samples) * length


def plain_places(ends: list[bool]) -> list[int]:
    places, place = [], 0
    for end in ends:
        places.append(place)
        place = 0 if end else place + 1
    return places


@settings(deadline=None, max_examples=50)
@given(ends=st.lists(st.booleans(), min_size=1, max_size=20))
def test_places_and_mask_equal_a_plain_reference(ends: list[bool]) -> None:
    positions = places_in_documents(torch.tensor([ends]))
    assert positions[0].tolist() == plain_places(ends)
    document = np.cumsum([0, *ends[:-1]])
    expected = [[j <= i and document[i] == document[j] for j in range(len(ends))] for i in range(len(ends))]
    assert document_mask(positions)[0, 0].tolist() == expected


def test_no_document_predicts_the_first_token_of_the_next() -> None:
    samples = Samples(np.array([1, 2, 9, 3, 4, 9, 5], dtype=np.uint16), 6, 9, "train")
    batch = samples.batch(np.array([0]))
    assert batch.targets.tolist() == [[2, 9, IGNORED, 4, 9, IGNORED]]
    assert batch.target_count() == 4


def test_micro_batches_are_the_batch_in_pieces() -> None:
    samples = Samples(np.arange(41, dtype=np.uint16), 10, 7, "train")
    batch = samples.batch(np.arange(4))
    pieces = list(batch.micro_batches(2, torch.device("cpu")))
    assert torch.equal(torch.cat([piece.token_ids for piece in pieces]), batch.token_ids)
    assert torch.equal(torch.cat([piece.targets for piece in pieces]), batch.targets)


def test_too_short_a_split_is_refused_with_the_remedy() -> None:
    with pytest.raises(TrainingError) as caught:
        Samples(np.arange(64, dtype=np.uint16), 64, None, "train")
    assert "the train split of the token cache has 64 tokens" in str(caught.value)
    assert "set sequence_length to 63 or less, or give the pipeline more pages" in str(caught.value)
    with pytest.raises(TrainingError, match="give the pipeline more pages"):
        Samples(np.arange(0, dtype=np.uint16), 64, None, "train")


@pytest.mark.parametrize(("vocabulary_size", "bytes_a_token"), [(65_536, 2), (65_537, 4)])
def test_the_flat_file_holds_the_tokens_and_is_made_once(
    tmp_path: Path, vocabulary_size: int, bytes_a_token: int
) -> None:
    ids = np.random.default_rng(0).integers(0, vocabulary_size, 5000).astype(np.int32)
    path = tmp_path / "train"
    mapped = open_token_file(TokensInMemory(ids), path, vocabulary_size=vocabulary_size, split="train")
    assert mapped.tolist() == ids.tolist()
    assert path.stat().st_size == 5000 * bytes_a_token

    made = path.stat().st_mtime_ns
    open_token_file(TokensInMemory(ids), path, vocabulary_size=vocabulary_size, split="train")
    assert path.stat().st_mtime_ns == made

    path.write_bytes(b"half")
    assert len(open_token_file(TokensInMemory(ids), path, vocabulary_size=vocabulary_size, split="train")) == 5000


def test_an_empty_split_is_an_empty_array(tmp_path: Path) -> None:
    empty = TokensInMemory(np.empty(0, dtype=np.int32))
    assert len(open_token_file(empty, tmp_path / "validation", vocabulary_size=10, split="validation")) == 0


@pytest.mark.parametrize("wrong", [-1, 10])
def test_an_id_outside_the_vocabulary_is_refused_by_its_place(tmp_path: Path, wrong: int) -> None:
    ids = np.zeros(2500, dtype=np.int32)
    ids[2100] = wrong
    with pytest.raises(InputError) as caught:
        open_token_file(TokensInMemory(ids), tmp_path / "train", vocabulary_size=10, split="train")
    assert f"token 2100 of the train split is {wrong}, outside the vocabulary of 10" in str(caught.value)
    assert not (tmp_path / "train").exists()


def test_a_cache_that_holds_less_than_it_says_is_refused(tmp_path: Path) -> None:
    class Short(TokensInMemory):
        @property
        def total_tokens(self) -> int:
            return 7

    with pytest.raises(InputError, match="holds 5 tokens where its ledger says 7"):
        open_token_file(Short(np.zeros(5, dtype=np.int32)), tmp_path / "train", vocabulary_size=10, split="train")
