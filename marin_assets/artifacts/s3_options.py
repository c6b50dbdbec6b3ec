"""Endpoint and credentials of an S3-compatible object store.

Belongs here: the one set of options that every S3 client of ours is made from. Does not: any client.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import S3CredentialProvider


@dataclass(frozen=True)
class S3Options:
    """Values left None are looked up by the client as AWS clients do. Secrets stay out of `repr`."""

    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    credential_provider: "S3CredentialProvider | None" = field(default=None, repr=False)
    """Asked for credentials again and again, where they expire (roles, profiles, single sign-on). Goes before keys."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "S3Options":
        """The usual variables: `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` and so on."""
        return cls(
            region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
            endpoint_url=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
            access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
            secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
            session_token=environment.get("AWS_SESSION_TOKEN"),
        )
