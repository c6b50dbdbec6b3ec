"""What a run reports while it goes on: a line of JSON for each step, each evaluation and each sample.

Belongs here: the shape of a step's line, and the files that hold all lines. After a resume no step stands there twice.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TextIO, TypeVar

from marin_assets.gpt2.evaluation import Evaluation
from marin_assets.gpt2.event_file import EventFile
from marin_assets.gpt2.samples import Sample

Line = TypeVar("Line", "StepMetrics", Evaluation, Sample)


@dataclass(frozen=True)
class StepMetrics:
    """One update of the weights."""

    step: int
    """Updates made, this one included."""
    loss: float
    """Nats per token, before the update."""
    learning_rate: float
    grad_norm: float
    """Before clipping."""
    tokens: int
    """Tokens read since the first step."""
    tokens_per_second: float
    peak_flops_share: float | None
    """The model's floating-point operations in a second, as a share of what the device can do at most; None where
    that is not known."""
    peak_memory_bytes: int
    """Most memory held so far: of the process, or on a GPU of its tensors."""

    def progress(self, steps: int) -> str:
        """A line for the log of a run of `steps` steps."""
        return (
            f"step {self.step} of {steps}: loss {self.loss:.4f}, grad norm {self.grad_norm:.3f}, "
            f"learning rate {self.learning_rate:.2e}, {self.tokens_per_second:.0f} tokens/s"
        )


class MetricsFile(Generic[Line]):
    """A file of JSON lines that is appended to, one line a step.

    Args:
        line: the dataclass of a line.
        before: lines of steps from this one on are dropped: they will be written again.
    """

    def __init__(self, path: Path, line: type[Line], *, before: int) -> None:
        kept = [metrics for metrics in _read(path, line) if metrics.step < before]
        partial = path.with_name(path.name + ".partial")
        partial.write_text("".join(_json_line(metrics) for metrics in kept))
        partial.replace(path)
        self.lines: list[Line] = kept
        self._stream: TextIO = path.open("a")

    def append(self, metrics: Line) -> None:
        self.lines.append(metrics)
        self._stream.write(_json_line(metrics))
        self._stream.flush()

    def extend(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.append(line)

    def sync(self) -> None:
        """Bring all lines to the disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


@dataclass(frozen=True)
class MetricsFiles:
    """The files that a run appends to."""

    steps: MetricsFile[StepMetrics]
    evaluations: MetricsFile[Evaluation]
    samples: MetricsFile[Sample]
    events: EventFile | None

    def add_step(self, metrics: StepMetrics) -> None:
        self.steps.append(metrics)
        if self.events:
            self.events.add(
                metrics.step,
                loss__training=metrics.loss,
                optimizer__learning_rate=metrics.learning_rate,
                optimizer__grad_norm=metrics.grad_norm,
                machine__tokens_per_second=metrics.tokens_per_second,
                machine__peak_flops_share=metrics.peak_flops_share,
                machine__peak_memory_bytes=metrics.peak_memory_bytes,
            )

    def add_evaluation(self, evaluation: Evaluation) -> None:
        self.evaluations.append(evaluation)
        if self.events:
            self.events.add(
                evaluation.step, loss__validation=evaluation.loss, loss__bits_per_byte=evaluation.bits_per_byte
            )


@contextmanager
def metrics_files(directory: Path, resumed_at: int, *, tensorboard: bool) -> Iterator[MetricsFiles]:
    """`metrics.jsonl`, `evaluations.jsonl` and `samples.jsonl` of a run that goes on after `resumed_at` updates.

    Args:
        tensorboard: write events as well.

    Raises:
        SettingsError: the library for events is not installed.
    """
    with (
        EventFile(directory, resumed_at) if tensorboard else nullcontext() as events,
        closing(MetricsFile(directory / "metrics.jsonl", StepMetrics, before=resumed_at + 1)) as steps,
        closing(MetricsFile(directory / "evaluations.jsonl", Evaluation, before=resumed_at)) as evaluations,
        closing(MetricsFile(directory / "samples.jsonl", Sample, before=resumed_at)) as samples,
    ):
        yield MetricsFiles(steps, evaluations, samples, events)


def _json_line(metrics: StepMetrics | Evaluation | Sample) -> str:
    return json.dumps(dataclasses.asdict(metrics)) + "\n"


def _read(path: Path, line: type[Line]) -> Iterator[Line]:
    """Whole lines; a last one that a killed run left half-written ends the file."""
    if not path.exists():
        return
    for text in path.read_text().splitlines():
        try:
            fields = json.loads(text)
        except ValueError:
            return
        yield line(**fields)
