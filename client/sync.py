"""The gateway's client for programs without an event loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from client.events import Event, events
from client.request import TRIES, Call, GatewayProblem, Reply, read, unanswered
from contracts.endpoints import Endpoint

__all__ = ["Gateway", "GatewayProblem", "Reply"]

Answer = TypeVar("Answer", bound=BaseModel)


class Gateway:
    """Calls the gateway as the holder of ``token``; None where authentication is off."""

    def __init__(self, http: httpx.Client, token: str | None) -> None:
        self._http = http
        self._token = token

    def call(self, endpoint: Endpoint[Answer], *body: Any, **options: Any) -> Answer:
        """What ``endpoint`` answers. Arguments are those of :meth:`client.request.Call.of`. Raises GatewayProblem."""
        return self.reply(endpoint, *body, **options).answer

    def reply(self, endpoint: Endpoint[Answer], *body: Any, **options: Any) -> Reply[Answer]:
        """As :meth:`call`, with the response's headers."""
        call = Call.of(endpoint, *body, **options)
        for attempt in range(1, TRIES + 1):
            try:
                with call.traced(self._token) as request:
                    return read(endpoint, self._http.request(**request))
            except httpx.TransportError as error:
                if call.is_lost(attempt, error):
                    raise unanswered(error, str(self._http.base_url)) from None
        raise AssertionError("unreachable")

    def stream(self, endpoint: Endpoint[Any], *body: Any, **options: Any) -> Generator[Event, None, None]:
        """The server-sent events that ``endpoint`` answers with, as they come. It is asked once: what was heard already
        cannot be taken back. Who stops reading closes it, and hangs up with that. Raises GatewayProblem."""
        call = Call.of(endpoint, *body, **options)
        try:
            with call.traced(self._token) as request, self._http.stream(**request) as response:
                if not response.is_success:
                    response.read()
                    read(endpoint, response)
                yield from events(response.iter_lines())
        except httpx.TransportError as error:
            raise unanswered(error, str(self._http.base_url)) from None


def connections(url: str, agent: str) -> httpx.Client:
    """Connections to the gateway at ``url``, which the gateways of many callers share. ``agent``: which face it is."""
    # The environment's proxies are for the internet; a gateway that is named by URL is called at that URL.
    return httpx.Client(base_url=url, headers={"User-Agent": agent}, trust_env=False)
