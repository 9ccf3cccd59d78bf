"""The API server as a proxy to Services and pods.

https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/ ; how a port is found and what is
said when there is none is that of pkg/registry/core/{service,pod}/ of Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from . import addresses
from .errors import ApiError
from .objects import dig
from .programs.exchange import Answer, Request
from .replies import Reply, Stream
from .requests import Call
from .resources import Json
from .serving import Unreachable

if TYPE_CHECKING:
    from .cluster import Cluster


def to_service(cluster: Cluster, call: Call, namespace: str, identifier: str, path: str) -> Reply | Stream:
    """``services/[scheme:]name[:port]/proxy/path``: a ready endpoint answers, each in turn."""
    scheme, name, port = _split(identifier, "service")
    service = cluster.registry.require(cluster.registry.type("services"), namespace, name)
    if port.isdigit():
        ports = {str(p["port"]): p.get("name") or "" for p in dig(service, "spec.ports", [])}
        if port not in ports:
            raise ApiError(503, f'no service port {port} found for service "{name}"')
        port = ports[port]
    pods = addresses.ready_pods(cluster, service, port)
    if not pods:
        raise ApiError(503, f'no endpoints available for service "{identifier}"')
    turn = cluster.serving.turn(f"{service['metadata']['uid']}/endpoints", len(pods))
    pod, number = pods[turn]
    return _forward(cluster, call, pod, number, scheme, path)


def to_pod(cluster: Cluster, call: Call, namespace: str, identifier: str, path: str) -> Reply | Stream:
    """``pods/[scheme:]name[:port]/proxy/path``. Without a port the first one of its containers, or 80."""
    scheme, name, port = _split(identifier, "pod")
    pod = cluster.registry.require(cluster.registry.type("pods"), namespace, name)
    if not dig(pod, "status.podIP"):
        raise ApiError(400, "address not allowed")
    declared = (p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports") or [])
    number = int(port) if port.isdigit() else next(declared, 80)
    return _forward(cluster, call, pod, number, scheme, path)


def _split(identifier: str, kind: str) -> tuple[str, str, str]:
    parts = identifier.split(":")
    match parts:
        case [name]:
            return "http", name, ""
        case [name, port]:
            return "http", name, port
        case [scheme, name, port] if scheme in ("", "http", "https"):
            return scheme or "http", name, port
    raise ApiError(400, f'invalid {kind} request "{identifier}"')


def _forward(cluster: Cluster, call: Call, pod: Json, port: int, scheme: str, path: str) -> Reply | Stream:
    # The API server has used the Authorization header up: what it passes on has none.
    headers = {name: value for name, value in call.headers.items() if name not in ("authorization", "host")}
    target = f"/{path}" + (f"?{call.query_string}" if call.query_string else "")
    try:
        answer = cluster.serving.ask(pod, port, Request(call.method, target, call.raw_body, headers))
    except Unreachable as error:
        raise ApiError(503, f"error trying to reach service: {error}") from error
    if scheme == "https":
        message = "http: server gave HTTP response to HTTPS client"
        raise ApiError(503, f"error trying to reach service: {message}")
    return _reply(answer)


def _reply(answer: Answer) -> Reply | Stream:
    if answer.chunks is None:
        return Reply(answer.body, answer.status, answer.content_type, delay=answer.latency)
    chunks = answer.chunks

    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            await asyncio.sleep(answer.pace)
            yield chunk

    return Stream(stream, answer.content_type, delay=answer.latency)
