"""Which of very many paragraphs are repeats, known by their hashes, in bounded memory.

Belongs here: the grouping of (hash, place) records. Does not: text, Parquet, how paragraphs are found.

It is a merge by hash ranges. Records are gathered in the order of their places into runs of bounded size. Within a run
most repeats are recognized at once: a record that must go in any case, whatever other runs hold, is written to the
run's own duplicates. The others (for most settings: one for each distinct hash) go on, sorted by hash, in a file. Then
each hash range, a bucket, is cut out of all runs, and of each hash the first place stays. A hash occurs in a bucket
about once for each run at most, so no paragraph is too frequent to be held. A hash that the index of an earlier corpus
has, has its first place there: all its places here go.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from marin_assets.stages.paragraph_hashes import HASH, Index, which_index
from marin_assets.stages.paragraphs import Blocks

PARAGRAPH = np.dtype(
    [("high", "<u8"), ("low", "<u8"), ("document", "<u8"), ("start", "<u4"), ("end", "<u4"), ("copies", "<u8")]
)
"""A paragraph: the halves of its xxh3-128, its document (`document_number`), its span, and how many it stands for."""
PLACE = np.dtype([("document", "<u8"), ("start", "<u4"), ("end", "<u4")])
"""Where a paragraph stands."""
BYTES_PER_PARAGRAPH = 4 * PARAGRAPH.itemsize
"""Peak memory of sorting a record: itself, a sorted copy, and the arrays that say which of them go."""

Records = NDArray[np.void]


def document_number(part: int, row: NDArray[np.int64]) -> NDArray[np.uint64]:
    """One number for a document's part and row, in the order of ids."""
    return np.uint64(part << 32) + row.astype(np.uint64)


def paragraph_records(documents: Sequence[bytes], blocks: Blocks, numbers: NDArray[np.uint64]) -> Records:
    """The record of each block. `numbers` are the documents' numbers."""
    digest = xxhash.xxh3_128_digest
    places = zip(blocks.documents.tolist(), blocks.starts.tolist(), blocks.ends.tolist(), strict=True)
    hashes = b"".join([digest(documents[document][start:end]) for document, start, end in places])
    halves = np.frombuffer(hashes, dtype=">u8").reshape(-1, 2)
    records = np.empty(len(halves), dtype=PARAGRAPH)
    records["high"], records["low"] = halves[:, 0], halves[:, 1]
    records["document"] = numbers[blocks.documents]
    records["start"], records["end"] = blocks.starts, blocks.ends
    records["copies"] = 1
    return records


@dataclass(frozen=True)
class Run:
    """Two files: paragraphs sorted by hash, and the places of those that are surely repeats, in order."""

    paragraphs: Path
    repeats: Path
    count: int
    """Records in `paragraphs`."""


def write_run(directory: Path, name: str, records: Records, *, within_document: bool) -> Run:
    """Sort out the records of a run, which come in the order of their places."""
    records, first = _by_hash(records, presorted=False)
    starts = np.flatnonzero(first)
    undecided = first
    if not within_document:  # they stay or go with the first one of their document
        undecided = first | (records["document"] == _first_documents(records, first))
    sizes = np.diff(np.append(starts, len(records)))
    records["copies"] = 0
    records["copies"][starts] = sizes
    run = Run(directory / f"{name}.paragraphs.npy", directory / f"{name}.repeats.npy", int(undecided.sum()))
    np.save(run.paragraphs, records[undecided])
    np.save(run.repeats, places_in_order(records[~undecided]))
    return run


def _by_hash(records: Records, *, presorted: bool) -> tuple[Records, NDArray[np.bool_]]:
    """Sort records by hash and mark the first of each hash: the one that came first. The others are in any order.

    `presorted` says that they consist of a few pieces that are sorted already.
    """
    # A stable sort merges sorted pieces; of records in no order, an unstable one is three times as fast.
    order = np.argsort(records["high"], kind="stable" if presorted else "quicksort")
    high, low = records["high"][order], records["low"][order]
    same_high = high[1:] == high[:-1]
    if (same_high & (low[1:] != low[:-1])).any():  # two hashes with one upper half: rare
        order = np.lexsort((records["low"], records["high"]))
        high, low = records["high"][order], records["low"][order]
        same_high = high[1:] == high[:-1]
    first = np.ones(len(records), dtype=bool)
    first[1:] = ~(same_high & (low[1:] == low[:-1]))
    if not presorted:
        _earliest_to_front(order, np.flatnonzero(first))
    return np.take(records, order), first  # many times faster than records[order]


