"""kubectl's tables: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables

Some built-in kinds have the columns of pkg/printers/internalversion, custom ones their additionalPrinterColumns, the
rest name and age. Columns of priority 1 appear with ``-o wide``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import selectors
from .objects import dig, is_true, json_path, parse_time
from .resources import Json, ResourceType

Cells = Callable[[Json], list[Any]]


def duration(seconds: float) -> str:
    """``duration.HumanDuration``: 90s, 5m, 3h, 2d."""
    total = int(seconds)
    if total < 0:
        return "0s"
    if total < 120:
        return f"{total}s"
    if total < 600:
        return f"{total // 60}m{total % 60}s" if total % 60 else f"{total // 60}m"
    if total < 7200:
        return f"{total // 60}m"
    if total < 172800:
        return f"{total // 3600}h"
    return f"{total // 86400}d"


def _age(time: str | None, now: float) -> str:
    return duration(now - parse_time(time)) if time else "<unknown>"


def _join(values: Sequence[str]) -> str:
    return ",".join(values) or "<none>"


def _pod(obj: Json) -> list[Any]:
    statuses = dig(obj, "status.containerStatuses", [])
    shown = dig(obj, "status.reason") or dig(obj, "status.phase", "Pending")
    for status in statuses:
        shown = dig(status, "state.waiting.reason") or dig(status, "state.terminated.reason") or shown
    if obj["metadata"].get("deletionTimestamp"):
        shown = "Terminating"
    ready = sum(bool(status.get("ready")) for status in statuses)
    restarts = sum(status.get("restartCount", 0) for status in statuses)
    return [f"{ready}/{len(dig(obj, 'spec.containers', []))}", shown, restarts]


def _node_roles(obj: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    return _join(
        sorted(key.removeprefix(prefix) for key in obj["metadata"].get("labels") or {} if key.startswith(prefix))
    )


def _node(obj: Json) -> list[Any]:
    status = "Ready" if is_true(obj, "Ready") else "NotReady"
    if dig(obj, "spec.unschedulable"):
        status += ",SchedulingDisabled"
    return [status, _node_roles(obj)]


def _job(obj: Json) -> list[Any]:
    finished = next((kind for kind in ("Complete", "Failed", "Suspended") if is_true(obj, kind)), "Running")
    return [finished, f"{dig(obj, 'status.succeeded', 0)}/{dig(obj, 'spec.completions', 1)}"]


def _service(obj: Json) -> list[Any]:
    ingress = dig(obj, "status.loadBalancer.ingress", [])
    external = _join([entry.get("hostname") or entry.get("ip", "") for entry in ingress])
    if external == "<none>" and dig(obj, "spec.type") == "LoadBalancer":
        external = "<pending>"
    ports = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in dig(obj, "spec.ports", [])
    ]
    return [dig(obj, "spec.type"), dig(obj, "spec.clusterIP", "<none>"), external, _join(ports)]


def _claim(obj: Json) -> list[Any]:
    return [
        dig(obj, "status.phase"),
        dig(obj, "spec.volumeName", ""),
        dig(obj, "status.capacity.storage", ""),
        _join(dig(obj, "status.accessModes", [])),
        dig(obj, "spec.storageClassName", ""),
    ]


def _volume(obj: Json) -> list[Any]:
    claim = dig(obj, "spec.claimRef")
    return [
        dig(obj, "spec.capacity.storage"),
        _join(dig(obj, "spec.accessModes", [])),
        dig(obj, "spec.persistentVolumeReclaimPolicy"),
        dig(obj, "status.phase"),
        f"{claim['namespace']}/{claim['name']}" if claim else "",
        dig(obj, "spec.storageClassName", ""),
    ]


def _event(obj: Json) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return [
        obj.get("type"),
        obj.get("reason"),
        f"{str(about.get('kind', '')).lower()}/{about.get('name')}",
        obj.get("message") or obj.get("note"),
    ]


def _daemon_set(obj: Json) -> list[Any]:
    status = obj.get("status") or {}
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    node_selector = dig(obj, "spec.template.spec.nodeSelector", {})
    return [*(status.get(count, 0) for count in counts), _join([f"{k}={v}" for k, v in node_selector.items()])]


_COLUMNS: dict[tuple[str, str], tuple[tuple[str, ...], Cells]] = {
    ("", "pods"): (("Ready", "Status", "Restarts"), _pod),
    ("", "nodes"): (("Status", "Roles"), _node),
    ("apps", "deployments"): (
        ("Ready", "Up-to-date", "Available"),
        lambda o: [
            f"{dig(o, 'status.readyReplicas', 0)}/{dig(o, 'spec.replicas', 0)}",
            dig(o, "status.updatedReplicas", 0),
            dig(o, "status.availableReplicas", 0),
        ],
    ),
    ("apps", "replicasets"): (
        ("Desired", "Current", "Ready"),
        lambda o: [dig(o, "spec.replicas", 0), dig(o, "status.replicas", 0), dig(o, "status.readyReplicas", 0)],
    ),
    ("apps", "statefulsets"): (
        ("Ready",),
        lambda o: [f"{dig(o, 'status.readyReplicas', 0)}/{dig(o, 'spec.replicas', 0)}"],
    ),
    ("apps", "daemonsets"): (("Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector"), _daemon_set),
    ("batch", "jobs"): (("Status", "Completions"), _job),
    ("batch", "cronjobs"): (
        ("Schedule", "Suspend", "Active"),
        lambda o: [dig(o, "spec.schedule"), str(dig(o, "spec.suspend", False)), len(dig(o, "status.active", []))],
    ),
    ("", "services"): (("Type", "Cluster-IP", "External-IP", "Port(s)"), _service),
    ("", "namespaces"): (("Status",), lambda o: [dig(o, "status.phase")]),
    ("", "configmaps"): (("Data",), lambda o: [len(o.get("data") or {}) + len(o.get("binaryData") or {})]),
    ("", "secrets"): (("Type", "Data"), lambda o: [o.get("type"), len(o.get("data") or {})]),
    ("", "persistentvolumeclaims"): (("Status", "Volume", "Capacity", "Access Modes", "StorageClass"), _claim),
    ("", "persistentvolumes"): (
        ("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
        _volume,
    ),
    ("", "events"): (("Type", "Reason", "Object", "Message"), _event),
    ("events.k8s.io", "events"): (("Type", "Reason", "Object", "Message"), _event),
    ("storage.k8s.io", "storageclasses"): (
        ("Provisioner", "ReclaimPolicy", "VolumeBindingMode"),
        lambda o: [o.get("provisioner"), o.get("reclaimPolicy"), o.get("volumeBindingMode")],
    ),
    ("networking.k8s.io", "ingresses"): (
        ("Class", "Hosts"),
        lambda o: [
            dig(o, "spec.ingressClassName", "<none>"),
            ",".join(rule.get("host", "*") for rule in dig(o, "spec.rules", [])) or "*",
        ],
    ),
    ("policy", "poddisruptionbudgets"): (
        ("Min Available", "Max Unavailable", "Allowed Disruptions"),
        lambda o: [
            str(dig(o, "spec.minAvailable", "N/A")),
            str(dig(o, "spec.maxUnavailable", "N/A")),
            dig(o, "status.disruptionsAllowed", 0),
        ],
    ),
    ("coordination.k8s.io", "leases"): (("Holder",), lambda o: [dig(o, "spec.holderIdentity", "")]),
    ("rbac.authorization.k8s.io", "rolebindings"): (
        ("Role",),
        lambda o: [f"{dig(o, 'roleRef.kind')}/{dig(o, 'roleRef.name')}"],
    ),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (
        ("Role",),
        lambda o: [f"{dig(o, 'roleRef.kind')}/{dig(o, 'roleRef.name')}"],
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        ("Created At",),
        lambda o: [o["metadata"].get("creationTimestamp")],
    ),
}


def _containers(path: str) -> Cells:
    def cells(obj: Json) -> list[Any]:
        containers = dig(obj, path, [])
        selector = dig(obj, "spec.selector", {})
        return [
            _join([c["name"] for c in containers]),
            _join([c.get("image", "") for c in containers]),
            selectors.to_text(selector),
        ]

    return cells


_TEMPLATE_WIDE = (("Containers", "Images", "Selector"), _containers("spec.template.spec.containers"))
_WIDE: dict[tuple[str, str], tuple[tuple[str, ...], Cells]] = {
    ("", "pods"): (("IP", "Node"), lambda o: [dig(o, "status.podIP", "<none>"), dig(o, "spec.nodeName", "<none>")]),
    ("", "nodes"): (
        ("Internal-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        lambda o: [
            next((a["address"] for a in dig(o, "status.addresses", []) if a["type"] == "InternalIP"), "<none>"),
            dig(o, "status.nodeInfo.osImage", "<unknown>"),
            dig(o, "status.nodeInfo.kernelVersion", "<unknown>"),
            dig(o, "status.nodeInfo.containerRuntimeVersion", "<unknown>"),
        ],
    ),
    ("", "services"): (("Selector",), lambda o: [_join([f"{k}={v}" for k, v in dig(o, "spec.selector", {}).items()])]),
    ("apps", "deployments"): _TEMPLATE_WIDE,
    ("apps", "replicasets"): _TEMPLATE_WIDE,
    ("apps", "daemonsets"): _TEMPLATE_WIDE,
    ("batch", "jobs"): _TEMPLATE_WIDE,
}


def _column(name: str, kind: str = "string", priority: int = 0) -> Json:
    return {
        "name": name,
        "type": kind,
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": priority,
    }


def _built_in_rows(kind: ResourceType, objects: list[Json], now: float) -> tuple[list[Json], list[list[Any]]]:
    key = (kind.group, kind.plural)
    names, cells = _COLUMNS.get(key, ((), lambda o: []))
    wide_names, wide_cells = _WIDE.get(key, ((), lambda o: []))
    columns = [_column("Name"), *(_column(name) for name in names), _column("Age")]
    # kubectl shows a node's version after its age.
    version = [_column("Version")] if kind.plural == "nodes" else []
    columns += version + [_column(name, priority=1) for name in wide_names]
    rows = []
    for obj in objects:
        row = [obj["metadata"]["name"], *cells(obj), _age(obj["metadata"].get("creationTimestamp"), now)]
        if version:
            row.append(dig(obj, "status.nodeInfo.kubeletVersion", ""))
        rows.append(row + wide_cells(obj))
    return columns, rows


def _custom_rows(kind: ResourceType, objects: list[Json], now: float) -> tuple[list[Json], list[list[Any]]]:
    shown = kind.columns or ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},)
    columns = [_column("Name")]
    columns += [_column(c["name"], c.get("type", "string"), c.get("priority", 0)) for c in shown]

    def cell(obj: Json, column: Json) -> Any:
        value = json_path(obj, column["jsonPath"])
        return _age(value, now) if column.get("type") == "date" and value else value

    return columns, [[obj["metadata"]["name"], *(cell(obj, column) for column in shown)] for obj in objects]


def partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def table(kind: ResourceType, objects: list[Json], now: float, meta: Json, include: str = "Metadata") -> Json:
    columns, rows = (_custom_rows if kind.custom else _built_in_rows)(kind, objects, now)
    shown: Callable[[Json], Json | None] = partial
    if include == "Object":
        shown = lambda obj: obj  # noqa: E731
    elif include == "None":
        shown = lambda obj: None  # noqa: E731
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns,
        "rows": [{"cells": row, "object": shown(obj)} for row, obj in zip(rows, objects, strict=True)],
    }
