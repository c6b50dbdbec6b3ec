"""What a training run is made of: the sizes of GPT-2 and every setting of the trainer.

Belongs here: names, numbers, and the checks that need no data. Does not: torch. This module is imported by every
`dagster` command; the rest of the package only by the process that trains.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, JsonValue, model_validator

from marin_assets.artifacts.stage_config import INPUT_PATH, OPERATIONAL, StageConfig


@dataclass(frozen=True)
class Gpt2Size:
    """The three numbers that tell one GPT-2 from another. A head is `hidden_size // heads` wide."""

    layers: int
    heads: int
    hidden_size: int

    def parameter_count(self, vocabulary_size: int, positions: int) -> int:
        """Weights and biases of the whole model; the head is the token embedding."""
        width = self.hidden_size
        block = 12 * width * width + 13 * width
        return self.layers * block + (vocabulary_size + positions + 2) * width


SIZES = {
    "quickstart": Gpt2Size(layers=2, heads=2, hidden_size=32),
    "gpt2": Gpt2Size(layers=12, heads=12, hidden_size=768),
    "gpt2-medium": Gpt2Size(layers=24, heads=16, hidden_size=1024),
    "gpt2-large": Gpt2Size(layers=36, heads=20, hidden_size=1280),
    "gpt2-xl": Gpt2Size(layers=48, heads=25, hidden_size=1600),
}
"""Sizes as published with GPT-2 (Radford et al. 2019), and one that trains in a second."""

_LEARNING_RATES = {"quickstart": 3e-3, "gpt2": 6e-4, "gpt2-medium": 3e-4, "gpt2-large": 2.5e-4, "gpt2-xl": 2e-4}
"""GPT-2's paper gives none: these are of the nearest sizes in table 2.1 of Brown et al. 2020 (GPT-3)."""


class Precision(StrEnum):
    """The arithmetic of the forward and backward pass. Weights and optimizer state are float32 in both."""

    float32 = "float32"
    bfloat16 = "bfloat16"


class TrainingConfig(StageConfig):
    """Settings of one training run. All are checked when the object is made."""

    model: str = "quickstart"
    """Size by name: quickstart, gpt2, gpt2-medium, gpt2-large or gpt2-xl."""
    layers: int = Field(default=0, ge=0)
    """Transformer blocks; 0 takes the number of the named size."""
    heads: int = Field(default=0, ge=0)
    """Attention heads of a block; 0 takes the number of the named size."""
    hidden_size: int = Field(default=0, ge=0)
    """Width of the residual stream; 0 takes that of the named size. A multiple of `heads`."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of activations dropped while training. 0 suits a corpus that is read about once."""
    init_from: Annotated[str, INPUT_PATH] = ""
    """Directory of the first weights: a checkpoint of ours, or a Hugging Face GPT-2. Empty draws them from `seed`.
    What it holds is part of the fingerprint, and not its path."""

    sequence_length: int = Field(default=64, ge=1)
    """Tokens of a training sequence, and the longest context of a model that starts from a seed."""
    batch_size: int = Field(default=8, ge=1)
    """Sequences of one step."""
    micro_batch_size: int = Field(default=0, ge=0)
    """Sequences held in memory at once: gradients of several micro-batches add up to a step. 0 takes the whole batch.
    Must divide `batch_size`."""
    block_cross_document_attention: bool = True
    """Tokens see only their own document: attention stops at its start, positions count from there, and no document
    is asked to predict the first token of the next. False trains on the stream as if it were one text."""

    steps: int = Field(default=2, ge=1)
    """Updates of the weights. A corpus that ends earlier is repeated in a new order."""
    learning_rate: float | None = Field(default=None, gt=0.0)
    """Peak learning rate. None takes one that suits the named size."""
    warmup_steps: int | None = Field(default=None, ge=0)
    """Steps in which the learning rate rises to its peak. None takes a hundredth of `steps`."""
    min_learning_rate_ratio: float = Field(default=0.1, ge=0.0, le=1.0)
    """What the cosine falls to by the last step, as a share of the peak. 1 keeps the peak."""
    weight_decay: float = Field(default=0.1, ge=0.0)
    """AdamW's decay of matrices. Biases and norms do not decay."""
    beta1: float = Field(default=0.9, ge=0.0, lt=1.0)
    """AdamW's decay of the gradient's mean."""
    beta2: float = Field(default=0.95, ge=0.0, lt=1.0)
    """AdamW's decay of the gradient's square."""
    grad_clip: float = Field(default=1.0, ge=0.0)
    """Largest norm of the gradient; a larger one is scaled down to it. 0 never clips."""
    precision: Precision = Precision.float32
    """float32, or bfloat16 autocast, which is faster where the machine multiplies bfloat16."""
    tf32: bool = True
    """Multiply float32 matrices as TF32 on NVIDIA GPUs, which is faster and rounds inputs to 10 bits of mantissa."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Decides the first weights, the order of samples, dropout, and the samples that are written at the end."""

    eval_every: int = Field(default=250, ge=0)
    """Steps between two evaluations on the validation split. 0 evaluates only at the end."""
    eval_sequences: int = Field(default=2048, ge=1)
    """Sequences of one evaluation at most: the first ones of the validation split."""
    checkpoint_every: int = Field(default=500, ge=0)
    """Steps between two checkpoints. 0 keeps only that of the last step."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Newest checkpoints that are kept, besides the one with the lowest validation loss. Only those of evaluated steps
    compete for that: let `eval_every` divide `checkpoint_every`."""

    sample_prompts: list[str] = Field(default=["The", "In the beginning", "What is"])
    """Beginnings that the model continues, written to `samples.md`."""
    sample_every: int = Field(default=0, ge=0)
    """Steps between two times that the prompts are continued. 0 continues them only at the end."""
    sample_tokens: int = Field(default=48, ge=1)
    """Tokens of a continuation at most."""
    sample_temperature: float = Field(default=0.8, ge=0.0)
    """Sharpness of sampling: 0 always takes the likeliest token."""
    sample_top_k: int = Field(default=50, ge=0)
    """Sampling chooses among this many of the likeliest tokens. 0 among all."""

    log_every: Annotated[int, OPERATIONAL] = Field(default=10, ge=1)
    """Steps between two lines of progress in the log."""
    observe_every: Annotated[int, OPERATIONAL] = Field(default=100, ge=1)
    """Steps between two observations of the asset, which the UI draws as curves."""
    tensorboard: Annotated[bool, OPERATIONAL] = False
    """Write TensorBoard events beside the metrics. Needs the extra `tensorboard`."""

    def observes(self, step: int) -> bool:
        """Whether the asset is observed after this step."""
        return step == self.steps or step % self.observe_every == 0

    @property
    def size(self) -> Gpt2Size:
        """The named size with the numbers that were given in its place."""
        named = SIZES[self.model]
        return Gpt2Size(
            layers=self.layers or named.layers,
            heads=self.heads or named.heads,
            hidden_size=self.hidden_size or named.hidden_size,
        )

    @property
    def sequences_at_once(self) -> int:
        return self.micro_batch_size or self.batch_size

    @property
    def peak_learning_rate(self) -> float:
        return self.learning_rate if self.learning_rate is not None else _LEARNING_RATES[self.model]

    @property
    def warmup(self) -> int:
        return self.warmup_steps if self.warmup_steps is not None else self.steps // 100

    def decides_weights(self) -> dict[str, JsonValue]:
        """The settings that a resumed run must share with its checkpoint. How often it reports may change."""
        return {name: value for name, value in self.semantic().items() if name not in _REPORTING}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model not in SIZES:
            raise ValueError(f"model {self.model!r} is not a known size; choose one of {', '.join(SIZES)}")
        size = self.size
        if size.hidden_size % size.heads:
            below = size.hidden_size // size.heads * size.heads
            raise ValueError(
                f"hidden_size {size.hidden_size} does not split into {size.heads} heads of equal width; "
                f"set hidden_size to {either(below, below + size.heads)}, or choose another number of heads"
            )
        if self.batch_size % self.sequences_at_once:
            raise ValueError(
                f"micro_batch_size {self.micro_batch_size} does not divide batch_size {self.batch_size}; "
                f"set it to {divisors_near(self.micro_batch_size, self.batch_size)}"
            )
        if self.warmup >= self.steps and self.warmup:
            raise ValueError(
                f"warmup_steps {self.warmup} leaves none of the {self.steps} steps at the full learning rate; "
                f"set warmup_steps below {self.steps} or raise steps"
            )
        return self


_REPORTING = {
    "eval_every", "eval_sequences", "checkpoint_every", "keep_checkpoints",
    "sample_prompts", "sample_every", "sample_tokens", "sample_temperature", "sample_top_k",
}  # fmt: skip


def either(first: int, second: int) -> str:
    """`2 or 4`; one number where there is only one, or the first is 0."""
    return " or ".join(str(number) for number in sorted({first, second} - {0}))


def divisors_near(wanted: int, number: int) -> str:
    """The divisors of a number that are next to one that is none, in words."""
    divisors = [divisor for divisor in range(1, number + 1) if number % divisor == 0]
    below = max(divisor for divisor in divisors if divisor < wanted)
    return either(below, min((divisor for divisor in divisors if divisor > wanted), default=below))
