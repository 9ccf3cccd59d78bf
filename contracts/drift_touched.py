"""What operations change on purpose, by their kinds: what they did is no drift."""

from __future__ import annotations

from contracts.cluster import HistoryEntry
from contracts.drift import NAMESPACED, DriftKind, Properties

_GROUPS = ("add-instance-group", "scale-instance-group", "update-instance-group", "delete-instance-group")
_SERVED = {
    DriftKind.DEPLOYMENT: ("create-deployment", "update-deployment", "scale-deployment", "delete-deployment"),
    DriftKind.MODEL_POOL: ("create-model-pool", "scale-model-pool", "assign-model-pool", "delete-model-pool"),
    DriftKind.ROUTER: ("create-router", "delete-router"),
    DriftKind.ENDPOINT: ("create-endpoint", "update-endpoint", "delete-endpoint"),
    DriftKind.TRACKING_SERVER: ("create-tracking-server", "delete-tracking-server"),
    DriftKind.INSTANCE_GROUP: _GROUPS,
}
"""Operations on one member each, which is their target."""
_SCALERS = ("create-autoscaler", "delete-autoscaler")
_WHOLE = ("create-cluster", "create-control-plane", "create-hyperpod", "import-cluster", "redetect-cluster")
_WIDE: dict[DriftKind, tuple[str, ...]] = {
    DriftKind.DEPLOYMENT: _SCALERS,
    DriftKind.ENDPOINT: _SCALERS,
    DriftKind.HYPERPOD: (*_WHOLE, "update-features"),
    DriftKind.INSTANCE_GROUP: _WHOLE,
    DriftKind.FEATURE: (*_WHOLE, "update-features", "install-dependencies"),
    DriftKind.CONTROL_PLANE: _WHOLE,
}
"""Operations that may change any member of a kind."""
_ONLY = {("update-features", DriftKind.HYPERPOD): frozenset({"autoscaling"})}
"""Where they set some properties of it, and no others."""


def touches(entry: HistoryEntry, kind: DriftKind, name: str) -> bool:
    """Whether an operation that has ended may have changed a member, or made or deleted it."""
    if entry.kind == "delete-cluster" or entry.kind in _WIDE.get(kind, ()):
        return True
    if entry.kind not in _SERVED.get(kind, ()):
        return False
    target = entry.operation.split("/", 2)[-1]
    return name == (f"default/{target}" if kind in NAMESPACED and "/" not in target else target)


def kept_after(entry: HistoryEntry, kind: DriftKind, properties: Properties) -> Properties:
    """Of what was known of a member that an operation may have changed, what the operation cannot have changed."""
    only = _ONLY.get((entry.kind, kind))
    return {} if only is None else {name: value for name, value in properties.items() if name not in only}
