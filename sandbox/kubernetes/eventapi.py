"""The two APIs of events, ``v1`` and ``events.k8s.io/v1``, over one storage in the form of ``v1``.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from __future__ import annotations

from .resources import Json, ResourceType

_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "reportingComponent": "reportingController",
}
_TO_CORE = {new: core for core, new in _TO_NEW.items()}


def _renamed(obj: Json, names: dict[str, str], api_version: str) -> Json:
    return {**{names.get(key, key): value for key, value in obj.items()}, "apiVersion": api_version}


def from_storage(kind: ResourceType, obj: Json) -> Json:
    if kind.group == "events.k8s.io":
        new = _renamed(obj, _TO_NEW, kind.group_version)
        # The newer API requires a time; events of the older one have their own fields for it.
        happened = obj.get("firstTimestamp") or obj["metadata"].get("creationTimestamp")
        new["eventTime"] = obj.get("eventTime") or happened
        return new
    return obj


def to_storage(kind: ResourceType, obj: Json) -> Json:
    if kind.group == "events.k8s.io":
        core = _renamed(obj, _TO_CORE, "v1")
        core.setdefault("involvedObject", {"namespace": core["metadata"].get("namespace", "")})
        return core
    return obj
