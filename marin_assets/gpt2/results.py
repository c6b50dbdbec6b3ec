"""What a finished run comes to: its numbers, and the files of its artifact.

Belongs here: which files are published and which of them count as content. Does not: how each is made.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from marin_assets.gpt2.checkpoints import Checkpoints
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.corpus import Corpus
from marin_assets.gpt2.event_file import FOLDER as EVENT_FOLDER
from marin_assets.gpt2.hf_export import to_hf
from marin_assets.gpt2.loss_plot import write_loss_plot
from marin_assets.gpt2.metrics import MetricsFiles
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.model_card import model_card
from marin_assets.gpt2.samples import samples_markdown

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact_writer import ArtifactWriter


@dataclass(frozen=True)
class TrainingStats:
    """What a run came to. Losses are nats per token."""

    steps: int
    parameters: int
    vocabulary_size: int
    train_tokens: int
    """Tokens of the training split."""
    dropped_tokens: int
    """Of them, those at the end that fill no sequence."""
    samples: int
    """Sequences of one epoch."""
    trained_tokens: int
    """Tokens read in all steps."""
    epochs: float
    train_loss: float | None
    """Of the last step; None where a stopped run lost its metrics."""
    validation_loss: float | None
    """After the last step; None where the validation split is too short."""
    validation_bits_per_byte: float | None
    resumed_at_step: int
    """Updates that an earlier, stopped run had made; 0 for a run from the start."""
    device: str
    threads: int
    train_seconds: float
    """Of this run's steps, evaluations and checkpoints alone."""
    tokens_per_second: float

    def reproducible(self) -> dict[str, int | float | None]:
        """The numbers that another run of the same settings shares."""
        return {name: value for name, value in asdict(self).items() if name not in _OF_ONE_RUN}


_OF_ONE_RUN = {"resumed_at_step", "device", "threads", "train_seconds", "tokens_per_second"}


def publish(
    model: Gpt2,
    corpus: Corpus,
    config: TrainingConfig,
    checkpoints: Checkpoints,
    files: MetricsFiles,
    stats: TrainingStats,
    out: ArtifactWriter,
) -> None:
    """Export, report, and hand every file to the artifact."""
    exported = to_hf(
        model,
        out.directory / "hf",
        tokenizer=corpus.tokenizer_path,
        end_of_text=corpus.end_of_text,
        end_of_text_id=corpus.end_of_text_id,
    )
    out.path("samples.md").write_text(samples_markdown(files.samples.lines))
    write_loss_plot(out.path("loss.png"), files.steps.lines, files.evaluations.lines)
    summary = {"config": config.semantic(), "stats": stats.reproducible()}
    out.path("summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    card = model_card(config, stats, files.evaluations.lines, origin=corpus.origin, recipe=out.recipe)
    out.path("model_card.md").write_text(card)
    for checkpoint in checkpoints.complete():
        for file in sorted(checkpoint.iterdir()):
            out.add(f"checkpoints/{checkpoint.name}/{file.name}")
    for name in exported:
        out.add(f"hf/{name}")
    for name in ("samples.md", "samples.jsonl", "summary.json", "evaluations.jsonl"):
        out.add(name)
    out.add("metrics.jsonl", rows=len(files.steps.lines), content=False)  # holds timings
    for event_file in sorted(out.directory.glob(f"{EVENT_FOLDER}/*")):
        out.add(f"{EVENT_FOLDER}/{event_file.name}", content=False)
    out.add("loss.png", content=False)
    out.add("model_card.md", content=False)  # tells how the tokens came to be, which is no part of what they are
