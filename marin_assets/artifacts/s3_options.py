"""Endpoint and credentials of an S3-compatible object store.

Belongs here: the one set of options that every S3 client of ours is made from. Does not: any client.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from marin_assets.errors import SettingsError

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

_AWS_ITSELF = re.compile(r"https://s3(\.[a-z0-9-]+)?\.amazonaws\.com")


@dataclass(frozen=True)
class S3Options:
    """Values left None are looked up by the client as AWS clients do. Secrets stay out of `repr`."""

    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    """Of AWS's configuration files; used where there are no keys. Its credentials are renewed as they expire."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "S3Options":
        """The usual variables: `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` and so on."""
        return cls(
            region=_region(environment),
            endpoint_url=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
            access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
            secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
            session_token=environment.get("AWS_SESSION_TOKEN"),
            profile=environment.get("AWS_PROFILE"),
        )

    @classmethod
    def from_resource(cls, resource: "S3Resource") -> "S3Options":
        """What a `dagster_aws.s3.S3Resource` says; what it leaves open, as its own client finds it.

        Raises:
            SettingsError: it names a profile that does not exist.
        """
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # ships no types

        try:
            endpoint = str(resource.get_client().meta.endpoint_url)
        except BotoCoreError as error:
            raise SettingsError(f"{error}. Set AWS_PROFILE and AWS_ENDPOINT_URL to what exists.") from error
        return cls(
            region=resource.region_name or _region(os.environ),
            endpoint_url=None if _AWS_ITSELF.fullmatch(endpoint) else endpoint,
            access_key_id=resource.aws_access_key_id,
            secret_access_key=resource.aws_secret_access_key,
            session_token=resource.aws_session_token,
            profile=resource.profile_name,
        )


def _region(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
