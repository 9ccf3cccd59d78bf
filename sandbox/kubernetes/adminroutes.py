"""What tests and demos steer: routes under ``/_sandbox/kubernetes/``, and all of ``/_sandbox/`` in standalone mode."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

from sandbox.admin import Admin, AdminError, AdminRequest
from sandbox.clock import Clock
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State

from . import servingroutes
from .cluster import Cluster
from .clusterset import ClusterSet
from .objects import dig, is_true
from .replies import Reply


def _chosen(clusters: ClusterSet, request: AdminRequest) -> list[Cluster]:
    """The cluster that a request names by id, name or ARN, or all."""
    wanted = request.query.get("cluster") or (request.body or {}).get("cluster")
    found = [
        cluster
        for cluster in clusters.by_id.values()
        if not wanted or wanted in (cluster.identifier, cluster.name) or (cluster.facts and wanted == cluster.facts.arn)
    ]
    if wanted and not found:
        raise AdminError(f"there is no cluster {wanted!r}", 404)
    return found


def register(admin: Admin, clusters: ClusterSet, endpoint: Callable[[Cluster], dict[str, Any]], prefix: str) -> None:
    """Add the routes of Kubernetes below a prefix. ``endpoint``: how a client reaches a cluster."""

    def compact(request: AdminRequest) -> dict[str, int]:
        return {cluster.identifier: cluster.store.compact() for cluster in _chosen(clusters, request)}

    def drop_watches(request: AdminRequest) -> dict[str, int]:
        return {cluster.identifier: cluster.store.drop_subscriptions() for cluster in _chosen(clusters, request)}

    def list_clusters(request: AdminRequest) -> list[dict[str, Any]]:
        return [_summary(cluster) | endpoint(cluster) for cluster in _chosen(clusters, request)]

    admin.route("POST", f"{prefix}compact", compact)
    admin.route("POST", f"{prefix}drop-watches", drop_watches)
    admin.route("GET", f"{prefix}clusters", list_clusters)


def _summary(cluster: Cluster) -> dict[str, Any]:
    with cluster.store.lock:
        nodes = list(cluster.store.objects(cluster.registry.type("nodes")).values())
        pods = list(cluster.store.objects(cluster.registry.type("pods")).values())
    return {
        "id": cluster.identifier,
        "name": cluster.name,
        "arn": cluster.facts.arn if cluster.facts else None,
        "version": cluster.git_version,
        "nodes": {"total": len(nodes), "ready": sum(is_true(node, "Ready") for node in nodes)},
        "pods": {"total": len(pods), "running": sum(dig(pod, "status.phase") == "Running" for pod in pods)},
        "objects": cluster.store.count(),
        "addons": dict(cluster.addons),
    }


class Administration:
    """The whole admin API in front of one cluster, for standalone mode."""

    def __init__(self, clock: Clock, faults: Faults, ledger: Ledger, state: State, clusters: ClusterSet) -> None:
        self._admin = Admin(clock, faults, ledger, state)
        register(self._admin, clusters, lambda cluster: {"path": "/"}, "")
        register(self._admin, clusters, lambda cluster: {"path": "/"}, "kubernetes/")
        servingroutes.register(self._admin, clusters, "kubernetes/", state.touch)

    def answer(self, method: str, path: str, query: str, body: bytes) -> Reply:
        outcome: list[str] = []

        def start_response(status: str, headers: Iterable[tuple[str, str]]) -> None:
            outcome.append(status)

        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
        }
        content = b"".join(self._admin(environ, start_response))
        return Reply(content, int(outcome[0].split(" ")[0]))
