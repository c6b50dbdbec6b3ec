"""Our trainer on a flat file of tokens, as the `gpt2_model` asset runs it: all that a run leaves is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.training_case import TrainingCase
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.gpt2.config import Precision, TrainingConfig
from marin_assets.gpt2.corpus import Corpus
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.trainer import train_on

ROOT = Path(__file__).resolve().parents[1]
VALIDATION_TOKENS = 2_000
END_OF_TEXT, END_OF_TEXT_ID = "<|endoftext|>", 4_999


@dataclass(frozen=True)
class _FlatFile:
    ids: npt.NDArray[np.uint16]

    @property
    def total_tokens(self) -> int:
        return len(self.ids)

    def token_chunks(self) -> Iterator[npt.NDArray[np.int32]]:
        for start in range(0, len(self.ids), 1 << 20):
            yield self.ids[start : start + (1 << 20)].astype(np.int32)


def train(case: TrainingCase, tokens: Path, output: Path, after_step: Callable[[float], None], precision: str) -> None:
    ids = np.memmap(tokens, dtype=np.uint16, mode="r")
    corpus = Corpus(
        train=_FlatFile(ids[:-VALIDATION_TOKENS]),
        validation=_FlatFile(ids[-VALIDATION_TOKENS:]),
        tokenizer_path=ROOT / "fixtures" / "gpt2_tokenizer.json",
        vocabulary_size=case.vocabulary_size,
        end_of_text=END_OF_TEXT,
        end_of_text_id=END_OF_TEXT_ID,
        validation_bytes_per_token=None,
        digest="benchmark",
    )
    config = TrainingConfig(
        layers=case.layers,
        heads=case.heads,
        hidden_size=case.hidden_size,
        sequence_length=case.sequence_length,
        batch_size=case.batch_size,
        steps=case.steps,
        learning_rate=1e-3,
        precision=Precision(precision),
        eval_every=0,
        checkpoint_every=0,
    )
    machine = Machine(device="cpu", threads=case.threads)
    train_on(corpus, config, machine, ArtifactWriter(output), lambda metrics: after_step(metrics.loss))
