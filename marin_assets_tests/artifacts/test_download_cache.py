"""What the download cache keeps, and what it lets go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from marin_assets.artifacts.download_cache import DownloadCache, cache_limit_bytes, default_cache
from marin_assets.artifacts.file_digest import file_digest
from marin_assets.artifacts.manifest import FileEntry
from marin_assets.errors import SettingsError, StorageError

HOUR = 3600


def filled(cache: DownloadCache, artifact: str, name: str, data: bytes, *, hours_ago: float = 0) -> FileEntry:
    path = cache.add(artifact, name, lambda partial: void(partial.write_bytes(data)))
    used = path.stat().st_mtime - hours_ago * HOUR
    os.utime(path, (used, used))
    return FileEntry(name=name, bytes=len(data), digest=file_digest(path))


def void(_: object) -> None:
    """The callback's result is of no interest."""


def in_another_process(cache: DownloadCache, artifact: str, hours_ago: float) -> None:
    """Fill ten bytes by a process that has ended, so that nobody uses them."""
    code = (
        "import os, sys; from pathlib import Path; from marin_assets.artifacts.download_cache import DownloadCache;"
        "cache = DownloadCache(Path(sys.argv[1]), 1 << 30);"
        "path = cache.add(sys.argv[2], 'part', lambda partial: partial.write_bytes(b'0123456789') and None);"
        "used = path.stat().st_mtime - 3600 * float(sys.argv[3]); os.utime(path, (used, used))"
    )
    arguments = [str(cache.folder), artifact, str(hours_ago)]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=Path(__file__).parents[2])


def test_a_file_is_found_again_whole(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path, 1000)
    entry = filled(cache, "root/pages/f1", "deep/part-0", b"data")
    found = DownloadCache(tmp_path, 1000).find("root/pages/f1", entry)
    assert found is not None
    assert found.read_bytes() == b"data"
    assert cache.find("root/pages/f2", entry) is None
    assert cache.find("root/pages/f1", entry.model_copy(update={"name": "other"})) is None


@pytest.mark.parametrize("damage", [b"dat", b"dAta", b"data and more", b""])
def test_a_file_that_was_damaged_is_not_served(tmp_path: Path, damage: bytes) -> None:
    cache = DownloadCache(tmp_path, 1000)
    entry = filled(cache, "a", "part", b"data")
    path = cache.find("a", entry)
    assert path is not None
    path.write_bytes(damage)
    assert cache.find("a", entry) is None
    assert not path.exists()


def test_a_file_that_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path, 1000)

    def breaks_off(partial: Path) -> None:
        partial.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.add("a", "part", breaks_off)
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []


def test_the_least_recently_used_go_first_and_no_more_than_needed(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path, 35)
    for artifact, hours_ago in (("older", 3), ("oldest", 4), ("recent", 1)):
        in_another_process(cache, artifact, hours_ago)
    filled(cache, "new", "part", b"0123456789")
    assert sorted(path.name for path in (tmp_path / "files").iterdir() if any(path.iterdir())) == [
        "new",
        "older",
        "recent",
    ]


def test_what_this_process_uses_stays_even_beyond_the_limit(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path, 15)
    in_another_process(cache, "unused", 0)
    first = filled(cache, "used", "part-0", b"0123456789", hours_ago=9)
    second = filled(cache, "used", "part-1", b"0123456789", hours_ago=8)
    assert cache.find("used", first) is not None
    assert cache.find("used", second) is not None
    assert list((tmp_path / "files" / "unused").iterdir()) == []


def test_what_another_living_process_uses_stays(tmp_path: Path) -> None:
    other = DownloadCache(tmp_path, 1000)
    entry = filled(other, "used", "part", b"0123456789", hours_ago=9)
    filled(DownloadCache(tmp_path, 15), "new", "part", b"0123456789")
    assert other.find("used", entry) is not None


def test_a_dropped_artifact_is_fetched_anew(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path, 1000)
    entry = filled(cache, "a", "part", b"data")
    other = filled(cache, "b", "part", b"data")
    cache.drop("a")
    cache.drop("never there")
    assert cache.find("a", entry) is None
    assert cache.find("b", other) is not None


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="set XDG_CACHE_HOME"):
        filled(DownloadCache(tmp_path / "file", 10), "a", "part", b"data")


def test_folder_and_size_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "marin_assets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "marin_assets"
    monkeypatch.setenv("MARIN_CACHE_GIB", "0.5")
    assert cache_limit_bytes() == 512 << 20
    for wrong in ("much", "-1", "0", "", "nan", "inf"):
        monkeypatch.setenv("MARIN_CACHE_GIB", wrong)
        with pytest.raises(SettingsError, match="MARIN_CACHE_GIB"):
            cache_limit_bytes()
