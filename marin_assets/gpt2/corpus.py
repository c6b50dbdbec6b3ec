"""What the trainer needs of a token cache: two splits, a tokenizer, and a few numbers about them.

Belongs here: the one place that knows how the `token_cache` artifact is laid out. The rest of the trainer reads
`Corpus`, which anything that has tokens can make.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError
from tokenizers import Tokenizer

from marin_assets.errors import InputError
from marin_assets.gpt2.token_file import FlatTokens
from marin_assets.stages.token_cache import TokenCache

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.manifest import Manifest


@dataclass(frozen=True)
class Corpus:
    """Tokens to train on and to evaluate on."""

    train: FlatTokens
    validation: FlatTokens
    tokenizer_path: Path
    """A `tokenizer.json` of the Hugging Face `tokenizers` library."""
    vocabulary_size: int
    end_of_text: str
    """The token that ends each document."""
    end_of_text_id: int
    validation_bytes_per_token: float | None
    """Bytes of UTF-8 text per token of the validation split; None where unknown."""
    digest: str
    """Two corpora of one digest hold the same tokens."""
    origin: tuple[Manifest, ...] = ()
    """The token cache and what it was made from, nearest first; empty where the tokens are from elsewhere."""

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self.tokenizer_path))


class _SplitStats(BaseModel):
    model_config = ConfigDict(extra="ignore")
    bytes_per_token: float


class _TokenCacheStats(BaseModel):
    """The counts of a token cache that training depends on."""

    model_config = ConfigDict(extra="ignore")
    vocabulary_size: int
    eos_token: str
    eos_id: int
    validation: _SplitStats


def open_corpus(tokens: Artifact) -> Corpus:
    """Bring a `token_cache` artifact to local disk and open it.

    Raises:
        DamagedArtifactError: a file is missing, truncated or altered.
        InputError: the artifact is no token cache.
    """
    try:
        stats = _TokenCacheStats.model_validate(tokens.stats)
        return Corpus(
            train=_split(tokens, "train"),
            validation=_split(tokens, "validation"),
            tokenizer_path=tokens.path("tokenizer.json"),
            vocabulary_size=stats.vocabulary_size,
            end_of_text=stats.eos_token,
            end_of_text_id=stats.eos_id,
            validation_bytes_per_token=stats.validation.bytes_per_token or None,
            digest=tokens.content_digest,
            origin=(tokens.manifest, *tokens.ancestors()),
        )
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors())
        raise InputError(f"the stats of {tokens.location} are not those of a token cache: {wrong}") from error
    except KeyError as error:
        raise InputError(f"not a whole token cache: {error.args[0]}; materialize token_cache with force") from error


def _split(tokens: Artifact, split: str) -> TokenCache:
    ledger = tokens.path(f"{split}/shard_ledger.json")
    tokens.paths(f"{split}/*/input_ids/*")
    return TokenCache.open(ledger.parent)
