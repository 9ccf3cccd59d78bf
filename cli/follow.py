"""Follow an operation by the gateway's server-sent events, across broken connections and restarts of the gateway."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from cli.errors import CliError
from cli.gateway import API, Gateway, checked, operation_path
from client.events import Event, events

SILENCE = 45.0
"""Seconds without even a heartbeat comment (they come every 15) after which a connection is taken for dead."""
BACKOFF = (0.2, 0.5, 1.0, 2.0, 5.0)
PATIENCE = 180.0
"""Seconds without a gateway after which following is given up."""

Operation = dict[str, Any]


class Patience:
    """Waits for a gateway that has gone, and says so once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failures, self._lost_at = 0, 0.0

    def found(self) -> bool:
        """It answers. Returns whether it had been gone."""
        gone, self._failures, self._lost_at = bool(self._lost_at), 0, 0.0
        return gone

    def lost(self, told: str) -> bool:
        """It does not answer, which is told if it is new. Returns whether it has been gone for too long."""
        if not self._lost_at:
            self._say(told)
            self._lost_at = time.monotonic()
        return time.monotonic() - self._lost_at > PATIENCE

    def rest(self) -> None:
        """Pause before the next try, longer each time."""
        time.sleep(BACKOFF[min(self._failures, len(BACKOFF) - 1)])
        self._failures += 1


ENDS = ("succeeded", "aborted", "failed")


def follow(gateway: Gateway, id: str, say: Callable[[str], None]) -> Iterator[Operation]:
    """The operation as it is now and at every change, until it ends or the caller has seen enough.

    Raises CliError when there is no such operation, or the gateway stays away for long.
    """
    operation = gateway.operation(id)
    run_id = operation.get("run_id")  # another run may begin under the same ID when this one has ended
    yield operation
    last_id: str | None = None
    patience = Patience(say)
    while operation["phase"] not in ENDS:
        try:
            for event in _stream(gateway, id, run_id, last_id):
                if event is None:
                    if patience.found():
                        say("connected again")
                    continue
                last_id = event.id if event.id is not None else last_id
                if (changed := _operation(event)) is not None:
                    operation = changed
                    yield operation
        except httpx.TransportError as error:
            if patience.lost(f"connection to the gateway lost ({type(error).__name__}); trying again"):
                raise CliError(
                    f"no gateway answers at {gateway.url} any more",
                    remedy=f"The operation goes on by itself: `instantstart operation watch {id}` later.",
                ) from None
        if operation["phase"] not in ENDS:
            patience.rest()


def _stream(gateway: Gateway, id: str, run_id: str | None, last_id: str | None) -> Iterator[Event | None]:
    """One connection: None once it stands, then its events. Raises httpx.TransportError when it breaks."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id is not None else {})
    timeout = httpx.Timeout(SILENCE, connect=5.0)
    path, parameters = API + operation_path(id, "events"), {"run_id": run_id} if run_id else {}
    with gateway.http.stream("GET", path, params=parameters, headers=headers, timeout=timeout) as answer:
        if answer.status_code >= 500:  # on its way down, or not yet connected to Temporal
            raise httpx.RemoteProtocolError(f"status {answer.status_code}")
        if not answer.is_success:
            answer.read()
            checked(answer)
        yield None
        yield from events(answer.iter_lines())


def _operation(event: Event) -> Operation | None:
    """The operation that an event carries; None for events of another kind."""
    try:
        value = json.loads(event.data)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "phase" in value and "stages" in value else None
