"""A byte-level BPE of 400 tokens, trained on a few sentences."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.stages.tokenizer_file import TokenizerFile

EOS = "<|endoftext|>"
SENTENCES = (
    "The cache keeps what the pages said, and the model reads it again.",
    "It's the reader who'll decide; we're here since 1999, they've said.",
    "Über den Wolken fließt ein Fluß. Где вода, там и жизнь. 水は流れる、山は動かない。",
    "def main() -> None:\n    return end_of_text(1234)\n",
)


@cache
def small_tokenizer_json() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[EOS, "<|note|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 4, trainer)
    text: str = tokenizer.to_str()
    return text


def description() -> dict[str, Any]:
    """The tokenizer's JSON, to be changed and saved."""
    loaded: dict[str, Any] = json.loads(small_tokenizer_json())
    return loaded


def save(path: Path, changed: dict[str, Any] | None = None) -> TokenizerFile:
    """Write the tokenizer, or a changed description of it."""
    path.write_text(json.dumps(changed) if changed is not None else small_tokenizer_json(), encoding="utf-8")
    return TokenizerFile(path, file_digest(path), path.stem)


def plain_ids(text: str) -> list[int]:
    """What the library gives for a text whose special tokens are text, encoded whole."""
    tokenizer = Tokenizer.from_str(small_tokenizer_json())
    tokenizer.encode_special_tokens = True
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def decode(ids: list[int]) -> str:
    text: str = Tokenizer.from_str(small_tokenizer_json()).decode(ids, skip_special_tokens=False)
    return text
