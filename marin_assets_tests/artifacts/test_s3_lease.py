"""How a lease on S3 is taken, kept, lost and given back."""

import logging
import threading
import time
from pathlib import Path

import pytest

from marin_assets.artifacts.s3_lease import hold_lease
from marin_assets.artifacts.s3_objects import S3Objects
from marin_assets.errors import LeaseLostError
from marin_assets_tests.artifacts.s3_server import BUCKET, Fault, S3Server
from marin_assets_tests.artifacts.sites import S3Site

KEY = "pages/.leases/f1"
STALE = 1.2


@pytest.fixture
def objects(s3_server: S3Server, tmp_path: Path, request: pytest.FixtureRequest) -> S3Objects:
    root = f"s3://{BUCKET}/{request.node.name}-{time.monotonic_ns()}"
    return S3Site(root, s3_server.options, tmp_path).open().objects


def test_a_lease_is_an_object_that_says_whose_it_is_and_is_gone_afterwards(objects: S3Objects) -> None:
    with hold_lease(objects, KEY, STALE) as lease:
        lease.check()
        found = objects.peek(KEY)
        assert found is not None
        assert b'"pid":' in found.data
    assert objects.peek(KEY) is None


def test_a_lease_is_kept_for_much_longer_than_the_stale_time(objects: S3Objects) -> None:
    entered: list[float] = []

    def wait_for_it() -> None:
        with hold_lease(objects, KEY, STALE):
            entered.append(time.monotonic())

    with hold_lease(objects, KEY, STALE) as lease:
        other = threading.Thread(target=wait_for_it)
        other.start()
        time.sleep(2.5 * STALE)
        lease.confirm()
        assert entered == []
        left = time.monotonic()
    other.join(timeout=10)
    assert len(entered) == 1
    assert entered[0] >= left


def test_an_abandoned_lease_is_taken_over_after_the_stale_time(
    objects: S3Objects, caplog: pytest.LogCaptureFixture
) -> None:
    objects.write(KEY, b'{"owner": "gone", "host": "elsewhere", "pid": 7}')
    started = time.monotonic()
    with hold_lease(objects, KEY, STALE):
        assert STALE <= time.monotonic() - started < STALE + 2
    assert "from process 7 on elsewhere, which stopped renewing it" in caplog.text


def test_a_lease_object_that_cannot_be_read_is_taken_over_as_well(objects: S3Objects) -> None:
    objects.write(KEY, b"\xff{")
    with hold_lease(objects, KEY, STALE) as lease:
        lease.check()


def test_of_many_who_want_an_abandoned_lease_one_holds_it_at_a_time(objects: S3Objects) -> None:
    objects.write(KEY, b"abandoned")
    inside, most, total = 0, 0, 0
    counting = threading.Lock()

    def work() -> None:
        nonlocal inside, most, total
        with hold_lease(objects, KEY, STALE):
            with counting:
                inside, total = inside + 1, total + 1
                most = max(most, inside)
            time.sleep(0.05)
            with counting:
                inside -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=30)
    assert (most, total) == (1, 4)


def test_whoever_was_replaced_learns_it_and_does_not_remove_the_new_owners_lease(objects: S3Objects) -> None:
    with hold_lease(objects, KEY, STALE) as lease:
        objects.write(KEY, b'{"owner": "other", "host": "elsewhere", "pid": 7}')
        with pytest.raises(LeaseLostError, match="process 7 on elsewhere took over"):
            lease.confirm()
        with pytest.raises(LeaseLostError, match="process 7 on elsewhere took over"):
            lease.check()
    found = objects.peek(KEY)
    assert found is not None
    assert b"other" in found.data


def test_a_lease_that_cannot_be_renewed_counts_as_lost_before_anybody_may_take_it(
    objects: S3Objects, s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    with hold_lease(objects, KEY, STALE) as lease:
        s3_server.faults.append(Fault("PUT", "/.leases/", status="403 Forbidden", code="AccessDenied", times=99))
        time.sleep(STALE + 0.3)
        with pytest.raises(LeaseLostError, match="could not be renewed for 1 s"):
            lease.check()
    assert "it will be tried again" in caplog.text
    s3_server.faults.clear()
    assert objects.peek(KEY) is not None


def test_a_renewal_that_fails_once_is_no_loss(objects: S3Objects, s3_server: S3Server) -> None:
    with hold_lease(objects, KEY, STALE) as lease:
        s3_server.faults.append(Fault("PUT", "/.leases/", status="403 Forbidden", code="AccessDenied", times=2))
        time.sleep(STALE + 0.3)
        lease.confirm()


def test_answers_that_are_lost_do_not_confuse_the_owner(objects: S3Objects, s3_server: S3Server) -> None:
    """The write arrives, its answer does not, and the second try meets our own first one."""
    s3_server.faults.append(Fault("PUT", "/.leases/", lose_answer=True))
    with hold_lease(objects, KEY, STALE) as lease:
        s3_server.faults.append(Fault("PUT", "/.leases/", lose_answer=True))
        lease.renew()
        lease.confirm()
    assert objects.peek(KEY) is None


def test_waiting_is_told_once(objects: S3Objects, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    objects.write(KEY, b'{"owner": "gone", "host": "elsewhere", "pid": 7}')
    with hold_lease(objects, KEY, STALE):
        pass
    assert caplog.text.count("process 7 on elsewhere is computing") == 1
