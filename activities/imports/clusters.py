"""EKS and HyperPod clusters as they are, whoever made them."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, tag_list, tag_map, tags_of
from activities.dependencies.addons import numbers
from activities.eks import as_control_plane
from activities.eks import describe as describe_eks
from activities.errors import fail, is_absent
from activities.hyperpod.cluster import as_cluster, describe
from activities.hyperpod.groups import Specification
from activities.identity.access import administers
from activities.identity.policies import ADMIN_ACCESS_POLICY
from activities.identity.roles import caller_of
from activities.imports.network import detect_network
from contracts.dependencies import COMPONENTS, ComponentKind, ComponentState, ComponentStatus
from contracts.eks import SUPPORTED_KUBERNETES_VERSIONS
from contracts.identity import Caller, Identity
from contracts.imports import ADOPT, DETECT_CLUSTER, Adopt, Adopted, Detect, Detected, Gap
from contracts.names import TAG_CLUSTER, ClusterNames
from contracts.network import Scope
from contracts.problem import ProblemCode

OLDEST_CNI = (1, 18, 3)
"""(SageMaker Developer Guide: HyperPod on EKS, prerequisites)"""
_STATES = {"ACTIVE": ComponentState.READY, "CREATING": ComponentState.INSTALLING, "UPDATING": ComponentState.INSTALLING}


class ImportActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=DETECT_CLUSTER.name)
    def detect_cluster(self, request: Detect) -> Detected:
        """Read everything that a cluster's record holds. Changes nothing.

        Raises NOT_FOUND where there is no such EKS or HyperPod cluster, CONFLICT where the HyperPod cluster belongs to
        another EKS cluster, BUSY (retried) while the EKS cluster has no endpoint.
        """
        return detect(self._aws, request)

    @activity.defn(name=ADOPT.name)
    def adopt(self, request: Adopt) -> Adopted:
        """Tag EKS and HyperPod cluster as ours, so that deleting the cluster may delete them.

        Raises FOREIGN where one is tagged as another cluster's of this platform.
        """
        scope = request.scope
        eks, sagemaker = self._aws.read.eks(scope.region), self._aws.read.sagemaker(scope.region)
        changed = False
        tags = eks.list_tags_for_resource(resourceArn=request.eks_cluster_arn)["tags"]
        if _to_be_tagged(tags, scope, request.eks_cluster_arn):
            given = tags_of(scope, "eks-cluster")
            self._aws.act.eks(scope.region).tag_resource(resourceArn=request.eks_cluster_arn, tags=given)
            changed = True
        arns = [request.eks_cluster_arn]
        if arn := request.hyperpod_cluster_arn:
            arns.append(arn)
            if _to_be_tagged(tag_map(list(pages(sagemaker, "list_tags", "Tags", ResourceArn=arn))), scope, arn):
                given = tags_of(scope, "hyperpod-cluster")
                self._aws.act.sagemaker(scope.region).add_tags(ResourceArn=arn, Tags=tag_list(given))
                changed = True
        return Adopted(arns=arns, changed=changed)


def detect(aws: AwsClients, request: Detect) -> Detected:
    """See :meth:`ImportActivities.detect_cluster`."""
    scope, region = request.scope, request.scope.region
    eks: Any = describe_eks(aws, region, request.eks_cluster)
    if eks is None:
        fail(
            ProblemCode.NOT_FOUND,
            f"There is no EKS cluster {request.eks_cluster} in {region}",
            "Give the name of one that is there, or another region.",
            field="/eks_cluster",
        )
    if eks["status"] not in ("ACTIVE", "UPDATING"):
        fail(
            ProblemCode.NOT_READY,
            f"EKS cluster {request.eks_cluster} is {eks['status']}",
            "Import it when it is ACTIVE.",
            field="/eks_cluster",
        )
    hyperpod = _hyperpod_of(aws, request, eks["arn"])
    network, network_gaps = detect_network(aws, scope, eks, hyperpod)
    caller = caller_of(aws, region)
    principal = caller.principal_arn
    administered = _administers(aws, region, request.eks_cluster, principal)
    components = _components(aws, region, request.eks_cluster)
    tagged = _tags(aws, region, eks, hyperpod)
    return Detected(
        control_plane=as_control_plane(eks, changed=False),
        network=network,
        identity=_identity(aws, scope, caller, eks, hyperpod),
        dependencies=components,
        hyperpod=as_cluster(hyperpod, changed=False) if hyperpod is not None else None,
        provisioning=(hyperpod.get("NodeProvisioningMode") or "Classic") if hyperpod is not None else None,
        node_recovery=hyperpod.get("NodeRecovery") if hyperpod is not None else None,
        owned=[arn for arn, tags in tagged if is_ours(tags, scope.cluster)],
        administered=administered,
        gaps=[
            *_owner_gaps(scope, tagged),
            *_eks_gaps(eks, principal, administered),
            *_component_gaps(components),
            *network_gaps,
            *_hyperpod_gaps(hyperpod),
        ],
    )


def _hyperpod_of(aws: AwsClients, request: Detect, eks_arn: str) -> Specification | None:
    """The HyperPod cluster on the EKS cluster. One that was named must be there and belong to it."""
    region, name = request.scope.region, request.hyperpod_cluster
    if name is not None:
        found = describe(aws, region, name)
        if found is None:
            fail(
                ProblemCode.NOT_FOUND,
                f"There is no HyperPod cluster {name} in {region}",
                "Give the name of one that is there, or none.",
                field="/hyperpod_cluster",
            )
        if (other := _orchestrator(found)) != eks_arn:
            fail(
                ProblemCode.CONFLICT,
                f"HyperPod cluster {name} belongs to {other or 'no EKS cluster'}, not to {eks_arn}",
                "Import it with the EKS cluster that it belongs to.",
                field="/hyperpod_cluster",
            )
        return found
    for summary in pages(aws.read.sagemaker(region), "list_clusters", "ClusterSummaries"):
        found = describe(aws, region, summary["ClusterArn"])
        if found is not None and _orchestrator(found) == eks_arn:
            return found
    return None


def _orchestrator(hyperpod: Specification) -> str | None:
    arn: str | None = hyperpod.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn")
    return arn


def _administers(aws: AwsClients, region: str, eks_cluster: str, principal: str) -> bool:
    try:
        return administers(aws, region, eks_cluster, principal)
    except Exception as error:
        # A cluster that only knows the aws-auth ConfigMap refuses the question.
        if is_absent(error, "ResourceNotFoundException", "InvalidRequestException"):
            return False
        raise


def _tags(aws: AwsClients, region: str, eks: Any, hyperpod: Specification | None) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = [(eks["arn"], dict(eks.get("tags", {})))]
    if hyperpod is not None:
        arn = hyperpod["ClusterArn"]
        listed = pages(aws.read.sagemaker(region), "list_tags", "Tags", ResourceArn=arn)
        found.append((arn, tag_map(list(listed))))
    return found


def _identity(aws: AwsClients, scope: Scope, caller: Caller, eks: Any, hyperpod: Specification | None) -> Identity:
    """Roles as the clusters have them. The first group tells what new groups are made with; the bucket is ours or
    none: another's data is not ours to mount."""
    group: Specification = next(iter((hyperpod or {}).get("InstanceGroups", [])), {})
    bucket = ClusterNames(scope.cluster).bucket(caller.account, scope.region)
    try:
        aws.read.s3(scope.region).head_bucket(Bucket=bucket)
        ours: str | None = bucket
    except Exception as error:
        if not is_absent(error, "404", "NoSuchBucket", "403"):
            raise
        ours = None
    return Identity(
        account=caller.account,
        platform_principal_arn=caller.principal_arn,
        cluster_role_arn=eks["roleArn"],
        execution_role_arn=group.get("ExecutionRole"),
        bucket=ours,
        lifecycle_scripts_uri=group.get("LifeCycleConfig", {}).get("SourceS3Uri"),
    )


