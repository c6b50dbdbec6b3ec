"""What is trained in one measurement: sizes, steps, threads. Imports nothing that costs time."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingCase:
    """One size, trained alike by every competitor."""

    name: str
    layers: int
    heads: int
    hidden_size: int
    sequence_length: int
    batch_size: int
    vocabulary_size: int
    steps: int
    threads: int

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.sequence_length


def quickstart(*, steps: int, threads: int) -> TrainingCase:
    return TrainingCase("quick-start size", 2, 2, 32, 64, 8, 5_000, steps, threads)


def larger(vocabulary_size: int, *, steps: int, threads: int) -> TrainingCase:
    name = f"6 layers of 384, vocabulary {vocabulary_size:,}"
    return TrainingCase(name, 6, 6, 384, 256, 16, vocabulary_size, steps, threads)
