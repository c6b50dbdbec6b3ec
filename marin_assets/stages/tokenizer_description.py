"""The content of a `tokenizer.json`, as far as we rely on it.

Belongs here: what the description says, and the changes to it that make special tokens in text be text. Does not: the
libraries that encode by it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from marin_assets.errors import InputError

EOS_TOKENS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[EOS]")
"""Names under which tokenizers keep their end-of-sequence token; the first that a tokenizer has is taken."""

# Bytes that UTF-8 never has.
_NOT_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


@dataclass(frozen=True)
class TokenizerDescription:
    """A `tokenizer.json` in which the end of sequence is special, and nothing is left to chance."""

    content: dict[str, JsonValue]
    model: dict[str, JsonValue]

    @classmethod
    def read(cls, path: Path) -> TokenizerDescription:
        """Read the file. The end of sequence counts as special even where it does not say so; dropout is left out.

        Raises:
            InputError: the file is not JSON, or says nothing of a model.
        """
        try:
            content = json.loads(path.read_bytes())
        except ValueError as error:
            raise InputError(f"{path}: not JSON: {error}. Give the `tokenizer.json` of a tokenizer.") from error
        if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
            raise InputError(
                f"{path}: JSON, but not a tokenizer: it has no `model`. Give the `tokenizer.json` of a tokenizer, "
                "not its `vocab.json` or `tokenizer_config.json`."
            )
        model = {name: value for name, value in content["model"].items() if name != "dropout"}
        description = cls({**content, "model": model}, model)
        for token in description._added_tokens():
            if token.get("content") in EOS_TOKENS:
                token["special"] = True
        return description

    def json(self) -> bytes:
        """The changed file."""
        return json.dumps(self.content).encode()

    def json_without_specials(self) -> bytes:
        """The same without special tokens, for a library that would find them in text."""
        plain: list[JsonValue] = [token for token in self._added_tokens() if not token.get("special")]
        return json.dumps({**self.content, "added_tokens": plain, "truncation": None, "padding": None}).encode()

    @property
    def has_plain_added_tokens(self) -> bool:
        """Whether tokens that are not special are looked for in text before anything else."""
        return not all(token.get("special") for token in self._added_tokens())

    @property
    def is_gpt2_byte_level(self) -> bool:
        """Whether text goes unchanged through GPT-2's expression, then byte by byte."""
        pre_tokenizer = self.content.get("pre_tokenizer")
        return (
            self.content.get("normalizer") is None
            and isinstance(pre_tokenizer, dict)
            and pre_tokenizer.get("type") == "ByteLevel"
            and pre_tokenizer.get("add_prefix_space") is False
            and pre_tokenizer.get("use_regex", True) is True
        )

    @property
    def only_merges_decide(self) -> bool:
        """Whether the model is byte-pair encoding as published: a word's tokens are what its merges leave."""
        others = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback")
        return self.model.get("type") == "BPE" and not any(self.model.get(name) for name in others)

    def check_byte_alphabet(self, path: Path, ids: dict[str, int]) -> None:
        """Refuse a byte-level BPE that has no token for some byte: it would drop that byte without a word.

        Raises:
            InputError: it is one.
        """
        if self.model.get("type") != "BPE" or self.model.get("unk_token") is not None:
            return
        missing = [byte for byte, symbol in _byte_symbols().items() if symbol not in ids and byte not in _NOT_IN_UTF8]
        if missing:
            raise InputError(
                f"{path}: the vocabulary has no token for {len(missing)} of the bytes that text consists of, the first "
                f"0x{missing[0]:02x}: characters would be lost. Train it with "
                "`initial_alphabet=ByteLevel.alphabet()`."
            )

    def _added_tokens(self) -> list[dict[str, JsonValue]]:
        tokens = self.content.get("added_tokens")
        return [token for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []


def _byte_symbols() -> dict[int, str]:
    """The character that stands for each byte in GPT-2's vocabulary: itself if printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + n) for n, byte in enumerate(others)}
