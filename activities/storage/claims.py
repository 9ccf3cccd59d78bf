"""Making a claim on an S3 bucket, and waiting until it is Bound."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from temporalio import activity

from activities.context import operation_id
from activities.errors import fail
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients, read_or_none
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from activities.storage.volumes import DRIVER, claim_of, mount_option, phase_of
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER, LABEL_CLUSTER, ClusterNames
from contracts.problem import ProblemCode
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, Claim, EnsureClaim, WaitForClaim

CAPACITY = "1200Gi"
"""S3 has no size; Kubernetes wants one."""
APPLY: dict[str, Any] = {
    "field_manager": FIELD_MANAGER,
    "field_validation": "Strict",
    "_content_type": "application/apply-patch+yaml",
    "_request_timeout": REQUEST_TIMEOUT,
}

Manifest = dict[str, Any]


class StorageActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._poll = kubernetes, settings.poll_seconds

    @activity.defn(name=ENSURE_CLAIM.name)
    def ensure_claim(self, request: EnsureClaim) -> Claim:
        """A PersistentVolume for the bucket and a claim bound to it; does not wait until it is Bound.

        Raises NOT_FOUND for a namespace that does not exist, CONFLICT where a volume or claim of the name differs in
        what cannot be changed, BUSY (retried) while one is being deleted.
        """
        scope, spec = request.scope, request.spec
        volume, claim = volume_manifest(request), claim_manifest(request)
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            self._check_namespace(core, spec.namespace)
            name = volume["metadata"]["name"]
            there = read_or_none(core.read_persistent_volume, name)
            _compare("PersistentVolume", name, _volume_facts(there), _wanted_volume(volume), there)
            bound = read_or_none(core.read_namespaced_persistent_volume_claim, spec.claim, spec.namespace)
            _compare("PersistentVolumeClaim", spec.claim, _claim_facts(bound), {"volume": name}, bound)
            if there is None:
                core.patch_persistent_volume(name, volume, **APPLY)
            if bound is None:
                bound = core.patch_namespaced_persistent_volume_claim(spec.claim, spec.namespace, claim, **APPLY)
                changed = True
            else:
                changed = there is None
        return Claim(
            claim=spec.claim,
            namespace=spec.namespace,
            volume=name,
            bucket=request.bucket,
            prefix=spec.prefix,
            read_only=spec.read_only,
            phase=phase_of(bound),
            changed=changed,
        )

    def _check_namespace(self, core: client.CoreV1Api, name: str) -> None:
        """Kubernetes makes ``default`` by itself; others are their owners' to make."""
        found = read_or_none(core.read_namespace, name)
        if found is None:
            fail(
                ProblemCode.NOT_FOUND,
                f"There is no namespace {name} in the cluster",
                f"Make it (kubectl create namespace {name}), or choose another one.",
                field="/storage/namespace",
            )
        if found.metadata.deletion_timestamp:
            remedy = "The platform tries again."
            fail(ProblemCode.BUSY, f"Namespace {name} is being deleted", remedy, retry=True, delay=self._poll)

    @activity.defn(name=WAIT_FOR_CLAIM.name)
    async def wait_for_claim(self, request: WaitForClaim) -> Claim:
        """Until the claim is Bound. Raises NOT_READY when it is Lost, NOT_FOUND when it is not there."""

        def look(memory: Memory) -> Seen[Claim]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                core = client.CoreV1Api(api)
                read = core.read_namespaced_persistent_volume_claim
                found = read_or_none(read, request.claim, request.namespace)
                if found is None:
                    remedy = "Retry the stage that makes it."
                    fail(ProblemCode.NOT_FOUND, f"There is no claim {request.namespace}/{request.claim}", remedy)
                phase, detail = phase_of(found), f"{request.namespace}/{request.claim} {phase_of(found)}"
                if phase == "Lost":
                    fail(ProblemCode.NOT_READY, f"{detail}: its volume is gone", "Delete the claim, then retry.")
                if phase != "Bound":
                    return Seen(detail)
                volume: Any = core.read_persistent_volume(found.spec.volume_name, _request_timeout=REQUEST_TIMEOUT)
            return Seen(detail, claim_of(found, volume, request.scope.cluster))

        limit = WAIT_FOR_CLAIM.limit
        return await wait_until(look, what="a Bound claim", limit=limit, poll_seconds=self._poll)


