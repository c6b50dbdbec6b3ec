"""Training in processes of its own, which report to the run through Dagster Pipes.

Belongs here: Dagster's side. The other side is `training_rank`; how the processes start is `gpt2.launcher`'s.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from dagster_pipes import PipesMessage, PipesParams

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter
    from marin_assets.gpt2.config import TrainingConfig
    from marin_assets.gpt2.launcher import Launch
    from marin_assets.gpt2.machine import Machine
    from marin_assets.gpt2.results import TrainingStats
    from marin_assets.gpt2.run import OnMetrics

logger = logging.getLogger(__name__)

_SECONDS_TO_SAVE = 60
"""How long a run that was interrupted may take to end its step and write a checkpoint."""


def train_in_processes(
    context: dg.AssetExecutionContext,
    launch: "Launch",
    tokens: "Artifact",
    config: "TrainingConfig",
    machine: "Machine",
    out: "ArtifactWriter",
    on_metrics: "OnMetrics | None",
) -> "TrainingStats":
    """Train in the processes of `launch`.

    Args:
        on_metrics: called, in another thread, for each step that is to be observed.

    Raises:
        MarinAssetsError: as `gpt2.trainer.train` raises it in one of the processes.
    """
    from marin_assets.gpt2.corpus import open_corpus
    from marin_assets.gpt2.job import Job, read_failure, read_result

    open_corpus(tokens)  # brings all of its files to this machine, and checks them
    job = Job(
        config=config,
        machine=machine,
        tokens=tokens.manifest,
        ancestors=tuple(tokens.ancestors()),
        tokens_directory=tokens.path("tokenizer.json").parent.absolute(),
        out=out.directory.absolute(),
        recipe=out.recipe,
    )
    directory = out.scratch("job").absolute()
    job.write(directory)
    for command in launch.commands_elsewhere(directory):
        logger.info("waiting for another machine to run: %s", command)
    client = dg.PipesSubprocessClient(
        message_reader=_MetricsReader(on_metrics), termination_timeout_seconds=_SECONDS_TO_SAVE
    )
    try:
        # Else torchrun warns; each rank sets its threads itself.
        client.run(context=context, command=launch.command(directory), env={"OMP_NUM_THREADS": "1"})
    except Exception as error:
        if failure := read_failure(directory):
            raise failure from error
        raise
    result = read_result(directory)
    for entry in result.files:
        out.add(entry.name, rows=entry.rows, content=entry.content)
    return result.stats


class _MetricsReader(dg.PipesTempFileMessageReader):
    """Hands metrics on as they come; what Dagster does by itself is to collect them until the end."""

    def __init__(self, on_metrics: "OnMetrics | None") -> None:
        super().__init__()
        self._on_metrics = on_metrics

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[PipesParams]:
        forwarding = cast("dg.PipesMessageHandler", _Forwarding(handler, self._on_metrics))
        with super().read_messages(forwarding) as params:
            yield params


class _Forwarding:
    """A message handler that takes metrics out of what it is given."""

    def __init__(self, handler: dg.PipesMessageHandler, on_metrics: "OnMetrics | None") -> None:
        self._handler = handler
        self._on_metrics = on_metrics

    def handle_message(self, message: PipesMessage) -> None:
        if message["method"] != "report_custom_message":
            self._handler.handle_message(message)
        elif self._on_metrics is not None:
            from marin_assets.gpt2.metrics import StepMetrics

            self._on_metrics(StepMetrics(**cast("dict[str, Any]", message["params"])["payload"]))

    def __getattr__(self, name: str) -> object:
        return getattr(self._handler, name)
