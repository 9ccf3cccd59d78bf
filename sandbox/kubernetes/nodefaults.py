"""What befalls a node's hardware, as HyperPod's health monitoring agent and Kubernetes show it.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-health-monitoring-agent.html : labels,
a taint, an annotation with the details, and a condition whose type is the fault's type and whose reason is its reason.
Xids: https://docs.nvidia.com/deploy/xid-errors/ . UNVERIFIED: types and reasons but ``NvidiaErrorReboot``,
``NvidiaErrorTerminate`` and ``XidHardwareFailure``; members of the details; what events say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .objects import clone, dig, set_condition
from .registry import Write
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster

HEALTH, FAULT_TYPES, FAULT_REASONS, FAULT_DETAILS = (
    "sagemaker.amazonaws.com/node-health-status",
    "sagemaker.amazonaws.com/fault-types",
    "sagemaker.amazonaws.com/fault-reasons",
    "sagemaker.amazonaws.com/fault-details",
)
REPLACE, REBOOT = "UnschedulablePendingReplacement", "UnschedulablePendingReboot"
TERMINATES, REBOOTS, XID = "NvidiaErrorTerminate", "NvidiaErrorReboot", "XidHardwareFailure"
COMPONENT = "health-monitoring-agent"
_DETAILS_KEPT = 10


@dataclass(frozen=True)
class NodeFault:
    health: str
    """The new value of the label for health; empty where the node stays in use."""
    type: str
    """Of the condition; empty for what is an event only."""
    reason: str
    message: str


def _xid(number: int, text: str, process: str = "pid=<unknown>, name=<unknown>") -> str:
    return f"NVRM: Xid (PCI:0000:53:00): {number}, {process}, {text}"


FAULTS = {
    "xid_79": NodeFault(REPLACE, TERMINATES, XID, _xid(79, "GPU has fallen off the bus.")),
    "xid_48": NodeFault(
        REPLACE, TERMINATES, XID, _xid(48, "An uncorrectable double bit error (DBE) has been detected.")
    ),
    "xid_63": NodeFault("", "", "XidRowRemapping", _xid(63, "Row Remapper: New row marked for remapping.")),
    "xid_74": NodeFault(REBOOT, REBOOTS, XID, _xid(74, "NVLink: fatal error detected on link 2(0x10000, 0x0, 0x0)")),
    "xid_13": NodeFault(
        "",
        "",
        "XidApplicationError",
        _xid(
            13,
            "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Illegal Instruction Encoding",
            "pid=71, name=python3",
        ),
    ),
    "xid_31": NodeFault(
        "",
        "",
        "XidApplicationError",
        _xid(31, "MMU Fault: ENGINE GRAPHICS faulted @ 0x7f2a_10000000", "pid=71, name=python3"),
    ),
    "ecc": NodeFault(
        REPLACE, TERMINATES, XID, _xid(94, "Contained: SM (0x1). Uncorrectable ECC error.", "pid=71, name=python3")
    ),
    "gpu_count": NodeFault(REBOOT, REBOOTS, "GpuCountMismatch", "Expected 8 GPUs, nvidia-smi returned 7."),
    "efa": NodeFault(REBOOT, "EfaErrorReboot", "EfaDeviceCountMismatch", "Expected 32 EFA devices, found 31."),
    "network": NodeFault(REBOOT, "NetworkErrorReboot", "NodeNetworkUnreachable", "ENA: link of eth0 is down."),
    "disk": NodeFault("", "DiskPressure", "KubeletHasDiskPressure", "kubelet has disk pressure"),
}


def strike(cluster: Cluster, name: str, fault: str) -> None:
    """Let a fault befall a node. Raises ValueError for one that is not known, LookupError for an unknown node."""
    if fault not in FAULTS:
        raise ValueError(f"fault must be one of {', '.join(FAULTS)}, not {fault!r}")
    found, kind = FAULTS[fault], cluster.registry.type("nodes")
    with cluster.lock:
        node = cluster.store.get(kind, None, name)
        if node is None:
            raise LookupError(f"there is no node {name!r}")
        new, now = clone(node), cluster.registry.timestamp()
        if found.type:
            status = new.setdefault("status", {})
            set_condition(status, found.type, "True", found.reason, found.message, now, lastHeartbeatTime=now)
        if found.health:
            _mark(new, found, now)
        if new != node:
            cluster.registry.update(kind, node, new, Write(subresource="*"))
        live = cluster.store.get(kind, None, name) or new
        cluster.registry.event(live, found.reason, found.message, True, COMPONENT)


def heal(cluster: Cluster, name: str) -> None:
    """Take back what :func:`strike` did to a node."""
    kind = cluster.registry.type("nodes")
    with cluster.lock:
        node = cluster.store.get(kind, None, name)
        if node is None:
            raise LookupError(f"there is no node {name!r}")
        new = clone(node)
        ours = {fault.type for fault in FAULTS.values() if fault.type}
        status = new.setdefault("status", {})
        status["conditions"] = [c for c in status.get("conditions") or [] if c["type"] not in ours]
        labels = new["metadata"].setdefault("labels", {})
        for label in (FAULT_TYPES, FAULT_REASONS):
            labels.pop(label, None)
        if HEALTH in labels:
            labels[HEALTH] = "Schedulable"
        dig(new, "metadata.annotations", {}).pop(FAULT_DETAILS, None)
        spec = new.setdefault("spec", {})
        spec["taints"] = [taint for taint in spec.get("taints") or [] if taint["key"] != HEALTH]
        cluster.registry.update(kind, node, new, Write(subresource="*"))


def _mark(node: Json, fault: NodeFault, now: str) -> None:
    meta = node["metadata"]
    labels, annotations = meta.setdefault("labels", {}), meta.setdefault("annotations", {})
    labels |= {HEALTH: fault.health, FAULT_TYPES: fault.type, FAULT_REASONS: fault.reason}
    details = json.loads(annotations.get(FAULT_DETAILS) or "[]")
    details.append({"type": fault.type, "reason": fault.reason, "message": fault.message, "timestamp": now})
    annotations[FAULT_DETAILS] = json.dumps(details[-_DETAILS_KEPT:])
    spec = node.setdefault("spec", {})
    kept = [taint for taint in spec.get("taints") or [] if taint["key"] != HEALTH]
    spec["taints"] = [*kept, {"key": HEALTH, "value": "Unschedulable", "effect": "NoSchedule"}]
