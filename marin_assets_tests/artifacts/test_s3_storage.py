"""What is particular to artifacts on S3: the order of requests, faults of server and network, wrong settings."""

import os
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from marin_assets.artifacts import s3_objects
from marin_assets.artifacts.file_digest import file_digest
from marin_assets.artifacts.s3_objects import S3Objects
from marin_assets.artifacts.s3_options import S3Options
from marin_assets.artifacts.s3_storage import S3Storage
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.errors import DamagedArtifactError, LeaseLostError, SettingsError, StorageError
from marin_assets_tests.artifacts.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Fault, S3Server
from marin_assets_tests.artifacts.sites import STALE_SECONDS, S3Site, begun, published, recipe, write_files

FILES = {"part-0": b"zero", "part-1": b"one"}


@pytest.fixture
def site(s3_server: S3Server, tmp_path: Path, request: pytest.FixtureRequest) -> S3Site:
    """Always moto's server: these tests look at its requests."""
    return S3Site(f"s3://{BUCKET}/{request.node.name}-{time.monotonic_ns()}", s3_server.options, tmp_path / "caches")


@pytest.fixture
def storage(site: S3Site) -> S3Storage:
    return site.open()


@pytest.fixture
def store(storage: S3Storage) -> ArtifactStore:
    return ArtifactStore(storage)


def asked(server: S3Server, method: str, part: str = "") -> list[str]:
    return [request for request in server.requests if request.startswith(method) and part in request]


def test_files_are_uploaded_while_the_stage_goes_on(site: S3Site, store: ArtifactStore) -> None:
    build = begun(store)
    write_files(build.out, {"part-0": b"zero"})
    deadline = time.monotonic() + 5
    while f"pages/{recipe().fingerprint}/part-0" not in site.names():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    store.abandon(build, keep=False)


