"""Claims and volumes find each other, or a driver makes a volume.

https://kubernetes.io/docs/concepts/storage/persistent-volumes/
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.objects import clone, dig
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.selectors import from_label_selector, matches_labels
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, is_deleted, object_key
from .scheduler import CLAIMS, CLASSES, SELECTED_NODE

VOLUMES = ("", "persistentvolumes")
DRIVERS = ("storage.k8s.io", "csidrivers")
PROTECTION = "kubernetes.io/pvc-protection"
EBS = "ebs.csi.aws.com"
COMPONENT = "persistentvolume-controller"
PROVISION_SECONDS = {"fsx.csi.aws.com": 420.0, "ebs.csi.aws.com": 5.0, "efs.csi.aws.com": 3.0}
"""How long a driver takes to make a volume: a file system of FSx for Lustre takes minutes."""

# In-tree names that are served by CSI drivers.
_MIGRATED = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
_STATIC_ONLY = {"s3.csi.aws.com"}


def claim_key(volume: Json) -> Key | None:
    reference = dig(volume, "spec.claimRef")
    return (reference["namespace"], reference["name"]) if reference else None


def fits(volume: Json, claim: Json) -> bool:
    """Whether an available volume satisfies a claim."""
    spec, wanted = volume["spec"], claim["spec"]
    reference = spec.get("claimRef")
    if reference:
        if (reference.get("namespace"), reference.get("name")) != object_key(claim):
            return False
        if reference.get("uid") and reference["uid"] != claim["metadata"]["uid"]:
            return False
    if wanted.get("volumeName") and wanted["volumeName"] != volume["metadata"]["name"]:
        return False
    if (spec.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return False
    if spec.get("volumeMode") != wanted.get("volumeMode"):
        return False
    if not set(wanted.get("accessModes") or []) <= set(spec.get("accessModes") or []):
        return False
    labels = volume["metadata"].get("labels")
    if not matches_labels(from_label_selector(wanted.get("selector")), labels):
        return False
    asked = dig(wanted, "resources.requests.storage", "0")
    return parse_quantity(dig(spec, "capacity.storage", "0")) >= parse_quantity(asked)


class ClaimController(Controller):
    """Binds claims, and keeps one that a pod uses until the pod is gone."""

    name = "claim"
    watches = (CLAIMS, VOLUMES, CLASSES, DRIVERS, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == CLAIMS:
            if change.type != DELETED:
                yield object_key(change.new)
            return
        if change.storage_key == PODS:
            if change.type == DELETED or dig(change.new, "status.phase") in ("Succeeded", "Failed"):
                for volume in dig(change.new, "spec.volumes", []):
                    if name := dig(volume, "persistentVolumeClaim.claimName"):
                        yield change.new["metadata"]["namespace"], name
            return
        for key, claim in list(self.store.objects(self.kind("persistentvolumeclaims")).items()):
            if dig(claim, "status.phase") != "Bound" or change.storage_key == VOLUMES:
                yield key

    def reconcile(self, key: Key) -> None:
        kind = self.kind("persistentvolumeclaims")
        claim = self.find(kind, key)
        if claim is None:
            return
        if is_deleted(claim):
            if PROTECTION in (claim["metadata"].get("finalizers") or []) and not self._in_use(key):
                self.registry.modify(kind, key[0], key[1], lambda o: o["metadata"]["finalizers"].remove(PROTECTION))
            return
        if PROTECTION not in (claim["metadata"].get("finalizers") or []):
            claim = (
                self.registry.modify(
                    kind, key[0], key[1], lambda o: o["metadata"].setdefault("finalizers", []).append(PROTECTION)
                )
                or claim
            )
        volumes = self.kind("persistentvolumes")
        name = dig(claim, "spec.volumeName")
        if dig(claim, "status.phase") == "Bound":
            if self.store.get(volumes, None, name or "") is None:
                self.status(kind, claim, {"phase": "Lost"})
            return
        candidates = [
            volume
            for volume in self.store.objects(volumes).values()
            if fits(volume, claim)
            and dig(volume, "status.phase") in ("Pending", "Available")
            and not is_deleted(volume)
        ]
        if candidates:
            # A volume that names the claim comes first, then the smallest.
            best = min(
                candidates,
                key=lambda v: (dig(v, "spec.claimRef") is None, parse_quantity(dig(v, "spec.capacity.storage", "0"))),
            )
            self._bind(claim, best)
        elif not name:
            self._provision(claim, key)
        else:
            self._say(claim, "FailedBinding", f'volume "{name}" is not there or does not fit the claim')

    def _say(self, claim: Json, reason: str, message: str, warning: bool = False) -> None:
        self.registry.event(claim, reason, message, warning, COMPONENT)

    def _in_use(self, key: Key) -> bool:
        return any(
            pod["metadata"]["namespace"] == key[0]
            and dig(pod, "status.phase") not in ("Succeeded", "Failed")
            and any(dig(v, "persistentVolumeClaim.claimName") == key[1] for v in dig(pod, "spec.volumes", []))
            for pod in self.store.objects(self.kind("pods")).values()
        )

    def _bind(self, claim: Json, volume: Json) -> None:
        meta, name = claim["metadata"], volume["metadata"]["name"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        }

        def take(obj: Json) -> None:
            obj["spec"]["claimRef"] = reference
            obj["status"] = {"phase": "Bound", "lastPhaseTransitionTime": self.registry.timestamp()}

        def bound(obj: Json) -> None:
            obj["spec"]["volumeName"] = name
            obj["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
            obj["status"] = {
                "phase": "Bound",
                "accessModes": volume["spec"]["accessModes"],
                "capacity": dict(volume["spec"].get("capacity") or {}),
            }

        self.registry.modify(self.kind("persistentvolumes"), None, name, take)
        self.registry.modify(self.kind("persistentvolumeclaims"), meta["namespace"], meta["name"], bound)

    def _provision(self, claim: Json, key: Key) -> None:
        class_name = dig(claim, "spec.storageClassName") or ""
        if not class_name:
            self._say(
                claim, "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
            )
            return
        storage_class = self.store.get(self.kind("storageclasses", "storage.k8s.io"), None, class_name)
        if storage_class is None:
            message = f'storageclass.storage.k8s.io "{class_name}" not found'
            self._say(claim, "ProvisioningFailed", message, True)
            return
        annotations = claim["metadata"].get("annotations") or {}
        if storage_class["volumeBindingMode"] == "WaitForFirstConsumer" and SELECTED_NODE not in annotations:
            self._say(claim, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
            return
        provisioner = str(storage_class["provisioner"])
        driver = _MIGRATED.get(provisioner, provisioner)
        if self.store.get(self.kind("csidrivers", "storage.k8s.io"), None, driver) is None or driver in _STATIC_ONLY:
            self._say(
                claim,
                "ExternalProvisioning",
                f"Waiting for a volume to be created either by the external "
                f"provisioner '{driver}' or manually by the system administrator.",
            )
            return
        since = annotations.get("sandbox/provisioning-since")
        now = self.registry.now()
        if since is None:
            self.registry.modify(
                self.kind("persistentvolumeclaims"),
                key[0],
                key[1],
                lambda o: o["metadata"].setdefault("annotations", {}).update({"sandbox/provisioning-since": str(now)}),
            )
            since = str(now)
        left = float(since) + PROVISION_SECONDS.get(driver, 5.0) - now
        if left > 0:
            self.later(left, key)
            return
        if driver == EBS and self.cluster.cloud is not None and self.cluster.facts is not None:
            self.cluster.controllers.enqueue("ebs", key)
            return
        make_volume(self, claim, storage_class, driver, f"vol-{claim['metadata']['uid'].replace('-', '')[:17]}")


def make_volume(
    controller: Controller,
    claim: Json,
    storage_class: Json,
    driver: str,
    handle: str,
    finalizers: list[str] | None = None,
) -> None:
    """The PersistentVolume of what a driver has made for a claim."""
    meta, volumes = claim["metadata"], controller.kind("persistentvolumes")
    name = volume_name(claim)
    if controller.store.get(volumes, None, name) is not None:
        return
    volume: Json = {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
        "spec": {
            "capacity": {"storage": dig(claim, "spec.resources.requests.storage", "1Gi")},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": storage_class["metadata"]["name"],
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
            "csi": {"driver": driver, "volumeHandle": handle},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
        },
    }
    if finalizers:
        volume["metadata"]["finalizers"] = finalizers
    controller.registry.create(volumes, None, volume)
    text = f"Successfully provisioned volume {name}"
    controller.registry.event(claim, "ProvisioningSucceeded", text, component=COMPONENT)


def volume_name(claim: Json) -> str:
    return f"pvc-{claim['metadata']['uid']}"


class VolumeController(Controller):
    """The phases of volumes: Available, Bound, and Released or gone when the claim is."""

    name = "volume"
    watches = (VOLUMES, CLAIMS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == CLAIMS:
            if change.type == DELETED and (name := dig(change.new, "spec.volumeName")):
                yield "", name
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("persistentvolumes")
        volume = self.find(kind, key)
        if volume is None or is_deleted(volume):
            return
        phase, owner = dig(volume, "status.phase"), claim_key(volume)
        if phase in (None, "Pending"):
            status = clone(volume.get("status") or {})
            status.update(phase="Available", lastPhaseTransitionTime=self.registry.timestamp())
            self.status(kind, volume, status)
        elif phase == "Bound" and owner is not None:
            claim = self.store.get(self.kind("persistentvolumeclaims"), *owner)
            if claim is None or claim["metadata"]["uid"] != dig(volume, "spec.claimRef.uid"):
                if dig(volume, "spec.persistentVolumeReclaimPolicy") == "Delete":
                    self.registry.delete(kind, volume)
                else:
                    self.status(kind, volume, {**volume["status"], "phase": "Released"})
        elif phase == "Released" and owner is None:
            self.status(kind, volume, {**volume["status"], "phase": "Available"})
