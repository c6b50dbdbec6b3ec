"""Main content of each collected page as Markdown, one row a page, failures recorded.

Belongs here: settings, columns, shards and counts. Does not: how a page is read (`page_reading`), how its content is
found (`page_extraction`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from marin_assets.artifacts.stage_config import OPERATIONAL, StageConfig
from marin_assets.errors import InputError, SettingsError
from marin_assets.stages.page_extraction import CHEAPER, Extraction, PageRequest, Status, extract_page
from marin_assets.stages.page_reading import Page, read_pages
from marin_assets.stages.page_slices import PageSlice, slices_of
from marin_assets.stages.part_writer import PartWriter
from marin_assets.stages.raw_html import PageFile, RawHtml
from marin_assets.stages.tables import Column, column_types, part_name
from marin_assets.workers import Guard, Returned, map_shards

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

logger = logging.getLogger(__name__)

SHARD_BYTES = 16 << 20
"""Of input files as they are stored: a shard is then some ten seconds to a minute of one core."""
_MOST_SLICES_OF_A_FILE = 256
_WALL_PER_CPU = 4
"""A page may take this many times its processor time on the clock, so that a busy machine fails no page."""
_REASONS_SHOWN = 3
_MOST_REASONS = 1000
_REASON_CHARACTERS = 300
_FAILURES = tuple(status for status in Status if status not in {Status.ok, Status.empty})

COLUMNS = (
    Column("source_id", "string", "The page's own id, or the xxh3-128 of its bytes"),
    Column("url", "string", "Address it was collected from"),
    Column("source", "string", "Collection it belongs to"),
    Column("title", "string", "Title that the page gives itself"),
    Column("text", "string", "Main content as Markdown; empty unless the status is ok"),
    Column("status", "string", "ok, empty, not_html, too_large, timeout, crashed or error"),
    Column("error", "string", "Why the status is not ok; with ok, why another method made the text"),
    Column("metadata", "string", "All other fields of its record, a JSON object with sorted keys"),
)
PROVENANCE_COLUMNS = (
    Column("source_id", "string", "As in the part of the same name, row by row"),
    Column("file", "string", "File below the input's root"),
    Column("record", "uint64", "Place in that file, from 0"),
)


class ExtractMethod(StrEnum):
    """What tells a page's main content from the rest."""

    fast = "fast"
    trafilatura = "trafilatura"
    resiliparse = "resiliparse"


class HtmlToMarkdownConfig(StageConfig):
    """Settings of `markdown_documents`."""

    extract_method: ExtractMethod = ExtractMethod.fast
    """`fast`, our own, is the best on all kinds of pages together; `trafilatura` and `resiliparse` are libraries, whose
    choice is written as Markdown the same way. Pages with too many elements for a library are given to `fast`."""
    include_links: bool = False
    """Keep links with their targets, made absolute where the page's address is known."""
    include_images: bool = False
    """Keep pictures that stand in the main content."""
    include_tables: bool = True
    """Keep tables."""
    include_comments: bool = True
    """Keep readers' comments."""
    include_formatting: bool = True
    """Keep bold, italic, strike-through and inline code. Headings, lists, tables and code blocks always stay."""
    prepend_title: bool = False
    """Begin the text with the page's title as a heading, unless it does so already."""
    fast: bool = False
    """trafilatura only: skip its fallback extractors."""
    favor_precision: bool = False
    """trafilatura only: rather less text than boilerplate."""
    favor_recall: bool = False
    """trafilatura only: rather boilerplate than less text."""
    post_meta: bool = True
    """resiliparse only: keep the author and date lines of posts."""
    hidden_elements: bool = False
    """resiliparse only: keep elements whose class says that they are hidden."""
    text_column: str = ""
    """Field of JSONL and Parquet records that holds HTML; empty takes the first of text, html, html_bytes."""
    max_page_bytes: int = Field(default=16 << 20, gt=0)
    """Longer pages get the status too_large."""
    page_timeout_seconds: float = Field(default=30.0, gt=0)
    """Processor time for one page, beyond which it gets the status timeout; on the clock four times that."""
    page_memory_bytes: int = Field(default=2 << 30, ge=256 << 20)
    """Memory of the process that works on a page, beyond which the page gets the status crashed."""
    max_failed_fraction: float = Field(default=0.5, ge=0, le=1)
    """The asset fails when more than this fraction of its pages have a status other than ok and empty."""
    workers: Annotated[int, Field(ge=0), OPERATIONAL] = 0
    """Worker processes; 0 takes every core."""


