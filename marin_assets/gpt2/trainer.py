"""The training run: from a token cache to checkpoints, an export and a report.

Belongs here: the loop, and what happens before and after it. Every part of a step stands in a module of its own.
"""

from __future__ import annotations

import logging
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from marin_assets.errors import TrainingError
from marin_assets.gpt2.batches import Samples
from marin_assets.gpt2.checkpoints import TrainingState
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.corpus import Corpus, open_corpus
from marin_assets.gpt2.evaluation import Evaluation, evaluate
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.metrics import MetricsFiles, metrics_files
from marin_assets.gpt2.prefetch import one_ahead
from marin_assets.gpt2.ranks import Ranks
from marin_assets.gpt2.results import TrainingStats, publish
from marin_assets.gpt2.run import OnMetrics, Run, first_state, prepare
from marin_assets.gpt2.samples import Sample, draw_samples
from marin_assets.gpt2.spread import whole_model
from marin_assets.gpt2.step import training_step
from marin_assets.gpt2.stop_request import StopRequest, stop_requests

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

logger = logging.getLogger(__name__)


def train(
    tokens: Artifact, config: TrainingConfig, machine: Machine, out: ArtifactWriter, on_metrics: OnMetrics | None = None
) -> TrainingStats:
    """Train a GPT-2 on a `token_cache` artifact. See `train_on`.

    Raises:
        DamagedArtifactError: a file of the token cache is missing, truncated or altered.
    """
    return train_on(open_corpus(tokens), config, machine, out, on_metrics)


def train_on(
    corpus: Corpus, config: TrainingConfig, machine: Machine, out: ArtifactWriter, on_metrics: OnMetrics | None = None
) -> TrainingStats:
    """Train a GPT-2, going on from the newest complete checkpoint in `out` if there is one.

    Under `torchrun`, all ranks call this with the same arguments and train one model together; `out` must be a
    directory that all see, and only the first rank publishes into it. SIGTERM and Ctrl-C end the run after the step
    that is being made, and a checkpoint of it.

    Args:
        on_metrics: called after every step.

    Raises:
        InputError: the tokens are not what the cache says; `init_from` holds no GPT-2.
        SettingsError: the machine lacks the device; settings do not fit each other, the machine or `init_from`.
        TrainingError: too few tokens; a checkpoint of another run; a loss or gradient that is not finite.
    """
    ranks = Ranks.of_this_process()
    with machine.use(_step_operations(corpus, config, ranks), ranks, tf32=config.tf32) as device:
        run = prepare(corpus, config, machine, device, ranks, out, on_metrics)
        state = first_state(run)
        if resumed_from := run.checkpoints.resume(state):
            logger.info("going on from %s", resumed_from)
        resumed_at = state.step
        started = time.perf_counter()
        with metrics_files(_report_directory(ranks, out), resumed_at, tensorboard=config.tensorboard) as files:
            _train_until_stopped(run, state, files)
        stats = _stats(run, state, files, resumed_at, time.perf_counter() - started)
        model = whole_model(state.model)
        if ranks.is_first:
            publish(model, corpus, config, run.checkpoints, files, stats, out)
    return stats


def _train_until_stopped(run: Run, state: TrainingState, files: MetricsFiles) -> None:
    """Train. A signal or an interrupt is passed on once there is a checkpoint of the last whole step."""
    resumed_at = state.step
    with stop_requests() as stop:
        try:
            _train(run, state, files, stop)
        except BaseException as interrupt:
            if not isinstance(interrupt, Exception) and run.ranks.count == 1:
                _save_stopped(run, state, resumed_at)
            raise
        if state.step < run.config.steps:
            _save_stopped(run, state, resumed_at)
    if stop.number is not None:
        signal.raise_signal(stop.number)
    if state.step < run.config.steps:
        raise TrainingError(f"training was stopped after step {state.step}; run it again to go on from there")


