"""Digests of input files, remembered between runs so that a large unchanged input is not read again.

Belongs here: when a remembered digest may be believed. As in Git's index, a file counts as unchanged while its path,
size, modification time and inode are: one written within moments of being hashed may change again without its
modification time telling, so it is hashed every time until it has aged.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from marin_assets.artifacts.file_digest import file_digest

_FILE_NAME = "file_digests.sqlite"
_RACY_NS = 2_000_000_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS file_digests (
    path BLOB PRIMARY KEY, bytes INTEGER, modified_ns INTEGER, inode INTEGER, hashed_ns INTEGER, digest TEXT
) WITHOUT ROWID
"""


def file_digests(paths: Iterable[Path], remember: Path | None) -> Iterator[str]:
    """The xxh3-128 of each file, in order.

    Args:
        remember: folder of the memory, made when missing; None hashes every file. Damage to the memory costs time
            only: it is made anew.
    """
    if remember is None:
        yield from map(file_digest, paths)
        return
    remember.mkdir(parents=True, exist_ok=True)
    with closing(_open(remember / _FILE_NAME)) as memory, memory:
        for path in paths:
            yield _digest(memory, path.absolute())


def _open(path: Path) -> sqlite3.Connection:
    memory = sqlite3.connect(path, timeout=60, check_same_thread=False)
    try:
        memory.execute(_SCHEMA)
    except sqlite3.DatabaseError as error:
        memory.close()
        if isinstance(error, sqlite3.OperationalError):  # locked, or a disk that is full: not damage
            raise
        path.unlink()
        memory = sqlite3.connect(path, timeout=60, check_same_thread=False)
        memory.execute(_SCHEMA)
    return memory


def _digest(memory: sqlite3.Connection, path: Path) -> str:
    state = _state(path)
    known = memory.execute(
        "SELECT digest, hashed_ns FROM file_digests WHERE path = ? AND bytes = ? AND modified_ns = ? AND inode = ?",
        (os.fsencode(path), *state),
    ).fetchone()
    if known is not None and state[1] + _RACY_NS < known[1]:
        return str(known[0])
    hashed_ns = time.time_ns()
    digest = file_digest(path)
    if _state(path) == state:
        memory.execute(
            "INSERT OR REPLACE INTO file_digests VALUES (?, ?, ?, ?, ?, ?)",
            (os.fsencode(path), *state, hashed_ns, digest),
        )
    return digest


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino
