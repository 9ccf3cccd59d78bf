"""Service account tokens: JSON web tokens of the TokenRequest API, signed with a key of the cluster's own.

https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/ . Real clusters sign with RS256.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

from .identity import Principal


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class ServiceAccountTokens:
    def __init__(self, issuer: str, key: bytes, now: Callable[[], float]) -> None:
        self._issuer = issuer
        self._key = key
        self._now = now

    def issue(self, namespace: str, name: str, uid: str, audiences: list[str], expires: float) -> str:
        header = _encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        claims = _encode(
            json.dumps(
                {
                    "iss": self._issuer,
                    "sub": f"system:serviceaccount:{namespace}:{name}",
                    "aud": audiences,
                    "iat": int(self._now()),
                    "nbf": int(self._now()),
                    "exp": int(expires),
                    "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
                }
            ).encode()
        )
        signed = f"{header}.{claims}"
        return f"{signed}.{_encode(self._signature(signed))}"

    def verify(self, token: str) -> Principal | None:
        """The service account of a token of this cluster that is still valid."""
        signed, _, signature = token.rpartition(".")
        try:
            if not hmac.compare_digest(_decode(signature), self._signature(signed)):
                return None
            claims: dict[str, Any] = json.loads(_decode(signed.split(".")[1]))
            about = claims["kubernetes.io"]
        except (ValueError, IndexError, KeyError):
            return None
        if claims["iss"] != self._issuer or claims["exp"] <= self._now():
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{about['namespace']}", "system:authenticated")
        return Principal(claims["sub"], groups, uid=about["serviceaccount"]["uid"])

    def _signature(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(), hashlib.sha256).digest()
