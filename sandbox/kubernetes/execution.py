"""exec and attach over WebSocket: https://kubernetes.io/docs/reference/using-api/api-concepts/ (v5.channel.k8s.io).

There is no container to run a command in. A few harmless ones answer, others say that they would have run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .objects import dig
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster

STDOUT, STDERR, ERROR = 1, 2, 3
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")


def run(pod: Json, command: list[str]) -> tuple[str, str, int]:
    """stdout, stderr and exit code of a command in a pod's container."""
    match command:
        case ["hostname"]:
            return dig(pod, "spec.hostname") or pod["metadata"]["name"], "", 0
        case ["true"]:
            return "", "", 0
        case ["false"]:
            return "", "", 1
        case ["echo", *words]:
            return " ".join(words), "", 0
        case ["env"]:
            variables = dig(pod, "spec.containers", [{}])[0].get("env") or []
            lines = [f"{v['name']}={v.get('value', '')}" for v in variables]
            return "\n".join([f"HOSTNAME={pod['metadata']['name']}", *lines]), "", 0
    return f"sandbox: would run {' '.join(command)}", "", 0


def outcome(exit_code: int) -> Json:
    """The Status on the error channel: metav1.Status with the exit code as a cause."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def _frames(cluster: Cluster, namespace: str, name: str, command: list[str]) -> list[bytes]:
    with cluster.store.lock:
        pod = cluster.store.get(cluster.registry.type("pods"), namespace, name)
    if pod is None or dig(pod, "status.phase") != "Running":
        message = f'pods "{name}" not found' if pod is None else f"pod {name} is not running"
        failure = {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
        return [bytes([ERROR]) + json.dumps(failure).encode()]
    stdout, stderr, exit_code = run(pod, command)
    frames = []
    if stdout:
        frames.append(bytes([STDOUT]) + stdout.encode() + b"\n")
    if stderr:
        frames.append(bytes([STDERR]) + stderr.encode() + b"\n")
    return [*frames, bytes([ERROR]) + json.dumps(outcome(exit_code)).encode()]


async def serve(cluster: Cluster, path: str, command: list[str], scope: Any, receive: Any, send: Any) -> None:
    """Answer an exec request on an ASGI WebSocket connection."""
    await receive()
    parts = path.strip("/").split("/")
    if len(parts) != 7 or parts[2] != "namespaces" or parts[4] != "pods" or parts[6] not in ("exec", "attach"):
        await send({"type": "websocket.close", "code": 1008})
        return
    offered = scope.get("subprotocols") or []
    await send({"type": "websocket.accept", "subprotocol": next((p for p in PROTOCOLS if p in offered), None)})
    for frame in _frames(cluster, parts[3], parts[5], command):
        await send({"type": "websocket.send", "bytes": frame})
    await send({"type": "websocket.close", "code": 1000})
