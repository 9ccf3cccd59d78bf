"""Whether the volumes of a pod can be mounted on its node."""

from __future__ import annotations

from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.resources import Json

from .base import Controller

ERROR = "sandbox/mount-error"
"""Annotation of a PersistentVolume that its driver cannot mount: what the driver says."""


def problem(kubelet: Controller, pod: Json) -> str | None:
    """Why a pod's volumes cannot be mounted, if they cannot, as the event FailedMount says it."""
    namespace, store = pod["metadata"]["namespace"], kubelet.store
    for volume in dig(pod, "spec.volumes", []):
        for source, plural, field in (("configMap", "configmaps", "name"), ("secret", "secrets", "secretName")):
            reference = volume.get(source)
            if reference and not reference.get("optional"):
                name = reference.get(field, "")
                if store.get(kubelet.kind(plural), namespace, name) is None:
                    kind = source.lower()
                    return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {kind} "{name}" not found'
        driver, name = dig(volume, "csi.driver"), volume["name"]
        claim_name = dig(volume, "persistentVolumeClaim.claimName")
        if claim_name:
            claim = store.get(kubelet.kind("persistentvolumeclaims"), namespace, claim_name)
            name = dig(claim, "spec.volumeName", "")
            bound = store.get(kubelet.kind("persistentvolumes"), None, name) if name else None
            if bound is None:
                return f'MountVolume.WaitForAttach failed for volume "{volume["name"]}" : claim is not bound'
            driver = dig(bound, "spec.csi.driver")
            if scripted := (bound["metadata"].get("annotations") or {}).get(ERROR):
                return f'MountVolume.SetUp failed for volume "{name}" : rpc error: code = Internal desc = {scripted}'
        if driver and store.get(kubelet.kind("csidrivers", "storage.k8s.io"), None, driver) is None:
            return (
                f'MountVolume.MountDevice failed for volume "{name}" : kubernetes.io/csi: '
                f"attacher.MountDevice failed to create newCsiDriverClient: "
                f"driver name {driver} not found in the list of registered CSI drivers"
            )
    return None
