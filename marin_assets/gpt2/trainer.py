"""The training run: from a token cache to checkpoints, an export and a report.

Belongs here: the loop, and what happens before and after it. Every part of a step stands in a module of its own.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import TrainingError
from marin_assets.gpt2.batches import Samples
from marin_assets.gpt2.checkpoints import Checkpoints, TrainingState
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.corpus import Corpus, open_corpus
from marin_assets.gpt2.evaluation import Evaluation, evaluate
from marin_assets.gpt2.forward import batch_loss_sum
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.metrics import MetricsFiles, StepMetrics, metrics_files
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.optimizer import AdamW
from marin_assets.gpt2.results import TrainingStats, publish
from marin_assets.gpt2.samples import draw_samples
from marin_assets.gpt2.schedule import learning_rate
from marin_assets.gpt2.throughput import Throughput, flops_per_token, peak_flops, peak_memory_bytes
from marin_assets.gpt2.token_file import FlatTokens, open_token_file

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

logger = logging.getLogger(__name__)

OnMetrics = Callable[[StepMetrics], None]


@dataclass(frozen=True)
class _Run:
    """One run's fixed parts."""

    config: TrainingConfig
    corpus: Corpus
    device: torch.device
    train: Samples
    validation: Samples | None
    checkpoints: Checkpoints
    throughput: Throughput
    on_metrics: OnMetrics | None


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

    Args:
        on_metrics: called after every step.

    Raises:
        InputError: the tokens are not what the cache says.
        SettingsError: the machine lacks the device.
        TrainingError: too few tokens; a checkpoint of another run; a loss or gradient that is not finite.
    """
    with machine.use(_step_operations(corpus, config)) as device:
        torch.manual_seed(config.seed)
        run = _prepare(corpus, config, device, out, on_metrics)
        state = _first_state(run)
        if resumed_from := run.checkpoints.resume(state):
            logger.info("going on from %s", resumed_from)
        resumed_at = state.step
        started = time.perf_counter()
        with metrics_files(out.directory, resumed_at, tensorboard=config.tensorboard) as files:
            _train(run, state, files)
        stats = _stats(
            run, state, files.steps.lines, files.evaluations.lines, resumed_at, time.perf_counter() - started
        )
        publish(state.model, corpus, config, run.checkpoints, files, stats, out)
    return stats


def _train(run: _Run, state: TrainingState, files: MetricsFiles) -> None:
    """Evaluate, save, step, until all steps are made."""
    config = run.config
    resumed_at = state.step
    while True:
        finished = state.step == config.steps
        if run.validation and (finished or _due(state.step, config.eval_every)):
            bytes_per_token = run.corpus.validation_bytes_per_token
            evaluation = evaluate(state.model, run.validation, config, step=state.step, bytes_per_token=bytes_per_token)
            files.add_evaluation(evaluation)
            logger.info("step %d: validation loss %.4f", state.step, evaluation.loss)

        if finished or (state.step and _due(state.step, config.sample_every)):
            files.samples.extend(draw_samples(state.model, run.corpus, config, step=state.step))

        if state.step > resumed_at and (finished or _due(state.step, config.checkpoint_every)):
            files.steps.sync()  # a checkpoint never outlives the lines of its steps
            run.checkpoints.save(state)
        if finished:
            return

        metrics = _step(run, state)
        files.add_step(metrics)
        if run.on_metrics:
            run.on_metrics(metrics)
        if state.step == config.steps or _due(state.step, config.log_every):
            logger.info("%s", metrics.progress(config.steps))


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _step(run: _Run, state: TrainingState) -> StepMetrics:
    """One update from one batch, whose micro-batches weigh as much as they have tokens to predict."""
    config = run.config
    started = time.perf_counter()
    samples = run.train.training_samples(state.step, config.batch_size, config.seed)
    batch = run.train.batch(samples)
    target_count = max(1, batch.target_count())

    loss = torch.zeros((), device=run.device)
    for micro_batch in batch.micro_batches(config.sequences_at_once, run.device):
        micro_loss = batch_loss_sum(state.model, micro_batch, config.precision) / target_count
        micro_loss.backward()  # type: ignore[no-untyped-call]
        loss += micro_loss.detach()

    grad_norm = _clip_gradients(state.model, config.grad_clip)
    rate = learning_rate(state.step, config)
    if not (math.isfinite(float(loss)) and math.isfinite(float(grad_norm))):
        raise TrainingError(_not_finite(run, state.step + 1, float(loss), float(grad_norm), rate, samples.tolist()))
    state.optimizer.step(rate)
    state.step += 1

    tokens_per_second = config.batch_size * config.sequence_length / (time.perf_counter() - started)
    return StepMetrics(
        step=state.step,
        loss=float(loss),
        learning_rate=rate,
        grad_norm=float(grad_norm),
        tokens=state.step * config.batch_size * config.sequence_length,
        tokens_per_second=tokens_per_second,
        peak_flops_share=run.throughput.peak_share(tokens_per_second),
        peak_memory_bytes=peak_memory_bytes(run.device),
    )


def _clip_gradients(model: Gpt2, limit: float) -> Tensor:
    """Scale the gradients so that their norm is at most `limit`. Returns the norm from before."""
    parameters = list(model.parameters())
    norm = torch.nn.utils.get_total_norm(parameter.grad for parameter in parameters if parameter.grad is not None)
    if limit:
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


def _not_finite(run: _Run, step: int, loss: float, grad_norm: float, rate: float, samples: list[int]) -> str:
    kept = run.checkpoints.paths()
    return (
        f"step {step} was not made: its loss is {loss} and its gradient norm {grad_norm}, at learning rate {rate:.3g}, "
        f"on samples {samples}. Lower learning_rate, raise warmup_steps, or set grad_clip to 1. "
        + (f"The newest checkpoint is {kept[-1]}" if kept else "There is no checkpoint yet")
    )


def _prepare(
    corpus: Corpus, config: TrainingConfig, device: torch.device, out: ArtifactWriter, on_metrics: OnMetrics | None
) -> _Run:
    """Stage the tokens and check what can be checked before the first step."""
    scratch = out.scratch("tokens")
    train = _samples(corpus, corpus.train, "train", scratch, config)
    validation = None
    try:
        validation = _samples(corpus, corpus.validation, "validation", scratch, config)
    except TrainingError as too_short:
        logger.warning("no validation loss: %s", too_short)
    logger.info("%d sequences an epoch, %d tokens left over at the end", len(train), train.dropped_tokens)
    identity = config.decides_weights() | {
        "token_cache": corpus.digest,
        "tokenizer": file_digest(corpus.tokenizer_path),
        "vocabulary_size": corpus.vocabulary_size,
    }
    checkpoints = Checkpoints(out.directory / "checkpoints", identity, config.keep_checkpoints)
    token_flops = flops_per_token(config.size, corpus.vocabulary_size, config.sequence_length)
    throughput = Throughput(token_flops, peak_flops(device, config.precision))
    return _Run(config, corpus, device, train, validation, checkpoints, throughput, on_metrics)


def _samples(corpus: Corpus, tokens: FlatTokens, split: str, scratch: Path, config: TrainingConfig) -> Samples:
    flat = open_token_file(
        tokens, scratch / f"{split}-{corpus.digest}", vocabulary_size=corpus.vocabulary_size, split=split
    )
    end_of_text = corpus.end_of_text_id if config.block_cross_document_attention else None
    return Samples(flat, config.sequence_length, end_of_text, split)


def _step_operations(corpus: Corpus, config: TrainingConfig) -> float:
    """Six for each parameter and token (Kaplan et al. 2020, section 2.1), in one micro-batch."""
    parameters = config.size.parameter_count(corpus.vocabulary_size, config.sequence_length)
    return 6.0 * parameters * config.sequences_at_once * config.sequence_length


def _first_state(run: _Run) -> TrainingState:
    config = run.config
    model = Gpt2(
        config.size,
        vocabulary_size=run.corpus.vocabulary_size,
        positions=config.sequence_length,
        dropout=config.dropout,
        seed=config.seed,
    ).to(run.device)
    optimizer = AdamW(model, beta1=config.beta1, beta2=config.beta2, weight_decay=config.weight_decay)
    return TrainingState(model, optimizer)


def _stats(
    run: _Run,
    state: TrainingState,
    steps: Sequence[StepMetrics],
    evaluations: Sequence[Evaluation],
    resumed_at: int,
    seconds: float,
) -> TrainingStats:
    config = run.config
    tokens_a_step = config.batch_size * config.sequence_length
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
