"""What holds for every storage, local or S3."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marin_assets.artifacts.manifest import Manifest
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.errors import DamagedArtifactError, LeaseLostError
from marin_assets_tests.artifacts.sites import Site, begun, published, recipe, write_files

FILES = {"part-00000-of-00002.parquet": b"first part", "sub folder/naïve.txt": b"zwei", "empty": b""}


@pytest.fixture
def store(site: Site) -> ArtifactStore:
    return ArtifactStore(site.open())


@pytest.fixture
def elsewhere(site: Site) -> ArtifactStore:
    """The same store, seen from a machine that has nothing on its disk."""
    return ArtifactStore(site.open("second"))


def directory(manifest: Manifest) -> str:
    return f"{manifest.asset_key}/{manifest.fingerprint}"


def test_what_was_never_written_is_none(store: ArtifactStore) -> None:
    assert store.storage.read("pages/latest.json") is None
    assert list(store.storage.directories("pages")) == []


def test_a_small_object_is_replaced_whole(store: ArtifactStore, elsewhere: ArtifactStore) -> None:
    store.storage.write("pages/latest.json", b"a much longer first version")
    store.storage.write("pages/latest.json", b"second")
    assert elsewhere.storage.read("pages/latest.json") == b"second"


def test_published_files_are_read_elsewhere_as_they_were_written(
    store: ArtifactStore, elsewhere: ArtifactStore
) -> None:
    manifest = published(store, FILES)
    for seen_by in (store, elsewhere):
        artifact = seen_by.required("pages")
        assert artifact.manifest == manifest
        assert {entry.name: artifact.path(entry.name).read_bytes() for entry in artifact.files()} == FILES
        assert [path.name for path in artifact.paths("part-*")] == ["part-00000-of-00002.parquet"]
        assert seen_by.storage.problem(directory(manifest), manifest) is None
    assert list(elsewhere.storage.directories("pages")) == [directory(manifest)]


def test_files_keep_their_places_side_by_side(store: ArtifactStore, elsewhere: ArtifactStore) -> None:
    published(store, {"cache/part/data": b"1", "cache/part/zarr.json": b"{}"})
    artifact = elsewhere.required("pages")
    data, described = artifact.path("cache/part/data"), artifact.path("cache/part/zarr.json")
    assert data.parent == described.parent
    assert data.parts[-3:] == ("cache", "part", "data")


def test_nothing_is_visible_before_it_is_published(store: ArtifactStore, elsewhere: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, FILES)
    assert elsewhere.artifact("pages", recipe().fingerprint) is None
    assert elsewhere.artifacts("pages") == ([], [])
    store.publish(build)
    assert elsewhere.artifact("pages", recipe().fingerprint) is not None


def test_a_build_is_published_by_another_handle_on_the_same_store(site: Site, store: ArtifactStore) -> None:
    """Dagster's I/O manager opens the store anew for each output."""
    build = begun(store)
    write_files(build.out, FILES)
    ArtifactStore(site.open()).publish(build)
    assert store.decide(recipe()).artifact is not None
    other = begun(store, recipe(code_version="c2"))
    ArtifactStore(site.open()).abandon(other, keep=False)
    assert not other.out.directory.exists()


def test_only_added_files_are_published_and_nothing_stays_behind(site: Site, store: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, {"kept.txt": b"kept"})
    build.out.path("forgotten.txt").write_bytes(b"never added")
    (build.out.scratch("sorting") / "run-0").write_bytes(b"temporary")
    manifest = store.publish(build).manifest
    assert site.names() == {
        f"{directory(manifest)}/kept.txt",
        f"{directory(manifest)}/manifest.json",
        "pages/latest.json",
    }
    assert not build.out.directory.exists()


