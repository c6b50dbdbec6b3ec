"""What the trainer needs of a token cache: two splits, a tokenizer, and a few numbers about them.

Belongs here: the one place that knows how the `token_cache` artifact is laid out. The rest of the trainer reads
`Corpus`, which anything that has tokens can make.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from marin_assets.errors import InputError
from marin_assets.gpt2.token_file import FlatTokens

END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True)
class Corpus:
    """Tokens to train on and to evaluate on."""

    train: FlatTokens
    validation: FlatTokens
    tokenizer_path: Path
    vocabulary_size: int
    end_of_text: str
    end_of_text_id: int
    validation_bytes_per_token: float | None
    """Bytes of UTF-8 text per token of the validation split; None where unknown."""
    digest: str
    """Two corpora of one digest hold the same tokens."""

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self.tokenizer_path))


def read_tokenizer(path: Path, end_of_text: str = END_OF_TEXT) -> tuple[int, int]:
    """Vocabulary size and the id of the end of a text.

    Raises:
        InputError: the tokenizer has no such token.
    """
    tokenizer = Tokenizer.from_file(str(path))
    end_of_text_id = tokenizer.token_to_id(end_of_text)
    if end_of_text_id is None:
        raise InputError(f"tokenizer {path} has no token {end_of_text!r}; a GPT-2 needs one to end a document")
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    return max(vocabulary.values()) + 1, end_of_text_id
