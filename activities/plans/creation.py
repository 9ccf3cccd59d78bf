"""What the making of a cluster, and each stage of it as an operation of its own, would do."""

from __future__ import annotations

from activities.eks import describe as describe_eks
from activities.errors import classify
from activities.hyperpod.cluster import describe as describe_hyperpod
from activities.plans.storage import Findings, look_at_bucket
from activities.plans.world import Planner, World
from activities.preflight.checks import cluster_errors
from activities.preflight.groups import group_errors
from contracts.availability import zone_of
from contracts.capacity import InstanceGroupSpec
from contracts.catalogue import (
    CREATE_CLUSTER,
    CREATE_CONTROL_PLANE,
    CREATE_HYPERPOD,
    INSTALL_DEPENDENCIES,
    VERIFY_ACCESS,
    VERIFY_CLUSTER,
    ControlPlaneSpec,
    DependenciesSpec,
    HyperPodClusterSpec,
)
from contracts.cluster import ClusterSpec
from contracts.dependencies import COMPONENTS, with_needs
from contracts.names import ClusterNames
from contracts.network import NetworkSpec
from contracts.options import CheckGroups
from contracts.plans import Action, CapacityChange, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.storage import StorageSpec

ALL_COMPONENTS = [part.name for part in COMPONENTS]
ASKS = "Without an instance group the operation asks which capacity to take; its cost is not in this plan."


def planners(world: World) -> dict[str, Planner]:
    creation = CreationPlans(world)
    return {
        CREATE_CLUSTER.name: creation.cluster,
        CREATE_CONTROL_PLANE.name: creation.control_plane,
        INSTALL_DEPENDENCIES.name: creation.dependencies,
        CREATE_HYPERPOD.name: creation.hyperpod,
        VERIFY_ACCESS.name: creation.nothing,
        VERIFY_CLUSTER.name: creation.nothing,
    }


class CreationPlans:
    def __init__(self, world: World) -> None:
        self._world = world

    def cluster(self, request: MakePlan) -> PlanDraft:
        spec = ClusterSpec.model_validate(request.spec)
        region, names = request.record.region, ClusterNames(spec.tag)
        exists = self._exists(region, names)
        blockers = cluster_errors(self._world.aws, self._world.lookup, region, spec)
        storage = Findings(at="/storage")
        if spec.storage.bucket is not None:
            look_at_bucket(self._world.aws, region, spec.storage, storage)
        blockers += storage.blockers
        return PlanDraft(
            changes=[
                *_network(names, spec.network, exists["eks"]),
                *_identity(names, exists["eks"]),
                _change(exists["eks"], "EKS cluster", names.eks_cluster, f"Kubernetes {spec.kubernetes_version}"),
                *_components(ALL_COMPONENTS),
                _change(exists["hyperpod"], "HyperPod cluster", names.hyperpod_cluster),
                *_groups(spec.instance_groups),
                *_storage(names, spec.storage),
            ],
            capacity=self._capacity(region, [] if exists["hyperpod"] else spec.instance_groups, blockers),
            hourly={} if exists["eks"] else {"eks-cluster": 1, "nat-gateway": 2},
            warnings=[*([] if spec.instance_groups else [ASKS]), *_resumes(exists), *storage.warnings],
            blockers=blockers,
            facts=dict(exists),
        )

    def control_plane(self, request: MakePlan) -> PlanDraft:
        spec, names = ControlPlaneSpec.model_validate(request.spec), ClusterNames(request.record.tag)
        region = request.record.region
        exists = self._exists(region, names)
        whole = ClusterSpec(
            tag=request.record.tag,
            region=region,
            network=spec.network,
            kubernetes_version=spec.kubernetes_version,
        )
        return PlanDraft(
            changes=[
                *_network(names, spec.network, exists["eks"]),
                *_identity(names, exists["eks"]),
                _change(exists["eks"], "EKS cluster", names.eks_cluster, f"Kubernetes {spec.kubernetes_version}"),
            ],
            hourly={} if exists["eks"] else {"eks-cluster": 1, "nat-gateway": 2},
            warnings=_resumes(exists),
            blockers=cluster_errors(self._world.aws, self._world.lookup, region, whole),
            facts=dict(exists),
        )

    def dependencies(self, request: MakePlan) -> PlanDraft:
        spec = DependenciesSpec.model_validate(request.spec)
        return PlanDraft(changes=_components(spec.components), blockers=_needs_control_plane(request))

    def hyperpod(self, request: MakePlan) -> PlanDraft:
        spec, record = HyperPodClusterSpec.model_validate(request.spec), request.record
        names = ClusterNames(record.tag)
        exists = self._exists(record.region, names)
        groups = spec.instance_groups
        blockers = _needs_control_plane(request)
        if groups and not blockers:
            asked = CheckGroups(
                region=record.region,
                groups=groups,
                cluster=record.tag,
                compute_subnet_prefix=NetworkSpec().compute_subnet_prefix,
            )
            blockers = group_errors(self._world.aws, self._world.lookup, asked)
        return PlanDraft(
            changes=[_change(exists["hyperpod"], "HyperPod cluster", names.hyperpod_cluster), *_groups(groups)],
            capacity=self._capacity(record.region, [] if exists["hyperpod"] else groups, blockers),
            warnings=[] if groups else [ASKS],
            blockers=blockers,
            facts=dict(exists),
        )

    def nothing(self, request: MakePlan) -> PlanDraft:
        """What only looks changes nothing."""
        return PlanDraft(blockers=_needs_control_plane(request))

    def _exists(self, region: str, names: ClusterNames) -> dict[str, bool]:
        aws = self._world.aws
        return {
            "eks": describe_eks(aws, region, names.eks_cluster) is not None,
            "hyperpod": describe_hyperpod(aws, region, names.hyperpod_cluster) is not None,
        }

    def _capacity(
        self, region: str, groups: list[InstanceGroupSpec], blockers: list[FieldError]
    ) -> list[CapacityChange]:
        """Without zones where they cannot be told: what is wrong with the groups is said by the blockers then."""
        try:
            options = self._world.lookup.options(region, sorted({group.instance_type for group in groups}))
        except Exception as error:
            if not blockers or classify(error).type is not ProblemCode.INVALID:
                raise
            return []
        return [
            CapacityChange(
                instance_type=group.instance_type,
                count=group.count,
                capacity=group.capacity.kind,
                volume_gib=group.volume_gib,
                availability_zone=zone_of(group, options),
                subnet_id=group.subnet_id,
                pointer=f"/instance_groups/{position}/count",
            )
            for position, group in enumerate(groups)
        ]


