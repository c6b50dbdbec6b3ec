"""What an S3 client's error means to the person who set the client up, and which variable mends it.

Belongs here: words. A message is put together from the server's error code and sentence alone; the rest of what
servers send back (requests as they were signed, tokens) never gets into it.
"""

import re
from urllib.parse import urlsplit

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_SENTENCE = re.compile(r"<Message>([^<]*)</Message>")
_STATUS = re.compile(r"status code: (\d{3})")
_SIGNED_QUERY = re.compile(r"\?\S*X-Amz-\S*", re.IGNORECASE)

_WRONG_REGION = {
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
}
_WRONG_CREDENTIALS = {
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "MissingSecurityHeader",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}


def is_missing_bucket(error: Exception) -> bool:
    """True where a "not found" speaks of the bucket, and not of an object in it."""
    return _code(str(error)) == "NoSuchBucket"


def explain(error: Exception, *, action: str, bucket: str, endpoint: str | None) -> str:
    """One or two sentences: what was refused, in the server's words, and what to do.

    Args:
        error: as the client raised it.
        action: what was asked for, e.g. `write s3://bucket/key`.
        bucket: its name.
        endpoint: URL of the server; None for AWS itself.
    """
    text = str(error)
    return f"cannot {action}: {_what_was_wrong(text)}. {_remedy(text, bucket, _host(endpoint))}"


def _what_was_wrong(text: str) -> str:
    sentence = _SENTENCE.search(text)
    if _code(text):
        said = f" ({sentence[1].strip().rstrip('.')})" if sentence else ""
        return f"the server says {_code(text)}{_SIGNED_QUERY.sub('', said)}"
    if _is_redirect(text):
        return "the server redirects to another region"
    if status := _STATUS.search(text):
        return f"the server answers with status {status[1]}"
    if "TimedOut" in text or "timed out" in text:
        return "the server did not answer in time"
    if "dns error" in text:
        return "the server's name cannot be resolved"
    if "kind: Connect" in text:
        return "no connection to the server"
    if "error sending request" in text or "kind: Request" in text:
        return "the connection to the server broke"
    if "redential" in text:
        return "no credentials could be had"
    return "the request failed"


def _remedy(text: str, bucket: str, host: str) -> str:
    code, status = _code(text), _STATUS.search(text)
    if code == "NoSuchBucket":
        return f"Make the bucket {bucket} on {host}, or set MARIN_PREFIX to one that exists there (AWS_ENDPOINT_URL)."
    if code in _WRONG_REGION or _is_redirect(text):
        return f"Set AWS_REGION to the region of the bucket {bucket}, and AWS_ENDPOINT_URL to a server that has it."
    if code == "InvalidBucketName":
        return "Set MARIN_PREFIX to s3://<bucket>/<prefix> with a valid bucket name."
    if code == "RequestTimeTooSkewed":
        return "Set the clock of this machine."
    if code in _WRONG_CREDENTIALS or (status and status[1] in {"401", "403"}) or "redential" in text:
        return (
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary keys), or "
            f"AWS_PROFILE, to credentials that may list, read, write and delete in {bucket} on {host}."
        )
    if status is None and code is None:
        return f"Check the network, and AWS_ENDPOINT_URL (now {host})."
    return f"It was tried several times; try again later, or look into the server {host} (AWS_ENDPOINT_URL)."


def _code(text: str) -> str | None:
    found = _CODE.search(text)
    return found[1] if found else None


def _is_redirect(text: str) -> bool:
    return "redirect without LOCATION" in text


def _host(endpoint: str | None) -> str:
    """Scheme, host and port: a user name or password in the URL is left out."""
    if endpoint is None:
        return "AWS"
    parts = urlsplit(endpoint)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
