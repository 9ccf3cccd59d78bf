"""Who calls, and what each role may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from api.attempts import Attempts, Verdict
from api.problems import ProblemError, refuse
from api.sessions import SESSION_PREFIX, SessionStore
from api.settings import Settings, is_loopback
from api.tokens import TokenStore
from contracts import measures
from contracts.access import Principal, Role
from contracts.problem import ProblemCode
from telemetry import metrics

REALM = {"WWW-Authenticate": 'Bearer realm="instantstart"'}
LOCAL = Principal(name="local", role=Role.ADMIN)
"""Who calls where authentication is off."""
NO_TOKEN = ""
"""The origin of LOCAL's sessions and tickets: once authentication is on, they belong to nobody."""


@dataclass(frozen=True)
class Credential:
    """What a caller showed."""

    principal: Principal
    origin: str
    """The digest of the token that it is, or came from."""
    expires_at: datetime | None = None
    """Of a session."""


class Action(StrEnum):
    """What a request does, as far as roles care."""

    READ = "read"
    START = "start operations"
    DECIDE = "decide"
    RETRY = "retry"
    SKIP = "skip stages"
    ABORT = "abort"
    APPROVE = "approve or reject"
    OPEN = "open tracking servers"
    PAYLOADS = "read payloads"
    AUDIT = "read the audit trail"
    MANAGE_TOKENS = "manage tokens"


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
    Action.OPEN: _HUMAN,
    Action.PAYLOADS: _HUMAN,
    Action.AUDIT: frozenset({Role.ADMIN}),
    Action.MANAGE_TOKENS: frozenset({Role.ADMIN}),
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


def bearer(request: Request) -> str | None:
    """The token or session that the request shows; None if it shows none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _only_local(request: Request) -> None:
    """Without authentication, another site that a browser shows must not reach the gateway by rebinding its name to a
    loopback address (Host) or by posting across sites (Origin)."""
    origin = request.headers.get("Origin")
    # Without an Origin, e.g. of a picture: browsers say where a request comes from all the same.
    elsewhere = request.headers.get("Sec-Fetch-Site") == "cross-site"
    hosts = [request.url.hostname or "", *([urlsplit(origin).hostname or ""] if origin is not None else [])]
    if elsewhere or not all(is_loopback(host) for host in hosts):
        raise refuse(
            ProblemCode.DENIED,
            "authentication is off, so only this machine's own pages and programs are served",
            remedy="Use http://127.0.0.1, or turn authentication on.",
        )


class Authenticator:
    """Tells who calls."""

    def __init__(self, settings: Settings, tokens: TokenStore, sessions: SessionStore) -> None:
        self.is_on = settings.auth == "on"
        self._tokens = tokens
        self._sessions = sessions
        self._attempts = Attempts()

    def authenticate(self, request: Request, session: str | None = None) -> Credential:
        """Who calls, noted for the log and the audit trail. ``session``: shown elsewhere than as a bearer token.

        Raises ProblemError (401) if what was shown is missing or unknown, 429 if that happens all the time; 403 where
        authentication is off and another site's page calls.
        """
        self.check_origin(request)
        shown = session or bearer(request)
        try:
            credential = self._of(shown) if self.is_on else Credential(LOCAL, NO_TOKEN)
        except ProblemError:
            metrics.count(measures.LOGINS_REFUSED, reason=_kind_of(shown))
            self.note_failure(request)
            raise
        request.state.principal = credential.principal
        return credential

    def check_origin(self, request: Request) -> None:
        """Raises ProblemError (403) where nothing but the caller's place says who it is, and it is another one."""
        if not self.is_on:
            _only_local(request)

    def note_failure(self, request: Request) -> None:
        """Count a caller who did not say who they are. Raises ProblemError (429) where the address does nothing else.

        The faces of this process call from a loopback address for everybody: from there, failures are only kept from
        filling the audit trail.
        """
        address = request.client.host if request.client else ""
        verdict, left = self._attempts.failed(address)
        if verdict is Verdict.LAST_LISTED:
            request.state.audit_note = f"more failures of {address} within {left:.0f} s are not listed"
        if verdict is not Verdict.TOO_MANY:
            return
        request.state.unlisted = True
        if not is_loopback(address):
            raise refuse(
                ProblemCode.THROTTLED,
                "this address has shown too many tokens that are unknown, or none",
                remedy="Wait, and send a valid token: that is answered at any time.",
                headers={"Retry-After": f"{max(1, round(left))}"},
            )

    def holder(self, origin: str) -> Principal | None:
        """Who holds the token that a session or ticket came from; None where that token is gone."""
        if not self.is_on:
            return LOCAL
        record = self._tokens.made_as(origin)
        return record.principal if record else None

    def _of(self, shown: str | None) -> Credential:
        if shown is None:
            raise refuse(
                ProblemCode.CREDENTIALS,
                "the request has no bearer token",
                remedy="Send Authorization: Bearer TOKEN; on the gateway's host, `instantstart token add NAME ROLE` "
                "makes a token.",
                headers=REALM,
            )
        if shown.startswith(SESSION_PREFIX):
            session = self._sessions.find(shown)
            holder = self.holder(session.origin) if session else None
            if session is None or holder is None:
                raise _invalid_token(
                    "the session is unknown or has ended", "Sign in again; `instantstart console` prints a link."
                )
            return Credential(holder, session.origin, session.expires_at)
        record = self._tokens.find(shown)
        if record is None:
            raise _invalid_token(
                "the bearer token is unknown or revoked",
                "Use a valid token; `instantstart token list` on the gateway's host names their holders.",
            )
        return Credential(record.principal, record.digest)


def _kind_of(shown: str | None) -> str:
    """What a caller showed, in a word for a metric."""
    if shown is None:
        return "missing"
    return "session" if shown.startswith(SESSION_PREFIX) else "token"


def _invalid_token(detail: str, remedy: str) -> ProblemError:
    headers = {"WWW-Authenticate": f'{REALM["WWW-Authenticate"]}, error="invalid_token"'}
    return refuse(ProblemCode.CREDENTIALS, detail, remedy=remedy, headers=headers)


def _authenticator(request: Request) -> Authenticator:
    found: Authenticator = request.app.state.authenticator
    return found


Authentication = Annotated[Authenticator, Depends(_authenticator)]


async def _credential(request: Request, authentication: Authentication) -> Credential:
    return authentication.authenticate(request)


Shown = Annotated[Credential, Depends(_credential)]
"""What the caller showed, whatever its role."""


def allowed(action: Action) -> Callable[[Credential], Awaitable[Principal]]:
    """A dependency that gives the caller, who may do ``action``. Raises ProblemError (401, 403)."""

    async def dependency(shown: Shown) -> Principal:
        principal = shown.principal
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
Opener = Annotated[Principal, Depends(allowed(Action.OPEN))]
Auditor = Annotated[Principal, Depends(allowed(Action.AUDIT))]
TokenManager = Annotated[Principal, Depends(allowed(Action.MANAGE_TOKENS))]
