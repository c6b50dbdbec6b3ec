"""Stage 2, `normalized_documents`: canonical text, content-addressed ids, exact duplicates set aside.

Belongs here: what a document is from here on. Does not: anything below the level of a whole document.

The text of each row is made canonical, in this order:

1. Invalid code points become U+FFFD. Parquet text is UTF-8, which has none; this matters where the column `text`
   holds bytes, whose invalid sequences are replaced as `bytes.decode(errors="replace")` does.
2. CRLF, and CR alone, become LF: both end a line (CommonMark 0.31 §2.1).
3. All other control characters (Unicode category Cc: NUL, C0, DEL, C1) are removed, but tab and LF.
4. Unicode normalization form C (UAX #15).
5. A run of white space (property White_Space) of more than 128 characters is cut to its first 128.

The result is a fixed point: normalizing it again changes nothing. `id` is the xxh3-128 of its UTF-8 bytes. A row whose
text is then empty or only white space is dropped and counted by its status.

Rows go to parts by ranges of `id`. The ids are evenly spread, so parts of equal ranges are of nearly equal size.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import xxhash
from pydantic import Field

from marin_assets.artifacts.stage_config import OPERATIONAL, StageConfig
from marin_assets.errors import InputError
from marin_assets.stages.exchange import Run, read_bucket, write_run
from marin_assets.stages.memory_budget import affordable_workers
from marin_assets.stages.tables import PART_BYTES, Column, batches, column_types, part_name, require_columns, write_part
from marin_assets.workers import map_shards

if TYPE_CHECKING:
    import polars as pl

    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

COLUMNS = (
    Column("id", "string", "xxh3-128 of `text` as UTF-8, 32 hex digits: the join key of all later stages; sorted"),
    Column("source_id", "string", "the record's id in the input"),
    Column("url", "string", "where the page was found"),
    Column("source", "string", "the collection or file that the page came from"),
    Column("title", "string", "the page's title"),
    Column("text", "string", "the main content as Markdown, canonical"),
    Column("metadata", "string", "the input record's other fields, as JSON"),
)
DUPLICATES = "duplicates"
"""Folder of the rows that were set aside; their `id` is that of the document that they repeat."""

WHITE_SPACE_RUN = 128
_CONTROL = r"[\x00-\x08\x0B-\x1F\x7F-\x{9F}]"
SETTLED_CHARACTERS = (
    r"\t\n\x20-\x7E\x{A0}-\x{2FF}\x{38E}-\x{3A1}\x{3A3}-\x{3FF}\x{400}-\x{482}\x{48A}-\x{52F}\x{5D0}-\x{5EA}"
    r"\x{620}-\x{64A}\x{660}-\x{66F}\x{904}-\x{939}\x{E01}-\x{E30}\x{1E00}-\x{1EFF}\x{2002}-\x{2064}\x{20A0}-\x{20BF}"
    r"\x{2100}-\x{2125}\x{2190}-\x{2328}\x{2460}-\x{2ADB}\x{3000}-\x{3029}\x{3030}-\x{3096}\x{309B}-\x{30FF}"
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{AC00}-\x{D7A3}\x{FE0F}\x{FF01}-\x{FF9D}\x{1F300}-\x{1F64F}"
)
"""Characters, as ranges of a regular expression, that steps 2 to 4 leave as they are wherever they stand: no control
characters; in normalization form C; combining class 0; never the second of a composed pair. The list is not complete:
it serves to pass over most texts quickly."""
_MAY_CHANGE = rf"[^{SETTLED_CHARACTERS}]|\s{{{WHITE_SPACE_RUN + 1}}}"

_WORKING_COPIES = 3
"""Peak memory of a worker over the size of the part that it works on."""


class NormalizeConfig(StageConfig):
    """Settings of `normalized_documents`."""

    workers: Annotated[int, OPERATIONAL, Field(ge=0)] = 0
    """Worker processes; 0 takes every core."""
    memory_budget: Annotated[int, OPERATIONAL, Field(gt=0)] = 2 << 30
    """Bytes of memory that all workers together may use. Below about 768 MiB there is one worker."""


@dataclass(frozen=True)
class NormalizeStats:
    """`rows_in` = `rows_out` + `rows_blank` + `rows_duplicate`."""

    rows_in: int
    rows_out: int
    rows_blank: int
    """Rows dropped because they have no text."""
    rows_blank_by_status: dict[str, int]
    """The same, by the status that extraction gave them."""
    rows_duplicate: int
    """Rows set aside in `duplicates/`."""
    rows_changed: int
    """Rows with text that normalization changed."""
    text_bytes_in: int
    """UTF-8 bytes of all input text."""
    text_bytes_out: int
    """UTF-8 bytes of the text of the rows that went out."""
    parts: int


def normalize(markdown: Artifact, config: NormalizeConfig, out: ArtifactWriter) -> NormalizeStats:
    """Write `part-…` and `duplicates/part-…`, equally many, both sorted by `id`.

    Args:
        markdown: `part-*.parquet` with the columns `source_id, url, source, title, text, status, metadata`. The order
            of files and rows does not matter.
        config: the settings.
        out: takes the files.

    Raises:
        InputError: a part lacks a column, or no row has text.
    """
    paths = markdown.paths("part-*.parquet")
    text_bytes = sum(map(_text_bytes, paths))
    buckets = max(1, -(-text_bytes // PART_BYTES))
    scratch = out.scratch("normalize")
    workers = affordable_workers(
        config.workers,
        work_bytes=text_bytes,
        memory_budget=config.memory_budget,
        bytes_per_worker=_WORKING_COPIES * min(PART_BYTES, text_bytes),
    )
    run_bytes = max(1, config.memory_budget // (_WORKING_COPIES * workers))
    give = partial(_give, buckets=buckets, run_bytes=run_bytes)
    shards = [_Input(path, scratch / f"input-{index:05d}") for index, path in enumerate(paths)]
    given = list(map_shards(give, shards, workers=workers))
    runs = tuple(run for one in given for run in one.runs)
    if not runs:
        raise InputError(
            f"{markdown.location}: none of the {sum(one.rows for one in given)} rows has text in the column `text`. "
            "Look at the columns `status` and `error` of its rows for why; a page without text has none to learn from."
        )

    outputs = [
        _Output(out.path(part_name(index, buckets)), out.path(_duplicates_name(index, buckets)), index, runs)
        for index in range(buckets)
    ]
    rows_out = rows_duplicate = text_bytes_out = 0
    for index, taken in enumerate(map_shards(_take, outputs, workers=workers)):
        out.add(part_name(index, buckets), rows=taken.rows)
        out.add(_duplicates_name(index, buckets), rows=taken.duplicates)
        rows_out += taken.rows
        rows_duplicate += taken.duplicates
        text_bytes_out += taken.text_bytes
    out.columns = column_types(COLUMNS)
    blank = sum((one.blank for one in given), Counter[str]())
    return NormalizeStats(
        rows_in=sum(one.rows for one in given),
        rows_out=rows_out,
        rows_blank=blank.total(),
        rows_blank_by_status=dict(sorted(blank.items())),
        rows_duplicate=rows_duplicate,
        rows_changed=sum(one.changed for one in given),
        text_bytes_in=text_bytes,
        text_bytes_out=text_bytes_out,
        parts=buckets,
    )


def _duplicates_name(index: int, count: int) -> str:
    return f"{DUPLICATES}/{part_name(index, count)}"


def _text_bytes(path: Path) -> int:
    import polars as pl

    require_columns(path, ["text"])
    text = pl.scan_parquet(path).select(pl.col("text").cast(pl.Binary).bin.size().sum())
    return int(text.collect().item())


def canonical_text(text: pl.Series) -> pl.Series:
    """Normalize each text: steps 2 to 5 of this module's docstring. Null stays null."""
    import polars as pl

    may_change = text.str.contains(_MAY_CHANGE).fill_null(value=False)
    changed = (
        text.filter(may_change)
        .str.replace_all("\r\n?", "\n")
        .str.replace_all(_CONTROL, "")
        .str.normalize("NFC")
        .str.replace_all(rf"(\s{{{WHITE_SPACE_RUN}}})\s+", "$1")
    )
    return text.scatter(may_change.arg_true(), changed) if len(changed) else text.cast(pl.String)


