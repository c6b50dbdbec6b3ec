"""A remembered digest is believed only while the file can't have changed."""

import os
import time
from pathlib import Path

import pytest
import xxhash

from marin_assets.artifacts import remembered_digests
from marin_assets.artifacts.file_digest import file_digest
from marin_assets.artifacts.remembered_digests import file_digests


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were really read."""
    names: list[str] = []

    def digest(path: Path) -> str:
        names.append(path.name)
        return file_digest(path)

    monkeypatch.setattr(remembered_digests, "file_digest", digest)
    return names


def _write(path: Path, content: bytes, age_seconds: float) -> Path:
    path.write_bytes(content)
    then = time.time_ns() - int(age_seconds * 1e9)
    os.utime(path, ns=(then, then))
    return path


def _digests(paths: list[Path], memory: Path | None) -> list[str]:
    return list(file_digests(paths, memory))


def test_digests_are_those_of_the_bytes(tmp_path: Path) -> None:
    files = [_write(tmp_path / name, name.encode(), 60) for name in ("b", "a")]
    expected = [xxhash.xxh3_128_hexdigest(path.name.encode()) for path in files]
    assert _digests(files, None) == expected
    assert _digests(files, tmp_path / "memory") == expected
    assert _digests(files, tmp_path / "memory") == expected


def test_an_old_file_is_read_once(tmp_path: Path, hashed: list[str]) -> None:
    file = _write(tmp_path / "old", b"x", 60)
    _digests([file], tmp_path / "memory")
    _digests([file], tmp_path / "memory")
    assert hashed == ["old"]


def test_without_a_memory_every_file_is_read_every_time(tmp_path: Path, hashed: list[str]) -> None:
    file = _write(tmp_path / "old", b"x", 60)
    _digests([file], None)
    _digests([file], None)
    assert hashed == ["old", "old"]


def test_a_file_written_moments_before_it_was_hashed_is_not_believed(tmp_path: Path) -> None:
    file = _write(tmp_path / "new", b"old bytes", 1)
    status = file.stat()
    first = _digests([file], tmp_path / "memory")
    file.write_bytes(b"new bytes")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _digests([file], tmp_path / "memory") != first


@pytest.mark.parametrize("change", ["size", "modification time", "inode"])
def test_any_change_of_state_is_noticed(tmp_path: Path, hashed: list[str], change: str) -> None:
    file = _write(tmp_path / "file", b"x", 60)
    status = file.stat()
    _digests([file], tmp_path / "memory")
    match change:
        case "size":
            file.write_bytes(b"xy")
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        case "modification time":
            _write(file, b"x", 50)
        case "inode":
            (tmp_path / "other").write_bytes(b"y")
            os.utime(tmp_path / "other", ns=(status.st_atime_ns, status.st_mtime_ns))
            (tmp_path / "other").replace(file)
    _digests([file], tmp_path / "memory")
    assert hashed == ["file", "file"]


def test_a_damaged_memory_is_made_anew(tmp_path: Path) -> None:
    file = _write(tmp_path / "file", b"x", 60)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "file_digests.sqlite").write_bytes(b"no database at all" * 100)
    assert _digests([file], tmp_path / "memory") == _digests([file], None)
