"""The gateway's client for programs on an event loop."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from client.request import TRIES, Call, GatewayProblem, Reply, read, unanswered
from contracts.endpoints import Endpoint

__all__ = ["Gateway", "GatewayProblem", "Reply"]

Answer = TypeVar("Answer", bound=BaseModel)

MOST_CONNECTIONS = 2000


class Gateway:
    """Calls the gateway as the holder of ``token``; None where authentication is off."""

    def __init__(self, http: httpx.AsyncClient, token: str | None) -> None:
        self._http = http
        self._token = token

    async def call(self, endpoint: Endpoint[Answer], *body: Any, **options: Any) -> Answer:
        """What ``endpoint`` answers. Arguments are those of :meth:`client.request.Call.of`. Raises GatewayProblem."""
        return (await self.reply(endpoint, *body, **options)).answer

    async def reply(self, endpoint: Endpoint[Answer], *body: Any, **options: Any) -> Reply[Answer]:
        """As :meth:`call`, with the response's headers."""
        call = Call.of(endpoint, *body, **options)
        for attempt in range(1, TRIES + 1):
            try:
                with call.traced(self._token) as request:
                    return read(endpoint, await self._http.request(**request))
            except httpx.TransportError as error:
                if call.is_lost(attempt, error):
                    raise unanswered(error, str(self._http.base_url)) from None
        raise AssertionError("unreachable")


def connections(url: str, agent: str) -> httpx.AsyncClient:
    """Connections to the gateway at ``url``, which the gateways of many callers share. ``agent``: which face it is."""
    # The environment's proxies are for the internet; a gateway that is named by URL is called at that URL.
    # A wait for an operation keeps its connection: many of them at once must not keep everybody else out.
    limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=20)
    return httpx.AsyncClient(base_url=url, headers={"User-Agent": agent}, trust_env=False, limits=limits)
