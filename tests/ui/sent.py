"""What the console has sent to the gateway."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from ui.session import AGENT


@dataclass(frozen=True)
class Sent:
    """A request that may change something."""

    method: str
    path: str
    query: dict[str, str]
    body: Any

    @property
    def planned(self) -> bool:
        """It only asked what would be done."""
        return self.query.get("validate_only") == "true"


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """From now on, every request of the console but reads, in the order in which they are sent."""
    found: list[Sent] = []
    request = httpx.Client.request

    def recording(self: httpx.Client, method: str, url: str, **rest: Any) -> httpx.Response:
        if self.headers["user-agent"] == AGENT and method != "GET":
            body = json.loads(rest["content"]) if rest.get("content") else None
            found.append(Sent(method, url.removeprefix("/api/v1"), rest.get("params") or {}, body))
        return request(self, method, url, **rest)

    monkeypatch.setattr(httpx.Client, "request", recording)
    return found


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, the gateway answers the console nothing."""
    request = httpx.Client.request

    def unanswered(self: httpx.Client, method: str, url: str, **rest: Any) -> httpx.Response:
        if self.headers["user-agent"] == AGENT:
            raise httpx.ConnectError("refused")
        return request(self, method, url, **rest)

    monkeypatch.setattr(httpx.Client, "request", unanswered)
