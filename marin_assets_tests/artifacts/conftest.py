"""Storages that the tests of this folder run against."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin_assets.artifacts.s3_options import S3Options
from marin_assets_tests.artifacts.s3_server import BUCKET, S3Server
from marin_assets_tests.artifacts.sites import LocalSite, S3Site, Site


@pytest.fixture(autouse=True)
def no_credentials_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests say themselves which server they talk to, and never ask a cloud machine for credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@pytest.fixture(scope="session")
def running_s3_server() -> Iterator[S3Server]:
    server = S3Server()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def s3_server(running_s3_server: S3Server) -> Iterator[S3Server]:
    """moto's server, without faults until the test adds some."""
    running_s3_server.reset()
    yield running_s3_server
    running_s3_server.reset()


@pytest.fixture
def s3_site(running_s3_server: S3Server, tmp_path: Path) -> S3Site:
    """A prefix of its own, on moto's server or on the one that the environment names.

    With `MARIN_TEST_S3_ENDPOINT`, `MARIN_TEST_S3_ACCESS_KEY` and `MARIN_TEST_S3_SECRET_KEY` the same tests run against
    any S3 server that has an empty bucket `marin-test`.
    """
    running_s3_server.reset()
    options = running_s3_server.options
    if endpoint := os.environ.get("MARIN_TEST_S3_ENDPOINT"):
        keys = os.environ["MARIN_TEST_S3_ACCESS_KEY"], os.environ["MARIN_TEST_S3_SECRET_KEY"]
        options = S3Options("us-east-1", endpoint, *keys)
    return S3Site(f"s3://{BUCKET}/{uuid.uuid4().hex}", options, tmp_path / "caches")


@pytest.fixture(params=["local", "s3"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """Each storage in turn."""
    if request.param == "local":
        return LocalSite(str(tmp_path / "store"))
    found: S3Site = request.getfixturevalue("s3_site")
    return found
