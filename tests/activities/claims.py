"""A cluster with a node in the sandbox, claims on it, and pods that use them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubernetes import client

from activities.registry import Activities
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, WaitForHyperPod
from contracts.identity import Identity
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from contracts.storage import (
    DELETE_CLAIM,
    DELETE_VOLUME,
    ENSURE_CLAIM,
    ENSURE_PROBE,
    LIST_STORAGE,
    WAIT_FOR_CLAIM,
    WAIT_FOR_CLAIM_GONE,
    WAIT_FOR_PROBE,
    Claim,
    ClaimRef,
    DeletedClaim,
    DeleteVolume,
    EnsureClaim,
    ListStorage,
    Probe,
    ProbeState,
    ProbeStorage,
    StorageSpec,
    WaitForClaim,
)
from tests.activities.conftest import REGION
from tests.activities.world import World


class Cluster:
    """A cluster with a node, the CSI drivers and claims."""

    def __init__(self, world: World, activities: Activities) -> None:
        self.world, self.run, self.scope = world, world.run, world.scope
        self.activities = activities
        self.name = world.control_plane.name
        for addon in ("vpc-cni", "aws-mountpoint-s3-csi-driver"):
            wanted = EnsureAddon(scope=self.scope, eks_cluster=self.name, name=addon, kubernetes_version="1.34")
            self.run(ENSURE_ADDON, wanted)
        release = EnsureRelease(scope=self.scope, eks_cluster=self.name, name="hyperpod-dependencies")
        self.run(ENSURE_RELEASE, release)
        self.hyperpod = self.run(ENSURE_HYPERPOD, world.hyperpod(world.group()))
        waited = WaitForHyperPod(scope=self.scope, name=self.hyperpod.name, eks_cluster=self.name, groups=["workers"])
        self.run(WAIT_FOR_HYPERPOD, waited)

    def core(self, act: Any) -> Any:
        with self.activities.kubernetes.connect(REGION, self.name) as api:
            return act(client.CoreV1Api(api))

    def ensure(self, claim: str, **more: Any) -> Claim:
        spec = StorageSpec(claim=claim, **more)
        bucket = spec.bucket or self.world.bucket.name
        self.run(ENSURE_CLAIM, EnsureClaim(scope=self.scope, eks_cluster=self.name, bucket=bucket, spec=spec))
        waited = WaitForClaim(scope=self.scope, eks_cluster=self.name, claim=claim, namespace=spec.namespace)
        return self.run(WAIT_FOR_CLAIM, waited)

    def probe(self, claim: str, **more: Any) -> ProbeStorage:
        return ProbeStorage(scope=self.scope, eks_cluster=self.name, claim=claim, **{"namespace": "default", **more})

    def tried(self, claim: str, **more: Any) -> Probe:
        question = self.probe(claim, **more)
        probe = self.run(ENSURE_PROBE, question)
        return self.run(WAIT_FOR_PROBE, question) if probe.state is ProbeState.RUNNING else probe

    def pods(self, namespace: str = "default") -> list[str]:
        return [each.metadata.name for each in self.core(lambda core: core.list_namespaced_pod(namespace)).items]

    def use(self, name: str, claim: str) -> None:
        """A pod that mounts a claim, as somebody's work does."""
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        container = {"name": "work", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/s3"}]}
        pod = {"metadata": {"name": name}, "spec": {"containers": [container], "volumes": [volume]}}
        self.core(lambda core: core.create_namespaced_pod("default", pod))

    def ref(self, claim: str, namespace: str = "default") -> ClaimRef:
        return ClaimRef(scope=self.scope, eks_cluster=self.name, claim=claim, namespace=namespace)

    def delete(self, claim: str, namespace: str = "default") -> DeletedClaim:
        deleted = self.run(DELETE_CLAIM, self.ref(claim, namespace))
        self.run(WAIT_FOR_CLAIM_GONE, self.ref(claim, namespace))
        if deleted.volume is not None:
            wanted = {"scope": self.scope, "eks_cluster": self.name, "claim": claim, "namespace": namespace}
            self.run(DELETE_VOLUME, DeleteVolume(volume=deleted.volume, **wanted))
        return deleted

    def claims(self) -> dict[str, Claim]:
        found = self.run(LIST_STORAGE, ListStorage(scope=self.scope, eks_cluster=self.name)).claims
        return {f"{each.namespace}/{each.claim}": each for each in found}

    def volumes(self) -> list[str]:
        return [each.metadata.name for each in self.core(lambda core: core.list_persistent_volume()).items]

    def plan(self, kind: str, **spec: Any) -> PlanDraft:
        now = datetime.now(UTC)
        record = ClusterRecord(
            tag=self.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            control_plane=self.world.control_plane,
            hyperpod=self.hyperpod,
            identity=Identity(
                account=self.world.caller.account,
                platform_principal_arn=self.world.caller.principal_arn,
                cluster_role_arn=self.world.cluster_role.arn,
                bucket=self.world.bucket.name,
            ),
        )
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft


def blockers(plan: PlanDraft) -> dict[str, str]:
    return {each.field: each.code.value for each in plan.blockers}
