"""What the acts on groups look at first."""

from __future__ import annotations

from typing import Any, NoReturn

from activities.aws import AwsClients
from activities.errors import fail
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import (
    Specification,
    Template,
    group_of,
    groups_of,
    is_restricted,
    lifecycle_of,
    unchanged,
)
from activities.hyperpod.translator import restricted_specification_of
from contracts.instance_groups import AddGroup, GroupAt
from contracts.problem import ProblemCode

FAILED_REMEDY = (
    "A Failed cluster can only be deleted: delete its HyperPod level (delete-cluster with level hyperpod), then make "
    "it anew (create-hyperpod)."
)


def cluster_for(aws: AwsClients, region: str, name: str) -> Specification:
    """The cluster, which must take changes. Raises NOT_FOUND; NOT_READY for one that Failed or is being deleted.

    One in transition is given back: SageMaker itself answers ConflictException (BUSY, retried) to what it cannot take
    then.
    """
    found = describe(aws, region, name)
    if found is None:
        remedy = "Create it first (create-hyperpod)."
        fail(ProblemCode.NOT_FOUND, f"There is no HyperPod cluster {name}", remedy)
    if found["ClusterStatus"] == "Failed":
        reason = found.get("FailureMessage") or "no reason given"
        fail(ProblemCode.NOT_READY, f"HyperPod cluster {name} is Failed: {reason}", FAILED_REMEDY)
    if found["ClusterStatus"] == "Deleting":
        remedy = "Wait until it is gone, then make it anew (create-hyperpod)."
        fail(ProblemCode.NOT_READY, f"HyperPod cluster {name} is being deleted", remedy)
    return found


def group_for(aws: AwsClients, at: GroupAt) -> tuple[Specification, Specification]:
    """The cluster and the group. Raises also NOT_FOUND for the group, CONFLICT while it is being deleted."""
    found = cluster_for(aws, at.scope.region, at.hyperpod_cluster)
    group = group_of(found, at.group)
    if group is None:
        _no_group(found, at.group)
    if group.get("Status") == "Deleting":
        remedy = "Wait until it is gone, then add it anew."
        fail(ProblemCode.CONFLICT, f"Instance group {at.group} is being deleted", remedy)
    return found, group


def _no_group(found: Specification, name: str) -> NoReturn:
    names = ", ".join(group["InstanceGroupName"] for group in groups_of(found)) or "none"
    fail(
        ProblemCode.NOT_FOUND,
        f"HyperPod cluster {found['ClusterName']} has no instance group {name}; it has {names}",
        "Name one of these, or add the group first.",
    )


def update(aws: AwsClients, region: str, found: Specification, group: Specification, changes: Specification) -> None:
    """Send a described group back with ``changes``, and no other group: those that are not named are left alone.

    A change to None leaves the member out.
    """
    act, name = aws.act.sagemaker(region), found["ClusterName"]
    if is_restricted(found, group["InstanceGroupName"]):
        described: Any = group
        restricted: Any = _with(dict(restricted_specification_of(described)), changes)
        act.update_cluster(ClusterName=name, RestrictedInstanceGroups=[restricted])
        return
    changed: Any = _with(unchanged(aws, region, group), changes)
    act.update_cluster(ClusterName=name, InstanceGroups=[changed])


def _with(group: Specification, changes: Specification) -> Specification:
    return {name: value for name, value in {**group, **changes}.items() if value is not None}


def template_for(request: AddGroup, found: Specification) -> Template:
    """What the cluster's record says a group is made of; for what it does not say, what the first group has."""
    first: Specification = next(iter(found.get("InstanceGroups", [])), {})
    role = request.execution_role_arn or first.get("ExecutionRole")
    if not role:
        fail(
            ProblemCode.NOT_FOUND,
            f"Neither the record of {request.scope.cluster} nor a group of {found['ClusterName']} names a role for "
            "nodes",
            "Detect the cluster anew (redetect-cluster), or make the HyperPod cluster with the platform.",
        )
    uri, lifecycle = request.lifecycle_scripts_uri, first.get("LifeCycleConfig")
    if uri and uri != (lifecycle or {}).get("SourceS3Uri"):
        lifecycle = lifecycle_of(uri)
    vpc = first.get("OverrideVpcConfig") or found.get("VpcConfig") or {}
    return Template(
        execution_role=role,
        lifecycle=lifecycle,
        security_groups=[request.security_group_id] if request.security_group_id else vpc.get("SecurityGroupIds", []),
    )
