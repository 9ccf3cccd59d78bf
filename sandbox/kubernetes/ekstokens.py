"""EKS' bearer tokens: a presigned STS request that proves an IAM identity.

``k8s-aws-v1.`` and the base64url of a URL for GetCallerIdentity that was signed with the header ``x-k8s-aws-id``, the
cluster's name. Real clusters have STS answer that request; here the signature is computed again from the secret key.
https://docs.aws.amazon.com/eks/latest/userguide/cluster-auth.html and the README of aws-iam-authenticator.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

PREFIX = "k8s-aws-v1."
VALID_SECONDS = 15 * 60
CLOCK_SKEW = 5 * 60
CLUSTER_HEADER = "x-k8s-aws-id"

_STS_HOST = re.compile(r"sts(-fips)?(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?|(127\.0\.0\.1|[a-z0-9-]+)(:\d+)?")
"""STS, or a sandbox that stands in for it: on this machine, or under a name without dots in a network of its own."""


@dataclass(frozen=True)
class Credential:
    """An access key that the sandbox's IAM knows, and the principal that it makes."""

    secret: str
    principal_arn: str
    session_name: str = ""


Credentials = Callable[[], Mapping[str, Credential]]


class InvalidToken(Exception):
    """Why a token is not accepted; clients only ever see 401."""


def verify(token: str, cluster_name: str, credentials: Mapping[str, Credential]) -> tuple[str, Credential]:
    """The access key and credential that signed a token for this cluster."""
    if not token.startswith(PREFIX):
        raise InvalidToken("not an EKS token")
    encoded = token.removeprefix(PREFIX)
    try:
        url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except ValueError as error:
        raise InvalidToken(f"not base64: {error}") from error
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidToken("a query parameter is repeated")
    if not _STS_HOST.fullmatch(parts.netloc) or parts.path not in ("", "/"):
        raise InvalidToken(f"not a URL of STS: {parts.netloc}{parts.path}")
    if query.get("Action") != "GetCallerIdentity" or query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
        raise InvalidToken("not a presigned GetCallerIdentity")
    try:
        access_key, date, region, service, terminator = query["X-Amz-Credential"].split("/")
        moment = query["X-Amz-Date"]
        signed_at = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        signed_headers, signature = query["X-Amz-SignedHeaders"].split(";"), query["X-Amz-Signature"]
    except (KeyError, ValueError) as error:
        raise InvalidToken(f"incomplete signature: {error}") from error
    if CLUSTER_HEADER not in signed_headers or set(signed_headers) - {"host", CLUSTER_HEADER}:
        raise InvalidToken(f"signed headers must be host and {CLUSTER_HEADER}, not {signed_headers}")
    now = time.time()
    if not now - VALID_SECONDS < signed_at < now + CLOCK_SKEW:
        raise InvalidToken("expired, or signed in the future")
    credential = credentials.get(access_key)
    if credential is None:
        raise InvalidToken(f"unknown access key {access_key}")

    headers = {"host": parts.netloc, CLUSTER_HEADER: cluster_name}
    canonical_query = "&".join(
        f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}"
        for key, value in sorted(query.items())
        if key != "X-Amz-Signature"
    )
    canonical = "\n".join(
        [
            "GET",
            "/",
            canonical_query,
            *(f"{name}:{headers[name]}" for name in signed_headers),
            "",
            ";".join(signed_headers),
            hashlib.sha256(b"").hexdigest(),
        ]
    )
    scope = f"{date}/{region}/{service}/{terminator}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = "\n".join(["AWS4-HMAC-SHA256", moment, scope, digest])
    key = f"AWS4{credential.secret}".encode()
    for part in (date, region, service, terminator):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, signature):
        raise InvalidToken(f"the signature is not one for cluster {cluster_name!r}")
    return access_key, credential
