"""What is taken for a secret, so that it is refused before a history, a manifest or a log has it."""

from __future__ import annotations

import re

from contracts.model import fault

HUGGING_FACE_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}")
_SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|ACCESS_KEY|PRIVATE_KEY)$", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"""(?:^|[\s;&|("'])([A-Za-z_][A-Za-z0-9_]*)=["']?([^\s"';&|)]*)""")
_SWITCHES = frozenset({"", "0", "1", "true", "false", "yes", "no", "on", "off", "none"})


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret, by its value or its name. Switches (``HF_HUB_DISABLE_IMPLICIT_TOKEN=1``),
    paths, references to other variables and tokens of a vocabulary (``</s>``) are none."""
    if HUGGING_FACE_TOKEN.search(value):
        return True
    plain = value.strip().lower() in _SWITCHES or value[0] in "/$<["
    return not plain and _SECRET_NAME.search(name) is not None


def assigned_secret(text: str) -> str | None:
    """The first variable that a shell's text, or a word for ``env``, gives a secret to."""
    return next((name for name, value in _ASSIGNMENT.findall(text) if is_secret(name, value)), None)


def plain_environment(environment: dict[str, str]) -> dict[str, str]:
    """Variables whose values may stand in a manifest. Raises the fault of the first that holds a secret, or a byte
    that no program can be started with (execve(2): strings end at NUL)."""
    for name, value in environment.items():
        if is_secret(name, value):
            raise fault(f"/{name}", f"{name} holds a secret; store it as a credential, and name that in secret_env")
        if "\0" in value:
            raise fault(f"/{name}", f"{name} holds a NUL, with which no program can be started")
    return environment
