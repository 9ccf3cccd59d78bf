"""StatefulSets: pods with names and volumes of their own, in order.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, dig
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, controller_of, is_active, is_deleted, is_ready, object_key
from .deployments import template_hash

STATEFUL_SETS = ("apps", "statefulsets")
REVISION_LABEL = "controller-revision-hash"


class StatefulSetController(Controller):
    name = "statefulset"
    watches = (STATEFUL_SETS, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == PODS:
            owner = controller_of(change.new, "StatefulSet")
            if owner is not None:
                yield owner
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        found = self.find(self.kind("statefulsets", "apps"), key)
        if found is None or is_deleted(found):
            return
        revision = f"{key[1]}-{template_hash(found['spec']['template'])}"
        pods = {self._ordinal(pod): pod for pod in self.owned(found, "Pod")}
        try:
            self._scale(found, pods, revision)
        except ApiError as error:
            self.registry.event(
                found, "FailedCreate", f"create Pod failed: {error.message}", True, "statefulset-controller"
            )
            self.later(10, key)
        self._report(key, revision)

    @staticmethod
    def _ordinal(pod: Json) -> int:
        return int(pod["metadata"]["name"].rpartition("-")[2])

    def _scale(self, found: Json, pods: dict[int, Json], revision: str) -> None:
        spec = found["spec"]
        start = dig(spec, "ordinals.start", 0)
        wanted = range(start, start + spec["replicas"])
        ordered = spec["podManagementPolicy"] == "OrderedReady"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and dig(pod, "status.phase") in ("Failed", "Succeeded") and not is_deleted(pod):
                self.registry.delete(self.kind("pods"), pod)
                return
            if pod is None:
                self._create(found, ordinal, revision)
            if ordered and (pod is None or not is_ready(pod)):
                return
        for ordinal in sorted((o for o in pods if o not in wanted), reverse=True):
            if not is_deleted(pods[ordinal]):
                self.registry.delete(self.kind("pods"), pods[ordinal])
            if ordered:
                return
        if dig(spec, "updateStrategy.type") == "OnDelete":
            return
        partition = dig(spec, "updateStrategy.rollingUpdate.partition", 0)
        for ordinal in sorted(wanted, reverse=True):
            pod = pods.get(ordinal)
            if pod is None or is_deleted(pod) or not is_ready(pod):
                return
            if ordinal >= partition and (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) != revision:
                self.registry.delete(self.kind("pods"), pod)
                return

    def _create(self, found: Json, ordinal: int, revision: str) -> None:
        name = f"{found['metadata']['name']}-{ordinal}"
        namespace = found["metadata"]["namespace"]
        labels = {
            REVISION_LABEL: revision,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        pod = self.make_pod(found, found["spec"]["template"], name, labels)
        pod["spec"].update(hostname=name, subdomain=found["spec"].get("serviceName", ""))
        claims = self.kind("persistentvolumeclaims")
        for template in found["spec"].get("volumeClaimTemplates") or []:
            claim_name = f"{template['metadata']['name']}-{name}"
            if self.store.get(claims, namespace, claim_name) is None:
                meta = {**clone(template["metadata"]), "name": claim_name}
                selector = dig(found, "spec.selector.matchLabels", {})
                meta["labels"] = {**(meta.get("labels") or {}), **selector}
                self.registry.create(claims, namespace, {"metadata": meta, "spec": clone(template["spec"])})
            volumes = [v for v in pod["spec"].get("volumes") or [] if v["name"] != template["metadata"]["name"]]
            volumes.append({"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}})
            pod["spec"]["volumes"] = volumes
        self.registry.create(self.kind("pods"), namespace, pod)
        self.registry.event(
            found,
            "SuccessfulCreate",
            f"create Pod {name} in StatefulSet {found['metadata']['name']} successful",
            component="statefulset-controller",
        )

    def _report(self, key: Key, revision: str) -> None:
        kind = self.kind("statefulsets", "apps")
        found = self.find(kind, key)
        if found is None:
            return
        pods = [pod for pod in self.owned(found, "Pod") if is_active(pod)]
        ready = sum(is_ready(pod) for pod in pods)
        updated = sum((pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == revision for pod in pods)
        complete = updated == len(pods) == found["spec"]["replicas"] == ready
        before = dig(found, "status.currentRevision", revision)
        self.status(
            kind,
            found,
            {
                "observedGeneration": found["metadata"]["generation"],
                "replicas": len(pods),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "currentReplicas": updated if complete else len(pods) - updated,
                "updatedReplicas": updated,
                "currentRevision": revision if complete else before,
                "updateRevision": revision,
                "collisionCount": 0,
            },
        )
