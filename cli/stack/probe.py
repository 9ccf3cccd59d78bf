"""Probes: whether a service answers, by one short request. False, OSError: not yet."""

from __future__ import annotations

import http.client
import json
from collections.abc import Collection
from typing import Any

from cli.stack.ports import HOST

LIMIT = 2.0


def get(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Status and body of one GET. Raises OSError where nobody answers in HTTP."""
    connection = http.client.HTTPConnection(HOST, port, timeout=LIMIT)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer: {error!r}") from error
    finally:
        connection.close()


def answers(port: int, path: str) -> bool:
    """Whether ``path`` is answered with success."""
    return get(port, path)[0] == 200


def temporal_knows(ui_port: int, search_attributes: Collection[str]) -> bool:
    """Whether Temporal's frontend answers, asked through its Web UI, and has registered the search attributes."""
    found = _object(ui_port, "/api/v1/namespaces/default/search-attributes").get("customAttributes") or {}
    return all(name in found for name in search_attributes)


def temporal_polled(ui_port: int, queue: str) -> bool:
    """Whether a worker polls the task queue for workflow tasks."""
    path = f"/api/v1/namespaces/default/task-queues/{queue}?taskQueueType=TASK_QUEUE_TYPE_WORKFLOW"
    return bool(_object(ui_port, path).get("pollers"))


def _object(port: int, path: str) -> dict[str, Any]:
    status, body = get(port, path)
    try:
        value = json.loads(body) if status == 200 else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
