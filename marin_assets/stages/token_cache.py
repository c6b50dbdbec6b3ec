"""The files that tokens are kept in: the layout of Levanter's `TreeCache`, written and read.

Belongs here: names, arrays and ledgers of a split's cache. Does not: how tokens are made, or how batches are drawn.

A cache is a folder with `shard_ledger.json` and a folder for each shard. A shard holds rows of token ids as two zarr3
arrays: `input_ids/data`, the ids of all rows one after the other, and `input_ids/offsets`, the number of rows
followed by the end of each row in `data`. Any other files beside these are ignored by readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from marin_assets.errors import InputError

if TYPE_CHECKING:
    import tensorstore

FIELD = "input_ids"
LEDGER_NAME = "shard_ledger.json"
SUCCESS_NAME = ".success"

# Levanter opens arrays of this one shape, and keeps their true length in the offsets.
_SHAPE = 1 << 54
_CHUNK = 1 << 27  # elements in one file
_INNER_CHUNK = 1 << 18  # elements that are compressed together


class ShardLedgerMetadata(BaseModel):
    """What the maker of a cache says about it; Levanter compares it to the settings of a run."""

    model_config = ConfigDict(frozen=True)

    preprocessor_metadata: dict[str, JsonValue] | None = None


class ShardLedger(BaseModel):
    """`shard_ledger.json`, with Levanter's field names. Unknown fields are ignored, as there."""

    model_config = ConfigDict(frozen=True)

    total_num_rows: int
    shard_rows: dict[str, int]
    is_finished: bool = False
    finished_shards: list[str] = []
    field_counts: dict[str, int] = {}
    """Tokens in all, by field."""
    field_counts_by_shard: dict[str, dict[str, int]] = {}
    layout: str = "consolidated"
    """`sharded` where the rows are in the shards' folders, `consolidated` where they are in this one."""
    metadata: ShardLedgerMetadata = ShardLedgerMetadata()


@dataclass(frozen=True)
class ShardCounts:
    """What one shard holds."""

    name: str
    rows: int
    tokens: int


