"""The shape of our Parquet tables: columns with descriptions, part names, how parts are written.

Belongs here: what every stage's Parquet files have in common. Does not: what the columns of one stage are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marin_assets.errors import InputError

if TYPE_CHECKING:
    import polars as pl

ROW_GROUP_BYTES = 64 << 20
PART_BYTES = 256 << 20
ZSTD_LEVEL = 1
"""Level 3 takes twice the time for files that are a seventh smaller."""


@dataclass(frozen=True)
class Column:
    """One column: `type` is `string`, `uint32`, `uint64`, `spans` or `float64`."""

    name: str
    type: str
    description: str


def polars_schema(columns: Iterable[Column]) -> pl.Schema:
    """The Polars types of the columns, in order."""
    import polars as pl

    types: dict[str, pl.DataType] = {
        "string": pl.String(),
        "uint32": pl.UInt32(),
        "uint64": pl.UInt64(),
        "float64": pl.Float64(),
        "spans": pl.List(pl.Struct({"start": pl.UInt32(), "end": pl.UInt32()})),
    }
    return pl.Schema({column.name: types[column.type] for column in columns})


def column_types(columns: Iterable[Column]) -> dict[str, str]:
    """Type by column name, as the manifest keeps them."""
    return {column.name: column.type for column in columns}


def part_name(index: int, count: int) -> str:
    """`part-00000-of-00004.parquet`."""
    return f"part-{index:05d}-of-{count:05d}.parquet"


def write_part(path: Path, frame: pl.DataFrame, columns: Iterable[Column]) -> None:
    """Write one part with these columns, of their types even when empty; otherwise as `write_frame`."""
    schema = polars_schema(columns)
    write_frame(path, frame.select(list(schema)).cast(schema))


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame as it is: zstd, row groups of at most 64 MiB of data.

    A row that is larger by itself makes its group larger. The bytes depend on the rows alone: not on how the frame is
    held in memory, nor on the number of threads.
    """
    rows = rows_per_group(row_bytes(frame))
    frame.rechunk().write_parquet(path, compression="zstd", compression_level=ZSTD_LEVEL, row_group_size=rows)


def rows_per_group(row_bytes: pl.Series) -> int:
    """The largest row count, found by halving, for which no group exceeds the limit."""
    sizes = row_bytes.to_numpy()
    sizes = np.where(sizes > ROW_GROUP_BYTES, 0, sizes)
    rows = max(1, len(sizes))
    while rows > 1 and np.add.reduceat(sizes, np.arange(0, len(sizes), rows)).max() > ROW_GROUP_BYTES:
        rows = -(-rows // 2)
    return rows


def require_columns(path: Path, names: Iterable[str]) -> None:
    """Check that a Parquet file has these columns.

    Raises:
        InputError: the file is no Parquet, or lacks one of them.
    """
    import polars as pl

    try:
        present = pl.read_parquet_schema(path)
    except (pl.exceptions.ComputeError, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({error}). Write it again or take it away.") from error
    missing = [name for name in names if name not in present]
    if missing:
        raise InputError(
            f"{path} lacks the columns {missing}; it has {list(present)}. Was it written by another stage?"
        )


def batches(frame: pl.DataFrame, batch_bytes: int) -> Iterator[pl.DataFrame]:
    """Slices of the frame, in order, that hold at most `batch_bytes` each, or one row that is larger."""
    ends = row_bytes(frame).cum_sum()
    start = 0
    while start < frame.height:
        before = ends[start - 1] if start else 0
        end = max(start + 1, ends.search_sorted(before + batch_bytes, side="right"))
        yield frame[start:end]
        start = end


def row_bytes(frame: pl.DataFrame) -> pl.Series:
    """About what each row holds: 8 bytes a value, and what its strings and lists are made of."""
    import polars as pl

    bytes_of = [pl.lit(8 * frame.width, dtype=pl.UInt64)]
    bytes_of += [pl.col(name).str.len_bytes().fill_null(0) for name, kind in frame.schema.items() if kind == pl.String]
    bytes_of += [pl.col(name).bin.size().fill_null(0) for name, kind in frame.schema.items() if kind == pl.Binary]
    bytes_of += [8 * pl.col(name).list.len().fill_null(0) for name, kind in frame.schema.items() if kind == pl.List]
    return frame.select(pl.sum_horizontal(bytes_of).cast(pl.UInt64).alias("bytes"))["bytes"]
