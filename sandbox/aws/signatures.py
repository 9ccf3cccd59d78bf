"""Signature Version 4 in the headers of a request, computed again from the secret key that the sandbox's IAM issued.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from sandbox import credentials
from sandbox.aws import backends

ALGORITHM = "AWS4-HMAC-SHA256"
VALID_SECONDS = 15 * 60
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=(?P<key>[^/,\s]+)/(?P<date>\d{{8}})/(?P<region>[a-z0-9-]+)/(?P<service>[a-z0-9-]+)"
    r"/aws4_request,\s*SignedHeaders=(?P<headers>[a-z0-9;-]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)


class InvalidSignature(Exception):
    """Why a request is not believed."""


@dataclass(frozen=True)
class Signer:
    """Who signed a request. ``role_arn`` is what its session has taken; None for a user."""

    account: str
    region: str
    role_arn: str | None


def verify(environ: dict[str, Any], body: bytes, service: str) -> Signer:
    """Who signed a WSGI request for ``service``. Raises InvalidSignature."""
    given = environ.get("HTTP_AUTHORIZATION", "")
    found = _AUTHORIZATION.fullmatch(given)
    if found is None:
        raise InvalidSignature("Missing Authentication Token" if not given else "The authorization header is malformed")
    if found["service"] != service:
        raise InvalidSignature(f"Credential should be scoped to correct service: '{service}'")
    signer, secret, token = _key(found["key"], found["region"])
    if token is not None and environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != token:
        raise InvalidSignature("The security token included in the request is invalid")
    moment = environ.get("HTTP_X_AMZ_DATE", "")
    _check_time(moment, found["date"])
    names = found["headers"].split(";")
    if "host" not in names:
        raise InvalidSignature("'Host' must be a 'SignedHeader' in the AWS Authorization.")
    payload = hashlib.sha256(body).hexdigest()
    if environ.get("HTTP_X_AMZ_CONTENT_SHA256", payload) != payload:
        raise InvalidSignature("The provided 'x-amz-content-sha256' header does not match what was computed")
    canonical = "\n".join(
        [
            environ["REQUEST_METHOD"],
            quote(_path(environ), safe="/~"),
            "&".join(sorted((environ.get("QUERY_STRING") or "").split("&"))),
            *(f"{name}:{' '.join(_header(environ, name).split())}" for name in names),
            "",
            found["headers"],
            payload,
        ]
    )
    scope = f"{found['date']}/{found['region']}/{service}/aws4_request"
    to_sign = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, found["signature"]):
        raise InvalidSignature("The request signature we calculated does not match the signature you provided.")
    return signer


def claimed(environ: dict[str, Any]) -> str:
    """The ARN of whom a request says it is from; ``anonymous`` where it names no key that is known."""
    found = _AUTHORIZATION.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
    try:
        signer = _key(found["key"], found["region"])[0] if found is not None else None
    except InvalidSignature:
        signer = None
    return "anonymous" if signer is None else signer.role_arn or f"arn:aws:iam::{signer.account}:user"


def _key(access_key: str, region: str) -> tuple[Signer, str, str | None]:
    """Who has an access key, its secret, and the session token that goes with it."""
    if access_key == credentials.ACCESS_KEY_ID:
        return Signer(credentials.ACCOUNT, region, credentials.ROLE_ARN), credentials.SECRET_ACCESS_KEY, None
    for account in backends.iam_accounts():
        held = backends.iam(account).access_keys.get(access_key)
        if held is None:
            continue
        assumed = backends.sts(account).get_assumed_role_from_access_key(access_key)
        token = assumed.session_token if assumed is not None else None
        return Signer(account, region, held.role_arn), held.secret_access_key, token
    raise InvalidSignature("The security token included in the request is invalid.")


def _check_time(moment: str, date: str) -> None:
    try:
        signed = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidSignature("The request has no valid X-Amz-Date") from None
    if not moment.startswith(date) or abs(time.time() - signed) > VALID_SECONDS:
        raise InvalidSignature("Signature expired")


def _path(environ: dict[str, Any]) -> str:
    raw = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or environ.get("PATH_INFO") or "/")
    return raw.partition("?")[0]


def _header(environ: dict[str, Any], name: str) -> str:
    key = name.upper().replace("-", "_")
    return str(environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}", ""))
