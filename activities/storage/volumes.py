"""Volumes of the Mountpoint for Amazon S3 CSI driver and the claims on them, as Kubernetes has them."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.kubernetes import listed
from contracts.names import LABEL_CLUSTER, ClusterNames
from contracts.storage import Claim

DRIVER = "s3.csi.aws.com"


def s3_claims(core: client.CoreV1Api, cluster: str) -> list[Claim]:
    """Every claim on a volume of the driver, and those of ours whose volume is gone, by namespace and name."""
    volumes = {each.metadata.name: each for each in listed(core.list_persistent_volume) if on_s3(each)}
    kept_for = {
        (each.spec.claim_ref.namespace, each.spec.claim_ref.name): each
        for each in volumes.values()
        if each.spec.claim_ref is not None
    }
    found = []
    for each in listed(core.list_persistent_volume_claim_for_all_namespaces):
        name, volume = (each.metadata.namespace, each.metadata.name), each.spec.volume_name
        mounted = volumes.get(volume) if volume else kept_for.get(name)
        if mounted is not None or _lost(each, cluster):
            found.append(claim_of(each, mounted, cluster))
    return sorted(found, key=lambda claim: (claim.namespace, claim.claim))


def claim_of(claim: Any, volume: Any | None, cluster: str) -> Claim:
    """A claim with what its volume mounts; ``volume`` is None where that is gone."""
    csi = volume.spec.csi if volume is not None else None
    return Claim(
        claim=claim.metadata.name,
        namespace=claim.metadata.namespace,
        volume=claim.spec.volume_name or (volume.metadata.name if volume is not None else ""),
        bucket=(csi.volume_attributes or {}).get("bucketName", "") if csi is not None else "",
        prefix=mount_option(volume, "prefix") or None,
        read_only=_read_only(volume),
        phase=phase_of(claim),
        managed=(claim.metadata.labels or {}).get(LABEL_CLUSTER) == ClusterNames(cluster).label,
        changed=False,
    )


def on_s3(volume: Any) -> bool:
    return volume.spec.csi is not None and volume.spec.csi.driver == DRIVER


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
    asked = mount_option(volume, "read-only") is not None or volume.spec.access_modes == ["ReadOnlyMany"]
    return asked or bool(volume.spec.csi is not None and volume.spec.csi.read_only)


def _lost(claim: Any, cluster: str) -> bool:
    """Whether a claim is one of ours for which there is no volume."""
    names, labels = ClusterNames(cluster), claim.metadata.labels or {}
    ours = labels.get(LABEL_CLUSTER) == names.label
    return ours and claim.spec.volume_name == names.persistent_volume(claim.metadata.name)
