"""The persistent index of a corpus: the hash of each different paragraph in it, so that later corpora can leave out
what it has.

Belongs here: the index's files, and looking hashes up in them. Does not: how paragraphs are found or grouped.

The index is the folder `paragraph_hashes/` of a `duplicate_paragraphs` artifact. It is no part of the artifact's
content digest, since nothing of the same corpus depends on it; `index_digest` is what a later corpus depends on.

- `index.json`: what was hashed, and how (`Definition`).
- `part-NNNNN-of-NNNNN.npy`: NumPy arrays of `HASH`, ascending through all parts, each hash once. They hold all
  paragraphs that were compared, also those that earlier corpora had: an index speaks of its own corpus alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from marin_assets.artifacts.manifest import digest_of_json
from marin_assets.errors import InputError

if TYPE_CHECKING:
    from marin_assets.artifacts.artifact import Artifact
    from marin_assets.artifacts.artifact_writer import ArtifactWriter

FOLDER = "paragraph_hashes"
HASH = np.dtype([("high", "<u8"), ("low", "<u8")])
"""The halves of an xxh3-128."""
HASHES_PER_PART = 1 << 24
_HASHES_AT_ONCE = 1 << 20

Hashes = NDArray[np.void]


class Definition(BaseModel):
    """`index.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: Literal[1] = 1
    """Raised whenever the files change their shape, or what a paragraph is."""
    hash: Literal["xxh3-128"] = "xxh3-128"
    unit: str
    """What was hashed: `paragraph` or `line`."""
    min_paragraph_chars: int
    """Shorter ones are not in the index."""
    hashes: int
    """How many there are."""


@dataclass(frozen=True)
class Index:
    """The index of one earlier corpus, on local disk."""

    digest: str
    hashes: int
    parts: tuple[Path, ...]


def index_digest(artifacts: Sequence[Artifact]) -> str:
    """Hash what the indexes of these artifacts hold, whatever their order and wherever they are.

    Raises:
        InputError: an artifact has no index.
    """
    return digest_of_json([*sorted({_digest(artifact) for artifact in artifacts})])


def _digest(artifact: Artifact) -> str:
    entries = artifact.files(f"{FOLDER}/*")
    if not entries:
        raise InputError(
            f"{artifact.location} has no folder `{FOLDER}`, so nothing can be deduplicated against it. Name an "
            "artifact of `duplicate_paragraphs`; if it is one, compute it again."
        )
    return digest_of_json([[entry.name, entry.digest] for entry in entries])


def open_indexes(artifacts: Sequence[Artifact], *, unit: str, min_paragraph_chars: int) -> tuple[Index, ...]:
    """Fetch the indexes of these artifacts, in an order that depends on their content alone, each once.

    Raises:
        InputError: an artifact has no index; an index has another format or unit, or lacks the shorter paragraphs.
    """
    by_digest = {_digest(artifact): artifact for artifact in artifacts}
    return tuple(_open(by_digest[digest], digest, unit, min_paragraph_chars) for digest in sorted(by_digest))


def _open(artifact: Artifact, digest: str, unit: str, min_paragraph_chars: int) -> Index:
    path = artifact.path(f"{FOLDER}/index.json")
    try:
        found = Definition.model_validate_json(path.read_bytes())
    except ValidationError as error:
        reason = error.errors()[0]
        field = ".".join(map(str, reason["loc"]))
        raise InputError(
            f"{path}: `{field}`: {reason['msg']}. The index was written by another version; compute the artifact again."
        ) from error
    if found.unit != unit:
        raise InputError(
            f"{path}: an index of `unit: {found.unit}` cannot serve `unit: {unit}`. Set `unit` to {found.unit!r}, or "
            "compute that artifact again with this one's."
        )
    if found.min_paragraph_chars > min_paragraph_chars:
        raise InputError(
            f"{path}: the index has only paragraphs of {found.min_paragraph_chars} characters or more, but "
            f"`min_paragraph_chars` is {min_paragraph_chars}. Raise it, or compute that artifact again with this one's."
        )
    return Index(digest, found.hashes, artifact.paths(f"{FOLDER}/part-*.npy"))


def write_index(out: ArtifactWriter, sources: Sequence[Path], *, unit: str, min_paragraph_chars: int) -> None:
    """Write the index of a corpus.

    Args:
        out: takes the files.
        sources: arrays of `HASH`, ascending from one to the next; the parts are cut anew, so that their bytes do not
            depend on how many there are.
        unit: what was hashed.
        min_paragraph_chars: shorter ones were not.
    """
    arrays = [np.load(path, mmap_mode="r") for path in sources]
    total = sum(map(len, arrays))
    count = max(1, -(-total // HASHES_PER_PART))
    first = 0
    for number in range(count):
        name = f"{FOLDER}/part-{number:05d}-of-{count:05d}.npy"
        end = min(first + HASHES_PER_PART, total)
        with out.path(name).open("wb") as file:
            header = {"descr": np.lib.format.dtype_to_descr(HASH), "fortran_order": False, "shape": (end - first,)}
            np.lib.format.write_array_header_1_0(file, header)
            for piece in _slices(arrays, first, end):
                file.write(np.ascontiguousarray(piece).data)
        out.add(name, rows=end - first, content=False)
        first = end
    definition = Definition(unit=unit, min_paragraph_chars=min_paragraph_chars, hashes=total)
    out.path(f"{FOLDER}/index.json").write_text(definition.model_dump_json(indent=2) + "\n", encoding="utf-8")
    out.add(f"{FOLDER}/index.json", content=False)


def _slices(arrays: Sequence[Hashes], first: int, end: int) -> Iterator[Hashes]:
    """The hashes from `first` to `end` of all arrays one after the other, some at a time."""
    offset = 0
    for array in arrays:
        low, high = max(first - offset, 0), min(end - offset, len(array))
        for start in range(low, high, _HASHES_AT_ONCE):
            yield array[start : min(start + _HASHES_AT_ONCE, high)]
        offset += len(array)


def which_index(wanted: Hashes, indexes: Sequence[Index], low: int, high: int) -> NDArray[np.int64]:
    """For each wanted hash the number of the first index that has it; -1 if none has.

    Args:
        wanted: has the fields `high` and `low`; ascending, each hash once, with low <= `high` < high.
        indexes: the indexes to look into.
        low: of the range of upper halves.
        high: end of that range.
    """
    found = np.full(len(wanted), -1, dtype=np.int64)
    halves = np.ascontiguousarray(wanted["high"]), np.ascontiguousarray(wanted["low"])
    for number, index in reversed(list(enumerate(indexes))):
        for path in index.parts:
            stored = np.load(path, mmap_mode="r")
            first = bisect_left(stored, low, key=lambda record: int(record["high"]))
            last = bisect_left(stored, high, lo=first, key=lambda record: int(record["high"]))
            for start in range(first, last, _HASHES_AT_ONCE):
                found[_matches(*halves, np.array(stored[start : min(start + _HASHES_AT_ONCE, last)]))] = number
    return found


def _matches(high: NDArray[np.uint64], low: NDArray[np.uint64], hashes: Hashes) -> NDArray[np.int64]:
    """Positions of those (high, low), which ascend, that are among the hashes."""
    positions = np.searchsorted(high, hashes["high"])
    matches = [positions[:0]]
    while len(positions):  # more than once only where hashes share their upper half
        inside = positions < len(high)
        positions, hashes = positions[inside], hashes[inside]
        same_high = high[positions] == hashes["high"]
        positions, hashes = positions[same_high], hashes[same_high]
        matches.append(positions[low[positions] == hashes["low"]])
        positions = positions + 1
    return np.concatenate(matches)