@pytest.mark.parametrize(
    ("damage", "problem", "error"),
    [
        (None, "file missing: part.txt", "is missing"),
        (b"shor", "file truncated or altered: part.txt has 4 bytes, not 8", "has 4 bytes, not 8"),
        (b"whOle...", "file altered: part.txt", "was altered"),
    ],
    ids=["missing", "truncated", "altered"],
)
def test_damage_is_noticed_named_and_never_served(
    site: Site, store: ArtifactStore, elsewhere: ArtifactStore, damage: bytes | None, problem: str, error: str
) -> None:
    manifest = published(store, {"other.txt": b"other", "part.txt": b"whole..."})
    key = f"{directory(manifest)}/part.txt"
    if damage is None:
        site.remove(key)
    else:
        site.overwrite(key, damage)
    assert elsewhere.storage.problem(directory(manifest), manifest) == problem
    assert elsewhere.decide(recipe()).reason == problem
    with pytest.raises(DamagedArtifactError, match=error) as raised:
        elsewhere.required("pages").path("part.txt")
    assert "part.txt" in str(raised.value)
    assert "Materialize" in str(raised.value)
    assert elsewhere.required("pages").path("other.txt").read_bytes() == b"other"


def test_a_damaged_artifact_is_rebuilt(site: Site, store: ArtifactStore, elsewhere: ArtifactStore) -> None:
    manifest = published(store, FILES)
    site.remove(f"{directory(manifest)}/empty")
    assert published(elsewhere, FILES).content_digest == manifest.content_digest
    assert elsewhere.decide(recipe()).artifact is not None
    assert ArtifactStore(site.open("third")).required("pages").path("empty").read_bytes() == b""


def test_a_forced_build_replaces_all_files(site: Site, store: ArtifactStore, elsewhere: ArtifactStore) -> None:
    old = published(store, {"part-0": b"old 0", "part-1": b"old 1"})
    assert elsewhere.required("pages").path("part-0").read_bytes() == b"old 0"
    build = begun(store, force=True)
    write_files(build.out, {"part-0": b"new 0"})
    assert elsewhere.decide(recipe()).artifact is not None, "the old one serves until the new one is ready"
    new = store.publish(build).manifest
    assert elsewhere.required("pages").path("part-0").read_bytes() == b"new 0"
    assert new.content_digest != old.content_digest
    assert f"{directory(old)}/part-1" not in site.names()


def test_a_forced_build_that_fails_leaves_the_old_artifact_whole(
    store: ArtifactStore, elsewhere: ArtifactStore
) -> None:
    old = published(store, {"part-0": b"old 0"})
    build = begun(store, force=True)
    write_files(build.out, {"part-0": b"new 0", "part-1": b"new 1"})
    store.abandon(build, keep=False)
    assert elsewhere.storage.problem(directory(old), old) is None
    assert elsewhere.required("pages").path("part-0").read_bytes() == b"old 0"


def test_an_abandoned_build_leaves_nothing(site: Site, store: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, FILES)
    store.abandon(build, keep=False)
    assert site.names() == set()
    assert not build.out.directory.exists()


def test_a_kept_build_goes_on_where_it_stopped(store: ArtifactStore) -> None:
    build = begun(store, resumable=True)
    write_files(build.out, {"checkpoint": b"step 1"})
    store.abandon(build, keep=True)
    resumed = begun(store, resumable=True)
    assert resumed.out.path("checkpoint").read_bytes() == b"step 1"
    write_files(resumed.out, {"checkpoint": b"step 2"})
    artifact = store.publish(resumed)
    assert [entry.name for entry in artifact.files()] == ["checkpoint"]
    assert artifact.path("checkpoint").read_bytes() == b"step 2"


def test_a_build_that_is_not_resumable_starts_empty(store: ArtifactStore) -> None:
    build = begun(store, resumable=True)
    write_files(build.out, {"checkpoint": b"step 1"})
    store.abandon(build, keep=True)
    fresh = begun(store)
    assert list(fresh.out.directory.iterdir()) == []
    store.abandon(fresh, keep=False)


