"""The EBS CSI driver's controller: EC2 volumes for claims, and their end with their PersistentVolumes.

Tags: https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from sandbox.cloud import Cloud, CloudError
from sandbox.dataplane import ClusterFacts
from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, is_deleted
from .scheduler import SELECTED_NODE
from .volumes import COMPONENT, EBS, VOLUMES, make_volume, volume_name

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
ZONE = "topology.kubernetes.io/zone"
GIB = 1 << 30


class EbsController(Controller):
    """Claims come from the controller of claims, ``("namespace", "name")``; volumes as ``("", "name")``."""

    name = "ebs"
    watches = (VOLUMES,)
    calls_cloud = True

    def keys(self, change: Change) -> Iterable[Key]:
        if change.type != DELETED and is_deleted(change.new) and _held(change.new):
            yield "", change.new["metadata"]["name"]

    def reconcile(self, key: Key) -> None:
        cloud, facts = self.cluster.cloud, self.cluster.facts
        driver = self.store.get(self.kind("csidrivers", "storage.k8s.io"), None, EBS)
        if cloud is None or facts is None or driver is None:
            return
        if key[0]:
            claim = self.find(self.kind("persistentvolumeclaims"), key)
            if claim is not None and not is_deleted(claim):
                self._provision(cloud, facts, claim)
            return
        volume = self.find(self.kind("persistentvolumes"), key)
        if volume is not None and is_deleted(volume) and _held(volume):
            if dig(volume, "spec.persistentVolumeReclaimPolicy") == "Delete":
                cloud.delete_volume(facts.arn, dig(volume, "spec.csi.volumeHandle", ""))
            self.registry.modify(
                self.kind("persistentvolumes"), None, key[1], lambda o: o["metadata"]["finalizers"].remove(FINALIZER)
            )

    def _provision(self, cloud: Cloud, facts: ClusterFacts, claim: Json) -> None:
        storage_class = self.store.get(
            self.kind("storageclasses", "storage.k8s.io"), None, dig(claim, "spec.storageClassName", "")
        )
        if storage_class is None:
            return
        meta, name = claim["metadata"], volume_name(claim)
        size = parse_quantity(dig(claim, "spec.resources.requests.storage", "1Gi"))
        tags = {
            "Name": f"{facts.name}-dynamic-{name}",
            "ebs.csi.aws.com/cluster": "true",
            f"kubernetes.io/cluster/{facts.name}": "owned",
            "kubernetes.io/created-for/pv/name": name,
            "kubernetes.io/created-for/pvc/name": meta["name"],
            "kubernetes.io/created-for/pvc/namespace": meta["namespace"],
        }
        kind = dig(storage_class, "parameters.type", "gp3")
        try:
            handle = cloud.ensure_volume(
                facts.arn, name, self._zone(claim, facts), max(1, math.ceil(size / GIB)), kind, tags
            )
        except CloudError as error:
            self.registry.event(claim, "ProvisioningFailed", f"failed to provision volume: {error}", True, COMPONENT)
            raise
        with self.store.lock:
            make_volume(self, claim, storage_class, EBS, handle, [FINALIZER])

    def _zone(self, claim: Json, facts: ClusterFacts) -> str:
        """The zone of the node that the scheduler chose; any node's if the class binds at once."""
        nodes = self.store.objects(self.kind("nodes"))
        chosen = nodes.get(("", (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")))
        candidates = [chosen] if chosen is not None else list(nodes.values())
        zones = [zone for node in candidates if (zone := (node["metadata"].get("labels") or {}).get(ZONE))]
        return zones[0] if zones else f"{facts.region}a"


def _held(volume: Json) -> bool:
    return FINALIZER in (volume["metadata"].get("finalizers") or [])
