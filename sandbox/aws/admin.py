"""The admin API's routes that are about AWS: capacity, quotas, training plans, HyperPod's misfortunes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sandbox import credentials
from sandbox.admin import Admin, AdminError, AdminRequest
from sandbox.aws.hyperpod import HyperPod
from sandbox.aws.hyperpod.state import Cluster, Node
from sandbox.aws.quotas import table
from sandbox.aws.world import World

DEFAULT_REGION = "us-west-2"
HYPERPOD_KNOBS = frozenset({"sick", "broken_lifecycle", "fail_node", "reclaim_node"})


class AwsAdmin:
    """Routes under ``/_sandbox/``. Places are chosen with ``?region=`` and ``?account=``."""

    def __init__(self, world: World, hyperpod: HyperPod, lock: threading.RLock) -> None:
        self.world, self.hyperpod, self._lock = world, hyperpod, lock

    def register(self, admin: Admin) -> None:
        def locked(handler: Callable[[AdminRequest], Any]) -> Callable[[AdminRequest], Any]:
            def run(request: AdminRequest) -> Any:
                with self._lock:
                    answer = handler(request)
                if request.method != "GET":
                    admin.state.touch()
                return answer

            return run

        for method in ("GET", "PUT"):
            admin.route(method, "capacity", locked(self._capacity))
            admin.route(method, "quotas", locked(self._quotas))
            admin.route(method, "consistency", locked(self._consistency))
        admin.route("POST", "training-plans", locked(self._training_plan))
        for method in ("GET", "POST"):
            admin.route(method, "hyperpod", locked(self._hyperpod))

    def _capacity(self, request: AdminRequest) -> Any:
        knobs = self.world.knobs
        if request.method == "PUT":
            body = _object(request)
            knobs.capacity = {zone: {t: int(n) for t, n in types.items()} for zone, types in body.items()}
        return knobs.capacity

    def _quotas(self, request: AdminRequest) -> Any:
        region = request.query.get("region", "*")
        knobs = self.world.knobs
        if request.method == "PUT":
            known = {q.knob for q in table()}
            body = _object(request)
            if unknown := sorted(set(body) - known):
                raise AdminError(f"no such quota: {', '.join(unknown)}; there are vpcs, elastic-ips and ml. types")
            knobs.quotas[region] = {name: int(value) for name, value in body.items()}
        return knobs.quotas.get(region, {})

    def _consistency(self, request: AdminRequest) -> Any:
        """``{"visible_after": s}``: a fresh VPC or subnet is described only after so many sandbox seconds."""
        if request.method == "PUT":
            self.world.knobs.visible_after = float(_object(request).get("visible_after", 0))
        return {"visible_after": self.world.knobs.visible_after}

    def _training_plan(self, request: AdminRequest) -> Any:
        body = _object(request)
        now = self.world.now()
        start = _time(body.get("start"), now)
        plan = self.hyperpod.make_plan(
            _place(request),
            name=body["name"],
            instance_type=body["instance_type"],
            zone=body["zone"],
            count=int(body["count"]),
            start=start,
            end=_time(body.get("end"), start + timedelta(days=7)),
            status=body.get("status", "Active"),
        )
        return {"arn": plan.arn, "status": plan.status, "zone": plan.zone, "zone_id": plan.zone_id}

    def _hyperpod(self, request: AdminRequest) -> Any:
        """``{"sick": {group: n}, "broken_lifecycle": {group: n or null}, "fail_node": {"cluster", "node", "message"},
        "reclaim_node": {"cluster", "node"}}``.

        ``sick`` and ``broken_lifecycle`` replace what was set before; the others act on a node at once.
        """
        knobs = self.world.knobs
        if request.method == "POST":
            body = _object(request)
            if unknown := sorted(set(body) - HYPERPOD_KNOBS):
                raise AdminError(f"unknown: {', '.join(unknown)}; known are {', '.join(sorted(HYPERPOD_KNOBS))}")
            if "sick" in body:
                knobs.sick = {group: int(n) for group, n in body["sick"].items()}
            if "broken_lifecycle" in body:
                knobs.broken_lifecycle = dict(body["broken_lifecycle"])
            if wish := body.get("fail_node"):
                cluster, node = self._node(_place(request), wish)
                self.hyperpod.break_node(cluster, node, wish.get("message") or "NvidiaGPUUnhealthy: XID 79")
            if wish := body.get("reclaim_node"):
                self.hyperpod.reclaim(*self._node(_place(request), wish))
        return {"sick": knobs.sick, "broken_lifecycle": knobs.broken_lifecycle}

    def _node(self, place: tuple[str, str], wish: dict[str, Any]) -> tuple[Cluster, Node]:
        cluster = self.hyperpod.state.clusters.get(place, {}).get(wish["cluster"])
        if cluster is None:
            raise AdminError(f"no HyperPod cluster {wish['cluster']} in {place[1]}", 404)
        identifier = str(wish["node"]).removeprefix("hyperpod-")
        node = cluster.node(identifier)
        if node is None:
            raise AdminError(f"no node {identifier} in cluster {cluster.name}", 404)
        return cluster, node


def _place(request: AdminRequest) -> tuple[str, str]:
    return (request.query.get("account", credentials.ACCOUNT), request.query.get("region", DEFAULT_REGION))


def _object(request: AdminRequest) -> dict[str, Any]:
    if not isinstance(request.body, dict):
        raise AdminError("the body must be a JSON object")
    return request.body


def _time(value: Any, default: datetime) -> datetime:
    """A time from ISO 8601, or seconds from now as a number."""
    if value is None:
        return default
    if isinstance(value, int | float):
        return default + timedelta(seconds=value)
    parsed = datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=default.tzinfo)