def test_leftovers_are_swept_but_not_what_is_kept_or_alive(store: ArtifactStore) -> None:
    left = begun(store, recipe(code_version="killed"))
    left.out.path("part").write_bytes(b"half")
    left.release()
    kept = begun(store, recipe(code_version="kept"), resumable=True)
    store.abandon(kept, keep=True)
    alive = begun(store, recipe(code_version="alive"))
    other = begun(store, recipe(code_version="other"))
    assert not left.out.directory.exists()
    assert kept.out.directory.exists()
    assert alive.out.directory.exists()
    store.abandon(alive, keep=False)
    store.abandon(other, keep=False)


def test_a_deleted_artifact_is_gone(site: Site, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    other = published(store, FILES, recipe(code_version="c2"))
    store.storage.delete(directory(manifest))
    assert store.artifact("pages", manifest.fingerprint) is None
    assert list(store.storage.directories("pages")) == [directory(other)]
    assert not any(name.startswith(directory(manifest)) for name in site.names())
    store.storage.delete(directory(manifest))


def test_a_build_whose_lease_was_taken_publishes_nothing(site: Site, store: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, FILES)
    site.remove(f"pages/.leases/{recipe().fingerprint}")
    with pytest.raises(LeaseLostError, match="Nothing was published"):
        store.publish(build)
    assert store.artifact("pages", recipe().fingerprint) is None


def test_a_lease_keeps_threads_of_one_process_apart(
    site: Site, store: ArtifactStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    build = begun(store)
    got: list[object] = []
    other = threading.Thread(target=lambda: got.append(ArtifactStore(site.open()).begin(recipe())))
    other.start()
    time.sleep(0.6)
    assert got == []
    write_files(build.out, FILES)
    artifact = store.publish(build)
    other.join(timeout=10)
    assert [getattr(one, "manifest", None) for one in got] == [artifact.manifest]
    assert len([record for record in caplog.records if "waiting for it" in record.message]) == 1


class ComputingProcess:
    """`computing_process` at work on a machine of its own."""

    def __init__(self, site: Site, machine: str, text: str) -> None:
        module = "marin_assets_tests.artifacts.computing_process"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, text, *site.arguments(machine)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def says(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def computing(site: Site, machine: str, text: str = "text") -> Iterator[ComputingProcess]:
    process = ComputingProcess(site, machine, text)
    try:
        yield process
    finally:
        process.end()


@pytest.mark.parametrize("machines", [("one", "one"), ("one", "two")], ids=["one machine", "two machines"])
def test_of_two_processes_one_computes_and_the_other_reuses(site: Site, machines: tuple[str, str]) -> None:
    with computing(site, machines[0], "first") as first:
        assert [first.says(), first.says()] == ["started", "computing"]
        with computing(site, machines[1], "second") as second:
            assert second.says() == "started"
            time.sleep(0.5)
            first.go_on()
            assert first.says() == "published"
            assert second.says() == "reused"
    assert ArtifactStore(site.open()).required("pages").path("part.txt").read_text() == "first"


@pytest.mark.parametrize("machines", [("one", "one"), ("one", "two")], ids=["one machine", "two machines"])
def test_when_the_computing_process_is_killed_another_takes_over(site: Site, machines: tuple[str, str]) -> None:
    with computing(site, machines[0], "first") as first:
        assert [first.says(), first.says()] == ["started", "computing"]
        with computing(site, machines[1], "second") as second:
            assert second.says() == "started"
            first.process.send_signal(signal.SIGKILL)
            assert second.says() == "computing"
            second.go_on()
            assert second.says() == "published"
    artifact = ArtifactStore(site.open("reader")).required("pages")
    assert artifact.path("part.txt").read_text() == "second"


def test_the_same_files_have_the_same_digests_everywhere(site: Site, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    assert manifest.content_digest == "7e4cd23960d35edfdf07fcff786c0b4e"
    assert {entry.name: entry.digest for entry in manifest.files}["empty"] == "99aa06d3014798d86001c324468d497f"
