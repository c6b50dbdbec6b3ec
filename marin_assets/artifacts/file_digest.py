"""Digests of files on local disk."""

from pathlib import Path

import xxhash

_BLOCK_BYTES = 4 << 20


def file_digest(path: Path) -> str:
    """xxh3-128 of a file's bytes, 32 hex digits, read in blocks."""
    hasher = xxhash.xxh3_128()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            hasher.update(block)
    return hasher.hexdigest()
