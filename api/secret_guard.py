"""Nothing that is a secret by its form is handed to a workflow: histories are read by many, and kept."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from api.problems import wrong_field
from contracts.secret_values import known_secret

_OWN = {"record", "scope", "sealed", "position", "positions", "page_token"}
"""Members that hold what the gateway itself knows, sealed or handed out, not what a caller has said."""
_REMEDY = (
    "Leave it out, and end it where it was made if others may have seen it. A credential of the cluster is the place "
    "for a token: PUT /api/v1/clusters/TAG/credentials/NAME, and then name that."
)


def without_secrets(said: object) -> None:
    """Raises ProblemError (422) with the JSON pointer of the first secret in what a caller has said, and not with the
    secret. ``said``: a model, or what JSON can hold."""
    waiting: list[tuple[str, Any]] = [("", said.model_dump(exclude=_OWN) if isinstance(said, BaseModel) else said)]
    while waiting:
        pointer, value = waiting.pop()
        match value:
            case str() if (kind := known_secret(value)) is not None:
                raise wrong_field(
                    pointer, f"this holds {kind}, and what is said here is kept for others to read", _REMEDY
                )
            case dict():
                for key, member in value.items():
                    if (kind := known_secret(str(key))) is not None:
                        raise wrong_field(pointer, f"a name in this holds {kind}", _REMEDY)
                    waiting.append((f"{pointer}/{_step(key)}", member))
            case list() | tuple() | set():
                waiting += [(f"{pointer}/{index}", member) for index, member in enumerate(value)]


def _step(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
