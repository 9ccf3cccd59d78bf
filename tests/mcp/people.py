"""The person in front of a client, in both generations of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
"""2026-07-28, which asks in rounds, and 2025-11-25, which asks in the middle of a call."""


class User:
    """The person in front of a client with forms, who answers with ``says``; None declines."""

    def __init__(self, *says: dict[str, Any] | Callable[[], Awaitable[dict[str, Any]]] | None) -> None:
        self._says = list(says)
        self.asked: list[ElicitRequestFormParams] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params)
        said = self._says.pop(0)
        if callable(said):
            said = await said()
        return ElicitResult(action="decline") if said is None else ElicitResult(action="accept", content=said)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the form that was shown last."""
        return dict(self.asked[-1].requested_schema["properties"])
