"""Objects below an S3 prefix: the few operations that the storage needs, patient with servers, clear in errors.

Belongs here: the client, its retries, parts of large objects. Does not: what the objects mean.
Conditional writes are those of the S3 API: `If-None-Match: *` to create, `If-Match: <etag>` to replace.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import xxhash
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from marin_assets.artifacts.s3_errors import explain, is_missing_bucket
from marin_assets.artifacts.s3_options import S3Options
from marin_assets.errors import SettingsError, StorageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3CredentialProvider

MULTIPART_BYTES = 64 << 20
"""Larger files are sent in parts."""
_PART_BYTES = 16 << 20
_MOST_PARTS = 10_000
_PARALLEL_PARTS = 4
_QUICK_SECONDS = 5.0
"""What a request may take whose failure must be known soon; a fraction of the time after which a lease is stale."""
_DIGEST = "marin-digest"
_CREDENTIALS_LIFETIME = timedelta(minutes=5)


@dataclass(frozen=True)
class ObjectStatus:
    """What a server tells of an object without sending it."""

    bytes: int
    modified: datetime
    digest: str | None
    """As it was uploaded by us; None where something else wrote the object."""


@dataclass(frozen=True)
class StoredObject:
    """A small object, and the version of it that was read."""

    data: bytes
    etag: str


@dataclass(frozen=True)
class S3Objects:
    """Keys are relative to the root `s3://bucket/prefix`. Every method may raise `StorageError`."""

    root: str
    bucket: str
    endpoint: str | None
    bulk: S3Store
    """For file contents: survives minutes of trouble, and slow lines."""
    patient: S3Store
    """For small requests that must survive minutes of trouble."""
    quick: S3Store
    """For requests whose failure must be known within seconds."""

    @classmethod
    def open(cls, root: str, options: S3Options) -> "S3Objects":
        """Reach the bucket once, so that wrong settings are told at once.

        Raises:
            SettingsError: `root` names no bucket.
            StorageError: credentials, bucket, region, endpoint or network are wrong.
        """
        bucket, _, prefix = root.removeprefix("s3://").rstrip("/").partition("/")
        if not bucket or not root.startswith("s3://"):
            raise SettingsError(f"{root!r} names no bucket. Set MARIN_PREFIX to s3://<bucket>/<prefix>.")
        provider, region = None, options.region
        if options.access_key_id is None:
            provider, region = _found_credentials(options)
        config = _config(options, region)
        objects = cls(
            root=f"s3://{bucket}/{prefix.strip('/')}".rstrip("/"),
            bucket=bucket,
            endpoint=options.endpoint_url,
            bulk=_store(bucket, prefix, config, provider, request_seconds=240, tries=10, give_up_seconds=480),
            patient=_store(bucket, prefix, config, provider, request_seconds=30, tries=10, give_up_seconds=180),
            quick=_store(bucket, prefix, config, provider, request_seconds=_QUICK_SECONDS, tries=3, give_up_seconds=8),
        )
        objects._probe()
        return objects

    def uri(self, key: str) -> str:
        return f"{self.root}/{key}".rstrip("/")

    def read(self, key: str) -> StoredObject | None:
        with self._explained("read", key):
            try:
                result = obstore.get(self.patient, key)
                return StoredObject(bytes(result.bytes()), result.meta["e_tag"] or "")
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return None

    def write(self, key: str, data: bytes) -> None:
        with self._explained("write", key):
            obstore.put(self.patient, key, data, use_multipart=False)

    def create(self, key: str, data: bytes) -> str | None:
        """Write an object that must not exist yet. Returns its etag, or None where there is one."""
        with self._explained("write", key):
            try:
                return obstore.put(self.quick, key, data, mode="create", use_multipart=False)["e_tag"] or ""
            except AlreadyExistsError:
                return None

    def replace(self, key: str, data: bytes, etag: str) -> str | None:
        """Write an object that must still have this etag. Returns its new one, or None where it has not."""
        with self._explained("write", key):
            try:
                return obstore.put(self.quick, key, data, mode={"e_tag": etag}, use_multipart=False)["e_tag"] or ""
            except (PreconditionError, FileNotFoundError) as error:
                if is_missing_bucket(error):
                    raise
                return None

    def peek(self, key: str) -> StoredObject | None:
        """As `read`, but gives up within seconds."""
        with self._explained("read", key):
            try:
                result = obstore.get(self.quick, key)
                return StoredObject(bytes(result.bytes()), result.meta["e_tag"] or "")
            except FileNotFoundError:
                return None

    def status(self, key: str) -> ObjectStatus | None:
        with self._explained("look at", key):
            try:
                result = obstore.get(self.patient, key, options={"head": True})
            except FileNotFoundError:
                return None
            digest = result.attributes.get(_DIGEST)
            return ObjectStatus(result.meta["size"], result.meta["last_modified"], digest)

    def upload(self, key: str, path: Path, digest: str) -> None:
        """Send a file; its digest travels with it, and is compared with the bytes as they are read.

        Raises:
            StorageError: also where the file is not what the digest says.
        """
        size = path.stat().st_size
        hasher = xxhash.xxh3_128()
        part_bytes = max(_PART_BYTES, -(-size // _MOST_PARTS))
        with self._explained("upload", key):
            if size <= MULTIPART_BYTES:
                data = path.read_bytes()
                hasher.update(data)
                self._refuse_other_digest(path, hasher.hexdigest(), digest)
                obstore.put(self.bulk, key, data, attributes={_DIGEST: digest}, use_multipart=False)
                return
            obstore.put(
                self.bulk,
                key,
                _hashed_parts(path, part_bytes, hasher),
                attributes={_DIGEST: digest},
                use_multipart=True,
                chunk_size=part_bytes,
                max_concurrency=_PARALLEL_PARTS,
            )
        self._refuse_other_digest(path, hasher.hexdigest(), digest)

    def download(self, key: str, path: Path, size: int) -> str:
        """Fetch an object of known size into a file, in parts, each retried by itself. Returns its digest."""
        hasher = xxhash.xxh3_128()

        def part(start: int) -> obstore.Bytes:
            length = min(_PART_BYTES, size - start)
            return obstore.get_range(self.bulk, key, start=start, length=length)

        step = _PARALLEL_PARTS * _PART_BYTES
        with self._explained("download", key), path.open("wb") as stream, ThreadPoolExecutor(_PARALLEL_PARTS) as pool:
            # Window by window, so that no more than one window is in memory.
            for begin in range(0, size, step):
                for data in pool.map(part, range(begin, min(begin + step, size), _PART_BYTES)):
                    stream.write(data)
                    hasher.update(data)
        return hasher.hexdigest()

    def keys(self, directory: str) -> list[str]:
        """All keys below a directory."""
        with self._explained("list", directory):
            return [entry["path"] for batch in obstore.list(self.patient, directory) for entry in batch]

    def folders(self, directory: str) -> list[str]:
        """The directories right below a directory."""
        with self._explained("list", directory):
            return list(obstore.list_with_delimiter(self.patient, directory)["common_prefixes"])

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are not there are no error."""
        doomed = list(keys)
        if doomed:
            with self._explained("delete", doomed[0]):
                obstore.delete(self.patient, doomed)

    def _probe(self) -> None:
        with self._explained("reach", ""):
            try:
                obstore.get(self.quick, ".marin-assets-probe")
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and error.filename is not None:
                raise  # a local file, not an object
            message = explain(error, action=f"{action} {self.uri(key)}", bucket=self.bucket, endpoint=self.endpoint)
            # Without its cause: the client's own error may quote tokens and what was signed.
            raise StorageError(message) from None

    def _refuse_other_digest(self, path: Path, found: str, expected: str) -> None:
        if found != expected:
            raise StorageError(f"{path} was changed after it was added to the artifact; it cannot be published.")


