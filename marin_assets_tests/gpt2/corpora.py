"""Small corpora made in memory, through the same protocol that a token cache is read by."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from marin_assets.gpt2.corpus import Corpus

VOCABULARY_SIZE = 257
END_OF_TEXT = "<|endoftext|>"
END_OF_TEXT_ID = 256


@dataclass(frozen=True)
class TokensInMemory:
    """A split as an array, handed out in small chunks."""

    ids: npt.NDArray[np.int32]

    @property
    def total_tokens(self) -> int:
        return len(self.ids)

    def token_chunks(self) -> Iterator[npt.NDArray[np.int32]]:
        for start in range(0, len(self.ids), 1000):
            yield self.ids[start : start + 1000]


def byte_tokenizer(path: Path) -> Path:
    """A tokenizer of one token for each byte, and the end of a text; made unless it is there."""
    if path.exists():
        return path
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={symbol: number for number, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, special=True)])
    tokenizer.save(str(path))
    return path


def words(count: int, seed: int = 0) -> str:
    """Text that a model can learn: words of a small list, drawn at random."""
    generator = random.Random(seed)
    vocabulary = [
        "the",
        "a",
        "river",
        "mountain",
        "sees",
        "finds",
        "old",
        "green",
        "and",
        "of",
        "small",
        "house",
        "under",
        "over",
    ]
    return " ".join(generator.choice(vocabulary) for _ in range(count))


def corpus(
    directory: Path,
    *,
    documents: Sequence[str] | None = None,
    validation: Sequence[str] | None = None,
) -> Corpus:
    """A corpus of these texts, each followed by the end of a text."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer_path = byte_tokenizer(directory / "tokenizer.json")
    tokenizer = Tokenizer.from_file(str(tokenizer_path))

    def split(texts: Sequence[str]) -> TokensInMemory:
        ids = [token for text in texts for token in [*tokenizer.encode(text).ids, END_OF_TEXT_ID]]
        return TokensInMemory(np.array(ids, dtype=np.int32))

    train = split(documents if documents is not None else [words(40, seed) for seed in range(12)])
    held_out = split(validation if validation is not None else [words(40, seed) for seed in range(100, 102)])
    return Corpus(
        train=train,
        validation=held_out,
        tokenizer_path=tokenizer_path,
        vocabulary_size=VOCABULARY_SIZE,
        end_of_text=END_OF_TEXT,
        end_of_text_id=END_OF_TEXT_ID,
        validation_bytes_per_token=1.0,
        digest=xxhash.xxh3_64_hexdigest(train.ids.tobytes() + held_out.ids.tobytes()),
    )


def uneven_corpus(directory: Path) -> Corpus:
    """Documents of many lengths, so that the parts of a batch have different numbers of tokens to predict."""
    return corpus(directory, documents=[words(count, count) for count in range(3, 60)])
