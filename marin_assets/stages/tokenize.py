"""Documents to token ids, split into train and validation.

Belongs here: the settings, which document goes where, what is counted, which files come out. Does not: encoding
(`text_encoder`), the layout of the cache (`token_cache`).
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
import numpy.typing as npt
import xxhash
from pydantic import Field, JsonValue

from marin_assets.artifacts.stage_config import OPERATIONAL, StageConfig
from marin_assets.cores import available_cores
from marin_assets.errors import InputError
from marin_assets.stages.engine_check import EngineSetting, choose_engine
from marin_assets.stages.tables import Column, part_name, write_part
from marin_assets.stages.text_encoder import EngineName, TextEncoder, Vocabulary, threads_are_ours
from marin_assets.stages.token_cache import FIELD, ShardCounts, TokenShardWriter, write_cache_ledger
from marin_assets.workers import map_shards

if TYPE_CHECKING:
    import polars as pl

    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter
    from marin_assets.stages.tokenizer_file import TokenizerFile

TRAIN = "train"
VALIDATION = "validation"
TOKENIZER_NAME = "tokenizer.json"
STATS_NAME = "stats.json"

COLUMNS = (
    Column("id", "string", "The document whose tokens are in this row of the cache."),
    Column("tokens", "uint64", "Its number of tokens, the end of sequence included."),
)

_SPLIT_SEED = 2019
_SLICE_ROWS = 256
_BATCH_CHARACTERS = 1 << 18

_log = logging.getLogger(__name__)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class TokenizeConfig(StageConfig):
    """How documents become tokens."""

    validation_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the documents kept for validation, chosen by a hash of their id: a document keeps its side."""

    engine: Annotated[EngineSetting, OPERATIONAL] = EngineSetting.auto
    """`huggingface` is the reference. `gigatoken` is many times faster, needs the extra `fast`, and is refused where
    its ids are not those of the reference. `auto` takes it where it is installed and gives the same ids."""

    workers: Annotated[int, Field(ge=0), OPERATIONAL] = 0
    """Processor cores to use at most; 0 takes all."""


@dataclass(frozen=True)
class SplitStats:
    """What one split holds."""

    documents: int
    tokens: int
    """Each document's end of sequence included."""
    text_bytes: int
    bytes_per_token: float
    """`text_bytes / tokens`, 0 without tokens."""
    longest_document_tokens: int


@dataclass(frozen=True)
class TokenizeStats:
    """What came in and what came out; the documents of the two splits add up to `documents`."""

    documents: int
    tokens: int
    text_bytes: int
    bytes_per_token: float
    longest_document_tokens: int
    vocabulary_size: int
    eos_token: str
    eos_id: int
    tokenizer: str
    tokenizer_digest: str
    train: SplitStats
    validation: SplitStats


def tokenize(
    documents: Artifact, tokenizer: TokenizerFile, config: TokenizeConfig, out: ArtifactWriter
) -> TokenizeStats:
    """Encode documents into a token cache for each split.

    Args:
        documents: `part-*.parquet` with `id` and `text`. Each part gives one shard of each split.
        tokenizer: a copy of its file becomes part of the output, so that training takes the vocabulary from there.
        out: gets `tokenizer.json`, and for each split the cache that `token_cache` describes, `stats.json`, and
            `document_ids/part-*.parquet` with the documents in the order of the cache's rows.

    Raises:
        InputError: there are no documents, a column or a text is missing, or the tokenizer cannot be used.
    """
    out.path(TOKENIZER_NAME).write_bytes(tokenizer.path.read_bytes())
    if out.add(TOKENIZER_NAME).digest != tokenizer.digest:
        raise InputError(f"{tokenizer.path}: was changed since this run looked at it. Start the run again.")
    parts = _parts(documents, tokenizer, config, out)
    done: list[_PartStats] = []
    for stats in map_shards(_tokenize_part, parts, workers=config.workers):
        done.append(stats)
        _log.info(
            "tokenized part %d of %d: %d tokens", len(done), len(parts), stats.train.tokens + stats.validation.tokens
        )
    train, validation = [part.train for part in done], [part.validation for part in done]
    if not any(shard.documents for shard in train + validation):
        raise InputError(f"{documents.location}: has no documents to tokenize. Check the pages and what was dropped.")
    vocabulary = done[0].vocabulary
    _finish_split(TRAIN, train, vocabulary, tokenizer.digest, out)
    _finish_split(VALIDATION, validation, vocabulary, tokenizer.digest, out)
    out.columns = {FIELD: "list<int32>"}
    return TokenizeStats(
        **asdict(_split_stats(train + validation)),
        **asdict(vocabulary),
        tokenizer=tokenizer.name,
        tokenizer_digest=tokenizer.digest,
        train=_split_stats(train),
        validation=_split_stats(validation),
    )


