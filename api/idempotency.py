"""Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-06), with Temporal as the only memory.

A start's key is in its workflow's memo and search attribute, or, of who asked for the same while it ran, among the
workflow's request ids; a decision's key is the first part of its update's id, and
a hash of what was asked the second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from fastapi import Request
from pydantic import BaseModel

from api.mapping import Seen, from_description, from_row
from api.problems import ProblemError, refuse, wrong_field
from api.temporal import Temporal
from contracts import visibility
from contracts.access import Principal
from contracts.problem import ProblemCode

HEADER = "Idempotency-Key"
_LONGEST = 255


def key_of(request: Request, principal: Principal) -> str | None:
    """The request's key, hashed with its caller's name, so that callers cannot meet (or guess) each other's.

    Raises ProblemError (422) for a key that is empty or too long.
    """
    given = request.headers.get(HEADER)
    if given is None:
        return None
    key = given.strip()
    if not 1 <= len(key.strip('"')) <= _LONGEST:
        raise wrong_field("/Idempotency-Key", f"the header {HEADER} has 1 to {_LONGEST} characters")
    return hashlib.sha256(f"{principal.name}\n{key}".encode()).hexdigest()[:32]


def reused(what: str) -> ProblemError:
    """The error of a key that was sent before with another request."""
    return refuse(
        ProblemCode.INVALID,
        f"this {HEADER} was sent before with another request: {what}",
        field="/Idempotency-Key",
        remedy="Send a new key with a new request; repeat the old request exactly to learn its outcome.",
    )


async def original_start(temporal: Temporal, key: str, workflow_id: str, region: str, spec_hash: str) -> Seen | None:
    """The operation that the key has started before; None if the key is new.

    The workflow's own memo is asked first: it knows at once, while lists learn of a start only after a moment.
    Raises ProblemError (422) if the key has started something else.
    """
    found = await temporal.find(workflow_id)
    seen = await from_description(found) if found else None
    if seen is None or key not in (seen.label.idempotency_key, *seen.joined):
        page = await temporal.list(f"{visibility.IDEMPOTENCY_KEY} = '{key}'", 1)
        seen = await from_row(page.rows[0]) if page.rows else None
    if seen is None:
        return None
    if (seen.operation.id, seen.label.region, seen.label.spec_hash) != (workflow_id, region, spec_hash):
        raise reused(f"it started {seen.operation.id}")
    return seen


def update_id(key: str | None, operation: str, action: str, request: BaseModel) -> str | None:
    """The update id of a decision that was sent with ``key``."""
    if key is None:
        return None
    asked = json.dumps([operation, action, request.model_dump(mode="json")], sort_keys=True)
    return f"{key}.{hashlib.sha256(asked.encode()).hexdigest()[:16]}"


def is_repeated(update: str, earlier: Iterable[str]) -> bool:
    """Whether the same decision was accepted before. Raises ProblemError (422) if the key went with another one."""
    key = update.partition(".")[0]
    for known in earlier:
        if known == update:
            return True
        if known.partition(".")[0] == key:
            raise reused("another decision on the same operation")
    return False
