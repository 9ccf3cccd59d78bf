"""An operation as it is in the end, and what it was about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_FIELDS = {
    "create-node-group": "name",
    "scale-node-group": "node_group",
    "delete-node-group": "node_group",
    "create-deployment": "name",
    "update-deployment": "name",
    "scale-deployment": "name",
    "delete-deployment": "name",
    "create-model-pool": "name",
    "scale-model-pool": "name",
    "delete-model-pool": "name",
    "create-storage": "claim",
    "create-fsx-storage": "claim",
    "delete-storage": "claim",
    "store-credential": "name",
    "delete-credential": "name",
    "create-ray-cluster": "name",
    "delete-ray-cluster": "name",
    "create-tracking-server": "name",
    "delete-tracking-server": "name",
    "create-router": "name",
    "delete-router": "name",
    "create-endpoint": "name",
    "update-endpoint": "name",
    "delete-endpoint": "name",
    "create-autoscaler": "target",
    "delete-autoscaler": "name",
    "create-node-pool": "name",
    "delete-node-pool": "node_pool",
    "connect-experiments": "namespace",
    "disconnect-experiments": "namespace",
    "add-instance-group": "name",
    "scale-instance-group": "group",
    "update-instance-group": "group",
    "delete-instance-group": "group",
}
"""The member of each kind's spec that says what it is about."""
_KINDS = (
    ("instance-group", "groups"),
    ("node-group", "node_groups"),
    ("node-pool", "node_pools"),
    ("router", "routers"),
    ("endpoint", "endpoints"),
    ("autoscaler", "autoscalers"),
    ("experiments", "connections"),
    ("deployment", "deployments"),
    ("model-pool", "deployments"),
    ("storage", "claims"),
    ("credential", "credentials"),
    ("ray-cluster", "rays"),
    ("tracking-server", "servers"),
)


@dataclass(frozen=True)
class Done:
    """An operation as it is when nobody does anything any more. ``spec`` is what was carried out in the end."""

    id: str
    run_id: str
    kind: str
    cluster: str
    phase: str
    reason: str = ""
    """Its detail and the problems of its stages, in one line."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    finished: str = ""
    """When it ended, in ISO 8601."""
    node_of: str | None = None
    """The instance group that its nodes were of, where it was about nodes."""
    terminated: bool = False
    """By somebody in Temporal: whatever it had done, nobody has recorded it."""


def about(done: Done) -> tuple[str, str]:
    """Kind and name of the part of its cluster; the operation's own kind and nothing for the cluster itself."""
    if done.kind == "beside":
        return (str(done.spec["kind"]), str(done.spec["thing"]))
    if done.node_of is not None:
        return ("groups", done.node_of)
    name = str(done.spec.get(_FIELDS.get(done.kind, ""), ""))
    for word, kind in _KINDS:
        if word in done.kind:
            return (kind, name)
    return (done.kind, "")
