"""One update of the weights.

Belongs here: from a batch to new weights, or to the reason why not.
"""

import math
import time
from contextlib import nullcontext

import torch
import xxhash
from torch import Tensor

from marin_assets.errors import TrainingError
from marin_assets.gpt2.batches import TrainingBatch
from marin_assets.gpt2.checkpoints import TrainingState
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.run import Run
from marin_assets.gpt2.schedule import learning_rate
from marin_assets.gpt2.spread import gradients_kept_apart, whole
from marin_assets.gpt2.throughput import peak_memory_bytes


def training_step(run: Run, state: TrainingState, batch: TrainingBatch) -> StepMetrics:
    """One update from one batch, whose tokens weigh the same in whatever micro-batch or rank they are.

    Raises:
        TrainingError: loss or gradient is not finite; nothing was changed.
    """
    config = run.config
    started = time.perf_counter()
    _seed_dropout(run, state.step)
    loss = run.ranks.sum(_backward(run, state, batch))
    grad_norm = _clip_gradients(state, config.grad_clip)
    rate = learning_rate(state.step, config)
    if not (math.isfinite(float(loss)) and math.isfinite(float(grad_norm))):
        raise TrainingError(_not_finite(run, state.step + 1, float(loss), float(grad_norm), rate, batch))
    state.is_whole = False
    state.optimizer.step(rate)
    state.step += 1
    state.is_whole = True

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


def _backward(run: Run, state: TrainingState, batch: TrainingBatch) -> Tensor:
    """Add up gradients. Returns this rank's part of the mean loss over the step's tokens."""
    loss = torch.zeros((), device=run.device)
    micro_batches = list(batch.batch.micro_batches(run.sequences_at_once, run.device))
    for number, micro_batch in enumerate(micro_batches, 1):
        is_last = number == len(micro_batches)
        with nullcontext() if is_last else gradients_kept_apart(state.training_loss):
            part = state.training_loss(micro_batch) / batch.target_count
            (part * run.ranks.count).backward()  # what spreads a model takes the mean over ranks
        loss += part.detach()
    return loss


def _seed_dropout(run: Run, step: int) -> None:
    """Draw dropout from the step, so that nothing but its number is needed to go on, and no two ranks drop the same."""
    if run.config.dropout:
        key = f"{run.config.seed}:{step}:{run.ranks.rank}"
        torch.manual_seed(xxhash.xxh3_64_intdigest(key.encode()))


def _clip_gradients(state: TrainingState, limit: float) -> Tensor:
    """Scale the gradients so that their norm over all ranks is at most `limit`. Returns the norm from before."""
    parameters = list(state.model.parameters())
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm(gradients))
    if limit:
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


def _not_finite(run: Run, step: int, loss: float, grad_norm: float, rate: float, batch: TrainingBatch) -> str:
    kept = run.checkpoints.paths()
    return (
        f"step {step} was not made: its loss is {loss} and its gradient norm {grad_norm}, at learning rate {rate:.3g}, "
        f"on samples {batch.samples.tolist()}. Lower learning_rate, raise warmup_steps, or set grad_clip to 1. "
        + (f"The newest checkpoint is {kept[-1]}" if kept else "There is no checkpoint yet")
    )