def _hashed_parts(path: Path, part_bytes: int, hasher: xxhash.xxh3_128) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while part := stream.read(part_bytes):
            hasher.update(part)
            yield part


def _config(options: S3Options, region: str | None) -> "S3Config":
    config: S3Config = {}
    if region:
        config["region"] = region
    if options.endpoint_url:
        config["endpoint"] = options.endpoint_url
    if options.access_key_id and options.secret_access_key:
        config["access_key_id"] = options.access_key_id
        config["secret_access_key"] = options.secret_access_key
        if options.session_token:
            config["session_token"] = options.session_token
    return config


def _store(
    bucket: str,
    prefix: str,
    config: "S3Config",
    provider: "S3CredentialProvider | None",
    *,
    request_seconds: float,
    tries: int,
    give_up_seconds: float,
) -> S3Store:
    client: ClientConfig = {
        "allow_http": config.get("endpoint", "").startswith("http://"),
        "connect_timeout": timedelta(seconds=3),
        "timeout": timedelta(seconds=request_seconds),
    }
    retry: RetryConfig = {"max_retries": tries - 1, "retry_timeout": timedelta(seconds=give_up_seconds)}
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client,
        retry_config=retry,
        credential_provider=provider,
    )


def _found_credentials(options: S3Options) -> "tuple[S3CredentialProvider, str | None]":
    """Credentials where AWS's own tools find them: profiles, single sign-on, containers, machines; and the region."""
    import boto3  # type: ignore[import-untyped]  # ships no types
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # ships no types
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = boto3.Session(profile_name=options.profile)
        provider = Boto3CredentialProvider(session, ttl=_CREDENTIALS_LIFETIME)
    except (BotoCoreError, ValueError) as error:
        profile = f" by the profile {options.profile}" if options.profile else ""
        raise StorageError(
            f"no credentials for S3{profile} ({type(error).__name__}). Set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        ) from None
    return provider, options.region or session.region_name
