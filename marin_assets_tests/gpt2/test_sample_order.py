"""Sample order: a permutation for each epoch, known from (seed, epoch, step) alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.gpt2.sample_order import permuted, samples_of_step


@settings(deadline=None, max_examples=60)
@given(length=st.integers(1, 3000), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 1000))
def test_an_epoch_holds_each_sample_once(length: int, seed: int, epoch: int) -> None:
    images = permuted(np.arange(length), length, seed, epoch)
    assert sorted(images.tolist()) == list(range(length))


@settings(deadline=None, max_examples=60)
@given(
    sample_count=st.integers(1, 50), batch_size=st.integers(1, 20), steps=st.integers(1, 20), seed=st.integers(0, 99)
)
def test_steps_read_epoch_after_epoch_without_gap_or_repeat(
    sample_count: int, batch_size: int, steps: int, seed: int
) -> None:
    read = np.concatenate([samples_of_step(step, batch_size, sample_count, seed) for step in range(steps)])
    for start in range(0, len(read) - sample_count + 1, sample_count):
        assert sorted(read[start : start + sample_count].tolist()) == list(range(sample_count))


def test_epochs_and_seeds_differ_in_order() -> None:
    order = permuted(np.arange(1000), 1000, 0, 0).tolist()
    assert order != list(range(1000))
    assert order != permuted(np.arange(1000), 1000, 0, 1).tolist()
    assert order != permuted(np.arange(1000), 1000, 1, 0).tolist()


def test_neighbours_in_order_are_not_neighbours_in_the_corpus() -> None:
    order = permuted(np.arange(10_000), 10_000, 0, 0)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05


def test_a_corpus_of_billions_of_samples_needs_no_memory() -> None:
    length = 3_000_000_001
    images = permuted(np.array([0, 1, length - 1]), length, 0, 0)
    assert ((images >= 0) & (images < length)).all()
    assert len(set(images.tolist())) == 3
