"""From a flat file of tokens to what one step reads.

Belongs here: how the stream is cut into samples, and what of a sample the model may see and must predict. Sample `n`
is the tokens from `n * sequence_length` on, its targets the same tokens shifted by one. Windows do not overlap; what
remains at the end, less than a window and its last target, is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marin_assets.errors import TrainingError
from marin_assets.gpt2.loss import IGNORED
from marin_assets.gpt2.sample_order import samples_of_step


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
            rows = slice(start, start + size)
            yield Batch(
                token_ids=self.token_ids[rows].to(device),
                targets=self.targets[rows].to(device),
                positions=None if self.positions is None else self.positions[rows].to(device),
            )


@dataclass(frozen=True)
class Samples:
    """A split cut into samples.

    Raises:
        TrainingError: the split is shorter than one sample and its last target.
    """

    tokens: npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
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
        length = self.sequence_length
        windows = np.stack([self.tokens[start : start + length + 1] for start in samples * length])
        rows = torch.from_numpy(windows.astype(np.int64))  # B, T + 1
        token_ids, targets = rows[:, :-1], rows[:, 1:]
        if self.end_of_text is None:
            return Batch(token_ids, targets, None)
        ends = token_ids == self.end_of_text
        return Batch(token_ids, targets.masked_fill(ends, IGNORED), places_in_documents(ends))

    def training_samples(self, step: int, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """Numbers of the samples of a step, counted from 0."""
        return samples_of_step(step, batch_size, len(self), seed)

    def in_order(self, batch_size: int, limit: int) -> Iterator[Batch]:
        """The first `limit` samples, for evaluation."""
        count = min(limit, len(self))
        for start in range(0, count, batch_size):
            yield self.batch(np.arange(start, min(start + batch_size, count), dtype=np.int64))


def places_in_documents(ends: Tensor) -> Tensor:
    """Each token's distance from the first token of its document, or of the row: B, T.

    Args:
        ends: B, T, true at the last token of a document.
    """
    index = torch.arange(ends.shape[1]).expand_as(ends)
    starts = torch.zeros_like(index)
    starts[:, 1:] = torch.where(ends[:, :-1], index[:, 1:], 0)
    return index - starts.cummax(dim=1).values