def _change(exists: bool, kind: str, name: str, detail: str | None = None) -> PlannedChange:
    return PlannedChange(action=Action.NOTHING if exists else Action.CREATE, kind=kind, name=name, detail=detail)


def _network(names: ClusterNames, spec: NetworkSpec, exists: bool) -> list[PlannedChange]:
    vpc = (
        PlannedChange(action=Action.KEEP, kind="VPC", name=spec.vpc_id, detail="reused")
        if spec.vpc_id
        else _change(exists, "VPC", names.network("vpc"), spec.vpc_cidr or "a free /16")
    )
    return [
        vpc,
        _change(exists, "subnets", names.network("public, control plane"), "two of each, in two zones"),
        _change(exists, "NAT gateways", names.network("nat"), "one in each zone, with an Elastic IP"),
        _change(exists, "security group", names.security_group),
        _change(exists, "VPC endpoint", names.network("s3")),
    ]


def _identity(names: ClusterNames, exists: bool) -> list[PlannedChange]:
    return [
        _change(exists, "IAM roles", f"{names.tag}: control plane, execution"),
        _change(exists, "S3 bucket", f"sagemaker-{names.tag}-…", "lifecycle scripts and the cluster's data"),
    ]


def _components(names: list[str]) -> list[PlannedChange]:
    return [
        PlannedChange(action=Action.CREATE, kind="component", name=part.name, detail=part.title)
        for part in with_needs(names)
    ]


def _groups(groups: list[InstanceGroupSpec]) -> list[PlannedChange]:
    return [
        PlannedChange(
            action=Action.CREATE,
            kind="instance group",
            name=group.name,
            detail=f"{group.count} × {group.instance_type}, {group.capacity.kind}",
        )
        for group in groups
    ]


def _storage(names: ClusterNames, spec: StorageSpec) -> list[PlannedChange]:
    bucket, volume = spec.bucket or "the cluster's bucket", names.persistent_volume(spec.claim, spec.namespace)
    return [
        PlannedChange(action=Action.CREATE, kind="PersistentVolume", name=volume),
        PlannedChange(
            action=Action.CREATE, kind="PersistentVolumeClaim", name=f"{spec.namespace}/{spec.claim}", detail=bucket
        ),
    ]


def _resumes(exists: dict[str, bool]) -> list[str]:
    return ["Parts of the cluster exist already: what is finished is not made again."] if exists["eks"] else []


def _needs_control_plane(request: MakePlan) -> list[FieldError]:
    record = request.record
    if record.control_plane is not None:
        return []
    return [
        FieldError(
            field="",
            detail=f"Cluster {record.tag} has no control plane yet",
            remedy=f"Start {CREATE_CONTROL_PLANE.name} for {record.tag} first.",
            code=ProblemCode.NOT_FOUND,
        )
    ]