@dataclass(frozen=True)
class HtmlToMarkdownStats:
    """Counts of one run. `pages` is the sum of `by_status`, and the number of rows."""

    files: int
    shards: int
    pages: int
    by_status: dict[str, int]
    """Pages by status, with all statuses."""
    bytes_in: int
    """Bytes of the pages' HTML as collected."""
    text_bytes: int
    """Bytes of Markdown."""
    by_other_method: int
    """Pages with text from another method than the settings' one, since that took too much or would have."""


@dataclass(frozen=True)
class _Shard:
    slices: tuple[PageSlice, ...]
    part_path: Path
    provenance_path: Path
    scratch: Path
    config: HtmlToMarkdownConfig


@dataclass
class _ShardCounts:
    by_status: Counter[str] = field(default_factory=Counter)
    bytes_in: int = 0
    text_bytes: int = 0
    by_other_method: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """For each reason the first page that had it."""


def html_to_markdown(pages: RawHtml, config: HtmlToMarkdownConfig, out: ArtifactWriter) -> HtmlToMarkdownStats:
    """Extract every page of the input, each within its budget, in worker processes.

    A shard takes files in the order of their digests, so that names decide nothing; a large file is cut into
    several shards. `provenance/` says, row by row, where a page came from; it is no part of the content.

    Raises:
        SettingsError: settings that do not go together.
        InputError: more than `max_failed_fraction` of the pages failed.
    """
    _check(config)
    shards = _shards(pages.files, config, out)
    total = _ShardCounts()
    for index, counts in enumerate(map_shards(_extract_shard, shards, workers=config.workers)):
        rows = counts.by_status.total()
        out.add(part_name(index, len(shards)), rows=rows)
        out.add(f"provenance/{part_name(index, len(shards))}", rows=rows, content=False)
        _merge(total, counts)
        logger.info("%d of %d shards done, %d pages", index + 1, len(shards), total.by_status.total())
    out.columns = column_types(COLUMNS)
    _report_failures(total, config)
    return HtmlToMarkdownStats(
        files=len(pages.files),
        shards=len(shards),
        pages=total.by_status.total(),
        by_status={status.value: total.by_status[status.value] for status in Status},
        bytes_in=total.bytes_in,
        text_bytes=total.text_bytes,
        by_other_method=total.by_other_method,
    )


def _check(config: HtmlToMarkdownConfig) -> None:
    if config.favor_precision and config.favor_recall:
        raise SettingsError("favor_precision and favor_recall exclude each other: set one of them to false")
    of_trafilatura, of_resiliparse = ("fast", "favor_precision", "favor_recall"), ("post_meta", "hidden_elements")
    foreign = {
        ExtractMethod.fast: of_trafilatura + of_resiliparse,
        ExtractMethod.trafilatura: of_resiliparse,
        ExtractMethod.resiliparse: of_trafilatura,
    }[config.extract_method]
    for name in foreign:
        if getattr(config, name) != HtmlToMarkdownConfig.model_fields[name].default:
            raise SettingsError(
                f"{name} is an option that {config.extract_method.value} does not have: leave it out, "
                "or change extract_method"
            )


def _shards(files: Iterable[PageFile], config: HtmlToMarkdownConfig, out: ArtifactWriter) -> list[_Shard]:
    """Small files together up to `SHARD_BYTES`, large ones in slices of about that."""
    ordered = sorted(files, key=lambda file: (file.digest, file.name))
    large = [file for file in ordered if file.bytes > SHARD_BYTES]
    slices = dict(zip(large, map_shards(_slices, large, workers=config.workers), strict=True))
    groups: list[list[PageSlice]] = []
    room = 0
    for file in ordered:
        if file in slices:
            groups += [[piece] for piece in slices[file]]
            room = 0
        else:
            if file.bytes > room or not groups:
                groups.append([])
                room = SHARD_BYTES
            groups[-1].append(PageSlice(file))
            room -= file.bytes
    names = [part_name(index, len(groups)) for index in range(len(groups))]
    return [
        _Shard(tuple(group), out.path(name), out.path(f"provenance/{name}"), out.scratch(name), config)
        for group, name in zip(groups, names, strict=True)
    ]


