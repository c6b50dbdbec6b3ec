"""An exchange of rows between shards, through files on disk, so that no process holds them all.

Belongs here: the files in between. Each shard that gives rows writes runs: one file with the rows for each bucket one
after the other, as Arrow IPC streams. Each shard that takes rows reads its bucket out of every run. So there are as
many files as runs, and a bucket is read without the others. Does not: what the rows are, or how they are bucketed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Run:
    """A file of rows by bucket."""

    path: Path
    offsets: tuple[int, ...]
    """Where each bucket begins in the file, and where the last one ends."""


def write_run(path: Path, frame: pl.DataFrame, bucket: pl.Expr, buckets: int) -> Run:
    """Write the frame's rows by bucket: `bucket` gives numbers below `buckets`."""
    import polars as pl

    numbers = frame.select(bucket.alias("bucket"))["bucket"]
    sizes = np.bincount(numbers.to_numpy(), minlength=buckets).tolist()
    frame = frame[numbers.arg_sort()] if buckets > 1 else frame
    offsets = [0]
    first = 0
    with path.open("wb") as stream:
        for size in sizes:
            if size:
                rows = frame.slice(first, size)
                rows.write_ipc_stream(stream, compression="lz4", compat_level=pl.CompatLevel.newest())
            first += size
            offsets.append(stream.tell())
    return Run(path, tuple(offsets))


def read_bucket(runs: Iterable[Run], bucket: int) -> list[pl.DataFrame]:
    """The rows of one bucket: one frame for each run that has any."""
    import polars as pl

    frames = []
    for run in runs:
        start, end = run.offsets[bucket : bucket + 2]
        if start < end:
            with run.path.open("rb") as stream:
                stream.seek(start)
                frames.append(pl.read_ipc_stream(BytesIO(stream.read(end - start))))
    return frames
