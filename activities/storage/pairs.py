"""A PersistentVolume and a claim that are bound to each other: described, compared with what exists, applied.

https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes import client

from activities.context import operation_id
from activities.errors import fail
from activities.kubernetes import APPLY, read_or_none
from activities.storage.volumes import DRIVERS, LABEL_STORAGE, mount_option, phase_of
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER, LABEL_CLUSTER, ClusterNames
from contracts.network import Scope
from contracts.problem import FieldError, ProblemCode
from contracts.storage import StorageType

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """What is wanted. ``attributes`` are the CSI driver's own, ``prefix`` the one that S3 is mounted under."""

    scope: Scope
    type: StorageType
    claim: str
    namespace: str
    capacity: str
    read_only: bool
    handle: str
    attributes: dict[str, str]
    mount_options: list[str]
    prefix: str | None = None

    @property
    def volume(self) -> str:
        return ClusterNames(self.scope.cluster).persistent_volume(self.claim, self.namespace)

    @property
    def access(self) -> list[str]:
        return ["ReadOnlyMany" if self.read_only else "ReadWriteMany"]

    def facts(self) -> dict[str, Any]:
        """What of a volume cannot be changed, or would change what pods see."""
        return {
            "driver": DRIVERS[self.type],
            "handle": self.handle,
            **self.attributes,
            "prefix": self.prefix,
            "access": self.access,
            "claim": f"{self.namespace}/{self.claim}",
        }


def ensure_pair(core: client.CoreV1Api, pair: Pair, pointer: str) -> tuple[str, bool]:
    """Apply both as far as they are not there. Returns the claim's phase, and whether something was made.

    ``pointer`` is where the claim's name stands in the spec. Raises NOT_FOUND for a namespace that does not exist,
    CONFLICT where a volume or claim of the name differs in what cannot be changed, BUSY (retried) while one is being
    deleted.
    """
    namespace = read_or_none(core.read_namespace, pair.namespace)
    _refuse(missing_namespace(namespace, pair.namespace, f"{pointer.rpartition('/')[0]}/namespace"))
    _refuse_deleted("Namespace", namespace)
    volume = read_or_none(core.read_persistent_volume, pair.volume)
    claim = read_or_none(core.read_namespaced_persistent_volume_claim, pair.claim, pair.namespace)
    _refuse_deleted("PersistentVolume", volume)
    _refuse_deleted("PersistentVolumeClaim", claim)
    _refuse(difference(pair, volume, claim, pointer))
    if volume is None:
        core.patch_persistent_volume(pair.volume, volume_manifest(pair), **APPLY)
    if claim is None:
        claim = core.patch_namespaced_persistent_volume_claim(pair.claim, pair.namespace, claim_manifest(pair), **APPLY)
        return phase_of(claim), True
    return phase_of(claim), volume is None


def missing_namespace(found: Any | None, name: str, pointer: str) -> FieldError | None:
    """Kubernetes makes ``default`` by itself; others are their owners' to make."""
    if found is not None:
        return None
    return FieldError(
        field=pointer,
        detail=f"There is no namespace {name} in the cluster",
        remedy=f"Make it (kubectl create namespace {name}), or choose another one.",
        code=ProblemCode.NOT_FOUND,
    )


def difference(pair: Pair, volume: Any | None, claim: Any | None, pointer: str) -> FieldError | None:
    """What of an existing volume or claim of the name is not as asked."""
    exists = {"PersistentVolume": _volume_facts(volume), "PersistentVolumeClaim": _claim_facts(claim)}
    asked = {"PersistentVolume": pair.facts(), "PersistentVolumeClaim": {"volume": pair.volume}}
    names = {"PersistentVolume": pair.volume, "PersistentVolumeClaim": pair.claim}
    for kind, found in exists.items():
        differing = [key for key in asked[kind] if found is not None and asked[kind][key] != found.get(key)]
        if found is not None and differing:
            shown = "; ".join(f"{key} is {found.get(key)}, asked was {asked[kind][key]}" for key in differing)
            return FieldError(
                field=pointer,
                detail=f"{kind} {names[kind]} exists and differs: {shown}",
                remedy="Choose another claim name, or delete what exists first (delete-storage; the data stays).",
                code=ProblemCode.CONFLICT,
            )
    return None


def volume_manifest(pair: Pair) -> Manifest:
    """Bound to one claim from both sides, so that no other can take it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _metadata(pair, pair.volume),
        "spec": {
            "capacity": {"storage": pair.capacity},
            "accessModes": pair.access,
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": pair.namespace,
                "name": pair.claim,
            },
            "mountOptions": pair.mount_options,
            "csi": {
                "driver": DRIVERS[pair.type],
                "volumeHandle": pair.handle,
                "volumeAttributes": pair.attributes,
            },
        },
    }


def claim_manifest(pair: Pair) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**_metadata(pair, pair.claim), "namespace": pair.namespace},
        "spec": {
            "accessModes": pair.access,
            "storageClassName": "",
            "volumeName": pair.volume,
            "resources": {"requests": {"storage": pair.capacity}},
        },
    }


def _metadata(pair: Pair, name: str) -> Manifest:
    return {
        "name": name,
        "labels": {
            LABEL_CLUSTER: ClusterNames(pair.scope.cluster).label,
            LABEL_STORAGE: pair.type.value,
            "app.kubernetes.io/managed-by": FIELD_MANAGER,
        },
        "annotations": {ANNOTATION_OPERATION: operation_id()},
    }


def _volume_facts(volume: Any | None) -> dict[str, Any] | None:
    if volume is None:
        return None
    spec, csi = volume.spec, volume.spec.csi
    return {
        **((csi.volume_attributes or {}) if csi else {}),
        "driver": csi.driver if csi else None,
        "handle": csi.volume_handle if csi else None,
        "prefix": mount_option(volume, "prefix") or None,
        "access": spec.access_modes,
        "claim": f"{spec.claim_ref.namespace}/{spec.claim_ref.name}" if spec.claim_ref else None,
    }


def _claim_facts(claim: Any | None) -> dict[str, Any] | None:
    return None if claim is None else {"volume": claim.spec.volume_name}


def _refuse(found: FieldError | None) -> None:
    if found is not None:
        fail(found.code or ProblemCode.INVALID, found.detail, found.remedy or "", field=found.field)


def _refuse_deleted(kind: str, found: Any | None) -> None:
    if found is not None and found.metadata.deletion_timestamp:
        detail = f"{kind} {found.metadata.name} is being deleted"
        fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=5)