@dataclass(frozen=True)
class _Part:
    """One input part, and all that a worker process must know to tokenize it."""

    documents: Path
    name: str
    tokenizer: Path
    tokenizer_digest: str
    engine: EngineName
    validation_fraction: float
    threads: int
    directory: Path
    scratch: Path


@dataclass(frozen=True)
class _ShardStats:
    """What one input part gave to one split."""

    name: str
    documents: int
    tokens: int
    text_bytes: int
    longest_document_tokens: int


@dataclass(frozen=True)
class _PartStats:
    """What one input part gave."""

    vocabulary: Vocabulary
    train: _ShardStats
    validation: _ShardStats


def _parts(documents: Artifact, tokenizer: TokenizerFile, config: TokenizeConfig, out: ArtifactWriter) -> list[_Part]:
    paths = documents.paths("part-*.parquet")
    cores = config.workers or available_cores()
    processes = max(1, min(cores, len(paths)))
    engine = choose_engine(tokenizer, config.engine)
    _log.info("tokenizing with %s", engine.value)
    return [
        _Part(
            documents=path,
            name=part_name(index, len(paths)).removesuffix(".parquet"),
            tokenizer=tokenizer.path,
            tokenizer_digest=tokenizer.digest,
            engine=engine,
            validation_fraction=config.validation_fraction,
            threads=max(1, cores // processes),
            directory=out.directory,
            scratch=out.scratch("tokens"),
        )
        for index, path in enumerate(paths)
    ]


def _tokenize_part(part: _Part) -> _PartStats:
    """Write one shard of each split."""
    encoder = _encoder(part.tokenizer, part.tokenizer_digest, part.engine)
    documents = _read_part(part.documents)
    in_validation = _in_validation(documents["id"], part.validation_fraction)
    with threads_are_ours():
        return _PartStats(
            vocabulary=encoder.vocabulary,
            train=_tokenize_split(part, TRAIN, documents.filter(~in_validation), encoder),
            validation=_tokenize_split(part, VALIDATION, documents.filter(in_validation), encoder),
        )


@lru_cache(maxsize=1)
def _encoder(tokenizer: Path, digest: str, engine: EngineName) -> TextEncoder:  # noqa: ARG001 - part of the key
    """One for all the parts of a process: a large vocabulary takes as long to load as 50 MB of text to encode."""
    return TextEncoder.load(tokenizer, engine)


def _read_part(path: Path) -> pl.DataFrame:
    """Columns `id` and `text` of a part, whose size its makers bound."""
    import polars as pl

    try:
        schema = pl.read_parquet_schema(path)
        if not schema.get("id") == schema.get("text") == pl.String():
            raise InputError(
                f"{path}: needs the string columns `id` and `text`; it has {dict(schema)}. "
                "Give the parts of consolidated_documents, or Parquet files of that shape."
            )
        documents = pl.read_parquet(path, columns=["id", "text"])
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: cannot be read as documents: {error}. Build the documents again.") from error
    without = documents.select(pl.any_horizontal(pl.all().is_null()).arg_true())
    if len(without):
        raise InputError(
            f"{path}: row {without.item(0, 0)} has no `id` or no `text`. Drop such rows before this stage."
        )
    return documents


def _in_validation(ids: pl.Series, fraction: float) -> pl.Series:
    """Which documents are for validation: those whose id has a seeded xxh3-64 below `fraction` of its range.

    It depends on nothing but the id, and a larger fraction only adds documents.
    """
    import polars as pl

    threshold = int(fraction * 2**64)
    hashes = (xxhash.xxh3_64_intdigest(document.encode(), seed=_SPLIT_SEED) for document in ids)
    return pl.Series((value < threshold for value in hashes), dtype=pl.Boolean)


def _tokenize_split(part: _Part, split: str, documents: pl.DataFrame, encoder: TextEncoder) -> _ShardStats:
    """Write the shard of one split."""
    import polars as pl

    writer = TokenShardWriter(
        part.directory / split / part.name,
        part.scratch / f"{split}-{part.name}",
        vocabulary_size=encoder.vocabulary.vocabulary_size,
        metadata=_metadata(encoder.vocabulary, part.tokenizer_digest),
    )
    with writer:
        for tokens in _map_in_threads(partial(_encode, encoder), _batches(_pieces(documents, encoder)), part.threads):
            writer.append(tokens.token_ids, tokens.row_ends, tokens.document_ids)
    path = part.directory / _document_ids_name(split, part.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_part(path, documents.select("id", tokens=pl.Series(writer.row_lengths())), COLUMNS)
    return _ShardStats(
        name=part.name,
        documents=len(documents),
        tokens=writer.counts.tokens,
        text_bytes=int(documents["text"].str.len_bytes().sum()),
        longest_document_tokens=int(writer.row_lengths().max(initial=0)),
    )


def _metadata(vocabulary: Vocabulary, tokenizer_digest: str) -> dict[str, JsonValue]:
    return {"tokenizer_digest": tokenizer_digest, **asdict(vocabulary)}


def _document_ids_name(split: str, shard: str) -> str:
    return f"{split}/document_ids/{shard}.parquet"


@dataclass(frozen=True)
class _Piece:
    """A document's text, or a part of it if that is very long."""

    document_id: str
    text: str
    ends_document: bool


@dataclass(frozen=True)
class _Tokens:
    """Arguments of `TokenShardWriter.append`."""

    token_ids: npt.NDArray[np.int32]
    row_ends: npt.NDArray[np.int64]
    document_ids: list[str]


def _pieces(documents: pl.DataFrame, encoder: TextEncoder) -> Iterator[_Piece]:
    """The documents, each in pieces that can be encoded one by one."""
    for frame in documents.iter_slices(_SLICE_ROWS):
        for document_id, text in zip(frame["id"].to_list(), frame["text"].to_list(), strict=True):
            *before, last = encoder.pieces(text)
            for piece in before:
                yield _Piece(document_id, piece, ends_document=False)
            yield _Piece(document_id, last, ends_document=True)


def _batches(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """Consecutive pieces, about `_BATCH_CHARACTERS` together."""
    batch: list[_Piece] = []
    characters = 0
    for piece in pieces:
        batch.append(piece)
        characters += len(piece.text)
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _encode(encoder: TextEncoder, pieces: list[_Piece]) -> _Tokens:
    """Token ids of the pieces, with the end of sequence after each document."""
    batch = encoder.encode_batch([piece.text for piece in pieces])
    eos_token, eos_id = encoder.vocabulary.eos_token, encoder.vocabulary.eos_id
    in_text = batch.token_ids == eos_id
    if in_text.any():
        piece = pieces[int(np.searchsorted(batch.ends, in_text.argmax(), side="right"))]
        raise InputError(
            f"document {piece.document_id}: the tokenizer takes a part of its text for the end of sequence, "
            f"{eos_token!r} (id {eos_id}). Use a byte-level tokenizer, such as GPT-2's."
        )
    document_ends = batch.ends[[piece.ends_document for piece in pieces]]
    return _Tokens(
        np.insert(batch.token_ids, document_ends, eos_id),
        document_ends + np.arange(1, len(document_ends) + 1),
        [piece.document_id for piece in pieces if piece.ends_document or piece is pieces[-1]],
    )


def _map_in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> Iterator[_Result]:
    """Results in the order of the items, of which few are held at any time."""
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _finish_split(
    split: str, shards: list[_ShardStats], vocabulary: Vocabulary, tokenizer_digest: str, out: ArtifactWriter
) -> None:
    """Write the split's ledger and statistics, and take its files into the artifact."""
    metadata = _metadata(vocabulary, tokenizer_digest)
    counts = [ShardCounts(shard.name, shard.documents, shard.tokens) for shard in shards]
    write_cache_ledger(out.directory / split, counts, metadata)
    stats = asdict(_split_stats(shards)) | metadata
    out.path(f"{split}/{STATS_NAME}").write_text(json.dumps(stats, indent=2) + "\n", encoding="utf-8")
    rows = {_document_ids_name(split, shard.name): shard.documents for shard in shards}
    for path in sorted((out.directory / split).rglob("*")):
        if path.is_file():
            name = path.relative_to(out.directory).as_posix()
            out.add(name, rows=rows.get(name))


def _split_stats(shards: list[_ShardStats]) -> SplitStats:
    tokens = sum(shard.tokens for shard in shards)
    text_bytes = sum(shard.text_bytes for shard in shards)
    return SplitStats(
        documents=sum(shard.documents for shard in shards),
        tokens=tokens,
        text_bytes=text_bytes,
        bytes_per_token=text_bytes / tokens if tokens else 0.0,
        longest_document_tokens=max((shard.longest_document_tokens for shard in shards), default=0),
    )
