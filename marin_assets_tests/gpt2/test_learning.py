"""It learns: real text, held-out chapters, and what simple statistics of words would reach."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.corpus import Corpus
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.trainer import train_on
from marin_assets.stages.text_encoder import TextEncoder
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import TokensInMemory
from marin_assets_tests.gpt2.real_text import chapters
from marin_assets_tests.project import TOKENIZER

HELD_OUT_EVERY = 20
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bible:
    """Tokens of a book whose every twentieth chapter is held out, and baselines on these, in nats per token."""

    train: Ids
    held_out: Ids
    held_out_bytes: int
    encoder: TextEncoder

    @cached_property
    def corpus(self) -> Corpus:
        vocabulary = self.encoder.vocabulary
        return Corpus(
            train=TokensInMemory(self.train.astype(np.int32)),
            validation=TokensInMemory(self.held_out.astype(np.int32)),
            tokenizer_path=TOKENIZER,
            vocabulary_size=vocabulary.vocabulary_size,
            end_of_text=vocabulary.eos_token,
            end_of_text_id=vocabulary.eos_id,
            validation_bytes_per_token=self.held_out_bytes / len(self.held_out),
            digest="bible",
        )

    @cached_property
    def unigram_entropy(self) -> float:
        """Of the held-out tokens' own frequencies: no model without context can do better on them."""
        shares = np.bincount(self.held_out) / len(self.held_out)
        shares = shares[shares > 0]
        return float(-(shares * np.log(shares)).sum())

    @cached_property
    def bigram_loss(self) -> float:
        """Of counts of pairs, smoothed by the unigram, with the weight of it that suits the held-out text best."""
        size = self.encoder.vocabulary.vocabulary_size
        counts = np.bincount(self.train, minlength=size)
        unigram = (counts + 0.1) / (len(self.train) + 0.1 * size)
        pairs = Counter((self.train[:-1] * size + self.train[1:]).tolist())
        first, second = self.held_out[:-1], self.held_out[1:]
        seen = np.array([pairs[pair] for pair in (first * size + second).tolist()])
        return min(
            float(-np.log((seen + weight * unigram[second]) / (counts[first] + weight)).mean())
            for weight in (10, 30, 50, 70, 100, 300)
        )


@pytest.fixture(scope="module")
def bible() -> Bible:
    encoder = TextEncoder.load(TOKENIZER)
    texts = chapters()
    held_out = texts[::HELD_OUT_EVERY]
    train = [text for number, text in enumerate(texts) if number % HELD_OUT_EVERY]
    held_out_bytes = sum(len(text.encode()) for text in held_out)
    return Bible(_tokens(encoder, train), _tokens(encoder, held_out), held_out_bytes, encoder)


def _tokens(encoder: TextEncoder, texts: Sequence[str]) -> Ids:
    end = [encoder.vocabulary.eos_id]
    return np.concatenate([part for ids in encoder.encode_batch(texts).rows() for part in (ids, end)]).astype(np.int64)


def test_the_quick_start_size_learns_more_than_how_often_words_occur(bible: Bible, tmp_path: Path) -> None:
    config = TrainingConfig(steps=500, eval_every=0)
    stats = train_on(bible.corpus, config, Machine("cpu", 1), writer(tmp_path))
    assert stats.validation_loss is not None
    assert stats.validation_loss < bible.unigram_entropy - 0.8


@pytest.mark.slow
def test_a_larger_model_learns_more_than_pairs_of_words_and_writes_real_words(bible: Bible, tmp_path: Path) -> None:
    config = TrainingConfig(
        layers=4,
        heads=4,
        hidden_size=128,
        sequence_length=128,
        batch_size=16,
        steps=1500,
        learning_rate=3e-3,
        warmup_steps=50,
        eval_every=250,
        sample_prompts=["And it came to pass", "The king"],
        sample_tokens=100,
    )
    stats = train_on(bible.corpus, config, Machine("cpu"), writer(tmp_path))
    assert stats.validation_loss is not None
    assert stats.validation_loss < bible.bigram_loss

    samples = (tmp_path / "samples.md").read_text()
    print(f"bigram {bible.bigram_loss:.3f}, model {stats.validation_loss:.3f}\n{samples}")
    known = set(_words(" ".join(chapters())))
    written = _words(samples.replace("```text", ""))[4:]  # without the heading
    assert len(written) > 80
    assert np.mean([word in known for word in written]) > 0.9
    assert len(set(written)) > 40


def _words(text: str) -> list[str]:
    letters = "".join(character if character.isalpha() else " " for character in text)
    return letters.lower().split()
