"""Which nodes a smaller group loses: those whose loss costs least."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubernetes import client

from activities.aws import AwsClients, pages
from activities.drain import movable_pods

SYSTEM_NAMESPACES = frozenset(
    (
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "aws-hyperpod",
        "hyperpod-inference-system",
        "cert-manager",
        "kueue-system",
        "kuberay-system",
        "kubeflow",
        "keda",
        "amazon-cloudwatch",
    )
)
"""Pods in these find another node by themselves."""
GOING = ("ShuttingDown", "NotFound")
HEALTHY = ("Running",)


@dataclass(frozen=True)
class Candidate:
    """An instance of the group, or a node that has none yet."""

    identifier: str
    """Instance ID, else logical ID."""
    has_instance: bool
    healthy: bool
    launched: datetime | None
    user_pods: int = 0
    system_pods: int = 0

    @property
    def cost(self) -> tuple[int, int, bool, int, float]:
        """What is taken away first has the least: no instance yet, then idle, then unhealthy, then the newest."""
        launched = self.launched.timestamp() if self.launched else 0.0
        return int(self.has_instance), int(self.user_pods > 0), self.healthy, int(self.system_pods > 0), -launched


def candidates(aws: AwsClients, region: str, cluster: str, group: str, api: client.ApiClient) -> list[Candidate]:
    """Every node of the group that is not going already, the one to lose first in front."""
    listed = pages(
        aws.read.sagemaker(region),
        "list_cluster_nodes",
        "ClusterNodeSummaries",
        ClusterName=cluster,
        InstanceGroupNameContains=group,
        IncludeNodeLogicalIds=True,
    )
    users, systems = pods_by_node(api)
    found = [
        candidate(each, users, systems)
        for each in listed
        if each["InstanceGroupName"] == group and each["InstanceStatus"]["Status"] not in GOING
    ]
    return sorted(found, key=lambda each: (each.cost, each.identifier))


def candidate(node: Any, users: Counter[str], systems: Counter[str]) -> Candidate:
    instance = node.get("InstanceId") or ""
    name = f"hyperpod-{instance}"
    return Candidate(
        identifier=instance or node["NodeLogicalId"],
        has_instance=bool(instance),
        healthy=node["InstanceStatus"]["Status"] in HEALTHY,
        launched=node.get("LaunchTime"),
        user_pods=users[name],
        system_pods=systems[name],
    )


def pods_by_node(api: client.ApiClient) -> tuple[Counter[str], Counter[str]]:
    """How many pods of users, and of the system, would have to move from each node."""
    users: Counter[str] = Counter()
    systems: Counter[str] = Counter()
    for pod in movable_pods(api):
        counter = systems if pod.metadata.namespace in SYSTEM_NAMESPACES else users
        counter[pod.spec.node_name] += 1
    return users, systems
