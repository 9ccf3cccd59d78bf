"""Faults of a connection that waiting does not mend, told apart from a server that is not up yet.

Temporal's client says what went wrong in words alone; what those words are is known here and nowhere else.
"""

from __future__ import annotations

import re

_TLS_SETTINGS = "TEMPORAL_TLS_CLIENT_CERT_PATH and …_KEY_PATH, or client_cert_path and client_key_path of the profile"
_AUTHORITY = "TEMPORAL_TLS_SERVER_CA_CERT_PATH, or server_ca_cert_path of the profile"

_FAULTS = (
    (
        r"InvalidCertificate\((?:UnknownIssuer|BadSignature)",
        "the certificate that Temporal shows was signed by nobody who is trusted here",
        f"Name the authority that signed it: {_AUTHORITY}.",
    ),
    (
        r"InvalidCertificate\(NotValidForName",
        "the certificate that Temporal shows is for another name than the one that was called",
        "Give its name: TEMPORAL_TLS_SERVER_NAME, or server_name of the profile.",
    ),
    (
        r"InvalidCertificate\((?:Expired|NotValidYet)",
        "the certificate that Temporal shows is not valid now",
        "Renew it at the server, or correct the clock of this machine.",
    ),
    (r"InvalidCertificate\(", "the certificate that Temporal shows is refused", f"Look at it, and at {_AUTHORITY}."),
    (
        r"InconsistentKeys|KeyMismatch|NoCertificatesPresented|PrivateKey|Invalid(?:Key|Pem)",
        "the client certificate and its key cannot be used together",
        f"Name a certificate in PEM and the key that belongs to it: {_TLS_SETTINGS}.",
    ),
    (
        r"AlertReceived\(|received fatal alert",
        "Temporal refuses the client certificate",
        f"Name one that its authority has signed and that is valid now: {_TLS_SETTINGS}.",
    ),
    (
        r"InvalidContentType|CorruptMessage",
        "TLS is spoken to a server that speaks none",
        "Turn TLS off for this address (no tls and no API key in the profile), or turn it on at the server.",
    ),
    (
        r"code: (?:Unauthenticated|PermissionDenied)",
        "Temporal refuses these credentials",
        "Give a valid API key (TEMPORAL_API_KEY_FILE), or a certificate of somebody who may use the namespace.",
    ),
    (
        r"invalid (?:uri|format|authority)|InvalidUri",
        "Temporal's address cannot be read",
        "Give it as host:port: TEMPORAL_ADDRESS, or address of the profile.",
    ),
)
_CLOSED = re.compile(r"call error after connection.*(?:transport error|connection closed)")
"""The end is met by the call that is under way, or by the connection before the call is."""


class ConnectionFaultError(Exception):
    """Temporal cannot be used as it is configured here: a person must change something.

    ``remedy`` says what. The text has both and never a key or a token.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}. {remedy}")
        self.message = message
        self.remedy = remedy


def fault_of(error: Exception, address: str) -> ConnectionFaultError | None:
    """What a person must change, where ``error`` (of connecting to ``address``) will not pass by itself; else None."""
    for pattern, message, remedy in _FAULTS:
        if re.search(pattern, str(error)):
            return ConnectionFaultError(f"{address}: {message}", remedy)
    return None


def closed_at_once(error: Exception, address: str) -> ConnectionFaultError | None:
    """What it means if it goes on that the server takes a connection and ends it without a word; None for any other
    error. A server that stops does so once, one that refuses a client certificate, or expects TLS, each time."""
    if _CLOSED.search(str(error)) is None:
        return None
    return ConnectionFaultError(
        f"{address} ends every connection at once: it refuses the client certificate, or expects TLS and gets none",
        f"See that the certificate is signed by the server's authority and valid now ({_TLS_SETTINGS}), or give one.",
    )
