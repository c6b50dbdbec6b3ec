"""The resources that assets are given: the HTML source, the tokenizer, the trainer.

Belongs here: settings of a machine or a deployment, and the way to the plain object that does the work. Does not: the
work, or settings that change what one asset produces (those are its run config).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from marin_assets.artifacts.download_cache import default_cache
from marin_assets.stages.raw_html import RawHtml, raw_html
from marin_assets.stages.tokenizer_file import TokenizerFile, tokenizer_file

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter
    from marin_assets.gpt2.config import TrainingConfig
    from marin_assets.gpt2.results import TrainingStats
    from marin_assets.gpt2.run import OnMetrics


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
    """Trains GPT-2: in this process, or in several that it starts. None of these settings changes what is learned."""

    device: str = Field(default="auto", description="`auto` takes a GPU where there is one; or `cpu`, `cuda`.")
    threads: int = Field(default=0, ge=0, description="CPU threads of PyTorch; 0 takes the cores that are available.")
    compile: bool = Field(default=False, description="Compile the model; goes on without where that fails.")
    checkpoint_activations: bool = Field(
        default=False, description="Compute activations twice in place of keeping them: less memory, a third slower."
    )
    processes: int = Field(default=1, ge=1, description="Training processes on each machine: one for each GPU.")
    nnodes: int = Field(default=1, ge=1, description="Machines; the log says what to run on the others.")
    rendezvous: str = Field(default="", description="With several machines: host:port of this one, on a free port.")
    shard: bool = Field(
        default=False, description="Keep a share of the weights in each process (FSDP2), not a copy (DDP)."
    )
    cache: str = Field(
        default="", description="Local folder for flat token files; by default in the user's cache folder."
    )

    def train(
        self,
        context: dg.AssetExecutionContext,
        tokens: "Artifact",
        config: "TrainingConfig",
        out: "ArtifactWriter",
        on_metrics: "OnMetrics | None" = None,
    ) -> "TrainingStats":
        """Train, or go on from the newest complete checkpoint that `out` holds."""
        from marin_assets.gpt2.machine import Machine

        machine = Machine(
            device=self.device,
            threads=self.threads,
            compile=self.compile,
            checkpoint_activations=self.checkpoint_activations,
            shard=self.shard,
            token_files=(Path(self.cache) if self.cache else default_cache()).expanduser().absolute() / "tokens",
        )
        if self.processes * self.nnodes == 1:
            from marin_assets.gpt2.trainer import train

            return train(tokens, config, machine, out, on_metrics)
        from marin_assets.gpt2.launcher import Launch
        from marin_assets.training_processes import train_in_processes

        launch = Launch(self.processes, self.nnodes, self.rendezvous)
        return train_in_processes(context, launch, tokens, config, machine, out, on_metrics)
