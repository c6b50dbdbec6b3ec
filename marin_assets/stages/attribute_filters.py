"""Filters on attributes: settings, and what the values of one part say of its documents.

Belongs here: reading an attribute file and checking that it fits its documents. Does not: changing documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from marin_assets.artifacts.stage_config import StageConfig
from marin_assets.errors import InputError
from marin_assets.stages.document_parts import check_ids
from marin_assets.stages.tables import batches, require_columns

if TYPE_CHECKING:
    import polars as pl


_BATCH_BYTES = 8 << 20


class FilterType(StrEnum):
    """What a filter does with a value."""

    remove_spans = "remove_spans"
    remove_docs = "remove_docs"
    keep_docs = "keep_docs"
    threshold = "threshold"


class Missing(StrEnum):
    """What becomes of a document without an attribute row, or with a null there."""

    keep = "keep"
    drop = "drop"
    error = "error"


class AttributeFilter(StageConfig):
    """One filter on one column of one attribute artifact."""

    type: FilterType
    """`remove_spans`: cut the spans out. `remove_docs`: drop documents whose value is true (or an integer other than
    0). `keep_docs`: drop those whose value is not. `threshold`: drop those whose value is below `lower` or above
    `upper`."""
    attribute: str
    """Name of the attribute artifact."""
    column: str
    """Column that holds the value."""
    lower: float | None = None
    """Smallest value that is kept (`threshold` only)."""
    upper: float | None = None
    """Largest value that is kept (`threshold` only)."""
    missing: Missing = Missing.keep
    """What becomes of a document without an attribute row, with a null, or with NaN: `keep`, `drop` or `error`."""

    @model_validator(mode="after")
    def _bounds_belong_to_thresholds(self) -> Self:
        bounded = self.lower is not None or self.upper is not None
        if bounded != (self.type is FilterType.threshold):
            needs = "needs `lower`, `upper` or both" if not bounded else "takes neither `lower` nor `upper`"
            raise ValueError(f"a filter of type `{self.type.value}` {needs}")
        return self

    @property
    def name(self) -> str:
        """What the filter is called in counts."""
        return f"{self.type.value} {self.attribute}.{self.column}"


def attribute_values(chosen: AttributeFilter, path: Path, ids: pl.Series) -> pl.Series:
    """The value for each document of a part, null where there is none.

    Raises:
        InputError: the file lacks the column, is not sorted, has ids that the documents have not, or its column is of
            a type that the filter cannot use; or a value is missing and `missing` is `error`.
    """
    import polars as pl

    require_columns(path, ["id", chosen.column])
    attribute = pl.read_parquet(path, columns=["id", chosen.column]).select("id", pl.col(chosen.column).alias("value"))
    check_ids(path, attribute["id"])
    _check_type(chosen, path, attribute["value"])
    strange = ~attribute["id"].is_in(ids.implode())
    if strange.any():
        row = strange.arg_true()[0]
        raise InputError(
            f"{path}, row {row}: the documents' part of the same name has no document {attribute['id'][row]}. "
            f"Compute the attribute {chosen.attribute!r} from these documents."
        )
    if attribute["value"].dtype.is_float():
        attribute = attribute.with_columns(pl.col("value").fill_nan(None))
    values = ids.to_frame().join(attribute, on="id", how="left", maintain_order="left")["value"]
    if chosen.missing is Missing.error and values.has_nulls():
        row = values.is_null().arg_true()[0]
        raise InputError(
            f"{path}: document {ids[row]} has no value in the column `{chosen.column}`. Compute the attribute "
            f"{chosen.attribute!r} for all documents, or set the filter's `missing` to `keep` or `drop`."
        )
    return values


def _check_type(chosen: AttributeFilter, path: Path, values: pl.Series) -> None:
    import polars as pl

    kind = values.dtype
    if chosen.type is FilterType.remove_spans:
        fits = (
            isinstance(kind, pl.List)
            and isinstance(kind.inner, pl.Struct)
            and {"start", "end"} <= {field.name for field in kind.inner.fields if field.dtype.is_integer()}
        )
        wanted = "a list of structs of the integers `start` and `end`"
    elif chosen.type is FilterType.threshold:
        fits = kind.is_numeric()
        wanted = "a number"
    else:
        fits = kind == pl.Boolean or kind.is_integer()
        wanted = "a boolean or an integer"
    if not fits:
        raise InputError(
            f"{path}: the column `{chosen.column}` is of type {kind}, but the filter `{chosen.name}` needs {wanted}. "
            "Correct the filter's `column` or `type`."
        )


def documents_that_pass(chosen: AttributeFilter, values: pl.Series) -> pl.Series:
    """Which documents the filter lets stay, from their values."""
    import polars as pl

    if chosen.type is FilterType.remove_spans:
        passes = values.is_not_null() | True
    elif chosen.type is FilterType.threshold:
        above = values >= chosen.lower if chosen.lower is not None else values.is_not_null()
        passes = above & (values <= chosen.upper) if chosen.upper is not None else above
    else:
        passes = values.cast(pl.Boolean) == (chosen.type is FilterType.keep_docs)
    return pl.select(
        pl.when(values.is_null()).then(pl.lit(chosen.missing is not Missing.drop)).otherwise(passes)
    ).to_series()


@dataclass(frozen=True)
class Spans:
    """Spans of the documents of one part, sorted: three arrays of one length."""

    rows: NDArray[np.int64]
    """Row of the document in its part."""
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @staticmethod
    def none() -> Spans:
        return Spans(*(np.zeros(0, dtype=np.int64) for _ in range(3)))

    def of_rows(self, chosen: NDArray[np.bool_]) -> Spans:
        """The spans of the chosen rows."""
        mask = chosen[self.rows]
        return Spans(self.rows[mask], self.starts[mask], self.ends[mask])


def checked_spans(chosen: AttributeFilter, path: Path, values: pl.Series, documents: pl.DataFrame) -> Spans:
    """The spans of a `remove_spans` filter.

    Raises:
        InputError: the spans of a document are not sorted or overlap; one is empty, ends behind its text, or splits a
            character.
    """
    import polars as pl

    frame = values.alias("span").to_frame().with_row_index("row").filter(pl.col("span").list.len() > 0)
    frame = frame.explode("span").select("row", pl.col("span").struct.field("start", "end")).cast(pl.Int64)
    if frame["start"].has_nulls() or frame["end"].has_nulls():
        raise InputError(f"{path}: the column `{chosen.column}` has a span without `start` or `end`. Compute it again.")
    spans = Spans(*(frame[name].to_numpy() for name in ("row", "start", "end")))
    sizes = documents["text"].str.len_bytes().cast(pl.Int64).to_numpy()
    follows = np.ones(len(spans.rows), dtype=bool)
    follows[1:] = (spans.starts[1:] >= spans.ends[:-1]) | (spans.rows[1:] != spans.rows[:-1])
    inside = (spans.starts >= 0) & (spans.starts < spans.ends) & (spans.ends <= sizes[spans.rows])
    _refuse(~inside, "is empty or out of its text", chosen, path, documents, spans)
    _refuse(~follows, "is out of order or overlaps the one before", chosen, path, documents, spans)
    splits = _split_a_character(documents["text"].cast(pl.Binary).to_frame(), spans)
    _refuse(splits, "splits a character", chosen, path, documents, spans)
    return spans


def _split_a_character(texts: pl.DataFrame, spans: Spans) -> NDArray[np.bool_]:
    """Spans that begin or end before a continuation byte of UTF-8."""
    splits = np.zeros(len(spans.rows), dtype=bool)
    row = 0
    for batch in batches(texts, _BATCH_BYTES):
        first, last = np.searchsorted(spans.rows, (row, row + batch.height))
        contents: list[bytes] = batch["text"].to_list()
        joined = np.frombuffer(b"".join(contents) + b"\n", dtype=np.uint8)
        offsets = np.cumsum([0, *map(len, contents)])[spans.rows[first:last] - row]
        for edges in (spans.starts, spans.ends):
            splits[first:last] |= joined[offsets + edges[first:last]] & 0xC0 == 0x80
        row += batch.height
    return splits


def _refuse(
    wrong: NDArray[np.bool_],
    why: str,
    chosen: AttributeFilter,
    path: Path,
    documents: pl.DataFrame,
    spans: Spans,
) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        document = documents["id"][int(spans.rows[index])]
        raise InputError(
            f"{path}, column `{chosen.column}`, document {document}: the span {spans.starts[index]}:"
            f"{spans.ends[index]} {why}. Spans are sorted, disjoint, half-open UTF-8 byte offsets into `text`; compute "
            "them from these documents."
        )


def union(sets: Sequence[Spans]) -> Spans:
    """All spans together, overlapping ones merged."""
    rows, starts, ends = (np.concatenate([getattr(one, name) for one in sets]) for name in ("rows", "starts", "ends"))
    order = np.lexsort((ends, starts, rows))
    rows, starts, ends = rows[order], starts[order], ends[order]
    base = rows << 32
    reached = np.maximum.accumulate(base + ends)
    begins = np.ones(len(rows), dtype=bool)
    begins[1:] = (base + starts)[1:] >= reached[:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1 if len(rows) else first
    return Spans(rows[first], starts[first], reached[last] - base[last])
