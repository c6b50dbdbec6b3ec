"""One rank of a launched training run: `torchrun … -m marin_assets.training_rank DIRECTORY`.

Belongs here: reading the job, training, and telling Dagster about it through its Pipes. Does not: importing Dagster
itself, which would cost every rank a second.
"""

import dataclasses
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster_pipes

from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.code_version import code_version
from marin_assets.child_process import die_with
from marin_assets.errors import MarinAssetsError
from marin_assets.gpt2.job import Job, write_failure, write_result
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.ranks import Ranks
from marin_assets.gpt2.run import OnMetrics
from marin_assets.gpt2.trainer import train


def main(directory: Path) -> None:
    """Train as one rank of the job in a directory. Ends the process with code 1 on what the user can mend."""
    die_with(os.getppid())
    ranks = Ranks.of_this_process()
    job = Job.read(directory)
    out = ArtifactWriter(job.out, recipe=job.recipe)
    with _reporting(ranks, job) as on_metrics:
        try:
            if job.recipe is not None:
                # A rank imports the code anew, which may have been edited since the run began.
                code_version("marin_assets.gpt2.trainer").load(expected=job.recipe.code_version)
            stats = train(job.token_cache(), job.config, job.machine, out, on_metrics)
        except MarinAssetsError as error:
            write_failure(directory, ranks.rank, error)
            sys.exit(1)
    if ranks.is_first:
        write_result(directory, stats, out.entries)


@contextmanager
def _reporting(ranks: Ranks, job: Job) -> Iterator[OnMetrics | None]:
    """Send the first rank's log, and the metrics of each step that is observed, to the process that launched."""
    if not ranks.is_first:
        yield None
        return
    with dagster_pipes.open_dagster_pipes() as pipes:
        log = logging.getLogger("marin_assets")
        log.setLevel(logging.INFO)
        log.propagate = False
        for handler in pipes.log.handlers:
            log.addHandler(handler)

        def report(metrics: StepMetrics) -> None:
            if metrics.step % job.config.observe_every == 0 or metrics.step == job.config.steps:
                pipes.report_custom_message(dataclasses.asdict(metrics))

        yield report


if __name__ == "__main__":
    main(Path(sys.argv[1]))
