"""Routes of sessions and of the one-time tickets that begin them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from api.auth import REALM, Authentication, Credential, Shown, bearer
from api.problems import ProblemError, refuse, wrong_field
from api.services import Parts, Services, reply
from api.sessions import SESSION_PREFIX
from contracts import measures
from contracts.access import Session, SessionRequest, Ticket
from contracts.problem import ProblemCode
from telemetry import metrics

router = APIRouter(prefix="/api/v1", tags=["access"])

SECRET = {"Cache-Control": "no-store"}
"""Headers of an answer that holds a secret."""
_MAY_SHOW_NOTHING: dict[str, Any] = {"security": [{"bearer": []}, {}]}


@router.post(
    "/sessions",
    operation_id="create_session",
    response_model=Session,
    status_code=201,
    summary="Sign in",
    openapi_extra=_MAY_SHOW_NOTHING,
)
async def create_session(
    request: Request,
    services: Parts,
    authentication: Authentication,
    body: Annotated[SessionRequest | None, Body()] = None,
) -> Response:
    """A bearer token for some hours, for who sends a bearer token, or else a ticket. It ends with the token that it
    came from; one that is made in a session ends with that session at the latest."""
    if body is not None and body.ticket is not None:
        authentication.check_origin(request)
        if authentication.is_on and bearer(request) is not None:
            raise wrong_field("/ticket", "the request shows a bearer token and a ticket", "Send one of them.")
        shown = await _redeem(request, services, authentication, body.ticket)
        request.state.principal = shown.principal
        request.state.audit_detail = "by ticket"
    else:
        shown = authentication.authenticate(request)
    token, expires_at = await asyncio.to_thread(services.sessions.begin, shown.origin, shown.expires_at)
    principal = shown.principal
    session = Session(name=principal.name, role=principal.role, token=token, expires_at=expires_at)
    return reply(session, 201, SECRET)


@router.delete("/sessions/current", operation_id="end_session", status_code=204, summary="Sign out")
async def end_session(request: Request, services: Parts, _: Shown) -> Response:
    """Ends the session that the request shows."""
    session = bearer(request)
    if session is None or not session.startswith(SESSION_PREFIX):
        raise refuse(
            ProblemCode.NOT_FOUND,
            "the request shows no session",
            remedy="A token ends when an administrator revokes it: DELETE /api/v1/tokens/NAME.",
        )
    await asyncio.to_thread(services.sessions.end, session)
    return Response(status_code=204)


@router.post(
    "/tickets",
    operation_id="create_ticket",
    response_model=Ticket,
    status_code=201,
    summary="Make a one-time ticket",
)
async def create_ticket(services: Parts, shown: Shown) -> Response:
    """What begins one session, once and within minutes, with the caller's name and role: for a sign-in link."""
    ticket, expires_at = await asyncio.to_thread(services.sessions.issue, shown.origin, shown.expires_at)
    return reply(Ticket(ticket=ticket, expires_at=expires_at), 201, SECRET)


async def _redeem(request: Request, services: Services, authentication: Authentication, ticket: str) -> Credential:
    """What the ticket stands for; it is worthless then. Raises ProblemError (401) if it was so before."""
    spent = await asyncio.to_thread(services.sessions.spend, ticket)
    holder = authentication.holder(spent.origin) if spent else None
    if spent is None or holder is None:
        metrics.count(measures.LOGINS_REFUSED, reason="ticket")
        authentication.note_failure(request)
        raise _worthless()
    return Credential(holder, spent.origin, spent.session_ends_by)


def _worthless() -> ProblemError:
    return refuse(
        ProblemCode.CREDENTIALS,
        "the ticket was used before, has expired, or is unknown",
        remedy="`instantstart console` prints a link with a new one (POST /api/v1/tickets makes it).",
        headers=REALM,
    )
