"""The shape of our Parquet tables: columns with descriptions, part names, how parts are written.

Belongs here: what every stage's Parquet files have in common. Does not: what the columns of one stage are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

ROW_GROUP_BYTES = 64 << 20
PART_BYTES = 256 << 20


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
    """Write one part: zstd, the columns' types even when empty, row groups of at most 64 MiB of data.

    A single row larger than a row group gets one of its own.
    """
    schema = polars_schema(columns)
    frame = frame.select(list(schema)).cast(schema)
    frame.write_parquet(path, compression="zstd", row_group_size=_rows_per_group(frame), statistics=True)


def _rows_per_group(frame: pl.DataFrame) -> int:
    """The largest row count for which no group exceeds the limit, found by halving."""
    import polars as pl

    if frame.is_empty():
        return 1
    text_bytes = sum(
        (frame[name].str.len_bytes().fill_null(0) for name, dtype in frame.schema.items() if dtype == pl.String),
        start=pl.repeat(16 * frame.width, frame.height, dtype=pl.UInt64, eager=True),
    )
    rows = frame.height
    while rows > 1:
        groups = pl.DataFrame({"group": pl.int_range(frame.height, eager=True) // rows, "bytes": text_bytes})
        if groups.group_by("group").agg(pl.sum("bytes"))["bytes"].le(ROW_GROUP_BYTES).all():
            break
        rows //= 2
    return rows