class TokenShardWriter:
    """Writes one shard, in memory that does not grow with it: token ids wait in a flat file until all are there.

    Each zarr3 file is then written in one go, so that the same ids give the same bytes. Use it as a context manager;
    the shard is finished when the block ends without an error.
    """

    def __init__(
        self, directory: Path, flat_file: Path, *, vocabulary_size: int, metadata: Mapping[str, JsonValue]
    ) -> None:
        """Start a shard.

        Args:
            directory: the shard's folder, named for the shard. Made if missing.
            flat_file: where token ids may wait, on the same disk. Removed at the end.
            vocabulary_size: ids must be below it.
            metadata: for the shard's ledger.
        """
        self.directory = directory
        self._flat_file = flat_file
        self._vocabulary_size = vocabulary_size
        self._metadata = dict(metadata)
        self._tokens = 0
        self._row_ends: list[npt.NDArray[np.int64]] = []
        directory.mkdir(parents=True, exist_ok=True)
        self._stream = flat_file.open("wb")

    def append(
        self, token_ids: npt.NDArray[np.int32], row_ends: npt.NDArray[np.int64], document_ids: Sequence[str]
    ) -> None:
        """Add token ids. A row may go on from one call to the next.

        Args:
            token_ids: flat.
            row_ends: for each row that ends here, the position in `token_ids` after its last token, ascending.
            document_ids: for each row that has tokens here, the document it is from: for error messages.

        Raises:
            InputError: a token id is not in the vocabulary.
        """
        outside = (token_ids < 0) | (token_ids >= self._vocabulary_size)
        if outside.any():
            position = int(outside.argmax())
            document = document_ids[int(np.searchsorted(row_ends, position, side="right"))]
            raise InputError(
                f"document {document}: token id {token_ids[position]} is not in the vocabulary of "
                f"{self._vocabulary_size} tokens. Check that the tokenizer's file is whole."
            )
        token_ids.astype("<i4", copy=False).tofile(self._stream)
        self._row_ends.append(row_ends + self._tokens)
        self._tokens += len(token_ids)

    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each row so far."""
        return np.diff(self._all_row_ends(), prepend=0)

    @property
    def counts(self) -> ShardCounts:
        """Rows and tokens so far."""
        return ShardCounts(self.directory.name, sum(map(len, self._row_ends)), self._tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.close()
        if error_type is None:
            self._finish()
        self._flat_file.unlink()

    def _finish(self) -> None:
        row_ends = self._all_row_ends()
        assert self._tokens == (row_ends[-1] if len(row_ends) else 0), "the last row was not ended"
        _write_array(self.directory / FIELD / "offsets", np.concatenate([[len(row_ends)], row_ends]).astype(np.int64))
        _write_array(self.directory / FIELD / "data", self._flat_tokens())
        counts = self.counts
        ledger = ShardLedger(
            total_num_rows=counts.rows,
            shard_rows={counts.name: counts.rows},
            is_finished=True,
            finished_shards=[counts.name],
            field_counts={FIELD: counts.tokens},
            metadata=ShardLedgerMetadata(preprocessor_metadata=self._metadata),
        )
        _write_ledger(self.directory, ledger)
        (self.directory / SUCCESS_NAME).write_bytes(b"")

    def _all_row_ends(self) -> npt.NDArray[np.int64]:
        return np.concatenate([np.empty(0, dtype=np.int64), *self._row_ends])

    def _flat_tokens(self) -> npt.NDArray[np.int32]:
        if self._tokens == 0:
            return np.empty(0, dtype=np.int32)  # an empty file cannot be mapped
        return np.memmap(self._flat_file, dtype="<i4", mode="r")


def write_cache_ledger(directory: Path, shards: Sequence[ShardCounts], metadata: Mapping[str, JsonValue]) -> None:
    """Write the ledger that makes a cache of finished shards, in the order of `shards`."""
    ledger = ShardLedger(
        total_num_rows=sum(shard.rows for shard in shards),
        shard_rows={shard.name: shard.rows for shard in shards},
        is_finished=True,
        finished_shards=[shard.name for shard in shards],
        field_counts={FIELD: sum(shard.tokens for shard in shards)},
        field_counts_by_shard={shard.name: {FIELD: shard.tokens} for shard in shards},
        layout="sharded",
        metadata=ShardLedgerMetadata(preprocessor_metadata=dict(metadata)),
    )
    _write_ledger(directory, ledger)


@dataclass(frozen=True)
class TokenCache:
    """A finished cache on local disk, to be read from start to end."""

    directory: Path
    shards: tuple[ShardCounts, ...]

    @classmethod
    def open(cls, directory: Path) -> TokenCache:
        """Read the ledger. No tokens are read yet.

        Raises:
            InputError: there is no ledger, or it is not that of a finished, sharded cache.
        """
        path = directory / LEDGER_NAME
        try:
            ledger = ShardLedger.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise InputError(f"{directory}: not a token cache: it has no {LEDGER_NAME}. Build token_cache.") from None
        except ValidationError as error:
            raise InputError(f"{path}: not a ledger of a token cache: {error}. Build token_cache again.") from error
        if not ledger.is_finished or ledger.layout != "sharded":
            raise InputError(
                f"{path}: this reads finished caches of layout 'sharded'; it says is_finished={ledger.is_finished}, "
                f"layout={ledger.layout!r}. Build token_cache again."
            )
        try:
            shards = tuple(
                ShardCounts(name, ledger.shard_rows[name], ledger.field_counts_by_shard[name][FIELD])
                for name in ledger.finished_shards
            )
        except KeyError as error:
            raise InputError(f"{path}: nothing is said of {error.args[0]!r}. Build token_cache again.") from error
        return cls(directory, shards)

    @property
    def rows(self) -> int:
        """Documents."""
        return sum(shard.rows for shard in self.shards)

    @property
    def total_tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    def token_chunks(self, chunk_tokens: int = 1 << 22) -> Iterator[npt.NDArray[np.int32]]:
        """The ids of all rows, flat and in order, in arrays of at most `chunk_tokens`.

        Raises:
            InputError: a shard does not hold what the ledger says.
        """
        for shard in self.shards:
            if shard.tokens == 0:
                continue
            data = _open_array(self.directory / shard.name / FIELD / "data", shard.tokens)
            for start in range(0, shard.tokens, chunk_tokens):
                yield np.asarray(data[start : min(start + chunk_tokens, shard.tokens)].read().result(), dtype=np.int32)

    def row_offsets(self) -> npt.NDArray[np.int64]:
        """Where each row starts in the flat ids, and last their number: `rows + 1` ascending values from 0.

        Raises:
            InputError: a shard does not hold what the ledger says.
        """
        offsets = [np.zeros(1, dtype=np.int64)]
        for shard in self.shards:
            if shard.rows:
                offsets.append(self._row_ends(shard) + offsets[-1][-1])
        return np.concatenate(offsets)

    def _row_ends(self, shard: ShardCounts) -> npt.NDArray[np.int64]:
        path = self.directory / shard.name / FIELD / "offsets"
        stored = np.asarray(_open_array(path, shard.rows + 1)[: shard.rows + 1].read().result(), dtype=np.int64)
        if stored[0] != shard.rows or stored[-1] != shard.tokens:
            raise InputError(
                f"{path}: holds {stored[0]} rows and {stored[-1]} tokens, and the ledger says {shard.rows} and "
                f"{shard.tokens}. Build token_cache again."
            )
        return stored[1:]


def _write_ledger(directory: Path, ledger: ShardLedger) -> None:
    (directory / LEDGER_NAME).write_text(ledger.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _array_spec(path: Path, data_type: str) -> dict[str, JsonValue]:
    codecs: list[JsonValue] = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}},
    ]
    sharding: dict[str, JsonValue] = {
        "chunk_shape": [_INNER_CHUNK],
        "codecs": codecs,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    }
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        # Else ids that are all 0 would give no file, and a reader could not tell that from a file that was lost.
        "store_data_equal_to_fill_value": True,
        "metadata": {
            "shape": [_SHAPE],
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [_CHUNK]}},
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        },
    }


def _write_array(path: Path, values: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> None:
    import tensorstore as ts

    array = ts.open(_array_spec(path, values.dtype.name), create=True, delete_existing=True).result()
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        array[start : start + len(chunk)].write(chunk).result()


def _open_array(path: Path, elements: int) -> tensorstore.TensorStore:
    """Open an array of which `elements` were written.

    Raises:
        InputError: it, or one of its files, does not exist: where there is none, only zeros would be read.
    """
    import tensorstore as ts

    for chunk in range(-(-elements // _CHUNK)):
        if not (path / "c" / str(chunk)).is_file():
            raise InputError(f"{path}: the file c/{chunk} is missing. Build token_cache again.")
    try:
        return ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}, open=True).result()
    except ValueError as error:
        raise InputError(f"{path}: not an array of a token cache: {error}. Build token_cache again.") from error
