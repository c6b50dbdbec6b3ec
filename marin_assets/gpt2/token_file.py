"""A split's tokens as one flat, memory-mapped file: what training reads, made once from the token cache.

Belongs here: the copy and its checks. A shard of the cache is compressed; a window of the flat file costs one read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from marin_assets.errors import InputError

_WIDEST_UINT16 = 1 << 16


class FlatTokens(Protocol):
    """A split of a token cache: the documents' tokens, one after the other."""

    @property
    def total_tokens(self) -> int: ...

    def token_chunks(self) -> Iterator[npt.NDArray[np.int32]]:
        """All token ids in order, in arrays of any length."""
        ...


def open_token_file(
    tokens: FlatTokens, path: Path, *, vocabulary_size: int, split: str
) -> npt.NDArray[np.uint16] | npt.NDArray[np.uint32]:
    """Map the flat file at `path`, which is made first unless it is there whole. Little-endian, no header.

    Raises:
        InputError: a token id is out of range, or the cache holds more or fewer tokens than it says.
    """
    dtype = np.dtype("<u2" if vocabulary_size <= _WIDEST_UINT16 else "<u4")
    if not path.exists() or path.stat().st_size != tokens.total_tokens * dtype.itemsize:
        _write(tokens, path, dtype, vocabulary_size, split)
    if tokens.total_tokens == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def _write(tokens: FlatTokens, path: Path, dtype: np.dtype[np.generic], vocabulary_size: int, split: str) -> None:
    """Write beside the destination and rename, so that the file is whole or absent."""
    partial = path.with_name(path.name + ".partial")
    written = 0
    with partial.open("wb") as stream:
        for chunk in tokens.token_chunks():
            _check_range(chunk, written, vocabulary_size, split)
            stream.write(chunk.astype(dtype).tobytes())
            written += len(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    if written != tokens.total_tokens:
        partial.unlink()
        raise InputError(
            f"the {split} split of the token cache holds {written} tokens where its ledger says "
            f"{tokens.total_tokens}; materialize token_cache again with force"
        )
    partial.replace(path)


def _check_range(chunk: npt.NDArray[np.int32], offset: int, vocabulary_size: int, split: str) -> None:
    outside = np.flatnonzero((chunk < 0) | (chunk >= vocabulary_size))
    if outside.size:
        raise InputError(
            f"token {offset + int(outside[0])} of the {split} split is {int(chunk[outside[0]])}, outside the "
            f"vocabulary of {vocabulary_size}; materialize token_cache again with the tokenizer it was made with"
        )