def _slices(file: PageFile) -> list[PageSlice]:
    return slices_of(file, min(-(-file.bytes // SHARD_BYTES), _MOST_SLICES_OF_A_FILE))


def _extract_shard(shard: _Shard) -> _ShardCounts:
    """Write one part and its provenance, row by row in the order of the shard's files and their records."""
    config, counts = shard.config, _ShardCounts()
    part = PartWriter(shard.part_path, COLUMNS, shard.scratch / "part")
    provenance = PartWriter(shard.provenance_path, PROVENANCE_COLUMNS, shard.scratch / "provenance")
    with Guard(
        extract_page,
        cpu_seconds=config.page_timeout_seconds,
        wall_seconds=_WALL_PER_CPU * config.page_timeout_seconds,
        memory_bytes=config.page_memory_bytes,
    ) as guard:
        for page in _pages(shard):
            extraction = _extract(page, guard, config)
            _count(counts, page, extraction)
            part.append(_row(page, extraction))
            provenance.append((page.source_id, page.file, page.record))
    part.finish()
    provenance.finish()
    return counts


def _pages(shard: _Shard) -> Iterator[Page]:
    for piece in shard.slices:
        yield from read_pages(piece, text_column=shard.config.text_column, max_page_bytes=shard.config.max_page_bytes)


def _extract(page: Page, guard: Guard[PageRequest, Extraction], config: HtmlToMarkdownConfig) -> Extraction:
    if page.failure is not None:
        return Extraction(Status.error, error=page.failure)
    request = PageRequest(page.html, page.url, config, page.charset)
    outcome = guard(request)
    if isinstance(outcome, Returned):
        return outcome.value
    method = config.extract_method.value
    again = guard(replace(request, cheaper=True))
    if isinstance(again, Returned) and again.value.status is Status.ok:
        note = f"{outcome.kind} with {method} ({outcome.reason}); extracted with {CHEAPER[method]}"
        return replace(again.value, error=note)
    return Extraction(Status(outcome.kind.value), error=outcome.reason)


def _row(page: Page, extraction: Extraction) -> tuple[str | None, ...]:
    """The values of `COLUMNS`."""
    return (
        page.source_id,
        page.url,
        page.source,
        extraction.title,
        extraction.text,
        extraction.status.value,
        extraction.error,
        page.metadata,
    )


def _count(counts: _ShardCounts, page: Page, extraction: Extraction) -> None:
    counts.by_status[extraction.status.value] += 1
    counts.bytes_in += len(page.html.encode("utf-8", "surrogatepass") if isinstance(page.html, str) else page.html)
    counts.text_bytes += len(extraction.text.encode())
    counts.by_other_method += extraction.status is Status.ok and extraction.error is not None
    if extraction.status in _FAILURES:
        reason = f"{extraction.status.value}: {extraction.error}"[:_REASON_CHARACTERS]
        if reason in counts.reasons or len(counts.reasons) < _MOST_REASONS:
            counts.reasons[reason] += 1
            counts.examples.setdefault(reason, f"record {page.record} of {page.file}")


def _merge(total: _ShardCounts, counts: _ShardCounts) -> None:
    total.by_status += counts.by_status
    total.bytes_in += counts.bytes_in
    total.text_bytes += counts.text_bytes
    total.by_other_method += counts.by_other_method
    total.reasons += counts.reasons
    total.examples = counts.examples | total.examples


def _report_failures(total: _ShardCounts, config: HtmlToMarkdownConfig) -> None:
    failed = sum(total.by_status[status.value] for status in _FAILURES)
    if not failed:
        return
    commonest = "; ".join(
        f"{count} × {reason} (first: {total.examples[reason]})"
        for reason, count in total.reasons.most_common(_REASONS_SHOWN)
    )
    message = f"{failed} of {total.by_status.total()} pages failed: {commonest}"
    if failed > config.max_failed_fraction * total.by_status.total():
        raise InputError(
            f"{message}. That is more than max_failed_fraction={config.max_failed_fraction:g} allows: "
            "check the input and text_column, or raise it."
        )
    logger.warning("%s", message)
