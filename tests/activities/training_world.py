"""A cluster of the sandbox with nodes that have GPUs, the training operator, and storage to write to."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from kubernetes import client

from activities import custom
from activities.registry import Activities
from activities.training.hyperpod import KIND
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.features import FeatureStatus
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, HyperPodCluster, WaitForHyperPod
from contracts.identity import Identity
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, EnsureClaim, StorageSpec, WaitForClaim
from contracts.training import TrainingSpec
from contracts.training_activities import (
    READ_TRAINING,
    SUBMIT_TRAINING,
    WATCH_TRAINING,
    ReadTraining,
    SubmittedTraining,
    SubmitTraining,
    TrainingEnd,
    WatchTraining,
)
from contracts.training_views import TrainingRunDetail
from tests.activities.conftest import REGION, Sandbox
from tests.activities.world import OnCluster, World, until

OPERATOR = "amazon-sagemaker-hyperpod-training-operator"
TYPE = "ml.g5.12xlarge"


def spec_of(name: str = "demo", **more: Any) -> TrainingSpec:
    """A small run; ``steps`` as the sandbox's programs are told of them."""
    steps = more.pop("steps", 20)
    given: dict[str, Any] = {
        "name": name,
        "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py", "arguments": [f"--max-steps={steps}"]},
        "instance_types": [TYPE],
        "gpus_per_node": 4,
        "nodes": 1,
        "image": "public.ecr.aws/tests/trainer:1.0",
        "storage": [],
    }
    return TrainingSpec.model_validate({**given, **more})


class TrainingSite(OnCluster):
    """What tests of training work with."""

    def __init__(self, world: World, activities: Activities, sandbox: Sandbox) -> None:
        super().__init__(world, activities, sandbox)
        self._numbers = itertools.count(1)

    @cached_property
    def hyperpod(self) -> HyperPodCluster:
        """Two nodes of four GPUs each, and the drivers that a run needs."""
        for name in ("vpc-cni", "eks-pod-identity-agent", "cert-manager", "aws-mountpoint-s3-csi-driver"):
            wanted = EnsureAddon(scope=self.world.scope, eks_cluster=self.cluster, name=name, kubernetes_version="1.34")
            self.run(ENSURE_ADDON, wanted)
        release = EnsureRelease(scope=self.world.scope, eks_cluster=self.cluster, name="hyperpod-dependencies")
        self.run(ENSURE_RELEASE, release)
        group = self.world.group(count=2, instance_type=TYPE)
        made = self.run(ENSURE_HYPERPOD, self.world.hyperpod(group))
        waited = WaitForHyperPod(scope=self.world.scope, name=made.name, eks_cluster=self.cluster, groups=["workers"])
        return self.run(WAIT_FOR_HYPERPOD, waited).cluster

    def install_operator(self) -> None:
        assert self.hyperpod
        eks = self.activities.aws.act.eks(REGION)
        eks.create_addon(clusterName=self.cluster, addonName=OPERATOR)
        until(lambda: self._status() == "ACTIVE")

    def _status(self) -> str:
        eks = self.activities.aws.read.eks(REGION)
        return str(eks.describe_addon(clusterName=self.cluster, addonName=OPERATOR)["addon"]["status"])

    def claim(self, name: str = "s3-claim", **more: Any) -> None:
        spec = StorageSpec(claim=name, **more)
        bucket = self.world.bucket.name
        self.run(ENSURE_CLAIM, EnsureClaim(**self.place, bucket=bucket, spec=spec))
        self.run(WAIT_FOR_CLAIM, WaitForClaim(**self.place, claim=name, namespace=spec.namespace))

    def submit(self, spec: TrainingSpec, run: str | None = None, attempts: int = 40) -> SubmittedTraining:
        request = SubmitTraining(**self.place, spec=spec, run=run or f"run-{next(self._numbers)}/1")
        return self.run(SUBMIT_TRAINING, request, attempts)

    def watching(self, spec: TrainingSpec, job: SubmittedTraining) -> WatchTraining:
        return WatchTraining(
            **self.place,
            name=spec.name,
            namespace=spec.namespace,
            submission=job.submission,
            uid=job.uid,
            recipe=spec.recipe.kind,
            nodes=spec.nodes,
            instance_type=spec.instance_type,
            gpus=spec.nodes * spec.gpus_per_node,
            recovery=spec.recovery,
            since=datetime.now(UTC),
        )

    def watch(self, spec: TrainingSpec, job: SubmittedTraining) -> TrainingEnd:
        return self.run(WATCH_TRAINING, self.watching(spec, job))

    def read(self, name: str, namespace: str = "default") -> TrainingRunDetail:
        asked = ReadTraining(**self.place, name=name, namespace=namespace, bucket=self.world.bucket.name)
        return self.run(READ_TRAINING, asked)

    def job(self, name: str, namespace: str = "default") -> Any:
        with self.api() as api:
            return custom.get(api, KIND, namespace, name)

    def pods(self, name: str, namespace: str = "default") -> list[Any]:
        with self.api() as api:
            selector = f"instantstart.dev/training={name}"
            return list(client.CoreV1Api(api).list_namespaced_pod(namespace, label_selector=selector).items)

    def delete(self, name: str) -> None:
        with self.api() as api:
            found = custom.get(api, KIND, "default", name)
            if found is not None:
                custom.delete(api, KIND, found)
        until(lambda: self.job(name) is None)

    def plan(self, kind: str, spec: dict[str, Any], **record: Any) -> PlanDraft:
        now = datetime.now(UTC)
        features: list[FeatureStatus] = record.pop("features", [])
        given = ClusterRecord(
            tag=self.world.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            control_plane=self.world.control_plane,
            hyperpod=record.pop("hyperpod", self.hyperpod),
            features=features,
            identity=Identity(
                account=self.world.caller.account,
                platform_principal_arn=self.world.caller.principal_arn,
                cluster_role_arn=self.world.cluster_role.arn,
                bucket=self.world.bucket.name,
            ),
        )
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=given, spec=spec)).draft


def blockers(plan: PlanDraft) -> dict[str, str]:
    return {each.field: each.detail for each in plan.blockers}
