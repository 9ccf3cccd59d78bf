"""Fake workflows that answer what the account has: options, features, software, groups and pools."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from contracts.features import Feature, Features, FeatureState, FeatureStatus, ReadFeatures
from contracts.hyperpod import HyperPodCluster
from contracts.instance_groups import ReadGroups
from contracts.node_groups import ListNodeGroups, NodeGroups
from contracts.node_pools import ListNodePools, NodePools
from contracts.options import InstanceTypeOption, LookUpOptions, Options, TrainingPlanOption, ZoneOption
from contracts.problem import ProblemCode, problem
from contracts.software import GroupSoftware, ReadSoftware, SoftwareRead


def refuse(code: ProblemCode, detail: str) -> ApplicationError:
    return ApplicationError(detail, problem(code, detail).model_dump(mode="json"), type=code.value)


ZONES = [ZoneOption(name=f"us-west-2{letter}", zone_id=f"usw2-az{n}") for n, letter in enumerate("abc", 1)]
INSTANCE_TYPES = [
    InstanceTypeOption(
        instance_type=name,
        availability_zones=zones,
        vcpus=vcpus,
        memory_gib=4.0 * vcpus,
        accelerator="NVIDIA",
        accelerators=devices,
        addresses=30,
        quota=quota,
    )
    for name, zones, vcpus, devices, quota in (
        ("ml.g5.8xlarge", ["us-west-2a", "us-west-2b"], 32, 1, 4),
        ("ml.p5.48xlarge", ["us-west-2c"], 192, 8, 0),
    )
]
PLAN_OF_P5 = TrainingPlanOption(
    name="june",
    arn="arn:june",
    status="Active",
    instance_type="ml.p5.48xlarge",
    availability_zone="us-west-2c",
    total=8,
    available=6,
)


@workflow.defn(name="look-up-options")
class LookUp:
    @workflow.run
    async def run(self, asked: LookUpOptions) -> Options:
        if asked.instance_types == ["ml.denied.xlarge"]:
            raise refuse(ProblemCode.DENIED, "not authorised for servicequotas:ListServiceQuotas")
        return Options(
            region=asked.region,
            zones=ZONES,
            instance_types=INSTANCE_TYPES,
            training_plans=[PLAN_OF_P5],
            kubernetes_versions=["1.34"],
            looked_up_at=datetime.now(UTC),
        )


FEATURES = [
    FeatureStatus(feature=Feature.TIERED_CHECKPOINTING, state=FeatureState.ON, settings={"memory_percentage": 40}),
    FeatureStatus(feature=Feature.KEDA, state=FeatureState.FOREIGN, detail="Helm release keda of team-b"),
    FeatureStatus(feature=Feature.KUBERAY, state=FeatureState.DEGRADED, detail="Helm release kuberay is missing"),
    FeatureStatus(feature=Feature.FSX_CSI, state=FeatureState.UNKNOWN, detail="eks:DescribeAddon was denied"),
    FeatureStatus(feature=Feature.METRICS_SERVER, state=FeatureState.CHANGING, detail="the add-on is UPDATING"),
]
SOFTWARE = [
    GroupSoftware(
        group="workers",
        instance_type="ml.g5.8xlarge",
        nodes=3,
        current_version="1.0.3",
        desired_version="1.0.4",
        image_status="UpdateAvailable",
        on_desired=1,
    )
]


@workflow.defn(name="read-features")
class ReadFeaturesOf:
    """One in every state, the others off. Those of clusters called ``mute-…`` cannot be read."""

    @workflow.run
    async def run(self, asked: ReadFeatures) -> Features:
        if asked.site.scope.cluster.startswith("mute-"):
            raise refuse(ProblemCode.UNAVAILABLE, "Kubernetes does not answer")
        told = {each.feature: each for each in FEATURES}
        return Features(
            features=[told.get(each) or FeatureStatus(feature=each, state=FeatureState.OFF) for each in Feature]
        )


@workflow.defn(name="read-software")
class ReadSoftwareOf:
    @workflow.run
    async def run(self, asked: ReadSoftware) -> SoftwareRead:
        return SoftwareRead(cluster_status="InService", groups=SOFTWARE, read_at=workflow.now())


@workflow.defn(name="read-instance-groups")
class ReadInstanceGroupsOf:
    """Nobody answers: the record's are shown."""

    @workflow.run
    async def run(self, asked: ReadGroups) -> HyperPodCluster:
        raise refuse(ProblemCode.UNAVAILABLE, "SageMaker does not answer")


@workflow.defn(name="list-node-groups")
class ListNodeGroupsOf:
    @workflow.run
    async def run(self, asked: ListNodeGroups) -> NodeGroups:
        raise refuse(ProblemCode.UNAVAILABLE, "EKS does not answer")


@workflow.defn(name="list-node-pools")
class ListNodePoolsOf:
    @workflow.run
    async def run(self, asked: ListNodePools) -> NodePools:
        raise refuse(ProblemCode.UNAVAILABLE, "Kubernetes does not answer")


READINGS: list[Any] = [LookUp, ReadFeaturesOf, ReadSoftwareOf, ReadInstanceGroupsOf, ListNodeGroupsOf, ListNodePoolsOf]
