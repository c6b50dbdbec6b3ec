"""From a flat file of tokens to what one step reads.

Belongs here: how the stream is cut into samples, and what of a sample the model may see and must predict. Sample `n`
is the tokens from `n * sequence_length` on, its targets the same tokens shifted by one. Windows do not overlap; what
remains at the end, less than a window and its last target, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marin_assets.errors import TrainingError
from marin_assets.gpt2.loss import IGNORED
from marin_assets.gpt2.ranks import ALONE, Ranks
from marin_assets.gpt2.sample_order import samples_of_step
from marin_assets.gpt2.token_file import TokenArray


@dataclass(frozen=True)
class Batch:
    """Samples for one forward pass: B sequences of T tokens."""

    token_ids: Tensor  # B, T
    targets: Tensor  # B, T; `IGNORED` where nothing is to be predicted
    positions: Tensor | None  # B, T, each token's place in its document; None where documents are not told apart

    def target_count(self) -> int:
        """How many tokens are to be predicted."""
        return int((self.targets != IGNORED).sum())

    def micro_batches(self, size: int, device: torch.device) -> Iterator[Batch]:
        """The batch in pieces of `size` sequences, on the device."""
        for start in range(0, len(self.token_ids), size):
            yield self._rows(slice(start, start + size))._each(lambda rows: rows.to(device, non_blocking=True))

    def pinned(self) -> Batch:
        """In memory from which a GPU copies while the processor goes on."""
        return self._each(Tensor.pin_memory)

    def _rows(self, rows: slice) -> Batch:
        return self._each(lambda tensor: tensor[rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        positions = None if self.positions is None else change(self.positions)
        return Batch(change(self.token_ids), change(self.targets), positions)


@dataclass(frozen=True)
class TrainingBatch:
    """What one rank reads in one step."""

    samples: npt.NDArray[np.int64]
    """Numbers of the samples of the step, those of all ranks."""
    batch: Batch
    """This rank's share of them."""
    target_count: int
    """Tokens that the step predicts, on all ranks; at least 1."""

    def pinned(self) -> TrainingBatch:
        return TrainingBatch(self.samples, self.batch.pinned(), self.target_count)


@dataclass(frozen=True)
class Samples:
    """A split cut into samples.

    Raises:
        TrainingError: the split is shorter than one sample and its last target.
    """

    tokens: TokenArray
    sequence_length: int
    end_of_text: int | None
    """The token that ends a document; None takes the stream for one text."""
    split: str

    def __post_init__(self) -> None:
        if len(self) < 1:
            raise TrainingError(
                f"the {self.split} split of the token cache has {len(self.tokens)} tokens; a sequence of "
                f"{self.sequence_length} and the token after it need {self.sequence_length + 1}: {self._remedy()}"
            )

    def _remedy(self) -> str:
        if len(self.tokens) < 2:
            return "give the pipeline more pages"
        return f"set sequence_length to {len(self.tokens) - 1} or less, or give the pipeline more pages"

    def __len__(self) -> int:
        return max(0, len(self.tokens) - 1) // self.sequence_length

    @property
    def dropped_tokens(self) -> int:
        """Tokens at the end that are in no sample, neither as input nor as target."""
        return len(self.tokens) - 1 - len(self) * self.sequence_length

    def batch(self, samples: npt.NDArray[np.int64]) -> Batch:
        """The samples with these numbers."""
        return self._batch(self._windows(samples))

    def training_batch(self, step: int, batch_size: int, seed: int, ranks: Ranks) -> TrainingBatch:
        """This rank's share of a step, counted from 0: the same samples in the same order for any number of ranks."""
        samples = samples_of_step(step, batch_size, len(self), seed)
        windows = self._windows(samples)
        share = batch_size // ranks.count
        own = windows[ranks.rank * share : (ranks.rank + 1) * share]
        predicted = (
            windows[:, :-1].size if self.end_of_text is None else int((windows[:, :-1] != self.end_of_text).sum())
        )
        return TrainingBatch(samples, self._batch(own), max(1, predicted))

    def in_order(self, batch_size: int, limit: int, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """This rank's share of the first `limit` samples, for evaluation. All ranks get the same number of batches.

        A rank for which there are no samples left gets one that predicts nothing.
        """
        count = min(limit, len(self))
        for start in range(0, count, batch_size * ranks.count):
            own = start + ranks.rank * batch_size
            samples = np.arange(own, min(own + batch_size, count), dtype=np.int64)
            yield self.batch(samples) if len(samples) else self._nothing()

    def _nothing(self) -> Batch:
        batch = self.batch(np.zeros(1, dtype=np.int64))
        return Batch(batch.token_ids, torch.full_like(batch.targets, IGNORED), batch.positions)

    def _windows(self, samples: npt.NDArray[np.int64]) -> TokenArray:
        """Each sample and the token after it: B, T + 1."""
        length = self.sequence_length
        return cast("TokenArray", np.stack([self.tokens[start : start + length + 1] for start in samples * length]))

    def _batch(self, windows: TokenArray) -> Batch:
        # In NumPy: torch would start a second set of threads for the one that makes the next batch.
        token_ids, targets = windows[:, :-1].astype(np.int64), windows[:, 1:].astype(np.int64)
        if self.end_of_text is None:
            return Batch(torch.from_numpy(token_ids), torch.from_numpy(targets), None)
        ends = token_ids == self.end_of_text
        targets[ends] = IGNORED
        places = places_in_documents(torch.from_numpy(ends))
        return Batch(torch.from_numpy(token_ids), torch.from_numpy(targets), places)


def places_in_documents(ends: Tensor) -> Tensor:
    """Each token's distance from the first token of its document, or of the row: B, T.

    Args:
        ends: B, T, true at the last token of a document.
    """
    index = np.broadcast_to(np.arange(ends.shape[1]), tuple(ends.shape))
    starts = np.zeros_like(index)
    starts[:, 1:] = np.where(ends[:, :-1].numpy(), index[:, 1:], 0)
    return torch.from_numpy(index - np.maximum.accumulate(starts, axis=1))
