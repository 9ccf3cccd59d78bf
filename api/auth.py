"""Who calls, and what each role may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from api.problems import refuse
from api.settings import Settings, is_loopback
from api.tokens import TokenStore
from contracts.access import Principal, Role
from contracts.problem import ProblemCode

REALM = {"WWW-Authenticate": 'Bearer realm="instantstart"'}
LOCAL = Principal(name="local", role=Role.ADMIN)
"""Who calls where authentication is off."""


class Action(StrEnum):
    """What a request does, as far as roles care."""

    READ = "read"
    START = "start operations"
    DECIDE = "decide"
    RETRY = "retry"
    SKIP = "skip stages"
    ABORT = "abort"
    APPROVE = "approve or reject"
    AUDIT = "read the audit trail"


_EVERYONE = frozenset(Role)
_AGENT = frozenset({Role.AGENT, Role.OPERATOR, Role.ADMIN})
_HUMAN = frozenset({Role.OPERATOR, Role.ADMIN})

RULES: dict[Action, frozenset[Role]] = {
    Action.READ: _EVERYONE,
    Action.START: _AGENT,
    Action.DECIDE: _AGENT,
    Action.RETRY: _AGENT,
    Action.ABORT: _AGENT,
    Action.SKIP: _HUMAN,
    Action.APPROVE: _HUMAN,
    Action.AUDIT: frozenset({Role.ADMIN}),
}
"""Which roles may do what."""

OWN_ONLY: dict[Role, frozenset[Action]] = {Role.AGENT: frozenset({Action.DECIDE, Action.RETRY, Action.ABORT})}
"""What a role may do only to operations that it started itself."""


def needs_approval(principal: Principal, costs: bool) -> bool:
    """Whether what ``principal`` starts waits for a human's approval."""
    return costs and principal.role is Role.AGENT


def check_owner(principal: Principal, action: Action, started_by: str) -> None:
    """Raises ProblemError if ``principal`` may do ``action`` only to its own operations and this is another's."""
    if action in OWN_ONLY.get(principal.role, frozenset()) and started_by != principal.name:
        raise refuse(
            ProblemCode.DENIED,
            f"{principal.name} ({principal.role}) may {action} only on operations that it started; "
            f"this one was started by {started_by}",
            remedy="Ask an operator.",
        )


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise refuse(
            ProblemCode.CREDENTIALS,
            "the request has no bearer token",
            remedy="Send Authorization: Bearer TOKEN; `python -m api.tokens add NAME ROLE` makes a token.",
            headers=REALM,
        )
    return token.strip()


def _only_local(request: Request) -> None:
    """Without authentication, another site that a browser shows must not reach the gateway by rebinding its name to a
    loopback address (Host) or by posting across sites (Origin)."""
    origin = request.headers.get("Origin")
    hosts = [request.url.hostname or "", *([urlsplit(origin).hostname or ""] if origin is not None else [])]
    if not all(is_loopback(host) for host in hosts):
        raise refuse(
            ProblemCode.DENIED,
            "authentication is off, so only this machine's own pages and programs are served",
            remedy="Use http://127.0.0.1, or turn authentication on.",
        )


def authenticate(request: Request, settings: Settings, tokens: TokenStore) -> Principal:
    """Who calls. Raises ProblemError (401) if the token is missing or unknown."""
    if settings.auth == "off":
        _only_local(request)
        return LOCAL
    principal = tokens.find(_bearer(request))
    if principal is None:
        raise refuse(
            ProblemCode.CREDENTIALS,
            "the bearer token is unknown or revoked",
            remedy="Use a valid token; `python -m api.tokens list` names their holders.",
            headers={"WWW-Authenticate": f'{REALM["WWW-Authenticate"]}, error="invalid_token"'},
        )
    return principal


def allowed(action: Action) -> Callable[[Request], Awaitable[Principal]]:
    """A dependency that gives the caller, who may do ``action``. Raises ProblemError (401, 403)."""

    async def dependency(request: Request) -> Principal:
        state = request.app.state
        principal = authenticate(request, state.settings, state.tokens)
        request.state.principal = principal
        if principal.role not in RULES[action]:
            roles = ", ".join(sorted(RULES[action]))
            raise refuse(
                ProblemCode.DENIED,
                f"{principal.name} is {principal.role}; to {action} takes one of {roles}",
                remedy="Use a token with such a role.",
            )
        return principal

    return dependency


Reader = Annotated[Principal, Depends(allowed(Action.READ))]
Starter = Annotated[Principal, Depends(allowed(Action.START))]
Decider = Annotated[Principal, Depends(allowed(Action.DECIDE))]
Retrier = Annotated[Principal, Depends(allowed(Action.RETRY))]
Skipper = Annotated[Principal, Depends(allowed(Action.SKIP))]
Aborter = Annotated[Principal, Depends(allowed(Action.ABORT))]
Approver = Annotated[Principal, Depends(allowed(Action.APPROVE))]
Auditor = Annotated[Principal, Depends(allowed(Action.AUDIT))]
