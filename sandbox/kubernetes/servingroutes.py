"""Routes of the admin API for what happens to pods, nodes and metrics: ``/_sandbox/kubernetes/pods``, ``…/nodes``,
``…/metrics`` and ``…/queries``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.admin import Admin, AdminError, AdminRequest

from . import nodefaults
from .clusterset import ClusterSet
from .controllers.base import object_key
from .controllers.training import TRAINING_JOBS
from .objects import dig


def register(admin: Admin, clusters: ClusterSet, prefix: str, changed: Callable[[], None]) -> None:
    """Add the routes below a prefix. ``changed`` is called after each change."""
    faults = clusters.pod_faults

    def again() -> None:
        """Let every kubelet look at its pods: what is now in force concerns those that run, too."""
        for cluster in list(clusters.by_id.values()):
            with cluster.lock:
                cluster.training.refresh()
                for job in list(cluster.store.objects_of(TRAINING_JOBS)):
                    cluster.controllers.enqueue("training", job)
                for pod in list(cluster.store.objects(cluster.registry.type("pods")).values()):
                    if dig(pod, "spec.nodeName"):
                        cluster.controllers.enqueue("kubelet", object_key(pod))
        changed()

    def rules(request: AdminRequest) -> list[dict[str, Any]]:
        if request.method == "DELETE":
            faults.remove(request.path)
            again()
        elif request.method == "POST":
            now = admin.clock.timestamp()
            if isinstance(request.body, list):
                faults.replace(request.body, now)
            elif isinstance(request.body, dict) and set(request.body) == {"add"}:
                faults.add(request.body["add"], now)
            else:
                raise AdminError('what happens to pods is a list of rules, or {"add": [...]}')
            again()
        return faults.report()

    def metrics(request: AdminRequest) -> list[dict[str, Any]]:
        if request.method == "DELETE":
            faults.clear_metrics()
            changed()
        elif request.method == "PUT":
            body = request.body or {}
            if not isinstance(body.get("deployment"), str) or not isinstance(body.get("metrics"), dict):
                raise AdminError('metrics need {"deployment": NAME, "metrics": {NAME: VALUE or null}}')
            if unknown := set(body) - {"cluster", "namespace", "deployment", "metrics"}:
                raise AdminError(f"unknown: {', '.join(sorted(unknown))}")
            where = body.get("cluster", "*"), body.get("namespace", "default"), body["deployment"]
            faults.set_metrics(*where, body["metrics"])
            changed()
        return faults.report_metrics()

    def queries(request: AdminRequest) -> list[dict[str, Any]]:
        if request.method == "DELETE":
            faults.queries.clear()
            changed()
        elif request.method == "PUT":
            body = request.body or {}
            if not body.get("query") or set(body) - {"query", "value", "error"}:
                raise AdminError('a query needs {"query": TEXT, "value": NUMBER, [NUMBER, …] or null} or an "error"')
            value = body.get("value")
            values = value if isinstance(value, list) or value is None else [value]
            faults.queries.set(body["query"], values, body.get("error", ""))
            changed()
        return faults.queries.report()

    def nodes(request: AdminRequest) -> dict[str, Any]:
        body = request.body or {}
        name, fault = body.get("node"), body.get("fault")
        if not isinstance(name, str) or set(body) - {"node", "fault"}:
            raise AdminError('a node\'s fault is {"node": NAME, "fault": NAME or null}')
        for cluster in list(clusters.by_id.values()):
            if cluster.store.get(cluster.registry.type("nodes"), None, name) is None:
                continue
            if fault is None:
                nodefaults.heal(cluster, name)
            else:
                nodefaults.strike(cluster, name, str(fault))
            changed()
            return {"cluster": cluster.name, "node": name, "fault": fault}
        raise AdminError(f"there is no node {name!r}", 404)

    admin.route("POST", f"{prefix}nodes", nodes)
    for method in ("GET", "PUT", "DELETE"):
        admin.route(method, f"{prefix}queries", queries)
    for method in ("GET", "POST", "DELETE"):
        admin.route(method, f"{prefix}pods", rules)
    for method in ("GET", "PUT", "DELETE"):
        admin.route(method, f"{prefix}metrics", metrics)
