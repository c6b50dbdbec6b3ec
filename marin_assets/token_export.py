"""Tokens out of the store, as files for other trainers.

Belongs here: which splits of a `token_cache` artifact are written, and under which names. Does not: the formats
(`token_formats`).
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.stages.token_cache import TokenCache
from marin_assets.token_formats import TokenFormat, Tokens, write_tokens

SPLITS = ("train", "validation")

# Each reader's own habit: nanoGPT opens `val.bin`, datatrove all files of a folder.
_NAMES = {
    TokenFormat.bin: {"train": "train", "validation": "val"},
    TokenFormat.megatron: {"train": "train", "validation": "validation"},
    TokenFormat.datatrove: {"train": "train/00000_tokens", "validation": "validation/00000_tokens"},
}

_log = logging.getLogger(__name__)


class _TokenCacheStats(BaseModel):
    model_config = ConfigDict(extra="ignore")

    vocabulary_size: int
    tokenizer: str


def export_tokens(tokens: Artifact, token_format: TokenFormat, output: Path, splits: Sequence[str] = ()) -> list[Path]:
    """Write splits of a token cache below a folder.

    Args:
        tokens: an artifact of `token_cache`.
        splits: names; by default all that have documents.

    Returns:
        The files that were written.

    Raises:
        InputError: a split that was asked for has no documents, the format cannot hold the tokens, or the artifact is
            no token cache.
        DamagedArtifactError: a file of the artifact is missing, truncated or altered.
    """
    try:
        stats = _TokenCacheStats.model_validate(tokens.stats)
        caches = {split: _open(tokens, split) for split in splits or SPLITS}
    except (ValidationError, KeyError) as error:
        raise InputError(f"{tokens.location}: not a token cache: {error}. Materialize token_cache again.") from error
    written: list[Path] = []
    for split, cache in caches.items():
        if cache.rows:
            source = Tokens(cache, stats.vocabulary_size, stats.tokenizer)
            written += write_tokens(source, token_format, output / _NAMES[token_format][split])
        elif splits:
            raise InputError(f"{tokens.location}: the split {split} has no documents, so there is nothing to export.")
        else:
            _log.warning("the split %s has no documents and is left out", split)
    return written


def _open(tokens: Artifact, split: str) -> TokenCache:
    ledger = tokens.path(f"{split}/shard_ledger.json")
    tokens.paths(f"{split}/*/input_ids/*")
    return TokenCache.open(ledger.parent)
