"""Stage 3, `duplicate_paragraphs`: where each repeated paragraph stands.

Belongs here: from documents to spans. Does not: cutting them out, which `consolidate` does.

What a paragraph is: see `paragraphs`. With `unit: line` each non-blank line is one, headings, tables and code too.
Two paragraphs are the same when their bytes are (xxh3-128). The first one by (id, position) stays; every later one is
a duplicate. With `within_document: false` a paragraph is a duplicate only if its first place is in another document:
the first document that has it keeps all its copies, later documents lose all theirs. The Marin project's exact
paragraph deduplication does so.

Output: for each input part a file of the same name with one row for each document, in the same order, so that the two
can be read side by side; a document without duplicates has an empty list. `report.md` and `report.json` are for people
(see `repeats_report`). Hashes and positions are grouped, never text (see `repeated_paragraphs`).

`paragraph_hashes/` holds the hash of each different paragraph. Later corpora can be deduplicated against it: they lose
every paragraph that it has, as if its corpus came before all of theirs. In a run's config an artifact is named by its
fingerprint, if it is in the same store, or by its folder:

    ops: {duplicate_paragraphs: {config: {dedup_against: ["s3://crawls/2025/duplicate_paragraphs/4f1c…"]}}}

or, in a notebook, handed over:

    store = ArtifactStore(open_storage("s3://crawls/2025"))
    exact_paragraph_dedup(documents, config, out, earlier=[store.required("duplicate_paragraphs")])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from marin_assets.artifacts.stage_config import OPERATIONAL, StageConfig
from marin_assets.stages.document_parts import IdRange, check_ranges, read_documents
from marin_assets.stages.memory_budget import affordable_workers
from marin_assets.stages.paragraph_hashes import Index, open_indexes, write_index
from marin_assets.stages.paragraphs import Blocks, split_blocks, split_lines
from marin_assets.stages.repeated_paragraphs import (
    BYTES_PER_PARAGRAPH,
    Bucket,
    Records,
    Run,
    decide_bucket,
    document_number,
    paragraph_records,
    places_in_order,
    read_range,
    write_run,
)
from marin_assets.stages.repeats_report import REPORTED_PARAGRAPHS, write_report
from marin_assets.stages.tables import PART_BYTES, Column, batches, column_types, write_part
from marin_assets.workers import map_shards

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

COLUMNS = (
    Column("id", "string", "id of the document; one row for each, in the order of the documents"),
    Column("dup_spans", "spans", "repeated paragraphs: sorted, disjoint, half-open UTF-8 byte offsets into `text`"),
)
_BATCH_BYTES = 2 << 20
_PART_MEMORY = 2 * PART_BYTES
"""Peak memory of a worker that reads a part, beside its records."""


class Unit(StrEnum):
    """What is compared."""

    paragraph = "paragraph"
    line = "line"


class ExactParagraphDedupConfig(StageConfig):
    """Settings of `duplicate_paragraphs`."""

    unit: Unit = Unit.paragraph
    """`paragraph`: a Markdown block, headings and thematic breaks excepted. `line`: each non-blank line."""
    min_paragraph_chars: Annotated[int, Field(ge=0)] = 0
    """Paragraphs of fewer characters (code points) are never removed."""
    within_document: bool = True
    """Whether a repeat in the document that has the first copy is a duplicate too."""
    workers: Annotated[int, OPERATIONAL, Field(ge=0)] = 0
    """Worker processes; 0 takes every core."""
    memory_budget: Annotated[int, OPERATIONAL, Field(gt=0)] = 2 << 30
    """Bytes of memory that all workers together may use. Below about 512 MiB there is one worker."""


@dataclass(frozen=True)
class ExactParagraphDedupStats:
    """Counts that add up.

    `rows_in` = `rows_out`, and if `within_document`,
    `paragraphs` = `paragraphs_distinct` - `paragraphs_distinct_in_earlier` + `paragraphs_duplicate`.
    """

    rows_in: int
    rows_out: int
    rows_with_duplicates: int
    """Documents with at least one duplicate paragraph."""
    paragraphs: int
    """Paragraphs compared: all that are long enough."""
    paragraphs_too_short: int
    """Paragraphs below `min_paragraph_chars`."""
    paragraphs_distinct: int
    """Different paragraphs among those compared."""
    paragraphs_distinct_in_earlier: int
    """Those of them that an earlier corpus has."""
    paragraphs_repeated: int
    """Different paragraphs that occur more than once."""
    paragraphs_duplicate: int
    """Spans written."""
    paragraphs_duplicate_of_earlier: int
    """Those of them that cover a paragraph of an earlier corpus."""
    text_bytes_in: int
    duplicate_bytes: int
    """Bytes that the spans cover."""
    duplicate_bytes_of_earlier: int
    """Those of them that are in paragraphs of an earlier corpus."""


def exact_paragraph_dedup(
    documents: Artifact, config: ExactParagraphDedupConfig, out: ArtifactWriter, *, earlier: Sequence[Artifact] = ()
) -> ExactParagraphDedupStats:
    """Write the spans of the duplicate paragraphs, the hashes of all paragraphs, and the report.

    Args:
        documents: `part-*.parquet` with the columns `id`, `text`, sorted by `id` within parts and from part to part.
        config: the settings.
        out: takes one file for each part, of the same name, `paragraph_hashes/`, `report.md` and `report.json`.
        earlier: artifacts of this stage, made from earlier corpora, whose paragraphs count as seen.

    Raises:
        InputError: a part lacks a column or a value, or the ids are not in order; an earlier artifact was made with
            another `unit`, a larger `min_paragraph_chars`, or another version of the index.
    """
    indexes = open_indexes(earlier, unit=config.unit.value, min_paragraph_chars=config.min_paragraph_chars)
    entries = documents.files("part-*.parquet")
    paths = [documents.path(entry.name) for entry in entries]
    size = sum(entry.bytes for entry in entries)
    limits = {"memory_budget": config.memory_budget, "bytes_per_worker": _PART_MEMORY}
    workers = affordable_workers(config.workers, work_bytes=size, **limits)
    # What follows the reading takes an eighth of its time, and workers are started anew for it.
    later_workers = affordable_workers(config.workers, work_bytes=size // 8, **limits)
    scratch = out.scratch("exact_paragraph_dedup")
    records_per_worker = max(1, config.memory_budget // (workers * BYTES_PER_PARAGRAPH))

    read = partial(_read_part, config=config, scratch=scratch, records_per_run=records_per_worker)
    parts = list(map_shards(read, list(enumerate(paths)), workers=workers))
    check_ranges(part.ids for part in parts)
    runs = tuple(run for part in parts for run in part.runs)

    count = max(1, -(-sum(run.count for run in runs) // records_per_worker)) if runs else 0
    decide = partial(_decide, runs=runs, buckets=count, config=config, scratch=scratch, earlier=indexes)
    buckets = list(map_shards(decide, range(count), workers=later_workers))

    write = partial(_write_part, buckets=tuple(bucket.repeats for bucket in buckets))
    targets = [
        _Target(path, out.path(entry.name), index, part.runs)
        for index, (entry, path, part) in enumerate(zip(entries, paths, parts, strict=True))
    ]
    written = list(map_shards(write, targets, workers=later_workers))
    for entry, part in zip(entries, parts, strict=True):
        out.add(entry.name, rows=part.rows)

    rows = sum(part.rows for part in parts)
    stats = ExactParagraphDedupStats(
        rows_in=rows,
        rows_out=rows,
        rows_with_duplicates=sum(part.rows_with_duplicates for part in written),
        paragraphs=sum(part.paragraphs for part in parts),
        paragraphs_too_short=sum(part.too_short for part in parts),
        paragraphs_distinct=sum(bucket.distinct for bucket in buckets),
        paragraphs_distinct_in_earlier=sum(bucket.distinct_in_earlier for bucket in buckets),
        paragraphs_repeated=sum(bucket.distinct_repeated for bucket in buckets),
        paragraphs_duplicate=sum(part.spans for part in written),
        paragraphs_duplicate_of_earlier=sum(bucket.copies_in_earlier for bucket in buckets),
        text_bytes_in=sum(part.text_bytes for part in parts),
        duplicate_bytes=sum(part.span_bytes for part in written),
        duplicate_bytes_of_earlier=sum(bucket.bytes_in_earlier for bucket in buckets),
    )
    hashes = [bucket.hashes for bucket in buckets]
    write_index(out, hashes, unit=config.unit.value, min_paragraph_chars=config.min_paragraph_chars)
    write_report(out, paths, asdict(stats), [one for bucket in buckets for one in bucket.most_repeated], indexes)
    out.columns = column_types(COLUMNS)
    return stats


@dataclass(frozen=True)
class _Part:
    """What was found in one part."""

    runs: tuple[Run, ...]
    ids: IdRange
    rows: int
    paragraphs: int
    too_short: int
    text_bytes: int


def _read_part(
    shard: tuple[int, Path], *, config: ExactParagraphDedupConfig, scratch: Path, records_per_run: int
) -> _Part:
    """Find and hash the paragraphs of one part."""
    import polars as pl

    number, path = shard
    frame, ids = read_documents(path, ["id", "text"])
    frame = frame.with_columns(frame["text"].cast(pl.Binary))
    runs: list[Run] = []
    held: list[Records] = []
    paragraphs = too_short = row = 0

    def flush() -> None:
        if held:
            name = f"part-{number:05d}-run-{len(runs):05d}"
            runs.append(write_run(scratch, name, np.concatenate(held), within_document=config.within_document))
            held.clear()

    for batch in batches(frame, min(_BATCH_BYTES, records_per_run * BYTES_PER_PARAGRAPH)):
        texts: list[bytes] = batch["text"].to_list()
        blocks = split_lines(texts) if config.unit is Unit.line else split_blocks(texts).paragraphs
        long_enough = _long_enough(texts, blocks, config.min_paragraph_chars)
        too_short += len(blocks.starts) - len(long_enough.starts)
        numbers = document_number(number, row + np.arange(len(texts)))
        records = paragraph_records(texts, long_enough, numbers)
        paragraphs += len(records)
        row += len(texts)
        if sum(map(len, held)) + len(records) > records_per_run:
            flush()
        if len(records):
            held.append(records)
    flush()
    text_bytes = int(frame["text"].bin.size().sum())
    return _Part(tuple(runs), ids, frame.height, paragraphs, too_short, text_bytes)


def _long_enough(texts: list[bytes], blocks: Blocks, minimum: int) -> Blocks:
    """Blocks of at least so many characters."""
    sizes = blocks.ends - blocks.starts
    long_enough = sizes >= minimum
    for index in np.flatnonzero(long_enough & (sizes < 4 * minimum)).tolist():
        content = texts[blocks.documents[index]][blocks.starts[index] : blocks.ends[index]]
        long_enough[index] = content.isascii() or len(content.decode()) >= minimum
    return blocks.select(long_enough)


def _decide(
    bucket: int,
    *,
    runs: tuple[Run, ...],
    buckets: int,
    config: ExactParagraphDedupConfig,
    scratch: Path,
    earlier: tuple[Index, ...],
) -> Bucket:
    within_document, most = config.within_document, REPORTED_PARAGRAPHS
    return decide_bucket(runs, bucket, buckets, scratch, within_document=within_document, most=most, earlier=earlier)


@dataclass(frozen=True)
class _Target:
    """One part to write."""

    documents: Path
    path: Path
    number: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class _Written:
    rows_with_duplicates: int
    spans: int
    span_bytes: int


def _write_part(target: _Target, *, buckets: tuple[Path, ...]) -> _Written:
    """Gather the places of one part's repeats and write them as spans."""
    import polars as pl

    paths = [run.repeats for run in target.runs] + list(buckets)
    found = [read_range(paths, "document", target.number << 32, (target.number + 1) << 32)] if paths else []
    spans = pl.DataFrame(schema={"row": pl.UInt32, "start": pl.UInt32, "end": pl.UInt32})
    for places in map(places_in_order, found):
        rows = (places["document"] & 0xFFFFFFFF).astype(np.uint32)
        spans = pl.DataFrame({"row": rows, "start": places["start"].copy(), "end": places["end"].copy()})
    lists = spans.group_by("row", maintain_order=True).agg(pl.struct("start", "end").alias("dup_spans"))
    ids = pl.scan_parquet(target.documents).select("id").collect().with_row_index("row")
    frame = ids.join(lists, on="row", how="left", maintain_order="left").with_columns(pl.col("dup_spans").fill_null([]))
    write_part(target.path, frame, COLUMNS)
    return _Written(lists.height, spans.height, int((spans["end"] - spans["start"]).cast(pl.UInt64).sum()))
