"""Parts of documents as stages hand them on: sorted by `id`, each id once, in ascending ranges from part to part.

Belongs here: reading with checks, since later stages rely on the order without sorting again. Does not: how parts are
written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from marin_assets.errors import InputError
from marin_assets.stages.tables import require_columns

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class IdRange:
    """The ids of one part."""

    path: Path
    first: str | None
    """None if the part has no rows."""
    last: str | None


_WIDEST_TEXT = 2**32 - 1


def read_documents(path: Path, columns: list[str] | None = None) -> tuple[pl.DataFrame, IdRange]:
    """Read a part of documents and check it: `columns` of it, `id` and `text` among them, or all.

    Raises:
        InputError: the part lacks a column; an `id` is null or out of order; a `text` is null or of 4 GiB or more.
    """
    import polars as pl

    require_columns(path, columns or ["id", "text"])
    frame = pl.read_parquet(path, columns=columns)
    ids = check_ids(path, frame["id"])
    text = frame["text"]
    if text.has_nulls():
        raise InputError(f"{path}, row {text.is_null().arg_max()}: `text` is null. Make documents with `normalize`.")
    too_long = text.str.len_bytes() > _WIDEST_TEXT
    if too_long.any():
        raise InputError(f"{path}, row {too_long.arg_max()}: `text` is too long for spans (4 GiB). Split the document.")
    return frame, ids


def check_ids(path: Path, ids: pl.Series) -> IdRange:
    """Check that a part's ids ascend.

    Raises:
        InputError: an id is null, repeated or out of order.
    """
    if ids.has_nulls():
        raise InputError(f"{path}, row {ids.is_null().arg_max()}: `id` is null. Each row needs the id of its document.")
    disordered = (ids <= ids.shift(1)).fill_null(value=False)
    if disordered.any():
        raise InputError(
            f"{path}, row {disordered.arg_max()}: its `id` does not follow that of the row before. Rows must be sorted "
            "by `id`, each id once; make documents with `normalize`."
        )
    return IdRange(path, ids[0], ids[-1]) if len(ids) else IdRange(path, None, None)


def check_ranges(ranges: Iterable[IdRange]) -> None:
    """Check that ids ascend from part to part.

    Raises:
        InputError: a part begins before the one before it ends.
    """
    last: str | None = None
    for part in ranges:
        if last is not None and part.first is not None and part.first <= last:
            raise InputError(
                f"{part.path}, row 0: its `id` does not follow the last one of the part before. Parts must hold "
                "ascending ranges of `id`; make documents with `normalize`."
            )
        last = part.last or last