def document_ids(text: pl.Series) -> pl.Series:
    """The id of each text: xxh3-128 of its UTF-8 bytes."""
    import polars as pl

    return pl.Series("id", [xxhash.xxh3_128_hexdigest(data) for data in text.cast(pl.Binary)], dtype=pl.String)


@dataclass(frozen=True)
class _Input:
    path: Path
    scratch: Path


@dataclass(frozen=True)
class _Given:
    """What one input part gave to the exchange."""

    runs: tuple[Run, ...]
    rows: int
    blank: Counter[str]
    changed: int


def _give(shard: _Input, *, buckets: int, run_bytes: int) -> _Given:
    """Normalize the rows of one input part and write them by bucket."""
    import polars as pl

    frame = _read_input(shard.path)
    shard.scratch.mkdir(exist_ok=True)
    blank: Counter[str] = Counter()
    changed = 0
    runs = []
    for index, batch in enumerate(batches(frame, run_bytes)):
        text = canonical_text(batch["text"])
        changed += int((text != batch["text"]).sum())
        batch = batch.with_columns(text)
        has_text = text.str.contains(r"\S").fill_null(value=False)
        blank.update(batch.filter(~has_text)["status"].fill_null("unknown").to_list())
        batch = batch.filter(has_text).drop("status")
        if batch.is_empty():
            continue
        batch = batch.with_columns(document_ids(batch["text"])).with_columns(
            # A text goes through the exchange once, however often a run repeats it.
            pl.when(pl.col("id").is_first_distinct()).then(pl.col("text"))
        )
        runs.append(write_run(shard.scratch / f"run-{index:05d}", batch, _bucket(buckets), buckets))
    return _Given(tuple(runs), frame.height, blank, changed)


