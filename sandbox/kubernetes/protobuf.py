"""Protobuf bodies: kubectl and Go clients send some of the built-in kinds as ``application/vnd.kubernetes.protobuf``.

Only requests are decoded; answers are always JSON, which every client accepts.
https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from .errors import ApiError
from .resources import Json
from .schemas import DATA

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

# Fields that are pointers in Go, where zero means something else than "not set". Everything else that is zero was left
# out by the client and is left out here.
_POINTERS = frozenset(
    {
        "replicas",
        "backoffLimit",
        "backoffLimitPerIndex",
        "parallelism",
        "completions",
        "suspend",
        "minAvailable",
        "maxUnavailable",
        "runAsUser",
        "runAsGroup",
        "runAsNonRoot",
        "fsGroup",
        "privileged",
        "readOnlyRootFilesystem",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "shareProcessNamespace",
        "hostUsers",
        "storageClassName",
        "ttlSecondsAfterFinished",
        "terminationGracePeriodSeconds",
        "revisionHistoryLimit",
        "gracePeriodSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "optional",
        "immutable",
        "priority",
        "attachRequired",
        "podInfoOnMount",
        "allowVolumeExpansion",
        "partition",
        "tolerationSeconds",
        "minReplicas",
        "value",
        "publishNotReadyAddresses",
        "allocateLoadBalancerNodePorts",
        "setHostnameAsFQDN",
        "leaseTransitions",
        "ttlSecondsUntilExpired",
        "progressDeadlineSeconds",
        "activeDeadlineSeconds",
        "controller",
        "blockOwnerDeletion",
        "allowed",
        "orphanDependents",
        "stabilizationWindowSeconds",
        "averageUtilization",
        "defaultMode",
        "mode",
    }
)

_PACKAGES = {
    "": "core",
    "rbac.authorization.k8s.io": "rbac",
    "storage.k8s.io": "storage",
    "networking.k8s.io": "networking",
    "scheduling.k8s.io": "scheduling",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
    "admissionregistration.k8s.io": "admissionregistration",
    "node.k8s.io": "node",
    "authorization.k8s.io": "authorization",
    "authentication.k8s.io": "authentication",
    "meta.k8s.io": "meta",
    "certificates.k8s.io": "certificates",
}


@cache
def _messages() -> dict[str, dict[int, tuple[str, str]]]:
    loaded = json.loads(gzip.decompress((DATA / "protobuf.json.gz").read_bytes()))
    return {
        name: {int(number): (field, kind) for number, (field, kind) in fields.items()}
        for name, fields in loaded.items()
    }


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, varint or bytes) of a message on the wire."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise ValueError("unexpected end of message")
                yield tag >> 3, data[at : at + size]
                at += size
            case 5:
                yield tag >> 3, data[at : at + 4]
                at += 4
            case wire_type:
                raise ValueError(f"wire type {wire_type}")


def _scalar(kind: str, raw: Any) -> Any:
    match kind:
        case "string":
            return raw.decode()
        case "bytes":
            return base64.b64encode(raw).decode()
        case "bool":
            return bool(raw)
        case "int":
            return raw - (1 << 64) if raw >= 1 << 63 else raw
        case "double":
            return struct.unpack("<d", raw)[0]
    return _message(kind, raw)


def _numbers(data: bytes) -> dict[int, Any]:
    return dict(_fields(data))


def _time(data: bytes, micro: bool) -> str | None:
    numbers = _numbers(data)
    if not numbers.get(1) and not numbers.get(2):
        return None
    moment = datetime.fromtimestamp(_scalar("int", numbers.get(1, 0)), UTC)
    if micro:
        return moment.replace(microsecond=numbers.get(2, 0) // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _message(name: str, data: bytes) -> Any:
    """A message in the form of its JSON."""
    match name:
        case "api.resource.Quantity":
            return _numbers(data).get(1, b"0").decode()
        case "meta.v1.Time" | "meta.v1.MicroTime":
            return _time(data, name.endswith("MicroTime"))
        case "util.intstr.IntOrString":
            numbers = _numbers(data)
            return numbers.get(3, b"").decode() if numbers.get(1) else _scalar("int", numbers.get(2, 0))
        case "runtime.RawExtension" | "meta.v1.FieldsV1":
            raw = _numbers(data).get(1, b"")
            return json.loads(raw) if raw else None
        case "meta.v1.Verbs" | "authentication.v1.ExtraValue" | "authorization.v1.ExtraValue":
            return [value.decode() for _, value in _fields(data)]
    known = _messages()[name]
    out: Json = {}
    for number, raw in _fields(data):
        field, kind = known.get(number, ("", ""))
        if kind.startswith("list:"):
            out.setdefault(field, []).append(_scalar(kind[5:], raw))
        elif kind.startswith("map:"):
            entry = _numbers(raw)
            value = entry.get(2)
            key = entry.get(1, b"").decode()
            out.setdefault(field, {})[key] = _scalar(kind[4:], b"" if value is None else value)
        elif kind.startswith("inline:"):
            out.update(_message(kind[7:], raw))
        elif kind:
            value = _scalar(kind, raw)
            if value is not None and (value not in ("", 0, False) or field in _POINTERS):
                out[field] = value
    return out


def _type_message(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    package = _PACKAGES.get(group, group)
    if kind == "DeleteOptions" or package == "meta":
        return f"meta.v1.{kind}"
    return f"{package}.{version}.{kind}"


def decode(body: bytes) -> Json:
    """An enveloped object (``k8s\\0`` and a runtime.Unknown) as JSON."""
    if not body.startswith(MAGIC):
        raise ApiError(400, "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        unknown = _message("runtime.Unknown", body[4:])
        kind_of = unknown.get("typeMeta", {})
        api_version, kind = kind_of.get("apiVersion", ""), kind_of.get("kind", "")
        name = _type_message(api_version, kind)
        raw = base64.b64decode(unknown.get("raw", ""))
        if name not in _messages():
            raise ApiError(415, f"no protobuf decoder for {api_version}, Kind={kind}; send JSON")
        return {"apiVersion": api_version, "kind": kind, **_message(name, raw)}
    except (ValueError, IndexError, KeyError, struct.error) as error:
        raise ApiError(400, f"unable to decode protobuf: {error}") from error
