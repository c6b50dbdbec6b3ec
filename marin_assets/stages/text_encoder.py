"""Text to token ids, with a `tokenizer.json`.

Belongs here: the loaded tokenizer, its vocabulary, and the one function that encodes a batch. Does not: documents,
splits, files of tokens; the libraries that encode (`huggingface_engine`, `gigatoken_engine`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from marin_assets.errors import InputError
from marin_assets.stages.gigatoken_engine import GigatokenEngine
from marin_assets.stages.huggingface_engine import HuggingFaceEngine
from marin_assets.stages.long_runs import LongRunEncoder
from marin_assets.stages.text_pieces import text_pieces
from marin_assets.stages.token_batch import Engine, TokenBatch
from marin_assets.stages.tokenizer_description import EOS_TOKENS, TokenizerDescription

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE_CHARACTERS = 1 << 18
"""A longer text is encoded in pieces where the tokenizer allows: at up to 200 bytes of memory a character."""


class EngineName(StrEnum):
    """The libraries that encode."""

    huggingface = "huggingface"
    gigatoken = "gigatoken"


@dataclass(frozen=True)
class Vocabulary:
    """What a trainer must know of a tokenizer."""

    vocabulary_size: int
    """One more than the largest token id."""
    eos_token: str
    eos_id: int


@dataclass(frozen=True)
class TextEncoder:
    """Encodes text. Its methods may be called from several threads at once."""

    tokenizer: Tokenizer
    """The reference's, which also decodes."""
    engine: Engine
    vocabulary: Vocabulary
    cuts_long_texts: bool
    """Whether the tokenizer splits text exactly as `text_pieces` relies on."""
    long_runs: LongRunEncoder | None
    """For what `text_pieces` cannot cut, where the tokenizer is one that this relies on."""

    @classmethod
    def load(cls, path: Path, engine_name: EngineName = EngineName.huggingface) -> TextEncoder:
        """Read a `tokenizer.json`.

        Raises:
            InputError: the file is not JSON, not a tokenizer, has no end-of-sequence token, or would lose characters.
        """
        description = TokenizerDescription.read(path)
        reference = HuggingFaceEngine.load(path, description)
        tokenizer = reference.tokenizer
        ids = tokenizer.get_vocab(with_added_tokens=True)
        if description.is_gpt2_byte_level:
            description.check_byte_alphabet(path, ids)
        engine = reference if engine_name is EngineName.huggingface else GigatokenEngine(description)
        eos_token = _eos_token(path, ids)
        cuts = description.is_gpt2_byte_level and not description.has_plain_added_tokens
        return cls(
            tokenizer=tokenizer,
            engine=engine,
            vocabulary=Vocabulary(max(ids.values()) + 1, eos_token, ids[eos_token]),
            cuts_long_texts=cuts,
            long_runs=_long_runs(engine, tokenizer, ids) if cuts and description.only_merges_decide else None,
        )

    def pieces(self, text: str, limit: int = PIECE_CHARACTERS) -> Iterator[str]:
        """The text in pieces whose tokens, joined, are those of the whole text; the whole text if that is unsure."""
        if self.cuts_long_texts and len(text) > limit:
            return text_pieces(text, limit)
        return iter((text,))

    def encode_batch(self, texts: Sequence[str]) -> TokenBatch:
        """The token ids of each text, without any that the tokenizer would add at its ends."""
        if self.long_runs is None or all(len(text) <= self.long_runs.limit for text in texts):
            return self.engine.encode_batch(texts)
        return TokenBatch.of_arrays([self.long_runs.token_ids(text) for text in texts])


@contextmanager
def threads_are_ours() -> Iterator[None]:
    """While it lasts, `tokenizers` starts no threads of its own: we know how many this process may have.

    A pool of its own would also make it warn at every later fork of the process.
    """
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _long_runs(engine: Engine, tokenizer: Tokenizer, ids: dict[str, int]) -> LongRunEncoder:
    token_bytes = np.zeros(max(ids.values()) + 1, dtype=np.int64)
    for token, token_id in ids.items():
        token_bytes[token_id] = len(token)  # a character of a byte-level vocabulary stands for a byte

    def encode(text: str) -> npt.NDArray[np.int32]:
        return engine.encode_batch([text]).token_ids

    def pre_token_starts(text: str) -> list[int]:
        return [start for _, (start, _) in tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    return LongRunEncoder(encode, pre_token_starts, token_bytes, PIECE_CHARACTERS)


def _eos_token(path: Path, ids: dict[str, int]) -> str:
    for token in EOS_TOKENS:
        if token in ids:
            return token
    raise InputError(
        f"{path}: the tokenizer has none of the end-of-sequence tokens {', '.join(EOS_TOKENS)}, and each document "
        "must end with one. Add one with `Tokenizer.add_special_tokens` and save the tokenizer again."
    )
