"""Token ids of some texts, as all that encodes hands them on.

Belongs here: this one shape, and what makes it. Does not: encoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class TokenBatch:
    """The token ids of several texts, one after the other."""

    token_ids: npt.NDArray[np.int32]
    """Flat."""
    ends: npt.NDArray[np.int64]
    """For each text, the position in `token_ids` after its last token."""

    @classmethod
    def of_lists(cls, texts: Sequence[Sequence[int]]) -> Self:
        """From a list of ids for each text."""
        ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        return cls(np.fromiter(chain.from_iterable(texts), dtype=np.int32, count=total), ends)

    @classmethod
    def of_arrays(cls, texts: Sequence[npt.NDArray[np.int32]]) -> Self:
        """From an array of ids for each text."""
        ends = np.cumsum([len(ids) for ids in texts], dtype=np.int64)
        return cls(np.concatenate([np.empty(0, dtype=np.int32), *texts]), ends)

    def rows(self) -> list[npt.NDArray[np.int32]]:
        """The ids of each text."""
        return np.split(self.token_ids, self.ends[:-1]) if len(self.ends) else []


class Engine(Protocol):
    """A library that encodes. It may be called from several threads at once."""

    def encode_batch(self, texts: Sequence[str]) -> TokenBatch:
        """The token ids of each text, without any that the tokenizer would add at its ends."""
        ...
