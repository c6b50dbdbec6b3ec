"""In what order samples are trained: a pure function of (seed, epoch, position), so no order is ever stored.

Belongs here: a keyed permutation of the samples of an epoch. It is a Feistel network, which permutes the next power
of four, walked along its cycles until it lands among the samples (Black & Rogaway 2002).
"""

import numpy as np
import numpy.typing as npt
import xxhash

_ROUNDS = 6


def samples_of_step(step: int, batch_size: int, sample_count: int, seed: int) -> npt.NDArray[np.int64]:
    """The samples of a step, counted from 0. Each epoch holds each sample once; a batch may span two epochs."""
    places = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)
    epochs, positions = np.divmod(places, sample_count)
    samples = np.empty(batch_size, dtype=np.int64)
    for epoch in np.unique(epochs):
        chosen = epochs == epoch
        samples[chosen] = permuted(positions[chosen], sample_count, seed, int(epoch))
    return samples


def permuted(positions: npt.NDArray[np.int64], length: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Where a permutation of `range(length)` sends each of the positions, all below `length`."""
    half_bits = max(1, ((length - 1).bit_length() + 1) // 2)
    keys = [np.uint64(xxhash.xxh3_64_intdigest(f"{seed}:{epoch}:{turn}".encode())) for turn in range(_ROUNDS)]
    images = _feistel(positions.astype(np.uint64), half_bits, keys)
    while (outside := images >= length).any():
        images[outside] = _feistel(images[outside], half_bits, keys)
    return images.astype(np.int64)


def _feistel(values: npt.NDArray[np.uint64], half_bits: int, keys: list[np.uint64]) -> npt.NDArray[np.uint64]:
    """A permutation of `range(4 ** half_bits)`."""
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right ^ key) & mask)
    return (left << shift) | right


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer (Steele, Lea & Flood 2014): every input bit moves every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
