"""Writes a part row by row, in bounded memory.

Belongs here: how rows wait on disk until a part is complete. Does not: what a part looks like, which `tables` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marin_assets.stages.tables import Column, polars_schema, row_bytes, rows_per_group, write_part

if TYPE_CHECKING:
    import polars as pl

BATCH_BYTES = 64 << 20


class PartWriter:
    """Gathers rows, and writes the file that `write_part` would write of them all at once.

    Args:
        path: the part.
        scratch: a folder for batches of rows, made when needed; it may hold those of an earlier attempt.
    """

    def __init__(self, path: Path, columns: Sequence[Column], scratch: Path) -> None:
        self._path = path
        self._columns = columns
        self._scratch = scratch
        self._rows: list[tuple[object, ...]] = []
        self._held = 0
        self._batches: list[Path] = []
        self._sizes: list[pl.Series] = []

    def append(self, row: tuple[object, ...]) -> None:
        """Take the values of one row, in the order of the columns."""
        self._rows.append(row)
        self._held += sum(len(value) if isinstance(value, str) else 8 for value in row)
        if self._held >= BATCH_BYTES:
            self._flush()

    def finish(self) -> None:
        """Write the part. Nothing may be appended any more."""
        import polars as pl

        if not self._batches:
            write_part(self._path, self._frame(), self._columns)
            return
        self._flush()
        pl.scan_parquet(self._batches, glob=False).sink_parquet(
            self._path,
            compression="zstd",
            row_group_size=rows_per_group(pl.concat(self._sizes)),
            statistics=True,
            maintain_order=True,
        )
        for batch in self._batches:
            batch.unlink()

    def _flush(self) -> None:
        frame = self._frame()
        self._scratch.mkdir(parents=True, exist_ok=True)
        batch = self._scratch / f"batch-{len(self._batches):05d}.parquet"
        frame.write_parquet(batch, compression="lz4")
        self._batches.append(batch)
        self._sizes.append(row_bytes(frame))
        self._rows, self._held = [], 0

    def _frame(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self._rows, schema=polars_schema(self._columns), orient="row")