def _save_stopped(run: Run, state: TrainingState, resumed_at: int) -> None:
    if state.is_whole and state.step > resumed_at:
        logger.warning("stopped after step %d; saved %s", state.step, run.checkpoints.save_interrupted(state))


def _train(run: Run, state: TrainingState, files: MetricsFiles, stop: StopRequest) -> None:
    """Evaluate, save, step, until all steps are made or a signal came."""
    config = run.config
    resumed_at = state.step
    with closing(one_ahead(run.batch, state.step, config.steps)) as batches:
        while True:
            finished = state.step == config.steps
            evaluation = None
            if run.validation and (finished or _due(state.step, config.eval_every)):
                evaluation = _evaluate(run, run.validation, state)
                files.add_evaluation(evaluation)

            if finished or (state.step and _due(state.step, config.sample_every)):
                files.samples.extend(_samples(run, state))

            if state.step > resumed_at and (finished or _due(state.step, config.checkpoint_every)):
                files.steps.sync()  # a checkpoint never outlives the lines of its steps
                run.checkpoints.save(state, validation_loss=evaluation.loss if evaluation else None)
            if finished or run.ranks.any(stop.came, run.device):
                return

            metrics = training_step(run, state, next(batches))
            files.add_step(metrics)
            if run.on_metrics:
                run.on_metrics(metrics)
            if state.step == config.steps or _due(state.step, config.log_every):
                logger.info("%s", metrics.progress(config.steps))


def _evaluate(run: Run, validation: Samples, state: TrainingState) -> Evaluation:
    evaluation = evaluate(
        state.loss_sum,
        validation,
        run.config,
        step=state.step,
        bytes_per_token=run.corpus.validation_bytes_per_token,
        sequences=run.sequences_at_once,
        device=run.device,
        ranks=run.ranks,
    )
    logger.info("step %d: validation loss %.4f", state.step, evaluation.loss)
    return evaluation


def _samples(run: Run, state: TrainingState) -> list[Sample]:
    """What the model writes; the first rank draws it, of all its weights."""
    model = whole_model(state.model)
    return draw_samples(model, run.corpus, run.config, step=state.step) if run.ranks.is_first else []


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _report_directory(ranks: Ranks, out: ArtifactWriter) -> Path:
    """Where this rank writes its metrics; only the first one's are published."""
    return out.directory if ranks.is_first else out.scratch(f"rank-{ranks.rank}")


def _step_operations(corpus: Corpus, config: TrainingConfig, ranks: Ranks) -> float:
    """Six for each parameter and token (Kaplan et al. 2020, section 2.1), in one micro-batch."""
    parameters = config.size.parameter_count(corpus.vocabulary_size, config.sequence_length)
    sequences = config.micro_batch_size or config.batch_size // ranks.count
    return 6.0 * parameters * sequences * config.sequence_length


def _stats(run: Run, state: TrainingState, files: MetricsFiles, resumed_at: int, seconds: float) -> TrainingStats:
    config = run.config
    tokens_a_step = config.batch_size * config.sequence_length
    steps, evaluations = files.steps.lines, files.evaluations.lines
    last = evaluations[-1] if evaluations else None
    return TrainingStats(
        steps=state.step,
        parameters=state.model.parameter_count,
        vocabulary_size=run.corpus.vocabulary_size,
        train_tokens=len(run.train.tokens),
        dropped_tokens=run.train.dropped_tokens,
        samples=len(run.train),
        trained_tokens=state.step * tokens_a_step,
        epochs=round(state.step * config.batch_size / len(run.train), 4),
        train_loss=steps[-1].loss if steps else None,
        validation_loss=last.loss if last else None,
        validation_bits_per_byte=last.bits_per_byte if last else None,
        resumed_at_step=resumed_at,
        device=str(run.device),
        threads=torch.get_num_threads(),
        train_seconds=round(seconds, 3),
        tokens_per_second=round((state.step - resumed_at) * tokens_a_step / seconds, 1),
    )
