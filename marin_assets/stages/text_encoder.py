"""Text to token ids, with a `tokenizer.json`.

Belongs here: the loaded tokenizer, made so that text never yields a special token, and the one function that encodes
a batch. Does not: documents, splits, files of tokens.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from marin_assets.errors import InputError
from marin_assets.stages.text_pieces import text_pieces

if TYPE_CHECKING:
    from pydantic import JsonValue
    from tokenizers import Tokenizer

EOS_TOKENS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[EOS]")
"""Names under which tokenizers keep their end-of-sequence token; the first that a tokenizer has is taken."""

PIECE_CHARACTERS = 1 << 18
"""A longer text is encoded in pieces where the tokenizer allows: at up to 200 bytes of memory a character."""

# Bytes that UTF-8 never has.
_NOT_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


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
    vocabulary: Vocabulary
    cuts_long_texts: bool
    """Whether the tokenizer splits text exactly as `text_pieces` relies on."""

    @classmethod
    def load(cls, path: Path) -> TextEncoder:
        """Read a `tokenizer.json`.

        Raises:
            InputError: the file is not JSON, not a tokenizer, has no end-of-sequence token, or would lose characters.
        """
        from tokenizers import Tokenizer

        content = path.read_bytes()
        description = _description(path, content)
        if _make_text_plain(description):
            content = json.dumps(description).encode()
        try:
            tokenizer = Tokenizer.from_buffer(content)
        except Exception as error:  # the library raises nothing narrower
            raise InputError(
                f"{path}: not a tokenizer of the Hugging Face `tokenizers` library: {error}. Give the "
                "`tokenizer.json` that `Tokenizer.save` or `PreTrainedTokenizerFast.save_pretrained` writes."
            ) from error
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = tokenizer.get_vocab(with_added_tokens=True)
        is_gpt2_byte_level = _is_gpt2_byte_level(description)
        if is_gpt2_byte_level:
            _check_byte_alphabet(path, description, ids)
        eos_token = _eos_token(path, ids)
        return cls(
            tokenizer=tokenizer,
            vocabulary=Vocabulary(max(ids.values()) + 1, eos_token, ids[eos_token]),
            cuts_long_texts=is_gpt2_byte_level and all(token.get("special") for token in _added_tokens(description)),
        )

    def pieces(self, text: str, limit: int = PIECE_CHARACTERS) -> Iterator[str]:
        """The text in pieces whose tokens, joined, are those of the whole text; the whole text if that is unsure."""
        if self.cuts_long_texts and len(text) > limit:
            return text_pieces(text, limit)
        return iter((text,))

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        """The token ids of each text, without any that the tokenizer would add at its ends."""
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]


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


def _description(path: Path, content: bytes) -> dict[str, JsonValue]:
    try:
        description = json.loads(content)
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}. Give the `tokenizer.json` of a tokenizer.") from error
    if not isinstance(description, dict) or not isinstance(description.get("model"), dict):
        raise InputError(
            f"{path}: JSON, but not a tokenizer: it has no `model`. Give the `tokenizer.json` of a tokenizer, "
            "not its `vocab.json` or `tokenizer_config.json`."
        )
    return description


def _make_text_plain(description: dict[str, JsonValue]) -> bool:
    """Mark the end of sequence as special, which encoding then ignores in text, and switch off BPE dropout.

    Returns:
        Whether that changed the description.
    """
    eos_tokens = [token for token in _added_tokens(description) if token.get("content") in EOS_TOKENS]
    to_mark = [token for token in eos_tokens if not token.get("special")]
    for token in to_mark:
        token["special"] = True
    model = description["model"]
    drops = isinstance(model, dict) and model.pop("dropout", None) is not None
    return bool(to_mark) or drops


def _added_tokens(description: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    tokens = description.get("added_tokens")
    return [token for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []


def _is_gpt2_byte_level(description: dict[str, JsonValue]) -> bool:
    """Whether text goes unchanged through GPT-2's expression, then byte by byte."""
    pre_tokenizer = description.get("pre_tokenizer")
    return (
        description.get("normalizer") is None
        and isinstance(pre_tokenizer, dict)
        and pre_tokenizer.get("type") == "ByteLevel"
        and pre_tokenizer.get("add_prefix_space") is False
        and pre_tokenizer.get("use_regex", True) is True
    )


def _check_byte_alphabet(path: Path, description: dict[str, JsonValue], ids: dict[str, int]) -> None:
    """Refuse a byte-level BPE that has no token for some byte: it would drop that byte without a word."""
    model = description["model"]
    if not isinstance(model, dict) or model.get("type") != "BPE" or model.get("unk_token") is not None:
        return
    missing = [byte for byte, symbol in _byte_symbols().items() if symbol not in ids and byte not in _NOT_IN_UTF8]
    if missing:
        raise InputError(
            f"{path}: the vocabulary has no token for {len(missing)} of the bytes that text consists of, the first "
            f"0x{missing[0]:02x}: characters would be lost. Train it with `initial_alphabet=ByteLevel.alphabet()`."
        )


def _byte_symbols() -> dict[int, str]:
    """The character that stands for each byte in GPT-2's vocabulary: itself if printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + n) for n, byte in enumerate(others)}


def _eos_token(path: Path, ids: dict[str, int]) -> str:
    for token in EOS_TOKENS:
        if token in ids:
            return token
    raise InputError(
        f"{path}: the tokenizer has none of the end-of-sequence tokens {', '.join(EOS_TOKENS)}, and each document "
        "must end with one. Add one with `Tokenizer.add_special_tokens` and save the tokenizer again."
    )