def _components(aws: AwsClients, region: str, eks_cluster: str) -> list[ComponentStatus]:
    """The EKS add-ons among the cluster's dependencies."""
    client = aws.read.eks(region)
    installed = set(pages(client, "list_addons", "addons", clusterName=eks_cluster))
    found = []
    for part in COMPONENTS:
        if part.kind is not ComponentKind.ADDON or part.name not in installed:
            continue
        addon = client.describe_addon(clusterName=eks_cluster, addonName=part.name)["addon"]
        issues = "; ".join(f"{each.get('code')}" for each in addon.get("health", {}).get("issues", []))
        found.append(
            ComponentStatus(
                name=part.name,
                state=_STATES.get(addon["status"], ComponentState.FAILED),
                version=addon["addonVersion"],
                detail=f"{addon['status']}{': ' + issues if issues else ''}",
            )
        )
    return found


def _owner_gaps(scope: Scope, tagged: list[tuple[str, dict[str, str]]]) -> list[Gap]:
    owners = {tags[TAG_CLUSTER] for _, tags in tagged if tags.get(TAG_CLUSTER) not in (None, scope.cluster)}
    return [
        Gap(
            what="ownership",
            detail=f"it is cluster {owner} of this platform",
            remedy=f"Work with {owner}: operations of two records do not wait for each other.",
        )
        for owner in sorted(owners)
    ]


