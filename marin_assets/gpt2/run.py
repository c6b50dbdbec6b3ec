"""One training run: its fixed parts, and the state that it starts from.

Belongs here: everything that is made and checked before the first step. Does not: steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from marin_assets.artifacts.download_cache import DownloadCache, cache_limit_bytes
from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import SettingsError, TrainingError
from marin_assets.gpt2.batches import Samples, TrainingBatch
from marin_assets.gpt2.checkpoints import Checkpoints, TrainingState
from marin_assets.gpt2.compilation import compile_blocks
from marin_assets.gpt2.config import TrainingConfig, divisors_near, either
from marin_assets.gpt2.corpus import Corpus
from marin_assets.gpt2.forward import BatchLoss
from marin_assets.gpt2.initial_model import initial_model
from marin_assets.gpt2.initial_weights import digests
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.optimizer import AdamW
from marin_assets.gpt2.ranks import Ranks
from marin_assets.gpt2.spread import spread
from marin_assets.gpt2.throughput import Throughput, flops_per_token, peak_flops
from marin_assets.gpt2.token_file import FlatTokens, open_token_file

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

logger = logging.getLogger(__name__)

OnMetrics = Callable[[StepMetrics], None]


@dataclass(frozen=True)
class Run:
    """One run's fixed parts, on one rank."""

    config: TrainingConfig
    machine: Machine
    corpus: Corpus
    device: torch.device
    ranks: Ranks
    train: Samples
    validation: Samples | None
    checkpoints: Checkpoints
    throughput: Throughput
    on_metrics: OnMetrics | None

    @property
    def sequences_at_once(self) -> int:
        """Sequences of a micro-batch on this rank."""
        return self.config.micro_batch_size or self.config.batch_size // self.ranks.count

    def batch(self, step: int) -> TrainingBatch:
        """What this rank reads in a step, counted from 0."""
        made = self.train.training_batch(step, self.config.batch_size, self.config.seed, self.ranks)
        return made.pinned() if self.device.type == "cuda" else made


def prepare(
    corpus: Corpus,
    config: TrainingConfig,
    machine: Machine,
    device: torch.device,
    ranks: Ranks,
    out: ArtifactWriter,
    on_metrics: OnMetrics | None,
) -> Run:
    """Stage the tokens and check what can be checked before the first step.

    Raises:
        InputError: the tokens are not what the cache says.
        SettingsError: the batch does not divide over the ranks.
        TrainingError: too few tokens.
    """
    _check_division(config, ranks)
    folder = machine.token_files or out.scratch("tokens")
    train = _samples(corpus, corpus.train, "train", folder, config, ranks)
    validation = None
    try:
        validation = _samples(corpus, corpus.validation, "validation", folder, config, ranks)
    except TrainingError as too_short:
        logger.warning("no validation loss: %s", too_short)
    logger.info("%d sequences an epoch, %d tokens left over at the end", len(train), train.dropped_tokens)
    identity = config.decides_weights() | {
        "token_cache": corpus.digest,
        "tokenizer": file_digest(corpus.tokenizer_path),
        "vocabulary_size": corpus.vocabulary_size,
        **digests(config.init_from),
    }
    checkpoints = Checkpoints(out.directory / "checkpoints", identity, config.keep_checkpoints, ranks)
    token_flops = flops_per_token(config.size, corpus.vocabulary_size, config.sequence_length)
    peak = peak_flops(device, config.precision)
    throughput = Throughput(token_flops, peak and peak * ranks.count)
    return Run(config, machine, corpus, device, ranks, train, validation, checkpoints, throughput, on_metrics)


def first_state(run: Run) -> TrainingState:
    """The model before its first step, spread over the ranks, and an optimizer that has seen no gradient.

    Raises:
        InputError: `init_from` holds no whole GPT-2.
        SettingsError: its model does not fit the settings or the tokens.
    """
    config, machine = run.config, run.machine
    model = initial_model(config, run.corpus.vocabulary_size)
    model.checkpoint_activations = machine.checkpoint_activations
    if machine.compile:
        example = next(run.batch(0).batch.micro_batches(run.sequences_at_once, run.device))
        compile_blocks(model.to(run.device), example, config.precision)
    loss_sum = BatchLoss(model, config.precision)
    training_loss = spread(loss_sum, run.ranks, run.device, shard=machine.shard)
    optimizer = AdamW(model, beta1=config.beta1, beta2=config.beta2, weight_decay=config.weight_decay)
    return TrainingState(model, loss_sum, training_loss, optimizer)


def _check_division(config: TrainingConfig, ranks: Ranks) -> None:
    count, batch = ranks.count, config.batch_size
    if batch % count:
        nearest = either(batch // count * count, -(-batch // count) * count)
        raise SettingsError(f"batch_size {batch} does not divide over {count} processes; set it to {nearest}")
    share = batch // count
    if share % (config.micro_batch_size or share):
        raise SettingsError(
            f"micro_batch_size {config.micro_batch_size} does not divide the {share} sequences that each of {count} "
            f"processes has of batch_size {batch}; set it to {divisors_near(config.micro_batch_size, share)}"
        )


def _samples(
    corpus: Corpus, tokens: FlatTokens, split: str, folder: Path, config: TrainingConfig, ranks: Ranks
) -> Samples:
    """A split, whose flat file the first rank of each machine makes while the others wait."""
    cache = DownloadCache(folder, cache_limit_bytes())
    if ranks.rank_on_node > 0:
        ranks.wait()
    flat = open_token_file(tokens, cache, digest=corpus.digest, vocabulary_size=corpus.vocabulary_size, split=split)
    if ranks.rank_on_node == 0:
        ranks.wait()
    end_of_text = corpus.end_of_text_id if config.block_cross_document_attention else None
    return Samples(flat, config.sequence_length, end_of_text, split)
