"""Stage 4, `consolidated_documents`: documents without what attributes say should go.

Belongs here: applying filters. Does not: computing attributes, or which bytes go with a cut (see `cuts`).

An attribute artifact holds, for each part of the documents, a file of the same name with the columns `id` and at least
one other, sorted by `id`. Its ids are among those of the documents' part; a document may be without a row. All filters
look at the documents as they come in, and a document goes if any of them says so; it is counted for the first that
does. Spans of several filters are cut as their union. Documents that are left with white space only go too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from marin_assets.artifacts.stage_config import OPERATIONAL, StageConfig
from marin_assets.errors import InputError
from marin_assets.stages.attribute_filters import (
    AttributeFilter,
    FilterType,
    Spans,
    attribute_values,
    checked_spans,
    documents_that_pass,
    union,
)
from marin_assets.stages.cuts import Span, blocks_by_document, remove_spans, remove_whole_blocks
from marin_assets.stages.document_parts import IdRange, check_ranges, read_documents
from marin_assets.stages.memory_budget import affordable_workers
from marin_assets.stages.tables import PART_BYTES, Column, batches, write_frame
from marin_assets.workers import map_shards

if TYPE_CHECKING:
    import polars as pl

    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

REMOVED_BYTES = "removed_bytes"
COLUMNS = (
    Column("id", "string", "id of the document, as it came in: the join key, no longer the hash of `text`"),
    Column("text", "string", "what is left of the text"),
    Column(REMOVED_BYTES, "uint32", "UTF-8 bytes that this stage cut out of `text`"),
)
"""What this stage needs and adds. All other columns of the documents pass through."""
_BATCH_BYTES = 2 << 20
_PART_MEMORY = 3 * PART_BYTES
"""Peak memory of a worker: a part as it came in and as it goes out, and what is in between."""


def _duplicate_paragraphs_go() -> list[AttributeFilter]:
    return [AttributeFilter(type=FilterType.remove_spans, attribute="duplicate_paragraphs", column="dup_spans")]


class ConsolidateConfig(StageConfig):
    """Settings of `consolidated_documents`."""

    filters: list[AttributeFilter] = Field(default_factory=_duplicate_paragraphs_go)
    """What to remove, by attribute. Default: the spans of `duplicate_paragraphs`."""
    workers: Annotated[int, OPERATIONAL, Field(ge=0)] = 0
    """Worker processes; 0 takes every core."""
    memory_budget: Annotated[int, OPERATIONAL, Field(gt=0)] = 2 << 30
    """Bytes of memory that all workers together may use. Below about 768 MiB there is one worker."""


@dataclass(frozen=True)
class ConsolidateStats:
    """Counts that add up.

    `rows_in` = `rows_out` + all of `rows_dropped_by_filter` + `rows_dropped_blank`, and
    `text_bytes_in` = `text_bytes_out` + `removed_bytes` + `dropped_bytes`.
    """

    rows_in: int
    rows_out: int
    rows_dropped_by_filter: dict[str, int]
    """Documents that a filter dropped, for each filter."""
    rows_dropped_blank: int
    """Documents that were left without text."""
    rows_changed: int
    """Documents that went out shorter than they came in."""
    spans_removed: int
    """Spans cut out of documents that no filter dropped; overlapping ones count as one."""
    text_bytes_in: int
    text_bytes_out: int
    removed_bytes: int
    """Bytes cut out of the documents that went out, line breaks included."""
    dropped_bytes: int
    """Bytes of text, as it came in, of the documents that were dropped."""


def consolidate(
    documents: Artifact, attributes: Mapping[str, Artifact], config: ConsolidateConfig, out: ArtifactWriter
) -> ConsolidateStats:
    """Write the documents that stay, without the spans that go: one file for each part, of the same name.

    Args:
        documents: `part-*.parquet` with `id`, `text` and any other columns, sorted by `id`.
        attributes: attribute artifacts by the name that filters use.
        config: the settings.
        out: takes the files.

    Raises:
        InputError: an attribute artifact, file, column or row is missing or of the wrong type; ids are out of order or
            do not fit; a span is out of its text, overlaps another, or splits a character.
    """
    entries = documents.files("part-*.parquet")
    _check_attributes(documents, attributes, config)
    shards = [
        _Shard(
            documents.path(entry.name),
            tuple(attributes[chosen.attribute].path(entry.name) for chosen in config.filters),
            out.path(entry.name),
        )
        for entry in entries
    ]
    workers = affordable_workers(
        config.workers,
        work_bytes=sum(entry.bytes for entry in entries),
        memory_budget=config.memory_budget,
        bytes_per_worker=_PART_MEMORY,
    )
    work = partial(_consolidate_part, filters=tuple(config.filters))
    done = list(map_shards(work, shards, workers=workers))
    check_ranges(part.ids for part in done)
    for entry, part in zip(entries, done, strict=True):
        out.add(entry.name, rows=part.stats.rows_out)
    out.columns = {**documents.manifest.columns, REMOVED_BYTES: "uint32"}
    return _total([part.stats for part in done], config.filters)


def _check_attributes(documents: Artifact, attributes: Mapping[str, Artifact], config: ConsolidateConfig) -> None:
    expected = {entry.name for entry in documents.files("part-*.parquet")}
    for chosen in config.filters:
        if chosen.attribute not in attributes:
            raise InputError(
                f"The filter `{chosen.name}` needs the attribute artifact {chosen.attribute!r}; there are "
                f"{sorted(attributes)}. Correct the filter's `attribute`, or hand that artifact over."
            )
        artifact = attributes[chosen.attribute]
        present = {entry.name for entry in artifact.files("part-*.parquet")}
        if present != expected:
            raise InputError(
                f"{artifact.location}: the attribute artifact {chosen.attribute!r} is not partitioned as the documents "
                f"in {documents.location}: it lacks {sorted(expected - present)} and has {sorted(present - expected)} "
                "beside. Compute it from these documents."
            )


@dataclass(frozen=True)
class _Shard:
    documents: Path
    attributes: tuple[Path, ...]
    """For each filter, its attribute file."""
    target: Path


@dataclass(frozen=True)
class _Done:
    ids: IdRange
    stats: ConsolidateStats


def _consolidate_part(shard: _Shard, *, filters: tuple[AttributeFilter, ...]) -> _Done:
    import polars as pl

    frame, ids = read_documents(shard.documents)
    stays = pl.repeat(value=True, n=frame.height, eager=True, dtype=pl.Boolean)
    dropped: dict[str, int] = {}
    spans = [Spans.none()]
    for chosen, path in zip(filters, shard.attributes, strict=True):
        values = attribute_values(chosen, path, frame["id"])
        passes = documents_that_pass(chosen, values)
        dropped[chosen.name] = dropped.get(chosen.name, 0) + int((stays & ~passes).sum())
        stays &= passes
        if chosen.type is FilterType.remove_spans:
            spans.append(checked_spans(chosen, path, values, frame))

    to_cut = union(spans).of_rows(stays.to_numpy())
    text = _without(frame["text"], to_cut)
    sizes, left = (each.str.len_bytes().cast(pl.UInt64) for each in (frame["text"], text))
    has_text = text.str.contains(r"\S")
    goes_out = stays & has_text
    kept = frame.with_columns(text, (sizes - left).cast(pl.UInt32).alias(REMOVED_BYTES)).filter(goes_out)
    write_frame(shard.target, kept)
    return _Done(
        ids,
        ConsolidateStats(
            rows_in=frame.height,
            rows_out=kept.height,
            rows_dropped_by_filter=dropped,
            rows_dropped_blank=int((stays & ~has_text).sum()),
            rows_changed=int((kept[REMOVED_BYTES] > 0).sum()),
            spans_removed=len(to_cut.rows),
            text_bytes_in=int(sizes.sum()),
            text_bytes_out=int(left.filter(goes_out).sum()),
            removed_bytes=int((sizes - left).filter(goes_out).sum()),
            dropped_bytes=int(sizes.filter(~goes_out).sum()),
        ),
    )


def _without(text: pl.Series, spans: Spans) -> pl.Series:
    """The texts without their spans."""
    import polars as pl

    pieces = [text.clear()]
    row = 0
    for batch in batches(text.cast(pl.Binary).to_frame(), _BATCH_BYTES):
        contents: list[bytes] = batch["text"].to_list()
        first, last = np.searchsorted(spans.rows, (row, row + len(contents)))
        rows, firsts = np.unique(spans.rows[first:last] - row, return_index=True)
        places = list(zip(spans.starts[first:last].tolist(), spans.ends[first:last].tolist(), strict=True))
        others: list[tuple[int, list[Span]]] = []
        for index, (begin, end) in zip(rows.tolist(), pairwise([*firsts.tolist(), last - first]), strict=True):
            left = remove_whole_blocks(contents[index], places[begin:end])
            if left is None:
                others.append((index, places[begin:end]))
            else:
                contents[index] = left
        blocks = blocks_by_document([contents[index] for index, _ in others])
        for (index, cut), here in zip(others, blocks, strict=True):
            contents[index] = remove_spans(contents[index], cut, here)
        pieces.append(pl.Series("text", contents, dtype=pl.Binary).cast(pl.String))
        row += len(contents)
    return pl.concat(pieces)


def _total(parts: list[ConsolidateStats], filters: list[AttributeFilter]) -> ConsolidateStats:
    counted = [field.name for field in fields(ConsolidateStats) if field.name != "rows_dropped_by_filter"]
    totals = {name: sum(getattr(part, name) for part in parts) for name in counted}
    dropped = {chosen.name: sum(part.rows_dropped_by_filter[chosen.name] for part in parts) for chosen in filters}
    return ConsolidateStats(rows_dropped_by_filter=dropped, **totals)
