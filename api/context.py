"""What surrounds every request: its id, the access log, the audit trail, and the last catch of defects."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import codec, problems
from api.audit import AuditLog
from api.bodies import limited
from contracts.access import AuditEntry, Principal
from contracts.defences import defend
from contracts.problem import Problem
from contracts.secret_values import known_secret, masked

REQUEST_ID = "X-Request-Id"
LARGEST_BODY = 1_000_000
"""Bytes: with more, no workflow can be started."""
_ACCEPTABLE = re.compile(r"[\w.-]{1,64}", re.ASCII)
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_DENIALS = frozenset({401, 403})
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OPERATIONS = b"/api/v1/operations/"

access_log = logging.getLogger("instantstart.access")
logger = logging.getLogger("instantstart.api")


class RequestContext:
    """ASGI middleware. Written as such, because streams must pass through it unbuffered."""

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _keep_encoded_ids(scope)
        given = Headers(scope=scope).get(REQUEST_ID, "")
        # It goes into logs, histories and the trail: whatever may be a secret is replaced.
        acceptable = _ACCEPTABLE.fullmatch(given) and known_secret(given) is None
        request_id = given if acceptable else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0
        began = time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                defend(headers)
                # Written before the answer leaves: who has read an answer finds its entry in the trail.
                self._record(scope, status, request_id)
            await send(message)

        try:
            most = codec.LARGEST_BODY if codec.serves(scope["path"]) else LARGEST_BODY
            await self._app(scope, limited(receive, most, f"a body has at most {most} bytes"), sending)
        except Exception:
            logger.exception("request %s: %s %s", request_id, scope["method"], _line(scope["path"]))
            if status:  # too late to say anything else
                raise
            defect = problems.response(problems.internal(request_id), scope["path"])
            await defect(scope, receive, sending)
        finally:
            principal: Principal | None = state.get("principal")
            access_log.info(
                "%s %s %s %d %.1fms by=%s",
                request_id,
                scope["method"],
                _line(scope["path"]),
                status,
                (time.perf_counter() - began) * 1000,
                principal.name if principal else "-",
            )

    def _record(self, scope: Scope, status: int, request_id: str) -> None:
        state = scope["state"]
        if (scope["method"] in _READS or state.get("only_reads")) and status not in _DENIALS:
            return
        principal: Principal | None = state.get("principal")
        if state.get("unlisted") or (principal is None and status not in _DENIALS):
            return  # nobody has changed anything, and whoever sends much of it shall not push the rest out of the trail
        entry = AuditEntry(
            at=datetime.now(UTC),
            request_id=request_id,
            by=principal.name if principal else "anonymous",
            role=principal.role if principal else None,
            method=scope["method"],
            path=_line(scope["path"]),
            status=status,
            operation=_line(state["operation"]) if state.get("operation") else None,
            detail=_line(_detail(state)) or None,
        )
        try:
            self._audit.append(entry)
        except OSError:
            # What was asked for has been done. Its caller is told so, and whoever runs the gateway is told of the gap.
            logger.critical("the audit trail cannot be written; missing: %s", entry.model_dump_json(), exc_info=True)


def _detail(state: Mapping[str, Any]) -> str:
    """What the trail says of a request beside its path."""
    problem: Problem | None = state.get("problem")
    said = problem.detail if problem else state.get("audit_detail", "")
    return "; ".join(filter(None, (said, state.get("audit_note", ""))))


def _line(text: str) -> str:
    """``text`` as a part of one line, without secrets: a caller may have written one where a name belongs, or an end of
    line where the next entry would begin."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", masked(text))


def _keep_encoded_ids(scope: Scope) -> None:
    """Operation ids hold slashes. Where a caller encoded them, the path stays encoded until the id is read, so that an
    id that ends like an action (a claim called ``events``) is not taken for it."""
    raw: bytes = scope.get("raw_path") or b""
    if raw.startswith(_OPERATIONS) and b"%2f" in raw.lower():
        scope["path"] = raw.decode("ascii")
