"""The table of ``docs/roles.md``, and a request and a call for each of its routes and tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from temporalio.client import Client
from temporalio.service import RPCError

from contracts.endpoints import ENDPOINTS
from tests.mcp.recorder import COMMAND
from tests.mcp.test_requests import CASES, GROUP, NODE

PAGE = Path(__file__).parents[2] / "docs" / "roles.md"
CALLERS = ("anonymous", "viewer", "agent", "operator", "admin")
CONTROL_PLANE = {
    "name": "eks",
    "arn": "arn:aws:eks:us-west-2:111122223333:cluster/eks",
    "status": "ACTIVE",
    "kubernetes_version": "1.34",
}
HYPERPOD = {
    "name": "hp",
    "arn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl",
    "status": "InService",
}

Table = dict[str, dict[str, str]]


def table(heading: str) -> Table:
    """What the page says of each route or tool, by caller. Raises ValueError for one that stands there twice."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found: Table = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for each in re.findall(r"`([^`]+)`", cells[0]) if line.startswith("|") else ():
            if each in found:
                raise ValueError(f"{each} is in two rows")
            found[each] = dict(zip(CALLERS, cells[1:], strict=True))
    return found


def routes(app: FastAPI) -> dict[str, tuple[str, str]]:
    """Method and path of every route of the gateway, those outside its document too, by operation ID or path."""
    found = {}
    for route in _flat(app.routes):
        assert isinstance(route, Route | APIRoute), route
        name = getattr(route, "operation_id", None) or route.path
        found[name] = (min((route.methods or {"GET"}) - {"HEAD"}), route.path)
    return found


def _flat(found: list[BaseRoute]) -> Iterator[BaseRoute]:
    for route in found:
        inner = getattr(route, "original_router", None)
        yield from _flat(inner.routes) if inner is not None else (route,)


_PUBLIC = {"service": "public", "public": "internet-facing", "confirm_public": True}
_SERVER = {"name": "chat", "command": COMMAND, "gpu_count": 1}
_ENDPOINT = {
    "name": "qwen",
    "source": {"type": "jumpstart", "model_id": "huggingface-llm-qwen"},
    "instance_types": ["ml.g5.8xlarge"],
}
_TRAINED = {
    "name": "sft",
    "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 4,
}
BODIES: dict[str, Any] = {
    "create_cluster": {"tag": "new"},
    "create_control_plane": {},
    "add_instance_group": {**GROUP, "name": "more"},
    "reboot_nodes": {"nodes": [NODE]},
    "replace_nodes": {"nodes": [NODE]},
    "delete_nodes": {"nodes": [NODE]},
    "store_credential": {"token": "a-token-of-some-service"},
    "set_default_cluster": {"cluster": "nobody"},
    "create_token": {"name": "nobody@", "role": "nothing"},
    "create_deployment": _SERVER,
    "update_deployment": _SERVER,
    "scale_deployment": {"replicas": 2},
    "assign_model_pool": {"assignments": {"chat": 1}},
    "create_router": {"name": "front", "target": {"deployment": "chat"}},
    "create_endpoint": _ENDPOINT,
    "update_endpoint": _ENDPOINT,
    "run_training": _TRAINED,
    "adopt_drift": {"differences": ["instance-group/workers/target~0a1b2c3d"]},
    "restore_drift": {"differences": ["instance-group/workers/target~0a1b2c3d"]},
}
"""Where a tool's case says less than the route needs, or more than the gateway of the tests has."""
GRAVE: dict[str, Any] = {
    "adopt_drift": {"differences": ["instance-group/workers/target~0a1b2c3d"], "accept_weaker_security": True},
    "create_deployment": {**_SERVER, **_PUBLIC},
    "update_deployment": {**_SERVER, **_PUBLIC},
    "scale_deployment": {"replicas": 0},
    "assign_model_pool": {"assignments": {"chat": 1}, "public": {"chat": "internet-facing"}, "confirm_public": True},
    "create_router": {"name": "front", "target": {"deployment": "chat"}, **_PUBLIC},
    "create_endpoint": {**_ENDPOINT, "sagemaker_endpoint": "qwen"},
    "update_endpoint": {**_ENDPOINT, "sagemaker_endpoint": "qwen"},
    "run_training": {
        **_TRAINED,
        "submission": "sagemaker",
        "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/trainer:1",
    },
}
"""What an agent may not ask for without a person, of routes that it may use for other things."""


def request_of(route: str, tag: str, method: str, path: str) -> dict[str, Any]:
    """A request for the route, as httpx takes it: to start something on the cluster ``tag``, else about one that is not
    there, which is known only to who may ask."""
    places: dict[str, str] = {}
    body: Any = None
    for _, _, called, where, _, sent in CASES:
        if called == route and (body is None or not places):
            places, body = dict(where), sent
    body = BODIES.get(route, body)
    places = {**dict.fromkeys(re.findall(r"{(\w+)(?::\w+)?}", path), "nobody"), **places}
    places["tag"] = tag if route in ENDPOINTS and ENDPOINTS[route].starts else "nobody"
    if route == "update_deployment":
        places["name"] = body["name"]
    if isinstance(body, dict) and "tag" in body:
        body = {**body, "tag": tag}
    url = re.sub(r"{(\w+)(?::\w+)?}", lambda found: places[found[1]].replace("/", "%2F"), path)
    return {"method": method, "url": url, **({} if body is None else {"json": body})}


async def ended(temporal: Client, operation: str) -> None:
    """What was started is not carried out: no worker of the tests hosts all kinds. Some have come to their end."""
    with suppress(RPCError):
        await temporal.get_workflow_handle(operation).terminate()