def volume_manifest(request: EnsureClaim) -> Manifest:
    """Bound to one claim from both sides, so that no other can take it."""
    scope, spec, names = request.scope, request.spec, ClusterNames(request.scope.cluster)
    options = ["allow-delete", f"region {scope.region}"]
    if spec.read_only:
        options = ["read-only", f"region {scope.region}"]
    if spec.prefix:
        # With a space the driver would part a prefix that holds "=" there.
        options.append(f"prefix={spec.prefix}")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _metadata(request, names.persistent_volume(spec.claim)),
        "spec": {
            "capacity": {"storage": CAPACITY},
            "accessModes": [_access(spec.read_only)],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": spec.namespace,
                "name": spec.claim,
            },
            "mountOptions": options,
            "csi": {
                "driver": DRIVER,
                "volumeHandle": names.volume_handle(spec.claim),
                "volumeAttributes": {"bucketName": request.bucket},
            },
        },
    }


def claim_manifest(request: EnsureClaim) -> Manifest:
    spec, names = request.spec, ClusterNames(request.scope.cluster)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**_metadata(request, spec.claim), "namespace": spec.namespace},
        "spec": {
            "accessModes": [_access(spec.read_only)],
            "storageClassName": "",
            "volumeName": names.persistent_volume(spec.claim),
            "resources": {"requests": {"storage": CAPACITY}},
        },
    }


def _metadata(request: EnsureClaim, name: str) -> Manifest:
    return {
        "name": name,
        "labels": {
            LABEL_CLUSTER: ClusterNames(request.scope.cluster).label,
            "app.kubernetes.io/managed-by": FIELD_MANAGER,
        },
        "annotations": {ANNOTATION_OPERATION: operation_id()},
    }


def _access(read_only: bool) -> str:
    return "ReadOnlyMany" if read_only else "ReadWriteMany"


def _wanted_volume(manifest: Manifest) -> dict[str, Any]:
    spec = manifest["spec"]
    prefix = next((option for option in spec["mountOptions"] if option.startswith("prefix=")), None)
    return {
        "driver": spec["csi"]["driver"],
        "handle": spec["csi"]["volumeHandle"],
        "bucket": spec["csi"]["volumeAttributes"]["bucketName"],
        "prefix": prefix.removeprefix("prefix=") if prefix else None,
        "access": spec["accessModes"],
        "claim": f"{spec['claimRef']['namespace']}/{spec['claimRef']['name']}",
    }


def _volume_facts(volume: Any) -> dict[str, Any] | None:
    """What of a volume cannot be changed, or would change what pods see."""
    if volume is None:
        return None
    spec, csi = volume.spec, volume.spec.csi
    return {
        "driver": csi.driver if csi else None,
        "handle": csi.volume_handle if csi else None,
        "bucket": (csi.volume_attributes or {}).get("bucketName") if csi else None,
        "prefix": mount_option(volume, "prefix") or None,
        "access": spec.access_modes,
        "claim": f"{spec.claim_ref.namespace}/{spec.claim_ref.name}" if spec.claim_ref else None,
    }


def _claim_facts(claim: Any) -> dict[str, Any] | None:
    return None if claim is None else {"volume": claim.spec.volume_name}


def _compare(kind: str, name: str, exists: dict[str, Any] | None, asked: dict[str, Any], found: Any) -> None:
    if exists is None:
        return
    if found.metadata.deletion_timestamp:
        fail(ProblemCode.BUSY, f"{kind} {name} is being deleted", "The platform tries again.", retry=True, delay=5)
    if differing := [key for key in asked if asked[key] != exists[key]]:
        shown = "; ".join(f"{key} is {exists[key]}, asked was {asked[key]}" for key in differing)
        fail(
            ProblemCode.CONFLICT,
            f"{kind} {name} exists and differs: {shown}",
            "Choose another claim name, or delete what exists first (data in S3 stays).",
            field="/storage/claim",
        )
