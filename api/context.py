"""What surrounds every request: its id, the access log, the audit trail, and the last catch of defects."""

from __future__ import annotations

import logging
import re
import time
import uuid
from datetime import UTC, datetime

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import problems
from api.audit import AuditLog
from contracts.access import AuditEntry, Principal

REQUEST_ID = "X-Request-Id"
LARGEST_BODY = 1_000_000
_ACCEPTABLE = re.compile(r"[\w.-]{1,64}", re.ASCII)
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_DENIALS = frozenset({401, 403})
_OPERATIONS = b"/api/v1/operations/"
_SECRET = re.compile(r"\b(is[kst]_|hf_)[\w-]{20,}", re.ASCII)
"""A token, session or ticket of ours, or a token of the Hugging Face Hub."""

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
        request_id = given if _ACCEPTABLE.fullmatch(given) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0
        began = time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
                # Written before the answer leaves: who has read an answer finds its entry in the trail.
                self._record(scope, status, request_id)
            await send(message)

        try:
            await self._app(scope, _limited(receive), sending)
        except Exception:
            logger.exception("request %s: %s %s", request_id, scope["method"], _masked(scope["path"]))
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
                _masked(scope["path"]),
                status,
                (time.perf_counter() - began) * 1000,
                principal.name if principal else "-",
            )

    def _record(self, scope: Scope, status: int, request_id: str) -> None:
        state = scope["state"]
        if (scope["method"] in _READS or state.get("only_reads")) and status not in _DENIALS:
            return
        principal: Principal | None = state.get("principal")
        problem = state.get("problem")
        entry = AuditEntry(
            at=datetime.now(UTC),
            request_id=request_id,
            by=principal.name if principal else "anonymous",
            role=principal.role if principal else None,
            method=scope["method"],
            path=_masked(scope["path"]),
            status=status,
            operation=state.get("operation"),
            detail=_masked(problem.detail if problem else state.get("audit_detail", "")) or None,
        )
        try:
            self._audit.append(entry)
        except OSError:
            # What was asked for has been done. Its caller is told so, and whoever runs the gateway is told of the gap.
            logger.critical("the audit trail cannot be written; missing: %s", entry.model_dump_json(), exc_info=True)


def _masked(text: str) -> str:
    """``text`` without secrets: a caller may have written one into a path, where a name belongs."""
    return _SECRET.sub(r"\1…", text)


def _limited(receive: Receive) -> Receive:
    """``receive`` with an end to what a body may hold: more than that no workflow can be started with."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY:
            raise HTTPException(413, f"a body has at most {LARGEST_BODY} bytes")
        return message

    return receiving


def _keep_encoded_ids(scope: Scope) -> None:
    """Operation ids hold slashes. Where a caller encoded them, the path stays encoded until the id is read, so that an
    id that ends like an action (a claim called ``events``) is not taken for it."""
    raw: bytes = scope.get("raw_path") or b""
    if raw.startswith(_OPERATIONS) and b"%2f" in raw.lower():
        scope["path"] = raw.decode("ascii")