def test_the_manifest_is_written_last_and_removed_first(s3_server: S3Server, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    written = [request.split("/")[-1] for request in asked(s3_server, "PUT") if ".leases" not in request]
    assert sorted(written[:2]) == ["part-0?", "part-1?"]
    assert written[2:] == ["manifest.json?", "latest.json?"]
    s3_server.faults.append(Fault("GET", "/", status="403 Forbidden", code="AccessDenied", times=100))
    with pytest.raises(StorageError):
        store.storage.delete(f"pages/{manifest.fingerprint}")
    s3_server.faults.clear()
    assert store.artifact("pages", manifest.fingerprint) is None


def test_a_hit_is_decided_without_listing_and_without_reading_data(s3_server: S3Server, site: S3Site) -> None:
    manifest = published(ArtifactStore(site.open()), FILES)
    elsewhere = ArtifactStore(site.open("second"))
    s3_server.requests.clear()
    assert elsewhere.decide(recipe()).artifact is not None
    assert len(asked(s3_server, "HEAD", "/part-")) == len(manifest.files)
    assert len(asked(s3_server, "GET")) == 1
    assert "manifest.json" in asked(s3_server, "GET")[0]
    assert asked(s3_server, "GET", "list-type") == []


def test_what_was_published_here_is_not_downloaded_here(s3_server: S3Server, store: ArtifactStore) -> None:
    published(store, FILES)
    s3_server.requests.clear()
    assert store.required("pages").path("part-0").read_bytes() == b"zero"
    assert asked(s3_server, "GET", "/part-") == []


def test_a_file_is_downloaded_once(s3_server: S3Server, store: ArtifactStore, site: S3Site) -> None:
    published(store, FILES)
    elsewhere = ArtifactStore(site.open("second")).required("pages")
    s3_server.requests.clear()
    first = elsewhere.path("part-0")
    assert elsewhere.path("part-0") == first
    assert len(asked(s3_server, "GET", "/part-0")) == 1
    first.write_bytes(b"ZERO")
    assert elsewhere.path("part-0").read_bytes() == b"zero", "a damaged copy is fetched anew"


def test_a_resumed_build_does_not_send_again_what_has_arrived(s3_server: S3Server, store: ArtifactStore) -> None:
    build = begun(store, resumable=True)
    write_files(build.out, {"checkpoint-1": b"one", "checkpoint-2": b"two"})
    build.out.on_added = None
    store.storage._attempts[f"pages/{recipe().fingerprint}"].uploads.wait()  # type: ignore[attr-defined]  # of S3Storage
    store.abandon(build, keep=True)
    resumed = begun(store, resumable=True)
    s3_server.requests.clear()
    write_files(resumed.out, {"checkpoint-1": b"one", "checkpoint-2": b"TWO"})
    artifact = store.publish(resumed)
    assert len(asked(s3_server, "PUT", "/checkpoint-1")) == 0
    assert len(asked(s3_server, "PUT", "/checkpoint-2")) == 1
    assert artifact.path("checkpoint-2").read_bytes() == b"TWO"


def test_a_forced_build_of_the_same_bytes_sends_none_of_them(s3_server: S3Server, store: ArtifactStore) -> None:
    published(store, FILES)
    build = begun(store, force=True)
    s3_server.requests.clear()
    write_files(build.out, FILES)
    store.publish(build)
    assert asked(s3_server, "PUT", "/part-") == []


def test_a_file_that_is_added_twice_is_published_as_it_was_last(site: S3Site, store: ArtifactStore) -> None:
    build = begun(store)
    for version in range(20):
        write_files(build.out, {"summary.json": f"version {version}".encode()})
    store.publish(build)
    elsewhere = ArtifactStore(site.open("second")).required("pages")
    assert elsewhere.path("summary.json").read_bytes() == b"version 19"


def test_a_file_that_is_changed_after_it_was_added_is_refused(
    s3_server: S3Server, site: S3Site, store: ArtifactStore
) -> None:
    build = begun(store)
    entry = build.out
    entry.path("part-0").write_bytes(b"zero")
    blocked = [Fault("PUT", f"/{name}", delay_seconds=0.4) for name in ("b0", "b1", "b2", "b3")]
    s3_server.faults.extend(blocked)
    write_files(build.out, {f"b{index}": b"busy" for index in range(4)})
    entry.add("part-0")
    entry.path("part-0").write_bytes(b"ZERO")
    with pytest.raises(StorageError, match="part-0 was changed after it was added"):
        store.publish(build)
    assert ArtifactStore(site.open("second")).latest("pages") is None


def test_large_files_travel_in_parts(
    s3_server: S3Server, store: ArtifactStore, site: S3Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_objects, "MULTIPART_BYTES", 10 << 20)
    monkeypatch.setattr(s3_objects, "_PART_BYTES", 5 << 20)
    data = bytes(range(256)) * ((12 << 20) // 256)
    s3_server.faults.append(Fault("PUT", "/large", times=2, status="503 Slow Down"))
    published(store, {"large": data})
    assert len(asked(s3_server, "POST", "uploads")) == 1
    assert len(asked(s3_server, "PUT", "partNumber")) == 3 + 2
    assert ArtifactStore(site.open("second")).required("pages").path("large").read_bytes() == data
    assert len(asked(s3_server, "GET", "/large")) == 3


@pytest.mark.parametrize(
    "fault",
    [
        Fault("", "", status="500 Internal Server Error"),
        Fault("", "", status="503 Slow Down", code="SlowDown"),
        Fault("", "", status="429 Too Many Requests", code="TooManyRequests"),
        Fault("", "", lose_answer=True),
        Fault("", "", delay_seconds=0.5),
    ],
    ids=["500", "503", "429", "dropped", "slow"],
)
def test_a_server_in_trouble_is_asked_again(s3_server: S3Server, site: S3Site, fault: Fault) -> None:
    for method in ("PUT", "GET", "HEAD", "POST", "DELETE"):
        s3_server.faults.append(replace(fault, method=method, path=f"/{BUCKET}", times=2))
    published(ArtifactStore(site.open()), FILES)
    for method in ("GET", "HEAD"):
        s3_server.faults.append(replace(fault, method=method, path=f"/{BUCKET}", times=1))
    elsewhere = ArtifactStore(site.open("second"))
    artifact = elsewhere.decide(recipe()).artifact
    assert artifact is not None
    assert [path.read_bytes() for path in artifact.paths()] == [b"zero", b"one"]


def test_answers_that_break_off_are_read_again(s3_server: S3Server, site: S3Site) -> None:
    published(ArtifactStore(site.open()), FILES)
    s3_server.faults.extend(Fault("GET", name, cut_body=True, times=2) for name in ("/part-", "/manifest.json"))
    artifact = ArtifactStore(site.open("second")).required("pages")
    assert [path.read_bytes() for path in artifact.paths()] == [b"zero", b"one"]
    assert [fault.times for fault in s3_server.faults] == [0, 0]


def test_an_upload_that_cannot_succeed_fails_the_publishing_and_names_the_file(
    s3_server: S3Server, site: S3Site, store: ArtifactStore
) -> None:
    s3_server.faults.append(Fault("PUT", "/part-1", status="403 Forbidden", code="AccessDenied", times=99))
    build = begun(store)
    write_files(build.out, FILES)
    with pytest.raises(StorageError, match=r"cannot upload s3://\S+/part-1: the server says AccessDenied"):
        store.publish(build)
    assert ArtifactStore(site.open("second")).latest("pages") is None
    s3_server.faults.clear()
    assert published(store, FILES), "the lease was given back"


def test_a_download_that_is_not_what_the_manifest_says_is_refused(site: S3Site, store: ArtifactStore) -> None:
    manifest = published(store, FILES)
    entry = manifest.files[0].model_copy(update={"digest": "0" * 32})
    with pytest.raises(DamagedArtifactError, match="part-0 was altered"):
        site.open("second").fetch(f"pages/{manifest.fingerprint}", entry)


def test_a_file_that_another_program_copied_without_our_digest_is_read_and_accepted(
    site: S3Site, store: ArtifactStore
) -> None:
    manifest = published(store, FILES)
    site.overwrite(f"pages/{manifest.fingerprint}/part-0", b"zero")
    assert ArtifactStore(site.open("second")).decide(recipe()).artifact is not None


def test_a_build_that_lost_its_lease_stops_at_the_next_file_and_leaves_the_others_alone(
    site: S3Site, store: ArtifactStore
) -> None:
    build = begun(store)
    write_files(build.out, {"part-0": b"zero"})
    site.overwrite(f"pages/.leases/{recipe().fingerprint}", b'{"owner": "somebody", "host": "elsewhere", "pid": 7}')
    time.sleep(2 * STALE_SECONDS / 6)
    with pytest.raises(LeaseLostError, match="process 7 on elsewhere took over"):
        write_files(build.out, {"part-1": b"one"})
    site.overwrite(f"pages/{recipe().fingerprint}/part-9", b"the new owner's")
    store.abandon(build, keep=False)
    assert f"pages/{recipe().fingerprint}/part-9" in site.names()
    assert not build.out.directory.exists()


def test_no_thread_is_left_behind(store: ArtifactStore) -> None:
    published(store, FILES)
    build = begun(store, recipe(code_version="c2"))
    write_files(build.out, FILES)
    store.abandon(build, keep=True)
    ours = [thread.name for thread in threading.enumerate() if thread.name.startswith(("upload", "lease"))]
    assert ours == []


def test_two_roots_share_a_cache_folder_without_mixing(s3_server: S3Server, site: S3Site) -> None:
    other = replace(site, root=f"{site.root}-other")
    published(ArtifactStore(site.open()), {"part": b"one root"})
    published(ArtifactStore(other.open()), {"part": b"other one"})
    assert ArtifactStore(site.open()).required("pages").path("part").read_bytes() == b"one root"
    assert ArtifactStore(other.open()).required("pages").path("part").read_bytes() == b"other one"


def test_a_bucket_without_a_prefix_is_a_root_too(s3_server: S3Server, tmp_path: Path) -> None:
    storage = S3Storage.open(f"s3://{BUCKET}/", cache=tmp_path, options=s3_server.options)
    storage.write("probe", b"data")
    assert storage.read("probe") == b"data"
    assert storage.location("probe") == f"s3://{BUCKET}/probe"
    storage.objects.delete(["probe"])


def test_the_usual_variables_configure_it(
    s3_server: S3Server, site: S3Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    published(ArtifactStore(open_storage(site.root)), FILES)
    assert (tmp_path / "cache" / "marin_assets" / "downloads").is_dir()


def test_a_profile_gives_credentials_where_there_are_no_keys(
    s3_server: S3Server, site: S3Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[work]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_PROFILE", "work")
    options = S3Options.from_environment(os.environ | {"AWS_ENDPOINT_URL": s3_server.endpoint})
    assert options.access_key_id is None
    published(ArtifactStore(S3Storage.open(site.root, cache=tmp_path / "cache", options=options)), FILES)


def test_a_dagster_resource_configures_it(
    s3_server: S3Server, site: S3Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own fields, or by the usual variables where it has none."""
    from dagster_aws.s3 import S3Resource

    resource = S3Resource(
        endpoint_url=s3_server.endpoint,
        region_name="eu-west-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    assert S3Options.from_resource(resource) == S3Options("eu-west-1", s3_server.endpoint, ACCESS_KEY, SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    options = S3Options.from_resource(S3Resource())
    assert options.endpoint_url == s3_server.endpoint
    published(ArtifactStore(S3Storage.open(site.root, cache=tmp_path / "cache", options=options)), FILES)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert S3Options.from_resource(S3Resource()).endpoint_url is None
    with pytest.raises(SettingsError, match=r"missing.*AWS_PROFILE"):
        S3Options.from_resource(S3Resource(profile_name="missing"))


class TestWrongSettings:
    """Each is one error, within seconds, that names what to set and tells no secret."""

    @pytest.fixture(autouse=True)
    def is_quick(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        assert time.monotonic() - started < 15

    def refused(self, options: S3Options, root: str = f"s3://{BUCKET}/prefix") -> str:
        with pytest.raises(StorageError) as raised:
            S3Objects.open(root, options)
        text = "".join(traceback.format_exception(raised.value)) + repr(options)
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text
        return str(raised.value)

    @pytest.mark.parametrize(
        "code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "InvalidToken"]
    )
    def test_bad_credentials(self, s3_server: S3Server, code: str) -> None:
        s3_server.faults.append(Fault("GET", "/", status="403 Forbidden", code=code))
        said = self.refused(s3_server.options)
        assert f"the server says {code}" in said
        assert "AWS_ACCESS_KEY_ID" in said
        assert "AWS_SECRET_ACCESS_KEY" in said

    def test_missing_bucket(self, s3_server: S3Server) -> None:
        said = self.refused(s3_server.options, "s3://no-such-bucket/prefix")
        assert "NoSuchBucket" in said
        assert "set MARIN_PREFIX" in said
        assert "no-such-bucket" in said

    @pytest.mark.parametrize(
        ("status", "code"),
        [("301 Moved Permanently", "PermanentRedirect"), ("400 Bad Request", "AuthorizationHeaderMalformed")],
    )
    def test_wrong_region(self, s3_server: S3Server, status: str, code: str) -> None:
        s3_server.faults.append(Fault("GET", "/", status=status, code=code, times=9))
        assert "Set AWS_REGION to the region of the bucket" in self.refused(s3_server.options)

    def test_nobody_listens(self, s3_server: S3Server) -> None:
        said = self.refused(replace(s3_server.options, endpoint_url="http://127.0.0.1:1"))
        assert "no connection to the server" in said
        assert "AWS_ENDPOINT_URL (now http://127.0.0.1:1)" in said

    def test_a_name_that_nobody_has(self, s3_server: S3Server) -> None:
        said = self.refused(replace(s3_server.options, endpoint_url="http://user:pass-word@s3.invalid:9000"))
        assert "AWS_ENDPOINT_URL (now http://s3.invalid:9000)" in said
        assert "pass-word" not in said

    def test_a_server_that_does_not_answer(self, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(s3_objects, "_QUICK_SECONDS", 0.5)
        s3_server.faults.append(Fault("GET", "/", delay_seconds=1, times=3))
        said = self.refused(s3_server.options)
        assert "did not answer in time" in said
        assert "AWS_ENDPOINT_URL" in said

    def test_a_server_that_is_broken(self, s3_server: S3Server) -> None:
        s3_server.faults.append(Fault("GET", "/", status="503 Service Unavailable", times=9))
        assert "AWS_ENDPOINT_URL" in self.refused(s3_server.options)

    def test_no_credentials_at_all(self, s3_server: S3Server) -> None:
        said = self.refused(S3Options(endpoint_url=s3_server.endpoint))
        assert "no credentials for S3" in said
        assert "AWS_ACCESS_KEY_ID" in said
        said = self.refused(S3Options(endpoint_url=s3_server.endpoint, profile="missing"))
        assert "no credentials for S3 by the profile missing" in said

    def test_a_login_that_fails(self, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text(f"[profile work]\ncredential_process = sh -c 'echo {SECRET_KEY} >&2; false'\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        assert "AWS_PROFILE" in self.refused(S3Options(endpoint_url=s3_server.endpoint, profile="work"))

    @pytest.mark.parametrize("root", ["s3://", "s3:///prefix"])
    def test_no_bucket_named(self, s3_server: S3Server, root: str) -> None:
        with pytest.raises(SettingsError, match="MARIN_PREFIX"):
            S3Objects.open(root, s3_server.options)


def test_the_digest_is_stored_with_the_object(s3_server: S3Server, site: S3Site, tmp_path: Path) -> None:
    objects = site.open().objects
    path = tmp_path / "file"
    path.write_bytes(b"data")
    objects.upload("pages/file", path, file_digest(path))
    status = objects.status("pages/file")
    assert status is not None
    assert (status.bytes, status.digest) == (4, file_digest(path))
    assert objects.status("pages/other") is None