def _earliest_to_front(order: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
    """Swap the smallest number of each group, from where it starts to the start of the next, to its front."""
    if not len(starts):
        return
    earliest = np.minimum.reduceat(order, starts)
    wrong = np.flatnonzero(order[starts] != earliest)
    sizes = np.diff(np.append(starts, len(order)))[wrong]
    members = np.repeat(starts[wrong] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    order[members[order[members] == np.repeat(earliest[wrong], sizes)]] = order[starts[wrong]]
    order[starts] = earliest


def _first_documents(records: Records, first: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """For each record the document of the first one of its hash."""
    documents: NDArray[np.uint64] = records["document"][first][np.cumsum(first) - 1]
    return documents


def places_in_order(records: Records) -> Records:
    """The places of records, sorted."""
    order = np.lexsort((records["start"], records["document"]))
    places = np.empty(len(records), dtype=PLACE)
    for name in ("document", "start", "end"):
        places[name] = records[name][order]
    return places


def read_range(paths: Sequence[Path], field: str, low: int, high: int) -> Records:
    """The records with low <= field < high out of files that are sorted by that field, one file after the other."""
    found = []
    for path in paths:
        stored = np.load(path, mmap_mode="r")
        first = bisect_left(stored, low, key=lambda record: int(record[field]))
        last = bisect_left(stored, high, lo=first, key=lambda record: int(record[field]))
        found.append(np.array(stored[first:last]))
    return np.concatenate(found)


@dataclass(frozen=True)
class RepeatedParagraph:
    """A paragraph that the corpus holds more than once, or that an earlier corpus holds."""

    copies: int
    removed: int
    """Copies that go."""
    bytes: int
    """Size of one copy."""
    part: int
    """The part of the first copy; its row there; its first byte."""
    row: int
    start: int
    index: int
    """Number of the earlier corpus that has it; -1 if none has."""

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """Most copies first, then the larger, then the earlier."""
        return (-self.copies, -self.bytes, self.part, self.row, self.start)


@dataclass(frozen=True)
class Bucket:
    """What a hash range came to."""

    repeats: Path
    """Places of the paragraphs that go, in order, but for those that their run knew already."""
    hashes: Path
    """The different hashes, ascending."""
    distinct: int
    """Different paragraphs."""
    distinct_repeated: int
    """Those that occur more than once."""
    distinct_in_earlier: int
    """Those that an earlier corpus has."""
    copies_in_earlier: int
    """Paragraphs that are the same as one in an earlier corpus."""
    bytes_in_earlier: int
    most_repeated: tuple[RepeatedParagraph, ...]


def decide_bucket(
    runs: Sequence[Run],
    bucket: int,
    buckets: int,
    directory: Path,
    *,
    within_document: bool,
    most: int,
    earlier: Sequence[Index] = (),
) -> Bucket:
    """Decide on the paragraphs of one hash range: the first place of each stays, unless an earlier corpus has it.

    Args:
        runs: in the order of their places.
        bucket: which of the `buckets` equal ranges.
        buckets: how many there are.
        directory: takes the bucket's files.
        within_document: whether a repeat in the document of the first place goes too.
        most: how many of the most repeated to report.
        earlier: indexes of earlier corpora.
    """
    low, high = (bucket << 64) // buckets, ((bucket + 1) << 64) // buckets
    records, first = _by_hash(read_range([run.paragraphs for run in runs], "high", low, high), presorted=True)
    starts = np.flatnonzero(first)
    firsts = np.take(records, starts)
    index = which_index(firsts, earlier, low, high)
    in_earlier = index >= 0
    goes = ~first if within_document else records["document"] != _first_documents(records, first)
    goes |= np.repeat(in_earlier, np.diff(np.append(starts, len(records))))

    result = directory / f"bucket-{bucket:05d}"
    repeats, hashes = result.with_suffix(".repeats.npy"), result.with_suffix(".hashes.npy")
    np.save(repeats, places_in_order(records[goes]))
    np.save(hashes, _hashes(firsts))
    copies = _sums(records["copies"].astype(np.int64), starts)
    sizes = (firsts["end"] - firsts["start"]).astype(np.int64)
    removed = copies - _sums((~goes).astype(np.int64), starts)
    reported = np.flatnonzero((copies > 1) | in_earlier)
    order = np.lexsort((firsts["start"][reported], firsts["document"][reported], -sizes[reported], -copies[reported]))
    most_repeated = tuple(
        RepeatedParagraph(
            copies=int(copies[one]),
            removed=int(removed[one]),
            bytes=int(sizes[one]),
            part=int(firsts["document"][one]) >> 32,
            row=int(firsts["document"][one]) & 0xFFFFFFFF,
            start=int(firsts["start"][one]),
            index=int(index[one]),
        )
        for one in reported[order[:most]]
    )
    return Bucket(
        repeats=repeats,
        hashes=hashes,
        distinct=len(firsts),
        distinct_repeated=int((copies > 1).sum()),
        distinct_in_earlier=int(in_earlier.sum()),
        copies_in_earlier=int(copies[in_earlier].sum()),
        bytes_in_earlier=int((copies * sizes)[in_earlier].sum()),
        most_repeated=most_repeated,
    )


def _hashes(records: Records) -> Records:
    hashes = np.empty(len(records), dtype=HASH)
    for name in ("high", "low"):
        hashes[name] = records[name]
    return hashes


def _sums(values: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of each group of values, from where it starts to the start of the next."""
    return np.add.reduceat(values, starts) if len(starts) else values
