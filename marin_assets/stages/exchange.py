"""An exchange of rows between shards, through files on disk, so that no process holds them all.

Belongs here: the files in between. Each shard that gives rows writes runs: an Arrow IPC file with the rows for each
bucket one after the other. Each shard that takes rows reads its bucket out of every run. So there are as many files as
runs, and a bucket is read without the others. Does not: what the rows are, or how they are bucketed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marin_assets.stages.tables import row_bytes

if TYPE_CHECKING:
    import polars as pl

_BATCH_BYTES = 256 << 10
"""A bucket's rows hold on to whole record batches, in every run that has some of them: so these are small."""


@dataclass(frozen=True)
class Run:
    """A file of rows by bucket."""

    path: Path
    offsets: tuple[int, ...]
    """The row that each bucket begins with, and the number of all rows."""


def write_run(path: Path, frame: pl.DataFrame, bucket: pl.Expr, buckets: int) -> Run:
    """Write the frame's rows by bucket: `bucket` gives numbers below `buckets`."""
    numbers = frame.select(bucket.alias("bucket"))["bucket"]
    sizes = np.bincount(numbers.to_numpy(), minlength=buckets)
    ordered = frame[numbers.arg_sort()] if buckets > 1 else frame
    rows = max(1, _BATCH_BYTES * frame.height // max(1, int(row_bytes(frame).sum())))
    ordered.write_ipc(path, compression="uncompressed", record_batch_size=rows)
    return Run(path, (0, *np.cumsum(sizes).tolist()))


def read_bucket(runs: Iterable[Run], bucket: int) -> list[pl.DataFrame]:
    """The rows of one bucket: one frame for each run that has any."""
    import polars as pl

    frames = []
    for run in runs:
        first, last = run.offsets[bucket : bucket + 2]
        if first < last:
            frames.append(pl.scan_ipc(run.path).slice(first, last - first).collect())
    return frames
