"""Claims on file systems of FSx for Lustre, by static provisioning.

https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/examples/kubernetes/static_provisioning/README.md
"""

from __future__ import annotations

from kubernetes import client
from temporalio import activity

from activities.kubernetes import KubernetesClients
from activities.storage.pairs import Pair, ensure_pair
from contracts.fsx_storage import ENSURE_FSX_CLAIM, EnsureFsxClaim, FileSystem, FsxStorageSpec
from contracts.network import Scope
from contracts.storage import Claim, StorageType


class FsxClaimActivities:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=ENSURE_FSX_CLAIM.name)
    def ensure_fsx_claim(self, request: EnsureFsxClaim) -> Claim:
        """A PersistentVolume for the file system and a claim bound to it; does not wait until it is Bound.

        Raises as the making of a claim on a bucket does.
        """
        scope, spec = request.scope, request.spec
        pair = fsx_pair(scope, spec, request.file_system)
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            phase, changed = ensure_pair(client.CoreV1Api(api), pair, "/claim")
        return Claim(
            claim=spec.claim,
            namespace=spec.namespace,
            type=StorageType.FSX_LUSTRE,
            volume=pair.volume,
            file_system=request.file_system.file_system_id,
            read_only=spec.read_only,
            phase=phase,
            changed=changed,
        )


def fsx_pair(scope: Scope, spec: FsxStorageSpec, file_system: FileSystem) -> Pair:
    """Volume and claim on the file system, as asked for."""
    return Pair(
        scope=scope,
        type=StorageType.FSX_LUSTRE,
        claim=spec.claim,
        namespace=spec.namespace,
        capacity=f"{file_system.capacity_gib}Gi",
        read_only=spec.read_only,
        handle=file_system.file_system_id,
        attributes={"dnsname": file_system.dns_name, "mountname": file_system.mount_name},
        mount_options=[*spec.mount_options, *(["ro"] if spec.read_only and "ro" not in spec.mount_options else [])],
    )
