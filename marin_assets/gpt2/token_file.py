"""A split's tokens as one flat, memory-mapped file: what training reads, made once from the token cache.

Belongs here: the copy and its checks. A shard of the cache is compressed; a window of the flat file costs one read.
Files are kept from run to run, by the digest of the tokens: which stay when space is short is `DownloadCache`'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from marin_assets.artifacts.download_cache import DownloadCache
from marin_assets.errors import InputError

_WIDEST_UINT16 = 1 << 16

TokenArray = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


class FlatTokens(Protocol):
    """A split of a token cache: the documents' tokens, one after the other."""

    @property
    def total_tokens(self) -> int: ...

    def token_chunks(self) -> Iterator[npt.NDArray[np.int32]]:
        """All token ids in order, in arrays of any length."""
        ...


def open_token_file(
    tokens: FlatTokens, cache: DownloadCache, *, digest: str, vocabulary_size: int, split: str
) -> TokenArray:
    """Map the flat file of a split, which is made first unless `cache` holds it. Little-endian, no header.

    Args:
        digest: of the tokens: one digest, one file.
        vocabulary_size: ids are below it; decides whether they take two bytes or four.

    Raises:
        InputError: a token id is out of range, or the cache holds more or fewer tokens than it says.
        StorageError: the disk refused to write.
    """
    dtype = np.dtype("<u2" if vocabulary_size <= _WIDEST_UINT16 else "<u4")
    if tokens.total_tokens == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype=dtype)
    name = f"{split}.uint{8 * dtype.itemsize}"
    path = cache.find_of_size(digest, name, tokens.total_tokens * dtype.itemsize) or cache.add(
        digest, name, lambda path: _write(tokens, path, dtype, vocabulary_size, split)
    )
    return np.memmap(path, dtype=dtype, mode="r")


def _write(tokens: FlatTokens, path: Path, dtype: np.dtype[np.generic], vocabulary_size: int, split: str) -> None:
    written = 0
    with path.open("wb") as stream:
        for chunk in tokens.token_chunks():
            _check_range(chunk, written, vocabulary_size, split)
            stream.write(chunk.astype(dtype).tobytes())
            written += len(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    if written != tokens.total_tokens:
        raise InputError(
            f"the {split} split of the token cache holds {written} tokens where its ledger says "
            f"{tokens.total_tokens}; materialize token_cache again with force"
        )


def _check_range(chunk: npt.NDArray[np.int32], offset: int, vocabulary_size: int, split: str) -> None:
    outside = np.flatnonzero((chunk < 0) | (chunk >= vocabulary_size))
    if outside.size:
        raise InputError(
            f"token {offset + int(outside[0])} of the {split} split is {int(chunk[outside[0]])}, outside the "
            f"vocabulary of {vocabulary_size}; materialize token_cache again with the tokenizer it was made with"
        )
