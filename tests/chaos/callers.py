"""Who speaks to the gateway: an administrator, a rival who wants something else, an agent."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tests.local_stack import START_LIMIT, LocalStack

PAUSE = 0.2


class Callers:
    """A client for each, that asks again for as long as nobody answers."""

    def __init__(self, stack: LocalStack) -> None:
        self._clients = {"admin": stack.gateway}
        for name, role in (("rival", "operator"), ("agent", "agent")):
            made = stack.gateway.post("/tokens", json={"name": name, "role": role})
            made.raise_for_status()
            headers = {"Authorization": f"Bearer {made.json()['token']}"}
            self._clients[name] = httpx.Client(base_url=stack.gateway.base_url, headers=headers, timeout=30)

    def send(self, by: str, method: str, path: str, patience: float = START_LIMIT, **more: Any) -> httpx.Response:
        """A request, sent again after a broken connection or a 503. Raises AssertionError if nobody ever answers."""
        deadline = time.monotonic() + patience
        while True:
            try:
                answer = self._clients[by].request(method, path, **more)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code != 503:
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(f"{method} {path} is not answered: {answer and answer.text}")
            time.sleep(PAUSE)

    def read(self, path: str, **query: str) -> dict[str, Any]:
        """What an administrator reads. Raises AssertionError unless it is there."""
        answer = self.send("admin", "GET", path, params=query)
        if answer.status_code != 200:
            raise AssertionError(f"GET {path}: {answer.status_code} {answer.text}")
        found: dict[str, Any] = answer.json()
        return found
