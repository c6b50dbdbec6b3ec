"""The resources that assets are given: the HTML source, the tokenizer, the trainer.

Belongs here: settings of a machine or a deployment, and the way to the plain object that does the work. Does not: the
work, or settings that change what one asset produces (those are its run config).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from marin_assets.stages.raw_html import RawHtml, raw_html
from marin_assets.stages.tokenizer_file import TokenizerFile, tokenizer_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter
    from marin_assets.gpt2.config import TrainingConfig
    from marin_assets.gpt2.metrics import StepMetrics
    from marin_assets.gpt2.results import TrainingStats


class HtmlSource(dg.ConfigurableResource):
    """The pages as they were collected."""

    input: str = Field(default="fixtures/quickstart", description="Folder or file of pages; set by MARIN_INPUT.")
    remember: str = Field(
        default=".dagster/file_digests.sqlite",
        description="Where digests of unchanged input files are remembered.",
    )

    def pages(self) -> RawHtml:
        """List the input files with their digests."""
        return raw_html(Path(self.input), remember=Path(self.remember))


class Tokenizer(dg.ConfigurableResource):
    """The tokenizer that turns text into token ids."""

    tokenizer: str = Field(
        default="fixtures/gpt2_tokenizer.json",
        description="Path of a tokenizer.json, or a Hugging Face name such as `gpt2`; set by MARIN_TOKENIZER.",
    )

    def file(self) -> TokenizerFile:
        """The tokenizer's file and its digest."""
        return tokenizer_file(self.tokenizer)


class Gpt2Trainer(dg.ConfigurableResource):
    """Trains GPT-2 on this machine."""

    device: str = Field(default="auto", description="`auto` takes a GPU where there is one; or `cpu`, `cuda`.")
    threads: int = Field(default=0, ge=0, description="CPU threads of PyTorch; 0 takes the cores that are available.")

    def train(
        self,
        tokens: "Artifact",
        config: "TrainingConfig",
        out: "ArtifactWriter",
        on_metrics: "Callable[[StepMetrics], None] | None" = None,
    ) -> "TrainingStats":
        """Train, or go on from the newest complete checkpoint that `out` holds."""
        from marin_assets.gpt2.machine import Machine
        from marin_assets.gpt2.trainer import train

        return train(tokens, config, Machine(device=self.device, threads=self.threads), out, on_metrics)
