"""How a HyperPod instance looks as a node of Kubernetes.

Labels: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html
"""

from __future__ import annotations

import re

from sandbox.aws.hyperpod.base import Base
from sandbox.aws.hyperpod.state import DEFAULT_THREADS_PER_CORE, Cluster, Group, Node
from sandbox.aws.instance_types import facts
from sandbox.dataplane import NodeFacts

HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"
CHECK_LABEL = "sagemaker.amazonaws.com/deep-health-check-status"
FAULT_TYPES, FAULT_REASONS = "sagemaker.amazonaws.com/fault-types", "sagemaker.amazonaws.com/fault-reasons"


class Joining(Base):
    """Telling the data plane of nodes."""

    def join(self, cluster: Cluster, node: Node) -> None:
        """Let the node be seen in Kubernetes, or seen as it is now."""
        if not cluster.eks_arn:
            return
        fact, group = facts(node.instance_type), cluster.groups[node.group]
        if not node.joined:
            node.labels, node.taints = group.wanted_labels, group.wanted_taints
        checking = node.status == "DeepHealthCheckInProgress"
        health = _health(node)
        labels = {
            "sagemaker.amazonaws.com/compute-type": "hyperpod",
            "sagemaker.amazonaws.com/cluster-name": cluster.name,
            "sagemaker.amazonaws.com/instance-group-name": node.group,
            HEALTH_LABEL: health,
            "node.kubernetes.io/instance-type": node.instance_type,
            "beta.kubernetes.io/instance-type": node.instance_type,
            "topology.kubernetes.io/zone": node.zone,
            "topology.kubernetes.io/region": cluster.region,
            "topology.k8s.aws/zone-id": node.zone_id,
            "kubernetes.io/arch": fact.architecture,
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": node.name,
            "sagemaker.amazonaws.com/capacity-type": "spot" if node.capacity_type == "Spot" else "on-demand",
            **node.labels,
        }
        if node.status == "Failure":
            labels |= _fault(node.message)
        if checking or node.checked:
            labels[CHECK_LABEL] = "InProgress" if checking else node.checked
        taints = [(t["Key"], t.get("Value") or "", t["Effect"]) for t in node.taints]
        if health != "Schedulable":
            taints.append((HEALTH_LABEL, health, "NoSchedule"))
        node.joined = True
        self.world.dataplane.add_node(
            cluster.eks_arn,
            NodeFacts(
                name=node.name,
                instance_id=node.instance_id,
                instance_type=node.instance_type,
                zone=node.zone,
                zone_id=node.zone_id,
                region=cluster.region,
                internal_ip=node.ip,
                vcpus=fact.vcpus_with(node.spec.get("ThreadsPerCore", DEFAULT_THREADS_PER_CORE)),
                memory_mib=fact.memory_mib,
                disk_gib=fact.disk_gib,
                architecture=fact.architecture,
                gpus=fact.gpus,
                neuron_devices=fact.neuron_devices,
                efa_interfaces=fact.efa_interfaces,
                labels=labels,
                taints=tuple(taints),
                ready=node.status in ("Running", "DeepHealthCheckInProgress"),
                boots=node.boots,
            ),
        )

    def apply_labels(self, cluster: Cluster, group: Group) -> None:
        """Give the group's nodes the labels and taints that it asks for."""
        group.labels, group.taints = group.wanted_labels, group.wanted_taints
        for node in cluster.members(group.name):
            if node.joined and (node.labels, node.taints) != (group.labels, group.taints):
                node.labels, node.taints = group.labels, group.taints
                self.join(cluster, node)


def _fault(message: str) -> dict[str, str]:
    """The labels of a fault. UNVERIFIED: their values but for GPUs."""
    if "XID" in message.upper():
        return {FAULT_TYPES: "NvidiaErrorTerminate", FAULT_REASONS: "XidHardwareFailure"}
    words = re.findall(r"[A-Za-z0-9]+", message.title())[:6]
    return {FAULT_TYPES: "NodeUnhealthy", FAULT_REASONS: "".join(words)[:63] or "Unknown"}


def _health(node: Node) -> str:
    if node.status == "DeepHealthCheckInProgress":
        return "Unschedulable"
    if node.status == "Failure" or node.pending == "Replacement":
        return "UnschedulablePendingReplacement"
    if node.pending == "Reboot":
        return "UnschedulablePendingReboot"
    return "Schedulable" if node.status == "Running" else "Unschedulable"
