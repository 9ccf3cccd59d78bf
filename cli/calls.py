"""Calls to models by the gateway's server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from cli.errors import CliError
from cli.gateway import API, Gateway, checked
from client.events import events

SILENCE = 45.0
"""Seconds without even a heartbeat comment (they come every 15) after which the connection is taken for dead."""


def called(gateway: Gateway, path: str, body: dict[str, Any], wrote: Callable[[str], None], **query: Any) -> Any:
    """What a model answered, as the gateway's ``end`` event has it. ``wrote`` hears its text piece by piece.

    Raises CliError where the model or the gateway does not answer to the end.
    """
    parameters = {name: value for name, value in query.items() if value is not None}
    timeout = httpx.Timeout(SILENCE, connect=5.0)
    try:
        with gateway.http.stream(
            "POST", API + path, json={**body, "stream": True}, params=parameters, timeout=timeout
        ) as answer:
            if not answer.is_success:
                answer.read()
                checked(answer)
            for event in events(answer.iter_lines()):
                match event.name:
                    case "text":
                        wrote(json.loads(event.data)["delta"])
                    case "problem":
                        raise CliError.of(json.loads(event.data))
                    case "end":
                        return json.loads(event.data)
    except httpx.ConnectError:
        raise gateway.unreachable() from None
    except httpx.TransportError as error:
        raise gateway.silent(error) from None
    raise CliError("the answer broke off before its end", remedy="Ask again.")
