"""Who may use a cluster's Kubernetes API, and the proof that the platform may."""

from __future__ import annotations

from typing import Any, NoReturn

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.aws import AwsClients, pages, partition, tag_list, tags_of, token
from activities.context import attempt
from activities.errors import PROPAGATION_ATTEMPTS, code_of, fail, is_absent
from activities.identity.policies import ADMIN_ACCESS_POLICY
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_OIDC_PROVIDER,
    VERIFY_ACCESS,
    AccessEntry,
    EnsureAccessEntry,
    EnsureOidcProvider,
    OidcProvider,
    VerifiedAccess,
    VerifyAccess,
)
from contracts.problem import ProblemCode

AUDIENCE = "sts.amazonaws.com"
PAGE = 500
EVERYTHING: Any = {"spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}}


class AccessActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=ENSURE_OIDC_PROVIDER.name)
    def ensure_oidc_provider(self, request: EnsureOidcProvider) -> OidcProvider:
        """IAM's identity provider for the cluster's issuer, so that service accounts can take roles (IRSA).

        IAM finds the issuer's certificate itself; no thumbprints are given. (IAM API: CreateOpenIDConnectProvider)
        """
        scope = request.scope
        cluster = self._aws.read.eks(scope.region).describe_cluster(name=request.eks_cluster)["cluster"]
        issuer = cluster.get("identity", {}).get("oidc", {}).get("issuer")
        if not issuer:
            detail = f"EKS cluster {request.eks_cluster} is {cluster['status']} and has no OIDC issuer yet"
            fail(ProblemCode.BUSY, detail, "The platform tries again when it is ACTIVE.", retry=True)
        account = cluster["arn"].split(":")[4]
        arn = f"arn:{partition(scope.region)}:iam::{account}:oidc-provider/{issuer.removeprefix('https://')}"
        read, act = self._aws.read.iam(scope.region), self._aws.act.iam(scope.region)
        try:
            found = read.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        except Exception as error:
            if not is_absent(error, "NoSuchEntity", "NoSuchEntityException"):
                raise
            tags = tags_of(scope, "oidc-provider")
            act.create_open_id_connect_provider(Url=issuer, ClientIDList=[AUDIENCE], Tags=tag_list(tags))
            return OidcProvider(arn=arn)
        if AUDIENCE in found.get("ClientIDList", []):
            return OidcProvider(arn=arn, changed=False)
        act.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID=AUDIENCE)
        return OidcProvider(arn=arn)

    @activity.defn(name=ENSURE_ACCESS_ENTRY.name)
    def ensure_access_entry(self, request: EnsureAccessEntry) -> AccessEntry:
        """Administration of the whole cluster for one principal, which must be a role's or user's own ARN.

        Raises CONFLICT where the cluster takes no access entries.
        """
        scope, read = request.scope, self._aws.read.eks(request.scope.region)
        act, principal = self._aws.act.eks(scope.region), request.principal_arn
        where: Any = {"clusterName": request.eks_cluster, "principalArn": principal}
        policy = admin_policy(scope.region)
        changed = False
        try:
            read.describe_access_entry(**where)
        except Exception as error:
            if code_of(error) == "InvalidRequestException" and "authentication mode" in str(error):
                fail(
                    ProblemCode.CONFLICT,
                    f"EKS cluster {request.eks_cluster} has authentication mode CONFIG_MAP and takes no access entries",
                    f"aws eks update-cluster-config --name {request.eks_cluster} --region {scope.region} "
                    "--access-config authenticationMode=API_AND_CONFIG_MAP (which cannot be undone), then retry.",
                    retryable=True,
                )
            if not is_absent(error, "ResourceNotFoundException"):
                raise
            tags = tags_of(scope, "access-entry")
            act.create_access_entry(
                **where, type="STANDARD", tags=tags, clientRequestToken=token(f"access-entry/{principal}")
            )
            changed = True
        if not administers(self._aws, scope.region, request.eks_cluster, principal):
            act.associate_access_policy(**where, policyArn=policy, accessScope={"type": "cluster"})
            changed = True
        return AccessEntry(principal_arn=principal, policy_arn=policy, changed=changed)

    @activity.defn(name=VERIFY_ACCESS.name)
    def verify_access(self, request: VerifyAccess) -> VerifiedAccess:
        """Prove that the Kubernetes API answers and lets the platform do everything.

        A new access entry takes up to minutes to work; until then a refusal is PROPAGATION, and DENIED after that.
        """
        region = request.scope.region
        with self._kubernetes.connect(region, request.eks_cluster) as api:
            try:
                version: Any = client.VersionApi(api).get_code(_request_timeout=REQUEST_TIMEOUT)
                review: Any = client.AuthorizationV1Api(api).create_self_subject_access_review(
                    EVERYTHING,
                    _request_timeout=REQUEST_TIMEOUT,
                )
                if not review.status.allowed:
                    _refused(request.eks_cluster, review.status.reason or "not everything is allowed")
                return VerifiedAccess(
                    kubernetes_version=version.git_version,
                    username=self._username(api, region),
                    nodes=_count_nodes(api),
                )
            except ApiException as error:
                if error.status in (401, 403):
                    _refused(request.eks_cluster, str(error.reason))
                raise

    def _username(self, api: client.ApiClient, region: str) -> str:
        """Who Kubernetes takes us for; AWS's name of us where the cluster does not answer that (before 1.28)."""
        try:
            body: Any = {}
            review: Any = client.AuthenticationV1Api(api).create_self_subject_review(
                body, _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status not in (404, 405):
                raise
            return self._aws.read.sts(region).get_caller_identity()["Arn"]
        return str(review.status.user_info.username)


def admin_policy(region: str) -> str:
    """ARN of the access policy that administers a whole cluster."""
    return f"arn:{partition(region)}:eks::aws:cluster-access-policy/{ADMIN_ACCESS_POLICY}"


def administers(aws: AwsClients, region: str, eks_cluster: str, principal: str) -> bool:
    """Whether the principal's access entry administers the whole cluster. EKS's errors are the caller's to read."""
    where: Any = {"clusterName": eks_cluster, "principalArn": principal}
    associated = pages(aws.read.eks(region), "list_associated_access_policies", "associatedAccessPolicies", **where)
    policy = admin_policy(region)
    return any(
        each["policyArn"] == policy and each.get("accessScope", {}).get("type") == "cluster" for each in associated
    )


def _count_nodes(api: client.ApiClient) -> int:
    core, count, mark = client.CoreV1Api(api), 0, None
    while True:
        page: Any = core.list_node(limit=PAGE, _continue=mark, _request_timeout=REQUEST_TIMEOUT)
        count += len(page.items)
        mark = page.metadata._continue
        if not mark:
            return count


def _refused(cluster: str, reason: str) -> NoReturn:
    again = attempt() < PROPAGATION_ATTEMPTS
    fail(
        ProblemCode.PROPAGATION if again else ProblemCode.DENIED,
        f"The Kubernetes API of {cluster} refuses the platform: {reason}",
        "Check that the access entry of the platform's principal has AmazonEKSClusterAdminPolicy for the cluster.",
        retry=again,
        delay=min(attempt(), 5),
    )
