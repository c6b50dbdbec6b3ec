"""Encoding with the gigatoken library, some thirty times faster than the reference.

Belongs here: how gigatoken is loaded, kept small and called. Does not: whether its ids may be trusted
(`engine_check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from marin_assets.stages.token_batch import TokenBatch
from marin_assets.stages.tokenizer_description import TokenizerDescription

if TYPE_CHECKING:
    from gigatoken import Tokenizer

# gigatoken 0.10 remembers every word that it has seen, for good: in the worst case, text without repetition, that is
# eight bytes for each of text. A new instance starts empty; one for 64 MB of text costs no time that can be measured.
_RENEW_AFTER_CHARACTERS = 64_000_000


@dataclass
class _Instance:
    tokenizer: Tokenizer
    characters: int = 0
    """Encoded so far."""


class GigatokenEngine:
    """Encodes with gigatoken, in the calling thread.

    Each thread that calls at the same time gets an instance of its own: sharing one costs both half again.
    """

    def __init__(self, description: TokenizerDescription) -> None:
        """Load the tokenizer; special tokens in text are text.

        Raises:
            Exception: gigatoken is not installed, or cannot load it.
        """
        self._content = description.json_without_specials()
        self._idle: SimpleQueue[_Instance] = SimpleQueue()
        self._idle.put(self._new_instance())

    def encode_batch(self, texts: Sequence[str]) -> TokenBatch:
        """The token ids of each text, without any that the tokenizer would add at its ends."""
        if not texts:
            return TokenBatch.of_lists([])
        try:
            instance = self._idle.get_nowait()
        except Empty:
            instance = self._new_instance()
        # `parallel=False`: we know how many threads this process may have.
        layout = instance.tokenizer.encode_batch(list(texts), parallel=False).layout
        instance.characters += sum(map(len, texts))
        if instance.characters < _RENEW_AFTER_CHARACTERS:
            self._idle.put(instance)
        ends = np.asarray(layout.offsets.data, dtype=np.int64)[1:]
        return TokenBatch(np.asarray(layout.content.data).astype(np.int32), ends)

    def _new_instance(self) -> _Instance:
        from gigatoken import Tokenizer

        return _Instance(Tokenizer.from_json(self._content))
