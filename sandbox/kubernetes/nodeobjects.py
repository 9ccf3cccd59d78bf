"""What the data plane knows of a machine, as a Node."""

from __future__ import annotations

from sandbox.dataplane import NodeFacts

from .controllers.nodes import node_info
from .resources import Json

_REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_PODS_PER_NODE = 110


def node_object(node: NodeFacts, version: str) -> Json:
    """The Node that its kubelet registers; accelerators are not among its resources yet."""
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": node.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": node.architecture,
        "topology.k8s.aws/zone-id": node.zone_id,
        **dict.fromkeys(_REGION_LABELS, node.region),
        **dict.fromkeys(_ZONE_LABELS, node.zone),
        **dict.fromkeys(_TYPE_LABELS, node.instance_type),
        **node.labels,
    }
    hyperpod = f"aws:///{node.zone}/sagemaker/cluster/hyperpod-{node.instance_id}"
    spec: Json = {"providerID": node.provider_id or hyperpod}
    if node.taints:
        spec["taints"] = [{"key": key, "value": value, "effect": effect} for key, value, effect in node.taints]
    # What the kubelet keeps for itself and for the system.
    reserved_memory = min(node.memory_mib // 20, 8192) + 100
    capacity = {
        "cpu": str(node.vcpus),
        "memory": f"{node.memory_mib * 1024}Ki",
        "pods": str(_PODS_PER_NODE),
        "ephemeral-storage": f"{node.disk_gib * 1024 * 1024}Ki",
        "hugepages-2Mi": "0",
        "hugepages-1Gi": "0",
    }
    allocatable = {
        **capacity,
        "cpu": f"{node.vcpus * 1000 - 110}m",
        "memory": f"{(node.memory_mib - reserved_memory) * 1024}Ki",
    }
    return {
        "metadata": {"name": node.name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": node.internal_ip},
                {"type": "Hostname", "address": node.name},
                {"type": "InternalDNS", "address": node.name},
            ],
            "nodeInfo": node_info(version, node.name, node.architecture),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }
