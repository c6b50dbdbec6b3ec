"""Encoding with Hugging Face's `tokenizers`: the reference.

Belongs here: how the library is loaded and called. Does not: what a tokenizer's description says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from marin_assets.errors import InputError
from marin_assets.stages.token_batch import TokenBatch
from marin_assets.stages.tokenizer_description import TokenizerDescription

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class HuggingFaceEngine:
    """Encodes with `tokenizers`."""

    tokenizer: Tokenizer

    @classmethod
    def load(cls, path: Path, description: TokenizerDescription) -> HuggingFaceEngine:
        """Make the tokenizer; special tokens in text are text.

        Args:
            path: for messages.

        Raises:
            InputError: the library does not take the description for a tokenizer.
        """
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_buffer(description.json())
        except Exception as error:  # the library raises nothing narrower
            raise InputError(
                f"{path}: not a tokenizer of the Hugging Face `tokenizers` library: {error}. Give the "
                "`tokenizer.json` that `Tokenizer.save` or `PreTrainedTokenizerFast.save_pretrained` writes."
            ) from error
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer)

    def encode_batch(self, texts: Sequence[str]) -> TokenBatch:
        """The token ids of each text, without any that the tokenizer would add at its ends."""
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return TokenBatch.of_lists([encoding.ids for encoding in encodings])
