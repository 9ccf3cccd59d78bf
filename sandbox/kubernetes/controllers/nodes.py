"""Nodes: ready when the network runs on them, accelerators when their device plugin does.

https://kubernetes.io/docs/concepts/architecture/nodes/ and
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.objects import clone, dig, set_condition
from sandbox.kubernetes.registry import Write
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import NODES, PODS, Controller, Key, is_deleted

CNI_IMAGE = "amazon-k8s-cni"
"""Part of the image of aws-node, the VPC CNI's DaemonSet."""
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

# What a device plugin advertises, by a part of its image's name. Longer names first: they contain the shorter ones.
DEVICE_PLUGINS = {
    "aws-efa-k8s-device-plugin": ("vpc.amazonaws.com/efa", "efa_interfaces"),
    "neuron-device-plugin": ("aws.amazon.com/neuron", "neuron_devices"),
    "k8s-device-plugin": ("nvidia.com/gpu", "gpus"),
}

_HEALTHY = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_DEFAULT_CAPACITY = {"cpu": "96", "memory": "1000Gi", "pods": "110", "ephemeral-storage": "500Gi"}


def device_of(image: str) -> tuple[str, str] | None:
    """The resource that an image's plugin advertises, and the node's fact that says how much of it there is."""
    return next((device for name, device in DEVICE_PLUGINS.items() if name in image), None)


def _images(pod: Json) -> list[str]:
    return [container.get("image", "") for container in dig(pod, "spec.containers", [])]


class NodeController(Controller):
    name = "node"
    watches = (NODES, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == NODES:
            if change.type != DELETED:
                yield "", change.new["metadata"]["name"]
            return
        name = dig(change.new, "spec.nodeName")
        if name and any(CNI_IMAGE in image or device_of(image) for image in _images(change.new)):
            yield "", name

    def reconcile(self, key: Key) -> None:
        kind = self.kind("nodes")
        node = self.find(kind, key)
        if node is None or is_deleted(node):
            return
        facts = self.cluster.nodes.get(key[1])
        new = clone(node)
        status = new.setdefault("status", {})
        if facts is None:
            self._complete(status, key[1])
        else:
            running = [
                image
                for pod in self.store.pods_on(key[1])
                if dig(pod, "status.phase") == "Running" and not is_deleted(pod)
                for image in _images(pod)
            ]
            if facts.get("ready", True):
                self._connect(status, any(CNI_IMAGE in image for image in running))
                self._advertise(status, facts, running)
                if boots := facts.get("boots"):
                    status["nodeInfo"] = {**status["nodeInfo"], "bootID": f"boot-{key[1]}-{boots}"}
            else:
                self._lose(status)
        self._taint(new)
        if new != node:
            # A kubelet writes spec, labels and status alike.
            self.registry.update(kind, node, new, Write(subresource="*"))

    def _complete(self, status: Json, name: str) -> None:
        """A node that somebody made by hand is ready, and of a good size."""
        for key in ("capacity", "allocatable"):
            if not status.get(key):
                status[key] = dict(status.get("capacity") or _DEFAULT_CAPACITY)
        status.setdefault("nodeInfo", node_info(self.cluster.git_version, name, "amd64"))
        status.setdefault(
            "addresses", [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]
        )
        if not status.get("conditions"):
            self._connect(status, True)

    def _connect(self, status: Json, network: bool) -> None:
        now = self.registry.timestamp()
        for kind, reason, message in _HEALTHY:
            set_condition(status, kind, "False", reason, message, now, lastHeartbeatTime=now)
        if network:
            ready = ("True", "KubeletReady", "kubelet is posting ready status")
        else:
            ready = (
                "False",
                "KubeletNotReady",
                "container runtime network not ready: NetworkReady=false "
                "reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
            )
        set_condition(status, "Ready", *ready, now, lastHeartbeatTime=now)

    def _lose(self, status: Json) -> None:
        """What the control plane says of a node whose kubelet no longer reports."""
        now = self.registry.timestamp()
        for kind in ("Ready", *(healthy[0] for healthy in _HEALTHY)):
            set_condition(status, kind, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now)

    @staticmethod
    def _advertise(status: Json, facts: Json, running: list[str]) -> None:
        """A resource appears when its plugin registers. When the plugin goes, none of it is allocatable any more."""
        advertised = {device[0]: int(facts.get(device[1], 0)) for image in running if (device := device_of(image))}
        for resource, fact in DEVICE_PLUGINS.values():
            count = advertised.get(resource, 0)
            if count:
                status["capacity"][resource] = status["allocatable"][resource] = str(count)
            elif resource in status["capacity"] and facts.get(fact):
                status["allocatable"][resource] = "0"

    @staticmethod
    def _taint(node: Json) -> None:
        """Taints by condition: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
        ready = next((c["status"] for c in dig(node, "status.conditions", []) if c["type"] == "Ready"), "Unknown")
        wanted = []
        if ready != "True":
            wanted.append(NOT_READY)
        if dig(node, "spec.unschedulable"):
            wanted.append(UNSCHEDULABLE)
        ours = {NOT_READY["key"], UNSCHEDULABLE["key"]}
        spec = node.setdefault("spec", {})
        taints = [
            t for t in spec.get("taints") or [] if t["key"] not in ours or any(t["key"] == w["key"] for w in wanted)
        ]
        taints += [dict(w) for w in wanted if all(t["key"] != w["key"] for t in taints)]
        if taints:
            spec["taints"] = taints
        else:
            spec.pop("taints", None)


def node_info(version: str, name: str, architecture: str) -> Json:
    """status.nodeInfo of a node with Amazon Linux 2023."""
    return {
        "architecture": architecture,
        "operatingSystem": "linux",
        "osImage": "Amazon Linux 2023.9.20260101",
        "kernelVersion": "6.12.63-84.121.amzn2023.x86_64",
        "containerRuntimeVersion": "containerd://2.1.5",
        "kubeletVersion": version,
        "kubeProxyVersion": version,
        "machineID": f"ec2{name}"[:32],
        "systemUUID": f"ec2{name}"[:36],
        "bootID": f"boot-{name}",
    }
