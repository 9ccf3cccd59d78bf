"""Volumes of the CSI drivers for S3 and for FSx for Lustre and the claims on them, as Kubernetes has them."""

from __future__ import annotations

import re
from typing import Any

from kubernetes import client

from activities.kubernetes import listed
from contracts.names import LABEL_CLUSTER, LABEL_DOMAIN, ClusterNames
from contracts.storage import Claim, StorageType

DRIVERS = {StorageType.S3: "s3.csi.aws.com", StorageType.FSX_LUSTRE: "fsx.csi.aws.com"}
LABEL_STORAGE = f"{LABEL_DOMAIN}/storage"
"""On claims and volumes of ours: the type of storage."""
ENDED = ("Succeeded", "Failed")
_TYPES = {driver: kind for kind, driver in DRIVERS.items()}
_FILE_SYSTEM = re.compile(r"fs-[0-9a-f]{8,17}")

Key = tuple[str, str]
"""Namespace and name of a claim."""


def storage_claims(core: client.CoreV1Api, cluster: str) -> list[Claim]:
    """Every claim on a volume of the drivers, and those of ours whose volume is gone, by namespace and name."""
    volumes = {each.metadata.name: each for each in listed(core.list_persistent_volume) if type_of(each)}
    kept_for = {
        (each.spec.claim_ref.namespace, each.spec.claim_ref.name): each
        for each in volumes.values()
        if each.spec.claim_ref is not None
    }
    found = []
    users: dict[Key, list[str]] | None = None
    for each in listed(core.list_persistent_volume_claim_for_all_namespaces):
        name, volume = (each.metadata.namespace, each.metadata.name), each.spec.volume_name
        mounted = volumes.get(volume) if volume else kept_for.get(name)
        if mounted is not None or _lost(each, cluster):
            users = pods_by_claim(core) if users is None else users
            found.append(claim_of(each, mounted, cluster, len(users.get(name, ()))))
    return sorted(found, key=lambda claim: (claim.namespace, claim.claim))


def claim_of(claim: Any, volume: Any | None, cluster: str, used_by: int = 0) -> Claim:
    """A claim with what its volume mounts; ``volume`` is None where that is gone."""
    csi = volume.spec.csi if volume is not None else None
    return Claim(
        claim=claim.metadata.name,
        namespace=claim.metadata.namespace,
        type=type_of(volume) or _type_by_label(claim),
        volume=claim.spec.volume_name or (volume.metadata.name if volume is not None else ""),
        bucket=(csi.volume_attributes or {}).get("bucketName", "") if csi is not None else "",
        file_system=file_system_of(volume),
        prefix=mount_option(volume, "prefix") or None,
        read_only=_read_only(volume),
        phase=phase_of(claim),
        managed=is_ours(claim, cluster),
        used_by=used_by,
        changed=False,
    )


def pods_by_claim(core: client.CoreV1Api) -> dict[Key, list[str]]:
    """Names of the pods that mount each claim and have not ended."""
    found: dict[Key, list[str]] = {}
    for pod in listed(core.list_pod_for_all_namespaces):
        if pod.status is not None and pod.status.phase in ENDED:
            continue
        mounted = {
            each.persistent_volume_claim.claim_name
            for each in pod.spec.volumes or ()
            if each.persistent_volume_claim is not None
        }
        for claim in mounted:
            found.setdefault((pod.metadata.namespace, claim), []).append(pod.metadata.name)
    return found


def type_of(volume: Any | None) -> StorageType | None:
    """What a volume is on; None for drivers that are not about shared storage."""
    csi = volume.spec.csi if volume is not None else None
    return _TYPES.get(csi.driver) if csi is not None else None


def file_system_of(volume: Any | None) -> str | None:
    """The FSx file system of a volume. Its handle is the ID, or begins with the DNS name where a directory is mounted.

    (kubernetes-sigs/aws-fsx-csi-driver, examples/kubernetes/static_provisioning)
    """
    if type_of(volume) is not StorageType.FSX_LUSTRE or volume is None:
        return None
    csi = volume.spec.csi
    for text in (csi.volume_handle, (csi.volume_attributes or {}).get("dnsname", "")):
        if (found := _FILE_SYSTEM.match(text or "")) is not None:
            return found.group()
    return None


def is_ours(found: Any, cluster: str) -> bool:
    return (found.metadata.labels or {}).get(LABEL_CLUSTER) == ClusterNames(cluster).label


def mount_option(volume: Any | None, name: str) -> str | None:
    """The value of an option that Mountpoint gets, empty for one without a value; None where it is not given.

    The driver takes ``name=value``, ``name value`` and ``name``, each with dashes or without.
    (awslabs/mountpoint-s3-csi-driver, pkg/mountpoint/args.go)
    """
    for option in (volume.spec.mount_options if volume is not None else None) or ():
        given, sign, value = option.strip(" ").partition("=")
        if not sign:
            given, _, value = given.partition(" ")
            value = value.strip(" ")
        if given.lstrip("-") == name:
            return str(value)
    return None


def phase_of(claim: Any) -> str:
    return str((claim.status.phase if claim.status else None) or "Pending")


def _read_only(volume: Any | None) -> bool:
    if volume is None:
        return False
    asked = any(mount_option(volume, name) is not None for name in ("read-only", "ro"))
    only = volume.spec.access_modes == ["ReadOnlyMany"]
    return asked or only or bool(volume.spec.csi is not None and volume.spec.csi.read_only)


def _type_by_label(claim: Any) -> StorageType:
    named = (claim.metadata.labels or {}).get(LABEL_STORAGE, "")
    return StorageType(named) if named in {each.value for each in StorageType} else StorageType.S3


def _lost(claim: Any, cluster: str) -> bool:
    """Whether a claim is one of ours for which there is no volume."""
    wanted = ClusterNames(cluster).persistent_volume(claim.metadata.name, claim.metadata.namespace)
    return is_ours(claim, cluster) and claim.spec.volume_name == wanted
