"""Samples: how the stream is cut, what may be seen, what must be predicted."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.errors import TrainingError
from marin_assets.gpt2.batches import Samples, places_in_documents
from marin_assets.gpt2.loss import IGNORED
from marin_assets.gpt2.model import document_mask
from marin_assets.gpt2.ranks import Ranks


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


@settings(deadline=None, max_examples=50)
@given(step=st.integers(0, 50), ranks=st.sampled_from([1, 2, 3, 4, 6, 12]), blocked=st.booleans())
def test_ranks_share_the_samples_of_a_step_in_order(step: int, ranks: int, blocked: bool) -> None:
    stream = np.random.default_rng(step).integers(0, 5, 400).astype(np.uint16)
    samples = Samples(stream, 7, 0 if blocked else None, "train")
    whole = samples.training_batch(step, 12, 3, Ranks())
    shares = [samples.training_batch(step, 12, 3, Ranks(rank, ranks)) for rank in range(ranks)]

    assert torch.equal(torch.cat([share.batch.token_ids for share in shares]), whole.batch.token_ids)
    assert torch.equal(torch.cat([share.batch.targets for share in shares]), whole.batch.targets)
    assert {share.target_count for share in shares} == {whole.batch.target_count()}


@settings(deadline=None, max_examples=50)
@given(limit=st.integers(1, 60), at_once=st.integers(1, 9), ranks=st.integers(1, 5))
def test_ranks_share_an_evaluation_and_stay_in_step(limit: int, at_once: int, ranks: int) -> None:
    stream = np.random.default_rng(limit).integers(0, 5, 200).astype(np.uint16)
    samples = Samples(stream, 4, 0, "validation")
    whole = list(samples.in_order(at_once, limit))
    shares = [list(samples.in_order(at_once, limit, Ranks(rank, ranks))) for rank in range(ranks)]

    assert sum(len(batch.token_ids) for batch in whole) == min(limit, len(samples))
    assert len({len(share) for share in shares}) == 1
    assert sum(batch.target_count() for share in shares for batch in share) == sum(
        batch.target_count() for batch in whole
    )
