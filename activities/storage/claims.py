"""Making a claim on an S3 bucket, waiting until a claim is Bound, and deleting claims with their volumes."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.errors import fail
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients, read_or_none
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from activities.storage.pairs import Pair, ensure_pair
from activities.storage.volumes import claim_of, file_system_of, phase_of, pods_by_claim, type_of
from contracts.names import ClusterNames
from contracts.problem import ProblemCode
from contracts.storage import (
    DELETE_CLAIM,
    DELETE_VOLUME,
    ENSURE_CLAIM,
    WAIT_FOR_CLAIM,
    WAIT_FOR_CLAIM_GONE,
    Claim,
    ClaimGone,
    ClaimRef,
    DeletedClaim,
    DeletedVolume,
    DeleteVolume,
    EnsureClaim,
    StorageType,
    WaitForClaim,
)
from contracts.words import some

CAPACITY = "1200Gi"
"""S3 has no size; Kubernetes wants one."""
SHOWN = 5


class StorageActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._poll = kubernetes, settings.poll_seconds

    @activity.defn(name=ENSURE_CLAIM.name)
    def ensure_claim(self, request: EnsureClaim) -> Claim:
        """A PersistentVolume for the bucket and a claim bound to it; does not wait until it is Bound.

        Raises NOT_FOUND for a namespace that does not exist, CONFLICT where a volume or claim of the name differs in
        what cannot be changed, BUSY (retried) while one is being deleted.
        """
        scope, spec, pair = request.scope, request.spec, s3_pair(request)
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            phase, changed = ensure_pair(client.CoreV1Api(api), pair, f"{request.pointer}/claim")
        return Claim(
            claim=spec.claim,
            namespace=spec.namespace,
            volume=pair.volume,
            bucket=request.bucket,
            prefix=spec.prefix,
            read_only=spec.read_only,
            phase=phase,
            changed=changed,
        )

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
                phase = phase_of(found)
                detail = f"{request.namespace}/{request.claim} {phase}"
                if phase == "Lost":
                    fail(ProblemCode.NOT_READY, f"{detail}: its volume is gone", "Delete the claim, then retry.")
                if phase != "Bound":
                    return Seen(detail)
                volume: Any = core.read_persistent_volume(found.spec.volume_name, _request_timeout=REQUEST_TIMEOUT)
            return Seen(detail, claim_of(found, volume, request.scope.cluster))

        limit = WAIT_FOR_CLAIM.limit
        return await wait_until(look, what="a Bound claim", limit=limit, poll_seconds=self._poll)

    @activity.defn(name=DELETE_CLAIM.name)
    def delete_claim(self, request: ClaimRef) -> DeletedClaim:
        """Begin the claim's deletion; its volume is made to be retained first. Absent is done.

        Raises CONFLICT where pods use it: Kubernetes would keep it until they end, and take no new ones.
        """
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            found = read_or_none(core.read_namespaced_persistent_volume_claim, request.claim, request.namespace)
            wanted = ClusterNames(request.scope.cluster).persistent_volume(request.claim, request.namespace)
            name = found.spec.volume_name or wanted if found is not None else wanted
            volume = read_or_none(core.read_persistent_volume, name)
            if volume is not None and not _is_for(volume, request):
                volume = None
            if found is None:
                return _deleted(request, volume, changed=False)
            if users := pods_by_claim(core).get((request.namespace, request.claim)):
                fail(
                    ProblemCode.CONFLICT,
                    f"Pods use claim {request.namespace}/{request.claim}: {some(users, SHOWN)}",
                    "Delete who runs them, then retry.",
                    field="/claim",
                    retryable=True,
                )
            if volume is not None and volume.spec.persistent_volume_reclaim_policy != "Retain":
                keep = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
                core.patch_persistent_volume(name, keep, _request_timeout=REQUEST_TIMEOUT)
            if not found.metadata.deletion_timestamp:
                _delete(core.delete_namespaced_persistent_volume_claim, found, request.claim, request.namespace)
            return _deleted(request, volume, changed=True)

    @activity.defn(name=WAIT_FOR_CLAIM_GONE.name)
    async def wait_for_claim_gone(self, request: ClaimRef) -> ClaimGone:
        """Until there is no such claim. The live line names pods that hold it."""

        def look(memory: Memory) -> Seen[ClaimGone]:
            name = f"{request.namespace}/{request.claim}"
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                core = client.CoreV1Api(api)
                if read_or_none(core.read_namespaced_persistent_volume_claim, request.claim, request.namespace) is None:
                    return Seen(f"{name} is gone", ClaimGone(claim=request.claim, namespace=request.namespace))
                users = pods_by_claim(core).get((request.namespace, request.claim), [])
            held = f", held by {', '.join(users[:SHOWN])}" if users else ""
            return Seen(f"{name} is going{held}")

        limit = WAIT_FOR_CLAIM_GONE.limit
        return await wait_until(look, what="the end of the claim", limit=limit, poll_seconds=self._poll)

    @activity.defn(name=DELETE_VOLUME.name)
    def delete_volume(self, request: DeleteVolume) -> DeletedVolume:
        """Delete the PersistentVolume that the claim had. What it was on stays: its driver deletes what it has made
        itself, and nothing of a volume that is retained."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            found = read_or_none(core.read_persistent_volume, request.volume)
            if found is None or not _is_for(found, request):
                return DeletedVolume(volume=request.volume, changed=False)
            if not found.metadata.deletion_timestamp:
                _delete(core.delete_persistent_volume, found, request.volume)
        return DeletedVolume(volume=request.volume)


def s3_pair(request: EnsureClaim) -> Pair:
    """Volume and claim on the bucket, as asked for."""
    scope, spec, names = request.scope, request.spec, ClusterNames(request.scope.cluster)
    options = ["read-only" if spec.read_only else "allow-delete", f"region {scope.region}"]
    if spec.prefix:
        # With a space the driver would part a prefix that holds "=" there.
        options.append(f"prefix={spec.prefix}")
    return Pair(
        scope=scope,
        type=StorageType.S3,
        claim=spec.claim,
        namespace=spec.namespace,
        capacity=CAPACITY,
        read_only=spec.read_only,
        handle=names.volume_handle(spec.claim, spec.namespace),
        attributes={"bucketName": request.bucket},
        mount_options=options,
        prefix=spec.prefix,
    )


def _is_for(volume: Any, request: ClaimRef | DeleteVolume) -> bool:
    reference = volume.spec.claim_ref
    return reference is not None and (reference.namespace, reference.name) == (request.namespace, request.claim)


def _delete(call: Any, found: Any, *names: str) -> None:
    """Delete just this object, and none that has taken its name meanwhile."""
    only = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=found.metadata.uid))
    try:
        call(*names, body=only, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status not in (404, 409):
            raise


def _deleted(request: ClaimRef, volume: Any | None, *, changed: bool) -> DeletedClaim:
    if volume is None:
        return DeletedClaim(claim=request.claim, namespace=request.namespace, changed=changed)
    attributes = (volume.spec.csi.volume_attributes or {}) if volume.spec.csi is not None else {}
    return DeletedClaim(
        claim=request.claim,
        namespace=request.namespace,
        volume=volume.metadata.name,
        type=type_of(volume) or StorageType.S3,
        bucket=attributes.get("bucketName", ""),
        file_system=file_system_of(volume),
        changed=changed,
    )
