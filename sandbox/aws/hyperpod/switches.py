"""What the admin API can do to HyperPod: sick nodes, broken scripts and images, failures of nodes and clusters."""

from __future__ import annotations

from typing import Any

from sandbox.aws.hyperpod.service import HyperPod
from sandbox.aws.hyperpod.state import Cluster, Node
from sandbox.aws.world import Place

SETTINGS = ("sick", "broken_lifecycle", "broken_software", "release")
ACTS = ("fail_node", "reclaim_node", "fail_cluster")


class Switches:
    """``{"sick": {group: n}, "broken_lifecycle": {group: n or null}, "broken_software": {group: n}, "release": "1.0.5",
    "fail_node": {"cluster", "node", "message"}, "reclaim_node": {"cluster", "node"}, "fail_cluster": {"cluster",
    "message"}}``.

    The first four replace what was set before: how many of a group's next nodes fail their deep health check, their
    lifecycle script or the update of their software, and the newest release of HyperPod's image. The others act at
    once.
    """

    def __init__(self, hyperpod: HyperPod) -> None:
        self.hyperpod = hyperpod

    def turn(self, place: Place, body: dict[str, Any]) -> None:
        """Carry out what ``body`` asks for. Raises ValueError for an unknown switch, LookupError for what it names and
        there is not."""
        if unknown := sorted(set(body) - {*SETTINGS, *ACTS}):
            raise ValueError(f"unknown: {', '.join(unknown)}; known are {', '.join(sorted((*SETTINGS, *ACTS)))}")
        knobs, state = self.hyperpod.world.knobs, self.hyperpod.state
        if "sick" in body:
            knobs.sick = {group: int(n) for group, n in body["sick"].items()}
        if "broken_lifecycle" in body:
            knobs.broken_lifecycle = dict(body["broken_lifecycle"])
        if "broken_software" in body:
            state.broken_software = {group: int(n) for group, n in body["broken_software"].items()}
        if "release" in body:
            state.release = ".".join(str(int(part)) for part in str(body["release"]).split("."))
        if wish := body.get("fail_node"):
            cluster, node = self._node(place, wish)
            self.hyperpod.break_node(cluster, node, wish.get("message") or "NvidiaGPUUnhealthy: XID 79")
        if wish := body.get("reclaim_node"):
            self.hyperpod.reclaim(*self._node(place, wish))
        if wish := body.get("fail_cluster"):
            message = wish.get("message") or "An internal failure occurred."
            self.hyperpod.fail_cluster(self._cluster(place, wish), message)

    def settings(self) -> dict[str, Any]:
        knobs, state = self.hyperpod.world.knobs, self.hyperpod.state
        return {
            "sick": knobs.sick,
            "broken_lifecycle": knobs.broken_lifecycle,
            "broken_software": state.broken_software,
            "release": state.release,
        }

    def _cluster(self, place: Place, wish: dict[str, Any]) -> Cluster:
        cluster = self.hyperpod.state.clusters.get(place, {}).get(wish["cluster"])
        if cluster is None:
            raise LookupError(f"no HyperPod cluster {wish['cluster']} in {place[1]}")
        return cluster

    def _node(self, place: Place, wish: dict[str, Any]) -> tuple[Cluster, Node]:
        cluster = self._cluster(place, wish)
        identifier = str(wish["node"]).removeprefix("hyperpod-")
        node = cluster.node(identifier)
        if node is None:
            raise LookupError(f"no node {identifier} in cluster {cluster.name}")
        return cluster, node
