"""Files of tokens as other trainers read them.

Belongs here: the bytes of each format. Does not: where the tokens come from and which splits are written
(`token_export`).

| format | reader | files | ids |
|---|---|---|---|
| `bin` | nanoGPT's `np.memmap` | `NAME.bin` | uint16 |
| `megatron` | Megatron-LM's `IndexedDataset` | `NAME.bin`, `NAME.idx` | uint16, or int32 from 65,500 tokens on |
| `datatrove` | `DatatroveFolderDataset`, Nanotron | `NAME.ds`, `.ds.index`, `.ds.metadata` | uint16 or uint32 |

All are flat ids in little-endian order, document after document, each with its end of sequence.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from marin_assets.errors import InputError
from marin_assets.stages.token_cache import TokenCache

# Megatron's own choice of type, by the size of the vocabulary, and its codes of the types.
_MEGATRON_TWO_BYTES_BELOW = 65_500
_MEGATRON_CODES = {"<u2": 8, "<i4": 4}
_MEGATRON_MAGIC = b"MMIDIDX\x00\x00"


class TokenFormat(StrEnum):
    """A kind of file."""

    bin = "bin"
    megatron = "megatron"
    datatrove = "datatrove"


@dataclass(frozen=True)
class Tokens:
    """What is written."""

    cache: TokenCache
    vocabulary_size: int
    tokenizer: str
    """Its name, for people."""


def write_tokens(tokens: Tokens, token_format: TokenFormat, path: Path) -> list[Path]:
    """Write one split.

    Args:
        path: the files' path without their endings. Files that are there are replaced, once all are written.

    Returns:
        The files.

    Raises:
        InputError: the format cannot hold these tokens, or the cache is damaged.
    """
    writers: dict[TokenFormat, Callable[[Tokens, Path], list[Path]]] = {
        TokenFormat.bin: _write_bin,
        TokenFormat.megatron: _write_megatron,
        TokenFormat.datatrove: _write_datatrove,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    return writers[token_format](tokens, path)


def _write_bin(tokens: Tokens, path: Path) -> list[Path]:
    if tokens.vocabulary_size > 1 << 16:
        raise InputError(
            f"bin: its ids have two bytes, and this vocabulary has {tokens.vocabulary_size} tokens, more than 65536. "
            "Use `--format megatron` or `--format datatrove`, or a smaller vocabulary."
        )
    names = [_with_ending(path, ".bin")]
    with _replacing(names) as (ids,):
        _write_ids(tokens.cache, "<u2", ids)
    return names


def _write_megatron(tokens: Tokens, path: Path) -> list[Path]:
    """Each document is one sequence. The index: lengths, byte offsets, and where documents begin, and their end."""
    data_type = "<u2" if tokens.vocabulary_size < _MEGATRON_TWO_BYTES_BELOW else "<i4"
    offsets = tokens.cache.row_offsets()
    lengths = np.diff(offsets)
    if lengths.max(initial=0) > np.iinfo(np.int32).max:
        raise InputError(f"megatron: a document of {lengths.max()} tokens is too long for it. Use another format.")
    names = [_with_ending(path, ".bin"), _with_ending(path, ".idx")]
    with _replacing(names) as (ids, index):
        _write_ids(tokens.cache, data_type, ids)
        index.write(_MEGATRON_MAGIC)
        version = 1
        index.write(struct.pack("<QBQQ", version, _MEGATRON_CODES[data_type], len(lengths), len(lengths) + 1))
        index.write(lengths.astype("<i4").tobytes())
        index.write((offsets[:-1] * np.dtype(data_type).itemsize).astype("<i8").tobytes())
        index.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())
    return names


def _write_datatrove(tokens: Tokens, path: Path) -> list[Path]:
    """The index holds the end of each document; the metadata the tokenizer, bytes an id, and the number of tokens."""
    data_type = "<u2" if tokens.vocabulary_size <= 1 << 16 else "<u4"
    total = tokens.cache.total_tokens
    names = [_with_ending(path, ending) for ending in (".ds", ".ds.index", ".ds.metadata")]
    with _replacing(names) as (ids, index, metadata):
        _write_ids(tokens.cache, data_type, ids)
        index.write(tokens.cache.row_offsets()[1:].astype("<u8").tobytes())
        metadata.write(f"{tokens.tokenizer}|{np.dtype(data_type).itemsize}\n{total}\n{total:,} tokens".encode())
    return names


def _write_ids(cache: TokenCache, data_type: str, file: BinaryIO) -> None:
    written = 0
    for chunk in cache.token_chunks():
        written += file.write(_as_type(chunk, data_type).tobytes()) // np.dtype(data_type).itemsize
    if written != cache.total_tokens:
        raise InputError(f"{cache.directory}: holds {written} tokens, and its ledger says {cache.total_tokens}.")


def _as_type(ids: npt.NDArray[np.int32], data_type: str) -> npt.NDArray[np.integer]:
    converted: npt.NDArray[np.integer] = ids.astype(data_type)
    if (converted != ids).any():
        raise InputError(f"token id {ids[converted != ids][0]} does not fit its vocabulary. Build token_cache again.")
    return converted


def _with_ending(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextmanager
def _replacing(paths: list[Path]) -> Iterator[list[BinaryIO]]:
    """Files to write, which take the place of those at `paths` when the block ends without an error."""
    temporary = [_with_ending(path, ".partial") for path in paths]
    try:
        with ExitStack() as stack:
            yield [stack.enter_context(path.open("wb")) for path in temporary]
        for written, path in zip(temporary, paths, strict=True):
            written.replace(path)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
