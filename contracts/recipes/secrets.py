"""Secrets in a recipe's configuration and arguments: refused before a history, a ConfigMap or a preset has them."""

from __future__ import annotations

import re
from typing import Any

from contracts.secret_values import is_secret, known_secret

_VOCABULARY = re.compile(
    r"(?:^|[._-])(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio|stop|start|end|special|extra|new|think)_token$",
    re.IGNORECASE,
)
"""Names that end like a secret's, and are words of a tokenizer."""
_WORD = re.compile(r"(?:--?|\+{1,2})?([A-Za-z_][\w./-]*)=(.*)", re.DOTALL)
"""An option and its value in one word; Hydra's ``+key=`` and ``++key=`` too."""


def secret_in(value: Any, pointer: str = "", name: str = "") -> tuple[str, str] | None:
    """The first secret in a document: its JSON pointer, and what it is called. ``value`` is what JSON can hold."""
    if isinstance(value, dict):
        for key, member in value.items():
            escaped = key.replace("~", "~0").replace("/", "~1")
            if found := secret_in(member, f"{pointer}/{escaped}", key):
                return found
    elif isinstance(value, list):
        for index, member in enumerate(value):
            before = value[index - 1] if index and isinstance(value[index - 1], str) else ""
            option = before.lstrip("-") if before.startswith("-") and "=" not in before else name
            if found := secret_in(member, f"{pointer}/{index}", option):
                return found
    elif isinstance(value, str) and value and _secret(name, value):
        return pointer, name or "this"
    return None


def _secret(name: str, value: str) -> bool:
    if known_secret(value) is not None or names_secret(name, value):
        return True
    assigned = _WORD.fullmatch(value)
    return assigned is not None and names_secret(assigned[1], assigned[2])


def names_secret(name: str, value: str) -> bool:
    """Whether an option of that name holds a secret, if it has that value."""
    last = re.split(r"[./]", name)[-1].replace("-", "_")
    return bool(last) and bool(value) and not _VOCABULARY.search(last) and is_secret(last, value)
