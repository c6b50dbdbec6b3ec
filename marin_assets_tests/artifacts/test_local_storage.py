"""What is particular to artifacts on local disk."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.local_storage import LocalStorage, full_disk_explained
from marin_assets.artifacts.manifest import Manifest
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.errors import LeaseLostError, SettingsError, StorageError
from marin_assets_tests.artifacts.sites import begun, published, recipe, write_files

FILES = {"part-0": b"zero", "deep/er/part-1": b"one"}


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "store")


@pytest.fixture
def store(storage: LocalStorage) -> ArtifactStore:
    return ArtifactStore(storage)


def folder(storage: LocalStorage, manifest: Manifest) -> Path:
    return storage.root / manifest.asset_key / manifest.fingerprint


def test_a_relative_root_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("store")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert storage.location("pages") == str(tmp_path / "store" / "pages")


def test_the_root_may_be_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_storage("~/store").location("x") == str(tmp_path / "store" / "x")


def test_a_published_folder_holds_the_files_and_the_manifest_alone(storage: LocalStorage, store: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, FILES)
    build.out.path("unused/folder/file").write_bytes(b"not added")
    target = folder(storage, store.publish(build).manifest)
    found = {path.relative_to(target).as_posix() for path in target.rglob("*")}
    assert found == {"part-0", "deep", "deep/er", "deep/er/part-1", "manifest.json"}
    assert list((storage.root / "pages" / ".staging").iterdir()) == []
    assert list((storage.root / "pages" / ".leases").iterdir()) == []


def test_a_file_that_was_touched_but_not_changed_is_no_problem(storage: LocalStorage, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    os.utime(folder(storage, manifest) / "part-0")
    assert store.decide(recipe()).artifact is not None


def test_a_change_is_noticed_even_where_the_old_time_was_put_back(storage: LocalStorage, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    path = folder(storage, manifest) / "part-0"
    status = path.stat()
    path.write_bytes(b"ZERO")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.decide(recipe()).reason == "file altered: part-0"


def test_a_file_in_place_of_a_folder_is_a_missing_file(storage: LocalStorage, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    nested = folder(storage, manifest) / "deep" / "er"
    (nested / "part-1").unlink()
    nested.rmdir()
    nested.write_bytes(b"")
    assert store.decide(recipe()).reason == "file missing: deep/er/part-1"


def test_a_copied_store_is_valid(storage: LocalStorage, store: ArtifactStore, tmp_path: Path) -> None:
    published(store, FILES)
    shutil.copytree(storage.root, tmp_path / "copy")
    assert ArtifactStore(LocalStorage(tmp_path / "copy")).decide(recipe()).artifact is not None


def test_what_a_process_killed_while_replacing_left_behind_is_swept(
    storage: LocalStorage, store: ArtifactStore
) -> None:
    aside = storage.root / "pages" / ".staging" / f"{recipe().fingerprint}.replaced-1234"
    aside.mkdir(parents=True)
    (aside / "part-0").write_bytes(b"old")
    store.abandon(begun(store, recipe(code_version="c2")), keep=False)
    assert not aside.exists()


def test_the_artifact_can_be_replaced_although_an_earlier_replacement_was_cut_short(
    storage: LocalStorage, store: ArtifactStore
) -> None:
    manifest = published(store, FILES)
    aside = storage.root / "pages" / ".staging" / f"{manifest.fingerprint}.replaced-{os.getpid()}"
    aside.mkdir(parents=True)
    (aside / "part-0").write_bytes(b"old")
    build = begun(store, force=True)
    write_files(build.out, {"part-0": b"new"})
    assert store.publish(build).path("part-0").read_bytes() == b"new"


def test_a_replaced_lock_file_is_a_lost_lease(storage: LocalStorage) -> None:
    with storage.lease("pages/f1") as lease:
        lease.check()
        path = storage.root / "pages" / ".leases" / "f1"
        path.unlink()
        path.touch()
        with pytest.raises(LeaseLostError, match="was removed while this process computed"):
            lease.check()
    assert path.exists(), "it is not ours to remove"


def test_a_lock_file_that_a_dead_process_left_does_not_hold_anybody_up(storage: LocalStorage) -> None:
    path = storage.root / "pages" / ".leases" / "f1"
    path.parent.mkdir(parents=True)
    path.touch()
    with storage.lease("pages/f1") as lease:
        lease.check()
    assert not path.exists()


def test_a_root_that_cannot_be_written_is_an_error_that_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    storage = LocalStorage(tmp_path / "file" / "store")
    with pytest.raises(StorageError, match=r"cannot write .*Not a directory.*set MARIN_PREFIX"):
        storage.write("pages/latest.json", b"{}")
    with pytest.raises(StorageError, match="set MARIN_PREFIX"), storage.lease("pages/f1"):
        pass


def test_files_are_readable_by_others_as_the_umask_allows(storage: LocalStorage, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    umask = os.umask(0)
    os.umask(umask)
    mode = stat.S_IMODE((folder(storage, manifest) / "manifest.json").stat().st_mode)
    assert mode == 0o666 & ~umask


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b", ""])
def test_a_stage_cannot_write_outside_its_artifact(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="must be a relative path below the artifact"):
        ArtifactWriter(tmp_path).path(name)


def test_a_full_disk_is_named_whoever_met_it(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"is full\. Free space"), full_disk_explained(tmp_path):
        Path("/dev/full").write_bytes(b"x")


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), full_disk_explained(tmp_path):
        raise ZeroDivisionError


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    with pytest.raises(SettingsError, match=r"is a file\. Set MARIN_PREFIX"):
        open_storage(str(path))
