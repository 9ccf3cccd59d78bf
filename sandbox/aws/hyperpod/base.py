"""What the parts of the simulated HyperPod share."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks import Eks
from sandbox.aws.hyperpod.state import Cluster, Event, HyperPodState, Node, Operation, Plan
from sandbox.aws.world import World

MAX_EVENTS = 2000


class Base:
    """The state of HyperPod and how its parts get at it."""

    def __init__(self, world: World, eks: Eks) -> None:
        self.world, self.eks = world, eks
        self.state = HyperPodState()

    def find(self, arn: str) -> Cluster | None:
        """The cluster of that ARN, whoever asks."""
        for clusters in self.state.clusters.values():
            for cluster in clusters.values():
                if cluster.arn == arn:
                    return cluster
        return None

    def cluster(self, call: Call) -> Cluster:
        """The cluster that a request names, by name or ARN."""
        name = call.params["ClusterName"]
        clusters = self.state.clusters.get(call.place, {})
        cluster = clusters.get(name) or next((c for c in clusters.values() if c.arn == name), None)
        if cluster is None:
            raise AwsError("ResourceNotFound", f"Cluster with name {name} not found.")
        return cluster

    def plan(self, place: tuple[str, str], arn: str) -> Plan | None:
        return next((p for p in self.state.plans.get(place, {}).values() if p.arn == arn), None)

    def plan_in_use(self, arn: str) -> int:
        return sum(
            1
            for clusters in self.state.clusters.values()
            for cluster in clusters.values()
            for node in cluster.nodes.values()
            if node.plan == arn and node.instance_id
        )

    def event(
        self,
        cluster: Cluster,
        description: str,
        level: str = "Info",
        group: str = "",
        node: Node | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Note an event; only Continuous clusters have them."""
        if not cluster.continuous:
            return
        if metadata is None:
            # The metadata is a union: without exactly one member boto3 refuses the answer.
            metadata = {"Instance": {"NodeLogicalId": node.logical_id}} if node else {}
            metadata = metadata or ({"InstanceGroup": {}} if group else {"Cluster": {}})
        running = [o.id for o in cluster.operations if o.status == "InProgress"]
        cluster.events.append(
            Event(
                id=str(uuid.uuid4()),
                time=self.world.now(),
                description=description,
                level=level,
                group=group or (node.group if node else ""),
                instance_id=node.instance_id if node else "",
                logical_id=node.logical_id if node else "",
                operation=running[-1] if running else "",
                metadata=metadata,
            )
        )
        if len(cluster.events) > MAX_EVENTS:
            del cluster.events[: MAX_EVENTS // 10]

    def begin_scaling(self, cluster: Cluster, before: dict[str, int]) -> None:
        """Record a scaling operation: groups whose target differs from ``before``. A newer one supersedes the older."""
        if not cluster.continuous:
            return
        details = []
        for name in sorted({*before, *cluster.groups}):
            group = cluster.groups.get(name)
            target = 0 if group is None or group.deleting else group.target
            if before.get(name) != target:
                current = cluster.current(name)
                desired = {"TargetCount": target}
                if group is not None and group.minimum:
                    desired["MinCount"] = group.minimum
                details.append(
                    {
                        "InstanceGroupName": name,
                        "Status": "InProgress",
                        "Original": {"CurrentCount": current, "TargetCount": before.get(name, 0)},
                        "Desired": desired,
                    }
                )
        if not details:
            return
        for operation in cluster.operations:
            if operation.type == "Scaling" and operation.status == "InProgress":
                operation.status = "Superseded"
                for detail in operation.scaling:
                    detail["Status"] = "Superseded"
        cluster.operations.append(Operation(str(uuid.uuid4()), "Scaling", self.world.now(), scaling=details))

    def targets(self, cluster: Cluster) -> dict[str, int]:
        return {name: g.target for name, g in cluster.groups.items() if not g.deleting}


def aware(value: datetime) -> datetime:
    """A time of a request, in UTC unless it says otherwise."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)
