"""How well an exported model predicts a text, or a split of a token cache.

Belongs here: every token of a stream, once, in windows as in training; and the sources of such a stream. Does not: the
evaluation while a model is trained (`evaluation`), which reads a fixed number of whole samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import InputError
from marin_assets.gpt2.batches import Batch, places_in_documents
from marin_assets.gpt2.config import Precision
from marin_assets.gpt2.exported_model import ExportedModel
from marin_assets.gpt2.forward import batch_loss_sum
from marin_assets.gpt2.loss import IGNORED
from marin_assets.gpt2.model import Gpt2
from marin_assets.stages.text_encoder import TextEncoder
from marin_assets.stages.token_cache import TokenCache

_TOKENS_AT_ONCE = 8192

TokenChunks = Iterable[npt.NDArray[np.int32]]


@dataclass(frozen=True)
class TextEvaluation:
    """What a model makes of a text."""

    tokens: int
    """Tokens predicted. The first of each document is not: nothing comes before it."""
    loss: float
    """Nats per token."""
    bits_per_byte: float | None
    """Bits per byte of text, which compares across tokenizers; None where the bytes are not known."""

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)


def evaluate_text_file(exported: ExportedModel, path: Path) -> TextEvaluation:
    """Evaluate on a file of UTF-8 text, taken as one document.

    Raises:
        InputError: the file is no UTF-8 text, or too short to predict anything.
    """
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}; convert the file") from error
    ids = _document(exported.encoder, text)
    if len(ids) < 2 or not text:
        raise InputError(f"{path}: has no text to evaluate on")
    return _evaluate(exported, [ids], bytes_per_token=len(data) / len(ids))


def evaluate_token_cache(exported: ExportedModel, directory: Path, split: str) -> TextEvaluation:
    """Evaluate on one split of a `token_cache` artifact on local disk.

    Args:
        split: `train` or `validation`.

    Raises:
        InputError: it is no token cache, was made with another tokenizer, or is empty.
    """
    cache = TokenCache.open(directory / split)
    _check_same_tokenizer(exported, directory / "tokenizer.json")
    if cache.total_tokens < 2:
        raise InputError(f"{directory / split}: has {cache.total_tokens} tokens, too few to evaluate on")
    stats_path = directory / split / "stats.json"
    bytes_per_token = json.loads(stats_path.read_text()).get("bytes_per_token") if stats_path.exists() else None
    return _evaluate(exported, cache.token_chunks(), bytes_per_token=bytes_per_token)


def _check_same_tokenizer(exported: ExportedModel, tokenizer: Path) -> None:
    if tokenizer.exists() and file_digest(tokenizer) != file_digest(exported.tokenizer_path):
        raise InputError(
            f"the tokens of {tokenizer.parent} were made with another tokenizer than the model's, "
            f"{exported.tokenizer_path}; evaluate on the text itself"
        )


def _document(encoder: TextEncoder, text: str) -> npt.NDArray[np.int32]:
    """Token ids of the text and its end."""
    pieces = encoder.encode_batch(list(encoder.pieces(text)))
    return np.concatenate([pieces.token_ids, np.array([encoder.vocabulary.eos_id], dtype=np.int32)])


@torch.no_grad()
def _evaluate(exported: ExportedModel, chunks: TokenChunks, *, bytes_per_token: float | None) -> TextEvaluation:
    model = exported.model
    total, tokens = 0.0, 0
    for batch in _batches(model, chunks, exported.encoder.vocabulary.eos_id):
        total += float(batch_loss_sum(model, batch, Precision.float32))
        tokens += batch.target_count()
    loss = total / max(1, tokens)
    return TextEvaluation(tokens, loss, loss / math.log(2) / bytes_per_token if bytes_per_token else None)


def _batches(model: Gpt2, chunks: TokenChunks, end_of_text: int) -> Iterator[Batch]:
    """Windows of the model's length, each with the token after it; the last one is filled up."""
    length = model.positions
    device = model.token_embedding.weight.device
    rows_at_once = max(1, _TOKENS_AT_ONCE // length)
    for tokens in _overlapping(chunks, rows_at_once * length):
        rows = -(-(len(tokens) - 1) // length)
        padded = np.full(rows * length + 1, IGNORED, dtype=np.int64)
        padded[: len(tokens)] = tokens
        targets = torch.from_numpy(padded[1:].reshape(rows, length))
        token_ids = torch.from_numpy(padded[:-1].reshape(rows, length).clip(min=0))
        ends = token_ids == end_of_text
        yield Batch(
            token_ids.to(device),
            targets.masked_fill(ends, IGNORED).to(device),
            places_in_documents(ends).to(device),
        )


def _overlapping(chunks: TokenChunks, size: int) -> Iterator[npt.NDArray[np.int32]]:
    """The stream in arrays of `size` tokens and the first of the next array; the last one may be shorter."""
    waiting = np.empty(0, dtype=np.int32)
    for chunk in chunks:
        waiting = np.concatenate([waiting, chunk])
        start = 0
        while len(waiting) - start > size:
            yield waiting[start : start + size + 1]
            start += size
        waiting = waiting[start:]
    if len(waiting) > 1:
        yield waiting
