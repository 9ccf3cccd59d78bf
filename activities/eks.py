"""The EKS control plane.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, tags_of, token
from activities.errors import fail, is_absent
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.eks import (
    ENSURE_CONTROL_PLANE,
    WAIT_FOR_CONTROL_PLANE,
    ControlPlane,
    EnsureControlPlane,
    WaitForControlPlane,
)
from contracts.model import fingerprint
from contracts.names import ClusterNames
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import ClusterTypeDef

LOG_TYPES: tuple[Any, ...] = ("api", "audit", "authenticator", "controllerManager", "scheduler")


class EksActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._poll = aws, settings.poll_seconds

    @activity.defn(name=ENSURE_CONTROL_PLANE.name)
    def ensure_control_plane(self, request: EnsureControlPlane) -> ControlPlane:
        """The cluster's EKS cluster; does not wait until it is ACTIVE.

        Raises FOREIGN or CONFLICT where one of the name is not ours or differs, NOT_READY where it FAILED.
        """
        scope, name = request.scope, ClusterNames(request.scope.cluster).eks_cluster
        found = describe(self._aws, scope.region, name)
        if found is not None:
            self._compare(request, found)
            return as_control_plane(found, changed=False)
        made = self._aws.act.eks(scope.region).create_cluster(
            name=name,
            version=request.kubernetes_version,
            roleArn=request.role_arn,
            resourcesVpcConfig={
                "subnetIds": request.subnet_ids,
                "securityGroupIds": [request.security_group_id],
                "endpointPublicAccess": True,
                "endpointPrivateAccess": True,
            },
            kubernetesNetworkConfig={"serviceIpv4Cidr": request.service_cidr},
            # HyperPod accepts API and API_AND_CONFIG_MAP only. The creator gets no hidden administration: who may use
            # the Kubernetes API is said by access entries alone, ours among them (identity.ensure_access_entry).
            # (SageMaker Developer Guide: HyperPod on EKS, prerequisites)
            accessConfig={"authenticationMode": "API_AND_CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": False},
            logging={"clusterLogging": [{"types": list(LOG_TYPES), "enabled": True}]},
            tags=tags_of(scope, "eks-cluster"),
            # A corrected request is another one to EKS; the look-up above keeps it from becoming a second cluster.
            clientRequestToken=token(f"eks-cluster/{fingerprint(request)}"),
        )["cluster"]
        return as_control_plane(made, changed=True)

    def _compare(self, request: EnsureControlPlane, found: ClusterTypeDef) -> None:
        scope, name, status = request.scope, found["name"], found["status"]
        if not is_ours(found.get("tags", {}), scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"An EKS cluster {name} exists and does not carry the tag instantstart:cluster={scope.cluster}",
                "Choose another tag for the cluster, or delete that EKS cluster.",
            )
        if status == "DELETING":
            remedy = "The platform tries again when it is gone."
            fail(ProblemCode.BUSY, f"EKS cluster {name} is being deleted", remedy, retry=True, delay=4 * self._poll)
        if status == "FAILED":
            _fail_failed(found)
        network = found["resourcesVpcConfig"]
        asked = {
            "Kubernetes version": request.kubernetes_version,
            "role": request.role_arn,
            "subnets": sorted(request.subnet_ids),
            "security group": True,
            "service CIDR": request.service_cidr,
        }
        exists = {
            "Kubernetes version": found["version"],
            "role": found["roleArn"],
            "subnets": sorted(network.get("subnetIds", [])),
            "security group": request.security_group_id in network.get("securityGroupIds", []),
            "service CIDR": found.get("kubernetesNetworkConfig", {}).get("serviceIpv4Cidr", request.service_cidr),
        }
        if differing := [key for key in asked if asked[key] != exists[key]]:
            shown = "; ".join(f"{key}: it has {exists[key]}, asked was {asked[key]}" for key in differing)
            fail(
                ProblemCode.CONFLICT,
                f"EKS cluster {name} exists and differs: {shown}",
                "Ask for what exists, or delete the EKS cluster first.",
            )

    @activity.defn(name=WAIT_FOR_CONTROL_PLANE.name)
    async def wait_for_control_plane(self, request: WaitForControlPlane) -> ControlPlane:
        """Until the cluster is ACTIVE. Raises NOT_READY when it FAILED, NOT_FOUND when it is not there."""

        def look(memory: Memory) -> Seen[ControlPlane]:
            found = describe(self._aws, request.scope.region, request.name)
            if found is None:
                memory.notes["absent"] = memory.notes.get("absent", 0) + 1
                if memory.notes["absent"] > 3:
                    remedy = "Retry the stage that makes it."
                    fail(ProblemCode.NOT_FOUND, f"There is no EKS cluster {request.name}", remedy)
                return Seen(f"{request.name} not visible yet")
            status = found["status"]
            if status in ("FAILED", "DELETING"):
                _fail_failed(found)
            detail = f"{request.name} {status} (Kubernetes {found['version']})"
            return Seen(detail, as_control_plane(found, changed=True) if status == "ACTIVE" else None)

        limit = WAIT_FOR_CONTROL_PLANE.limit
        return await wait_until(look, what="an ACTIVE control plane", limit=limit, poll_seconds=self._poll)


def describe(aws: AwsClients, region: str, name: str) -> ClusterTypeDef | None:
    """The EKS cluster as it is; None only where EKS says that there is none."""
    try:
        return aws.read.eks(region).describe_cluster(name=name)["cluster"]
    except Exception as error:
        if is_absent(error, "ResourceNotFoundException"):
            return None
        raise


def _fail_failed(found: ClusterTypeDef) -> None:
    issues = "; ".join(
        f"{issue.get('code')}: {issue.get('message')}" for issue in found.get("health", {}).get("issues", [])
    )
    fail(
        ProblemCode.NOT_READY,
        f"EKS cluster {found['name']} is {found['status']}{': ' + issues if issues else ''}",
        "A FAILED control plane cannot be mended: delete it (it holds nothing yet), correct the cause, and retry.",
    )


def as_control_plane(found: ClusterTypeDef, changed: bool) -> ControlPlane:
    return ControlPlane(
        name=found["name"],
        arn=found["arn"],
        status=found["status"],
        kubernetes_version=found["version"],
        endpoint=found.get("endpoint"),
        oidc_issuer=found.get("identity", {}).get("oidc", {}).get("issuer"),
        cluster_security_group_id=found.get("resourcesVpcConfig", {}).get("clusterSecurityGroupId"),
        changed=changed,
    )
