"""What is taken for a secret, so that it is refused before a history, a manifest or a log has it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from contracts.model import fault

HUGGING_FACE_TOKEN = re.compile(r"\bhf_(?=[a-z]*[A-Z0-9]|[a-z]{14})[A-Za-z0-9]{8,}|hf_[A-Za-z0-9]{34}(?![A-Za-z0-9])")
"""A word of small letters alone is a name, unless it is long: ``hf_transfer``, ``--hf_checkpoint``."""
KNOWN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a Hugging Face token", HUGGING_FACE_TOKEN),
    ("a token of this gateway", re.compile(r"\bis[kst]_[\w-]{20,}|is[kst]_[\w-]{43}(?![\w-])", re.ASCII)),
    ("an AWS access key", re.compile(r"(?<![A-Z])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])")),
    ("a presigned URL", re.compile(r"\bX-Amz-(?:Signature|Security-Token)=[\w%/+=.-]{8,}", re.IGNORECASE)),
    ("a GitHub token", re.compile(r"gh[oprsu]_[A-Za-z0-9]{36}|\b(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,})")),
    ("a key of OpenAI's form", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")),
    ("a Weights & Biases key", re.compile(r"\bwandb_v\d+_[A-Za-z0-9_]{10,}")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL)),
    ("a JSON web token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)+")),
    ("a bearer token", re.compile(r"\b[Bb]earer\s{1,3}(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{16,}")),
    ("a URL with a password", re.compile(r"""://[^/\s:@"']{0,100}:[^/\s@"'${<]{1,200}@""")),
)
"""What the secrets of well-known services look like, each with what it is called; in the midst of a word, too, where
their length is known: a text may have been escaped. A password in a URL that a variable holds is none, and a URL ends
with its quotation mark."""
_SHOWN = 4
"""Characters of a masked secret that are left, so that one sees what it was: the prefix of a token."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|PASSPHRASE|ACCESS_KEY|PRIVATE_KEY)$", re.IGNORECASE
)
_ASSIGNMENT = re.compile(r"""(?:^|[\s;&|("'])([A-Za-z_][A-Za-z0-9_]*)=["']?([^\s"';&|)]*)""")
_SWITCHES = frozenset({"", "0", "1", "true", "false", "yes", "no", "on", "off", "none"})


def known_secret(text: str) -> str | None:
    """What a secret in ``text`` is, by its form: ``a Hugging Face token``. None where there is none, also when what is
    percent-encoded in it is read."""
    return next((kind for each in {text, unquote(text)} for kind, pattern in KNOWN if pattern.search(each)), None)


def masked(text: str) -> str:
    """``text`` with all but the first characters of every secret that is known by its form taken out. One that holds a
    percent-encoded secret comes back decoded."""
    while known_secret(text) is not None and (plain := unquote(text)) != text:
        text = plain
    for _, pattern in KNOWN:
        text = pattern.sub(lambda found: f"{found[0][:_SHOWN]}…", text)
    return text


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret, by its value or its name. Switches (``HF_HUB_DISABLE_IMPLICIT_TOKEN=1``),
    paths, references to other variables and tokens of a vocabulary (``</s>``) are none."""
    if HUGGING_FACE_TOKEN.search(value):
        return True
    plain = value.strip().lower() in _SWITCHES or value[0] in "/$<["
    return not plain and _SECRET_NAME.search(name) is not None


def assignments(text: str) -> list[tuple[str, str]]:
    """Variables that a shell's text, or a word for ``env``, sets, each with its value."""
    return _ASSIGNMENT.findall(text)


def assigned_secret(text: str) -> str | None:
    """The first variable that a shell's text, or a word for ``env``, gives a secret to."""
    return next((name for name, value in assignments(text) if is_secret(name, value)), None)


def plain_environment(environment: dict[str, str]) -> dict[str, str]:
    """Variables whose values may stand in a manifest. Raises the fault of the first that holds a secret, or a byte
    that no program can be started with (execve(2): strings end at NUL)."""
    for name, value in environment.items():
        if is_secret(name, value):
            raise fault(f"/{name}", f"{name} holds a secret; store it as a credential, and name that in secret_env")
        if "\0" in value:
            raise fault(f"/{name}", f"{name} holds a NUL, with which no program can be started")
    return environment
