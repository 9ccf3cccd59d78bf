"""Sessions and one-time tickets: kept as hashes in a file that only its owner can read.

Both come from a token and are bound to its ``origin`` (the digest that its record has): where that token is gone, or
its holder has a new one, they are worthless without being touched. Like tokens they are 256 random bits, so a hash
without salt is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from api.files import PrivateFile
from contracts.model import Model

SESSION_PREFIX = "iss_"
TICKET_PREFIX = "ist_"
MOST_KEPT = 100
"""Of one token's sessions, and of its tickets; the oldest make room."""


class Record(Model):
    """What is kept of a session."""

    digest: str
    origin: str
    expires_at: datetime


class TicketRecord(Record):
    """What is kept of a ticket."""

    session_ends_by: datetime | None = None
    """The end of the session that the ticket was made in: no session that comes of it lasts longer."""


class SessionFile(Model):
    sessions: list[Record] = Field(default_factory=list)
    tickets: list[TicketRecord] = Field(default_factory=list)


Kept = TypeVar("Kept", bound=Record)


class SessionStore:
    """The sessions and tickets of a file; several gateways may share it."""

    def __init__(self, path: Path, session_life: timedelta, ticket_life: timedelta) -> None:
        self._file = PrivateFile(path, SessionFile)
        self._session_life = session_life
        self._ticket_life = ticket_life

    def find(self, token: str) -> Record | None:
        """What is kept of a session that has not ended; None if there is no such one."""
        found = _find(self._file.read().sessions, token)
        return found if found is not None and found.expires_at > _now() else None

    def begin(self, origin: str, ends_by: datetime | None) -> tuple[str, datetime]:
        """Make a session that ends no later than ``ends_by``; its token, seen only here, and when it ends."""
        token = SESSION_PREFIX + secrets.token_urlsafe(32)
        expires_at = _earlier(_now() + self._session_life, ends_by)
        record = Record(digest=_digest(token), origin=origin, expires_at=expires_at)
        self._file.change(lambda kept: SessionFile(sessions=_with(kept.sessions, record), tickets=_alive(kept.tickets)))
        return token, expires_at

    def end(self, token: str) -> None:
        """End a session; nothing happens where it has ended."""
        digest = _digest(token)
        self._file.change(
            lambda kept: SessionFile(
                sessions=[each for each in _alive(kept.sessions) if each.digest != digest], tickets=_alive(kept.tickets)
            )
        )

    def issue(self, origin: str, ends_by: datetime | None) -> tuple[str, datetime]:
        """Make a ticket; itself, seen only here, and when it is worthless. Neither it nor its session outlasts
        ``ends_by``."""
        ticket = TICKET_PREFIX + secrets.token_urlsafe(32)
        expires_at = _earlier(_now() + self._ticket_life, ends_by)
        record = TicketRecord(digest=_digest(ticket), origin=origin, expires_at=expires_at, session_ends_by=ends_by)
        self._file.change(lambda kept: SessionFile(sessions=_alive(kept.sessions), tickets=_with(kept.tickets, record)))
        return ticket, expires_at

    def spend(self, ticket: str) -> TicketRecord | None:
        """Take a ticket, which no one else can do after; None if it is unknown, used or has expired."""
        spent: TicketRecord | None = None

        def without(kept: SessionFile) -> SessionFile:
            nonlocal spent
            tickets = _alive(kept.tickets)
            spent = _find(tickets, ticket)
            return SessionFile(sessions=_alive(kept.sessions), tickets=[each for each in tickets if each != spent])

        self._file.change(without)
        return spent


def _now() -> datetime:
    return datetime.now(UTC)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _find(records: Sequence[Kept], secret: str) -> Kept | None:
    """As with tokens, every record is compared in constant time."""
    digest = _digest(secret)
    found: Kept | None = None
    for record in records:
        if hmac.compare_digest(record.digest, digest):
            found = record
    return found


def _earlier(moment: datetime, limit: datetime | None) -> datetime:
    return moment if limit is None else min(moment, limit)


def _alive(records: Sequence[Kept]) -> list[Kept]:
    now = _now()
    return [each for each in records if each.expires_at > now]


def _with(records: Sequence[Kept], record: Kept) -> list[Kept]:
    """The records that have not expired, and ``record`` behind them."""
    alive = _alive(records)
    own = [each for each in alive if each.origin == record.origin]
    room_for_it = {each.digest for each in own[: max(0, len(own) + 1 - MOST_KEPT)]}
    return [*(each for each in alive if each.digest not in room_for_it), record]