def _bucket(buckets: int) -> pl.Expr:
    """The number of the id range that a row falls into."""
    import polars as pl

    first_32_bits = pl.col("id").str.head(8).str.to_integer(base=16, dtype=pl.UInt64)
    return first_32_bits * buckets // 2**32


def _read_input(path: Path) -> pl.DataFrame:
    import polars as pl

    kept = [column.name for column in COLUMNS if column.name != "id"]
    require_columns(path, [*kept, "status"])
    frame = pl.scan_parquet(path).select(*kept, "status").collect()
    if frame.schema["text"] == pl.Binary:
        decoded = [data and data.decode(errors="replace") for data in frame["text"]]
        frame = frame.with_columns(pl.Series("text", decoded, dtype=pl.String))
    return frame.cast(pl.String())


@dataclass(frozen=True)
class _Output:
    path: Path
    duplicates: Path
    bucket: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class _Taken:
    rows: int
    duplicates: int
    text_bytes: int


def _take(shard: _Output) -> _Taken:
    """Gather one bucket from the exchange and write it as a part, with the duplicates beside it."""
    import polars as pl

    names = [column.name for column in COLUMNS]
    frames = read_bucket(shard.runs, shard.bucket)
    rows = pl.concat(frames) if frames else pl.DataFrame(schema=dict.fromkeys(names, pl.String()))
    del frames
    texts = rows.select("id", "text").drop_nulls().unique("id")
    others = ["id", "source_id", *(name for name in names if name not in {"id", "source_id", "text"})]
    rows = rows.select(others).sort(others, nulls_last=True)
    stays = rows["id"].is_first_distinct()
    kept = rows.filter(stays).join(texts, on="id", maintain_order="left")
    repeated = rows.filter(~stays).join(texts, on="id", maintain_order="left")
    write_part(shard.path, kept, COLUMNS)
    write_part(shard.duplicates, repeated, COLUMNS)
    return _Taken(kept.height, repeated.height, int(kept["text"].str.len_bytes().sum()))
