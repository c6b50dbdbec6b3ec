"""The right to compute one artifact in a store that many machines share: an object that its owner keeps renewing.

Belongs here: how a lease is taken, renewed, lost and given back. A lease counts as abandoned when its etag has not
changed for a while on the watcher's own clock, so that no two machines' clocks are ever compared (the method of
DynamoDB's lock client: https://aws.amazon.com/blogs/database/building-distributed-locks-with-the-dynamodb-lock-client/).
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from marin_assets.artifacts.s3_objects import S3Objects, StoredObject
from marin_assets.errors import LeaseLostError, StorageError

logger = logging.getLogger(__name__)

STALE_SECONDS = 30.0
_RENEWALS_PER_STALE_TIME = 6


class _Owner(BaseModel):
    """What the lease object holds."""

    owner: str
    host: str
    pid: int
    renewals: int = 0
    """Makes each renewal another object with another etag."""


def _this_process() -> _Owner:
    return _Owner(owner=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid())


@dataclass
class S3Lease:
    """A lease that is held, renewed by a thread of its own until the `with` block ends."""

    objects: S3Objects
    key: str
    stale_seconds: float
    _owner: _Owner
    _etag: str
    _renewed: float
    """When the last successful renewal was sent; whoever watches saw it later than that."""
    _lost: str | None = None
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Raise `LeaseLostError` if another process has taken over, or may have. Costs nothing."""
        if self._lost is None and time.monotonic() - self._renewed > self.stale_seconds:
            self._lost = f"it could not be renewed for {self.stale_seconds:.0f} s"
        if self._lost is not None:
            raise LeaseLostError(
                f"the lease {self.objects.uri(self.key)} was lost: {self._lost}. Nothing was published; "
                "run again to use what the other process publishes, or to compute it here."
            )

    def confirm(self) -> None:
        """As `check`, and ask the server."""
        self.check()
        self.renew()
        self.check()

    def renew(self) -> None:
        """Show that the owner lives. Raises `StorageError` where the server can't be reached."""
        with self._writing:
            if self._lost is not None:
                return
            sent = time.monotonic()
            owner = self._owner.model_copy(update={"renewals": self._owner.renewals + 1})
            etag = self.objects.replace(self.key, _encoded(owner), self._etag)
            if etag is None:
                # Either it was taken over, or an earlier try did arrive and only its answer was lost.
                found = self.objects.peek(self.key)
                if found is None:
                    self._lost = "somebody removed it"
                    return
                holder = _decoded(found)
                if holder is None or holder.owner != self._owner.owner:
                    self._lost = f"{_name(holder)} took over"
                    return
                etag = found.etag
            self._owner, self._etag, self._renewed = owner, etag, sent

    def keep_renewing(self, stop: threading.Event) -> None:
        """Body of the renewing thread."""
        while self._lost is None and not stop.wait(self.stale_seconds / _RENEWALS_PER_STALE_TIME):
            try:
                self.renew()
            except StorageError as error:
                logger.warning("the lease was not renewed, it will be tried again: %s", error)

    def release(self) -> None:
        """Remove the lease object, if it is surely still ours."""
        try:
            self.confirm()
            self.objects.delete([self.key])
        except LeaseLostError:
            return
        except StorageError as error:
            logger.warning("the lease was not given back, others will wait %.0f s: %s", self.stale_seconds, error)


@contextmanager
def hold_lease(objects: S3Objects, key: str, stale_seconds: float = STALE_SECONDS) -> Iterator[S3Lease]:
    """Wait until nobody else holds the lease, then hold it.

    Args:
        objects: where the lease object lies.
        key: its key.
        stale_seconds: a lease that was not renewed for so long is taken over.
    """
    lease = _take(objects, key, stale_seconds)
    stop = threading.Event()
    renewing = threading.Thread(target=lease.keep_renewing, args=(stop,), name=f"lease {key}", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        stop.set()
        renewing.join()
        lease.release()


@dataclass
class _Candidate:
    """Somebody who wants a lease, and what it has seen of the one that holds it."""

    objects: S3Objects
    key: str
    stale_seconds: float
    owner: _Owner = field(default_factory=_this_process)
    seen_etag: str = ""
    seen_first: float = 0.0
    waits: bool = False

    def try_to_take(self) -> S3Lease | None:
        sent = time.monotonic()
        etag = self.objects.create(self.key, _encoded(self.owner))
        if etag is not None:
            return self._lease(etag, sent)
        found = self.objects.peek(self.key)
        if found is None:
            return None
        holder = _decoded(found)
        if holder is not None and holder.owner == self.owner.owner:
            # An earlier try did arrive; only its answer was lost.
            return self._lease(found.etag, sent)
        if found.etag != self.seen_etag:
            self.seen_etag, self.seen_first = found.etag, time.monotonic()
        elif time.monotonic() - self.seen_first > self.stale_seconds:
            return self._take_over(holder)
        if not self.waits:
            logger.info("%s is computing %s; waiting for it", _name(holder), self.objects.uri(self.key))
            self.waits = True
        return None

    def _take_over(self, holder: _Owner | None) -> S3Lease | None:
        sent = time.monotonic()
        etag = self.objects.replace(self.key, _encoded(self.owner), self.seen_etag)
        if etag is None:
            return None
        logger.warning("took over %s from %s, which stopped renewing it", self.objects.uri(self.key), _name(holder))
        return self._lease(etag, sent)

    def _lease(self, etag: str, sent: float) -> S3Lease:
        return S3Lease(self.objects, self.key, self.stale_seconds, self.owner, etag, sent)


def _take(objects: S3Objects, key: str, stale_seconds: float) -> S3Lease:
    candidate = _Candidate(objects, key, stale_seconds)
    reached = time.monotonic()
    while True:
        try:
            lease = candidate.try_to_take()
            if lease is not None:
                return lease
            reached = time.monotonic()
        except StorageError as error:
            if time.monotonic() - reached > stale_seconds:
                raise
            logger.warning("the lease could not be asked for, it will be tried again: %s", error)
        time.sleep(min(1.0, stale_seconds / _RENEWALS_PER_STALE_TIME))


def _encoded(owner: _Owner) -> bytes:
    return owner.model_dump_json().encode()


def _decoded(stored: StoredObject) -> _Owner | None:
    try:
        return _Owner.model_validate_json(stored.data)
    except ValidationError:
        return None


def _name(owner: _Owner | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"
