"""Activities without an outside: they answer at once, count their calls, and fail when told to."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from contracts import dependencies, eks, hyperpod, identity, network, options, storage
from contracts.activity import Act, Wait
from contracts.cluster import ACQUIRE_LEASES, HOLDER_STATE, Acquire, Acquired, Holder, HolderState
from contracts.drift import ENSURE_DRIFT_SCHEDULE, REMOVE_DRIFT_SCHEDULE, DriftSchedule, DriftScheduleGone
from contracts.lease import WAIT_FOR_HOLDER, LeaseGrant
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import ProblemCode, problem
from contracts.teardown import END_WAITING, EndedWaiting

Answer = Callable[[Any], BaseModel]

REGION = "us-west-2"


class FakeAccount:
    """What the activities would find and make. Every call is counted by the activity's name."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.arguments: list[tuple[str, Any]] = []
        self.failures: dict[str, list[ApplicationError]] = {}
        self.hold: dict[str, asyncio.Event] = {}
        """Activities that do not return before their event."""
        self.pace = 0.05
        """Seconds between the heartbeats of one that is held."""
        self.changed = True
        self.refusals: list[ProblemCode] = []
        """Why the next requests for leases are refused."""
        self.grants: list[LeaseGrant] = []
        """What the next ones are answered with; afterwards all are granted."""
        self.holder: str | None = None
        """The operation that a refusal names."""
        self.record: dict[str, Any] = {}
        """What the cluster's record has, where an operation asks for its leases."""
        self.answers: dict[str, Answer] = dict(self._answers())

    def fail(self, signature: Act[Any, Any] | Wait[Any, Any], code: ProblemCode, times: int = 1) -> None:
        """Let the next calls of an activity fail for good."""
        found = problem(code, f"{signature.name}: {code.value}", remedy="mend it")
        error = ApplicationError(found.detail, found.model_dump(mode="json"), type=code.value, non_retryable=True)
        self.failures.setdefault(signature.name, []).extend([error] * times)

    def activities(self) -> list[Callable[..., Any]]:
        signatures = [
            value
            for name, module in list(sys.modules.items())
            if name.startswith("contracts.") and name != "contracts.cluster"
            for value in list(vars(module).values())
            if isinstance(value, Act | Wait)
        ]
        leases = (ACQUIRE_LEASES.name, HOLDER_STATE.name)
        unique = {signature.name: signature for signature in signatures if signature.name not in leases}
        return [self._activity(signature) for signature in unique.values()] + [self._leases(), self._holder()]

    def _activity(self, signature: Act[Any, Any] | Wait[Any, Any]) -> Callable[..., Any]:
        async def call(argument: Any) -> Any:
            self.calls[signature.name] += 1
            self.arguments.append((signature.name, argument))
            if hold := self.hold.get(signature.name):
                while not hold.is_set():
                    activity.heartbeat()
                    await asyncio.sleep(self.pace)
            if pending := self.failures.get(signature.name):
                raise pending.pop(0)
            return self.answers[signature.name](argument)

        call.__annotations__ = {"argument": signature.input, "return": signature.output}
        return activity.defn(name=signature.name)(call)

    def _leases(self) -> Callable[..., Any]:
        @activity.defn(name=ACQUIRE_LEASES.name)
        async def acquire(call: Acquire) -> Acquired:
            if self.refusals:
                found = problem(self.refusals.pop(0), "another holds what is needed", operation=self.holder)
                raise ApplicationError(
                    found.detail, found.model_dump(mode="json"), type=found.code.value, non_retryable=True
                )
            record = call.record.model_copy(update=self.record)
            return Acquired(grant=self.grants.pop(0) if self.grants else LeaseGrant(granted=True), record=record)

        return acquire

    def _holder(self) -> Callable[..., Any]:
        @activity.defn(name=HOLDER_STATE.name)
        async def holder_state(holder: Holder) -> HolderState:
            return HolderState(running=True)

        return holder_state

    def _answers(self) -> dict[str, Answer]:
        def node(group: str) -> hyperpod.Node:
            return hyperpod.Node(
                name="hyperpod-i-1",
                instance_id="i-1",
                instance_group=group,
                instance_type="ml.g5.8xlarge",
                zone="us-west-2b",
                capacity_type="on-demand",
                ready=True,
                accelerators=1,
            )

        def cluster(groups: list[str], status: str = "InService") -> hyperpod.HyperPodCluster:
            return hyperpod.HyperPodCluster(
                changed=self.changed,
                name="hp-cluster-demo",
                arn="arn:hp",
                status=status,
                groups=[
                    hyperpod.InstanceGroup(
                        name=name, instance_type="ml.g5.8xlarge", current=1, target=1, status="InService"
                    )
                    for name in groups
                ],
            )

        def control_plane(status: str) -> eks.ControlPlane:
            return eks.ControlPlane(
                changed=self.changed,
                name="eks-cluster-demo",
                arn="arn:aws:eks:us-west-2:1:cluster/eks-cluster-demo",
                status=status,
                kubernetes_version="1.34",
            )

        def claim(phase: str) -> storage.Claim:
            return storage.Claim(
                changed=self.changed, claim="s3-claim", namespace="default", volume="v", bucket="b", phase=phase
            )

        return {
            MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
            WAIT_FOR_HOLDER.name: lambda holder: holder,
            END_WAITING.name: lambda _: EndedWaiting(operations=[]),
            ENSURE_DRIFT_SCHEDULE.name: lambda request: DriftSchedule(
                schedule=f"drift/{request.cluster}", every_minutes=30, changed=self.changed
            ),
            REMOVE_DRIFT_SCHEDULE.name: lambda request: DriftScheduleGone(schedule=f"drift/{request.cluster}"),
            network.PLAN_NETWORK.name: lambda _: network.NetworkPlan(
                vpc_cidr="10.90.0.0/16",
                service_cidr="10.100.0.0/16",
                zones=["us-west-2a", "us-west-2b"],
                public_subnet_cidrs=["10.90.0.0/24", "10.90.1.0/24"],
                control_plane_subnet_cidrs=["10.90.2.0/24", "10.90.3.0/24"],
            ),
            network.ENSURE_VPC.name: lambda a: network.Vpc(
                changed=self.changed, vpc_id="vpc-1", cidrs=[a.plan.vpc_cidr], owned=True
            ),
            network.ENSURE_SUBNET.name: lambda a: network.Subnet(
                changed=self.changed, subnet_id=f"subnet-{a.resource}", cidr=a.cidr, zone=a.zone, zone_id="usw2-az1"
            ),
            network.ENSURE_INTERNET_GATEWAY.name: lambda _: network.InternetGateway(
                changed=self.changed, internet_gateway_id="igw-1", route_table_id="rtb-1"
            ),
            network.ENSURE_SECURITY_GROUP.name: lambda _: network.SecurityGroup(
                changed=self.changed, security_group_id="sg-1"
            ),
            network.ENSURE_NAT_GATEWAY.name: lambda a: network.NatGateway(
                changed=self.changed,
                nat_gateway_id=a.resource,
                allocation_id="eip",
                subnet_id=a.subnet_id,
                zone="us-west-2a",
            ),
            network.WAIT_FOR_NAT_GATEWAYS.name: lambda a: network.NatGateways(
                states=dict.fromkeys(a.nat_gateway_ids, "available")
            ),
            network.ENSURE_S3_ENDPOINT.name: lambda _: network.S3Endpoint(
                changed=self.changed, vpc_endpoint_id="vpce-1"
            ),
            network.ENSURE_COMPUTE_SUBNET.name: lambda a: network.Subnet(
                changed=self.changed,
                subnet_id=f"subnet-compute-{a.zone}",
                cidr="10.90.16.0/20",
                zone=a.zone,
                zone_id="usw2-az2",
            ),
            identity.GET_CALLER.name: lambda _: identity.Caller(account="123456789012", principal_arn="arn:role"),
            identity.ENSURE_CLUSTER_ROLE.name: lambda _: identity.Role(changed=self.changed, name="c", arn="arn:c"),
            identity.ENSURE_EXECUTION_ROLE.name: lambda _: identity.Role(changed=self.changed, name="e", arn="arn:e"),
            identity.ENSURE_BUCKET.name: lambda _: identity.Bucket(changed=self.changed, name="sagemaker-demo"),
            identity.ENSURE_LIFECYCLE_SCRIPTS.name: lambda _: identity.LifecycleScripts(
                changed=self.changed, uri="s3://sagemaker-demo/x", on_create="on_create.sh"
            ),
            identity.ENSURE_OIDC_PROVIDER.name: lambda _: identity.OidcProvider(changed=self.changed, arn="arn:oidc"),
            identity.ENSURE_ACCESS_ENTRY.name: lambda _: identity.AccessEntry(
                changed=self.changed, principal_arn="arn:role", policy_arn="arn:policy"
            ),
            identity.VERIFY_ACCESS.name: lambda _: identity.VerifiedAccess(
                kubernetes_version="1.34", username="me", nodes=0
            ),
            eks.ENSURE_CONTROL_PLANE.name: lambda _: control_plane("CREATING"),
            eks.WAIT_FOR_CONTROL_PLANE.name: lambda _: control_plane("ACTIVE"),
            dependencies.ENSURE_ADDON.name: lambda a: dependencies.Addon(
                changed=self.changed, name=a.name, version="v1", status="CREATING"
            ),
            dependencies.WAIT_FOR_ADDON.name: lambda a: dependencies.ComponentStatus(
                name=a.name,
                state=dependencies.ComponentState.WAITING_FOR_NODES
                if a.accept_waiting_for_nodes
                else dependencies.ComponentState.READY,
            ),
            dependencies.ENSURE_STORAGE_ROLE.name: lambda _: dependencies.StorageRole(
                changed=self.changed, arn="arn:s3"
            ),
            dependencies.ENSURE_RELEASE.name: lambda a: dependencies.Release(
                changed=self.changed, name=a.name, revision=1, status="deployed", chart="c"
            ),
            dependencies.VERIFY_RELEASE.name: lambda a: dependencies.ComponentStatus(
                name=a.name, state=dependencies.ComponentState.READY
            ),
            options.LOOK_UP_OPTIONS.name: lambda _: some_options(),
            options.CHECK_CLUSTER.name: lambda _: options.Findings(),
            options.CHECK_GROUPS.name: lambda _: options.Findings(),
            hyperpod.ENSURE_HYPERPOD.name: lambda a: cluster([g.spec.name for g in a.groups], "Creating"),
            hyperpod.WAIT_FOR_HYPERPOD.name: lambda a: hyperpod.NodesReady(
                cluster=cluster(a.groups), nodes=[node(a.groups[0])]
            ),
            hyperpod.WAIT_FOR_GROUPS_GONE.name: lambda a: hyperpod.GroupsGone(groups=a.groups),
            hyperpod.LIST_NODES.name: lambda _: hyperpod.Nodes(cluster=cluster(["workers"]), nodes=[node("workers")]),
            storage.ENSURE_CLAIM.name: lambda _: claim("Pending"),
            storage.WAIT_FOR_CLAIM.name: lambda _: claim("Bound"),
            storage.ENSURE_PROBE.name: lambda _: storage.Probe(pod="probe", state=storage.ProbeState.RUNNING),
            storage.WAIT_FOR_PROBE.name: lambda _: storage.Probe(
                pod="probe", state=storage.ProbeState.VERIFIED, node="hyperpod-i-1"
            ),
            storage.REMOVE_PROBE.name: lambda _: storage.ProbeRemoved(pod="probe"),
        }


def some_options() -> options.Options:
    return options.Options(
        region=REGION,
        zones=[
            options.ZoneOption(name="us-west-2a", zone_id="usw2-az1"),
            options.ZoneOption(name="us-west-2b", zone_id="usw2-az2"),
            options.ZoneOption(name="us-west-2c", zone_id="usw2-az3"),
        ],
        instance_types=[
            options.InstanceTypeOption(
                instance_type="ml.g5.8xlarge",
                availability_zones=["us-west-2a", "us-west-2b"],
                vcpus=32,
                memory_gib=128,
                accelerators=1,
                addresses=30,
                quota=8,
            ),
            options.InstanceTypeOption(
                instance_type="ml.p5.48xlarge",
                availability_zones=["us-west-2b"],
                vcpus=192,
                memory_gib=2048,
                accelerators=8,
                addresses=81,
                quota=0,
            ),
        ],
        training_plans=[
            options.TrainingPlanOption(
                name="plan-1",
                arn="arn:aws:sagemaker:us-west-2:123456789012:training-plan/plan-1",
                status="Active",
                instance_type="ml.p5.48xlarge",
                availability_zone="us-west-2b",
                total=4,
                available=4,
            )
        ],
        kubernetes_versions=["1.34"],
        looked_up_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
