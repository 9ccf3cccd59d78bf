"""Lines of a timeline as they may be told: short, and without what looks like a secret.

Everything that workloads write themselves (logs, messages of ended containers) passes through here, and only where a
rule knows it; what they were started with is never told.
"""

from __future__ import annotations

import re

from activities.errors import clean
from contracts.diagnostics import LONGEST_LINE, LONGEST_TEXT
from contracts.secret_values import HUGGING_FACE_TOKEN

LOOKED_AT = 4000
"""Characters of a text that are looked at."""
MARGIN = 500
"""So much more is searched for secrets, so that none is cut where looking ends."""
BEGINNING = 600
"""So many characters of a long text are kept before what is left out."""
BEFORE = 80
"""So many characters before what a rule knows are kept of a long line."""

_SECRETS = (
    re.compile(r"k8s-aws-v1\.[\w-]+"),
    re.compile(r"(?i)\bbearer\s{1,3}[\w.~+/=-]+"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}"),
    re.compile(r"(?i)(?<=signature=)[\w%/+=-]+"),
    HUGGING_FACE_TOKEN,
    re.compile(r"\b(?:sk|gh[pousr]|glpat|xox[abp])[-_][\w-]{12,}"),
    re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]+)?"),
    re.compile(r"(?i)(?<=://)[^/\s:@]{1,100}:[^/\s@]{1,200}(?=@)"),
    re.compile(r"(?i)\b(?:authorization|proxy-authorization)['\"]?\s{0,3}[:=]\s{0,3}['\"]?\w{0,20}\s?[^\s'\"]{4,}"),
    re.compile(
        r"(?i)\b[\w-]{0,40}(?:passw(?:or)?d|passphrase|secret|api[_-]?key|access[_-]?key|token)(?!\w{0,20}(?:Error|Exception))[\w-]{0,20}"
        r"['\"]?\s{0,3}[=:]\s{0,3}['\"]?[^\s'\",;]{4,}"
    ),
    re.compile(r"(?i)(?<=--)[\w-]{0,40}(?:password|token|secret|api-key)[ =][^\s'\"]{4,}"),
    re.compile(r"(?<![\w/+.-])[A-Za-z0-9/+]{40}(?![\w/+=.-])"),
)


def told(text: str) -> str:
    """``text`` as a timeline may tell it: of a long one its beginning, and its end, where the innermost reason is."""
    text = clean(_without_secrets(text[: LOOKED_AT + MARGIN])[:LOOKED_AT], LOOKED_AT)
    return text if len(text) <= LONGEST_TEXT else f"{text[:BEGINNING]} … {text[BEGINNING + 3 - LONGEST_TEXT :]}"


def excerpt(line: str, at: int) -> str:
    """A line of a log as a timeline may tell it, where something is known at character ``at``: of a long one, what is
    around."""
    line = line[: LOOKED_AT + MARGIN]
    if len(line) > LONGEST_LINE and at > LONGEST_LINE - BEFORE:
        # A secret that begins before the excerpt must not be cut out of recognition.
        for secret in _SECRETS:
            line = secret.sub(lambda found: "…" * len(found.group(0)), line)
        line = f"…{line[at - BEFORE : at - BEFORE + LONGEST_LINE]}"
    return clean(_without_secrets(line), LONGEST_LINE)


def _without_secrets(text: str) -> str:
    for secret in _SECRETS:
        text = secret.sub("…", text)
    return text
