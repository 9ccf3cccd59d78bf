"""Takes out of texts what looks like a secret, before they leave the process as log lines or spans.

Lines of training logs are kept clean by ``contracts.log_lines``; this knows what our own processes handle beside: their
tokens, sealed values, signed requests, and keys over several lines.
"""

from __future__ import annotations

import re

from contracts.log_lines import REDACTED, redact
from contracts.secret_values import KNOWN

_OURS = re.compile(
    r"\b(?:is[kst]_[\w-]{8,}"  # a token, a session, a ticket (api/tokens.py, api/sessions.py)
    r"|siv1\.[A-Za-z0-9_-]{22,})"  # a sealed value (contracts/sealing.py)
)
_CREDENTIALS = re.compile(
    r"(?i)(?<![\w-])((?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:[A-Za-z0-9-]{1,24}\s{1,3})?|bearer\s{1,3}|basic\s{1,3})"
    r"(?!\[redacted\])[^\s\"',;]{8,}"
)
"""What stands behind ``Authorization:``, or behind the name of its scheme."""
_SIGNED = re.compile(
    r"(?i)((?:x-amz-)?(?:signature|security-token|credential)(?:=|%3d|[\"']?\s{0,3}:\s{0,3}[\"']?))(?!\[redacted\])[\w%/+=.-]{6,}"
)
"""What a signed URL or a signed header is worth something by. (AWS Signature Version 4)"""
_REFUSAL = re.compile(r"(?i)(encoded authorization failure message:\s{0,3})\S+")
_KEY = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----)(?:(?!-----BEGIN).)*?(?=-----END|\Z)", re.DOTALL)


def scrub(text: str) -> str:
    """``text`` without what looks like a secret; its lines stay lines."""
    text = _KEY.sub(rf"\1{REDACTED}", text)
    for _, known in KNOWN:
        text = known.sub(REDACTED, text)
    text = _OURS.sub(REDACTED, text)
    text = _REFUSAL.sub(rf"\1{REDACTED}", text)
    text = _SIGNED.sub(rf"\1{REDACTED}", text)
    text = _CREDENTIALS.sub(rf"\1{REDACTED}", text)
    return "\n".join(map(redact, text.split("\n")))
