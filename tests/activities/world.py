"""A cluster in the sandbox, built stage by stage by the activities themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from activities.registry import Activities
from contracts.capacity import InstanceGroupSpec
from contracts.eks import (
    ENSURE_CONTROL_PLANE,
    WAIT_FOR_CONTROL_PLANE,
    ControlPlane,
    EnsureControlPlane,
    WaitForControlPlane,
)
from contracts.hyperpod import EnsureHyperPod, HyperPodSpec, PlacedGroup
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_BUCKET,
    ENSURE_CLUSTER_ROLE,
    ENSURE_EXECUTION_ROLE,
    ENSURE_LIFECYCLE_SCRIPTS,
    GET_CALLER,
    VERIFY_ACCESS,
    Bucket,
    Caller,
    EnsureAccessEntry,
    EnsureBucket,
    EnsureLifecycleScripts,
    EnsureRole,
    GetCaller,
    LifecycleScripts,
    Role,
    VerifyAccess,
)
from contracts.network import (
    ENSURE_COMPUTE_SUBNET,
    ENSURE_INTERNET_GATEWAY,
    ENSURE_NAT_GATEWAY,
    ENSURE_S3_ENDPOINT,
    ENSURE_SECURITY_GROUP,
    ENSURE_SUBNET,
    ENSURE_VPC,
    PLAN_NETWORK,
    EnsureComputeSubnet,
    EnsureInternetGateway,
    EnsureNatGateway,
    EnsureS3Endpoint,
    EnsureSecurityGroup,
    EnsureSubnet,
    EnsureVpc,
    NatGateway,
    NetworkPlan,
    NetworkSpec,
    PlanNetwork,
    S3Endpoint,
    Scope,
    SecurityGroup,
    Subnet,
    Vpc,
)
from tests.activities.conftest import REGION, Runner, Sandbox


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@dataclass
class World:
    """Each part is made when it is first asked for."""

    run: Runner
    scope: Scope

    @cached_property
    def caller(self) -> Caller:
        return self.run(GET_CALLER, GetCaller(region=self.scope.region))

    @cached_property
    def plan(self) -> NetworkPlan:
        spec = NetworkSpec()
        return self.run(PLAN_NETWORK, PlanNetwork(cluster=self.scope.cluster, region=self.scope.region, spec=spec))

    @cached_property
    def vpc(self) -> Vpc:
        return self.run(ENSURE_VPC, EnsureVpc(scope=self.scope, plan=self.plan))

    def _subnets(self, role: str, cidrs: list[str]) -> list[Subnet]:
        return [
            self.run(
                ENSURE_SUBNET,
                EnsureSubnet(
                    scope=self.scope,
                    vpc_id=self.vpc.vpc_id,
                    name=f"{self.scope.cluster}-{role}-{number}",
                    resource=f"{role}-{number}",
                    cidr=cidr,
                    zone=zone,
                    public=role == "public",
                ),
            )
            for number, (cidr, zone) in enumerate(zip(cidrs, self.plan.zones, strict=True), start=1)
        ]

    @cached_property
    def public(self) -> list[Subnet]:
        return self._subnets("public", self.plan.public_subnet_cidrs)

    @cached_property
    def control(self) -> list[Subnet]:
        return self._subnets("control-plane", self.plan.control_plane_subnet_cidrs)

    @cached_property
    def security_group(self) -> SecurityGroup:
        return self.run(ENSURE_SECURITY_GROUP, EnsureSecurityGroup(scope=self.scope, vpc_id=self.vpc.vpc_id))

    @cached_property
    def endpoint(self) -> S3Endpoint:
        gateway = self.run(
            ENSURE_INTERNET_GATEWAY,
            EnsureInternetGateway(
                scope=self.scope, vpc_id=self.vpc.vpc_id, public_subnet_ids=[each.subnet_id for each in self.public]
            ),
        )
        wanted = EnsureS3Endpoint(scope=self.scope, vpc_id=self.vpc.vpc_id, route_table_ids=[gateway.route_table_id])
        return self.run(ENSURE_S3_ENDPOINT, wanted)

    @cached_property
    def nat(self) -> NatGateway:
        wanted = EnsureNatGateway(scope=self.scope, resource="nat-1", subnet_id=self.public[0].subnet_id)
        return self.run(ENSURE_NAT_GATEWAY, wanted)

    def compute(self, zone: str, addresses: int = 60, group: str | None = None) -> Subnet:
        return self.run(
            ENSURE_COMPUTE_SUBNET,
            EnsureComputeSubnet(
                scope=self.scope,
                vpc_id=self.vpc.vpc_id,
                zone=zone,
                addresses=addresses,
                nat_gateways=[self.nat],
                s3_endpoint_id=self.endpoint.vpc_endpoint_id,
                group=group,
            ),
        )

    @cached_property
    def cluster_role(self) -> Role:
        return self.run(ENSURE_CLUSTER_ROLE, EnsureRole(scope=self.scope, account=self.caller.account))

    @cached_property
    def execution_role(self) -> Role:
        return self.run(ENSURE_EXECUTION_ROLE, EnsureRole(scope=self.scope, account=self.caller.account))

    @cached_property
    def bucket(self) -> Bucket:
        return self.run(ENSURE_BUCKET, EnsureBucket(scope=self.scope, account=self.caller.account))

    @cached_property
    def scripts(self) -> LifecycleScripts:
        wanted = EnsureLifecycleScripts(scope=self.scope, bucket=self.bucket.name)
        return self.run(ENSURE_LIFECYCLE_SCRIPTS, wanted)

    @property
    def control_plane_request(self) -> EnsureControlPlane:
        return EnsureControlPlane(
            scope=self.scope,
            kubernetes_version="1.34",
            role_arn=self.cluster_role.arn,
            subnet_ids=[each.subnet_id for each in self.control],
            security_group_id=self.security_group.security_group_id,
            service_cidr=self.plan.service_cidr,
        )

    @cached_property
    def control_plane(self) -> ControlPlane:
        """ACTIVE, and the platform may use its Kubernetes API."""
        made = self.run(ENSURE_CONTROL_PLANE, self.control_plane_request)
        active = self.run(WAIT_FOR_CONTROL_PLANE, WaitForControlPlane(scope=self.scope, name=made.name))
        self.run(
            ENSURE_ACCESS_ENTRY,
            EnsureAccessEntry(scope=self.scope, eks_cluster=made.name, principal_arn=self.caller.principal_arn),
        )
        self.run(VERIFY_ACCESS, VerifyAccess(scope=self.scope, eks_cluster=made.name))
        return active

    def group(self, count: int = 1, zone: str = "us-west-2a", **more: Any) -> PlacedGroup:
        given = {"name": "workers", "instance_type": "ml.g5.8xlarge", **more}
        spec = InstanceGroupSpec.model_validate({**given, "count": count, "availability_zone": zone})
        return PlacedGroup(spec=spec, subnet=self.compute(zone), threads_per_core=2)

    def hyperpod(self, *groups: PlacedGroup, **spec: object) -> EnsureHyperPod:
        return EnsureHyperPod(
            scope=self.scope,
            spec=HyperPodSpec.model_validate(spec),
            eks_cluster_arn=self.control_plane.arn,
            security_group_id=self.security_group.security_group_id,
            execution_role_arn=self.execution_role.arn,
            lifecycle_scripts_uri=self.scripts.uri,
            groups=list(groups),
        )


@dataclass
class OnCluster:
    """What tests of things in a cluster work with: ``world``'s cluster, and the activities that it was made by."""

    world: World
    activities: Activities
    sandbox: Sandbox

    @property
    def run(self) -> Runner:
        return self.world.run

    @property
    def cluster(self) -> str:
        return self.world.control_plane.name

    @property
    def place(self) -> dict[str, Any]:
        return {"scope": self.world.scope, "eks_cluster": self.cluster}

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.cluster)