def _eks_gaps(eks: Any, principal: str, administered: bool) -> list[Gap]:
    gaps = []
    mode = eks.get("accessConfig", {}).get("authenticationMode")
    if mode not in ("API", "API_AND_CONFIG_MAP"):
        gaps.append(
            Gap(
                what="authentication mode",
                detail=f"{eks['name']} has authentication mode {mode or 'CONFIG_MAP'}; HyperPod needs access entries",
                remedy="eks:UpdateClusterConfig accessConfig authenticationMode=API_AND_CONFIG_MAP.",
            )
        )
    if not administered:
        gaps.append(
            Gap(
                what="access entry",
                detail=f"{principal} has no access entry with {ADMIN_ACCESS_POLICY} for the cluster",
                remedy="Import with grant_access, or have its administrator make one.",
            )
        )
    if eks["version"] not in SUPPORTED_KUBERNETES_VERSIONS:
        known = ", ".join(SUPPORTED_KUBERNETES_VERSIONS)
        detail = f"Kubernetes {eks['version']} is none of those that are known to work: {known}"
        gaps.append(Gap(what="Kubernetes version", detail=detail, remedy="Update the EKS cluster."))
    return gaps


def _component_gaps(components: list[ComponentStatus]) -> list[Gap]:
    there = {each.name: each for each in components}
    gaps = [
        Gap(
            what="component",
            detail=f"{part.name} is not installed as an EKS add-on",
            remedy="install-dependencies installs it.",
        )
        for part in COMPONENTS
        if part.kind is ComponentKind.ADDON and part.name not in there
    ]
    cni = there.get("vpc-cni")
    if cni and numbers(cni.version or "")[:3] < OLDEST_CNI:
        detail = f"vpc-cni is {cni.version}; HyperPod needs {'.'.join(map(str, OLDEST_CNI))} or newer"
        gaps.append(Gap(what="component", detail=detail, remedy="install-dependencies updates it."))
    return gaps


def _hyperpod_gaps(hyperpod: Specification | None) -> list[Gap]:
    if hyperpod is None:
        return [Gap(what="HyperPod cluster", detail="there is none on this EKS cluster", remedy="create-hyperpod.")]
    gaps = []
    if hyperpod["ClusterStatus"] != "InService":
        message = f": {hyperpod['FailureMessage']}" if hyperpod.get("FailureMessage") else ""
        failed = hyperpod["ClusterStatus"] == "Failed"
        remedy = "A Failed cluster can only be deleted." if failed else "Detect it anew later."
        gaps.append(Gap(what="HyperPod cluster", detail=f"it is {hyperpod['ClusterStatus']}{message}", remedy=remedy))
    if not hyperpod.get("NodeProvisioningMode"):
        detail = "its provisioning is not Continuous: no spot, no Karpenter, no events, and updates wait for each other"
        gaps.append(Gap(what="provisioning", detail=detail))
    if hyperpod.get("NodeRecovery") != "Automatic":
        detail = "faulty nodes are not replaced by themselves (NodeRecovery is not Automatic)"
        gaps.append(Gap(what="node recovery", detail=detail))
    return gaps


def _to_be_tagged(tags: dict[str, str], scope: Scope, arn: str) -> bool:
    owner = tags.get(TAG_CLUSTER)
    if owner not in (None, scope.cluster):
        fail(
            ProblemCode.FOREIGN,
            f"{arn} is tagged as cluster {owner} of this platform",
            f"Import it under the tag {owner}, or remove that tag.",
        )
    return owner is None
