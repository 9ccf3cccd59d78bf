"""The roles of features: who may take them, and what they allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from activities.features.balancing import load_balancer_policy
from activities.features.ground import Ground
from activities.features.workspace import workspace_of
from activities.identity.policies import Document, pod_identity_trust, trust
from activities.identity.roles import trusted_service_account
from contracts.features import Feature, FeatureOptions
from contracts.names import IAM_PATH, ClusterNames

DEFAULT_TRAINING_ACCOUNT = ("default", "tiered-storage-sa")
INFERENCE_ACCOUNTS = (
    ("hyperpod-inference-system", "hyperpod-inference-controller-manager"),
    ("kube-system", "hyperpod-inference-controller-manager"),
)
"""The operator's service account: by the add-on's versions in one or the other namespace."""


@dataclass(frozen=True)
class RoleWanted:
    """A role as it must be. ``managed`` are names of AWS managed policies."""

    purpose: str
    trust: Document
    managed: list[str] = field(default_factory=list)
    inline: Document | None = None


PURPOSES: dict[Feature, str] = {
    Feature.TRAINING_OPERATOR: "training-operator",
    Feature.AUTOSCALING: "hyperpod-autoscaling",
    Feature.TIERED_CHECKPOINTING: "tiered-checkpointing",
    Feature.KEDA: "keda",
    Feature.LOAD_BALANCER_CONTROLLER: "load-balancer-controller",
    Feature.FSX_CSI: "fsx-csi",
    Feature.CONTAINER_INSIGHTS: "container-insights",
    Feature.OBSERVABILITY: "observability",
    Feature.INFERENCE_OPERATOR: "inference-operator",
}


def arn_of(ground: Ground, feature: Feature) -> str:
    """The ARN of the feature's role, whether it exists or not. Raises KeyError for a feature without one."""
    name = ClusterNames(ground.scope.cluster).role(PURPOSES[feature], ground.region)
    return f"arn:{ground.partition}:iam::{ground.site.account}:role{IAM_PATH}{name}"


def role_wanted(ground: Ground, feature: Feature, options: FeatureOptions) -> RoleWanted:
    """The role of a feature. Raises KeyError for a feature without one."""
    pods, purpose = pod_identity_trust(), PURPOSES[feature]
    match feature:
        case Feature.TRAINING_OPERATOR:
            return RoleWanted(purpose, pods, ["AmazonSageMakerHyperPodTrainingOperatorAccess"])
        case Feature.FSX_CSI:
            return RoleWanted(purpose, pods, ["AmazonFSxFullAccess"])
        case Feature.CONTAINER_INSIGHTS:
            return RoleWanted(purpose, pods, ["CloudWatchAgentServerPolicy"])
        case Feature.AUTOSCALING:
            service = trust("hyperpod.sagemaker.amazonaws.com")
            return RoleWanted(purpose, service, inline=_autoscaling(ground))
        case Feature.TIERED_CHECKPOINTING:
            account = training_account(ground, options)
            return RoleWanted(purpose, oidc_trust(ground, [account]), inline=_checkpoints(ground))
        case Feature.KEDA:
            return RoleWanted(purpose, pods, inline=_metrics_reader(ground))
        case Feature.LOAD_BALANCER_CONTROLLER:
            inline = load_balancer_policy(ground.partition, ground.region, ground.site.account, ground.site.eks_cluster)
            return RoleWanted(purpose, pods, inline=inline)
        case Feature.OBSERVABILITY:
            return RoleWanted(purpose, pods, inline=_metrics_writer(ground, options))
        case Feature.INFERENCE_OPERATOR:
            operator = oidc_trust(ground, list(INFERENCE_ACCOUNTS))
            operator["Statement"].append(trust("sagemaker.amazonaws.com")["Statement"][0])
            return RoleWanted(
                purpose, operator, ["AmazonSageMakerHyperPodInferenceAccess"], _models(arn_of(ground, feature))
            )
    raise KeyError(feature)


def oidc_trust(ground: Ground, accounts: list[tuple[str, str]]) -> Document:
    """Exactly these service accounts of the cluster may take the role. (EKS User Guide: IAM roles for service
    accounts)"""
    subjects = [f"system:serviceaccount:{namespace}:{name}" for namespace, name in accounts]
    provider = f"arn:{ground.partition}:iam::{ground.site.account}:oidc-provider/{ground.issuer}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": provider},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        f"{ground.issuer}:sub": subjects if len(subjects) > 1 else subjects[0],
                        f"{ground.issuer}:aud": "sts.amazonaws.com",
                    }
                },
            }
        ],
    }


def training_account(ground: Ground, options: FeatureOptions) -> tuple[str, str]:
    """Namespace and name of the training pods' service account: as asked, else as it is, else the default."""
    now = trusted_service_account(ground.aws, ground.scope, PURPOSES[Feature.TIERED_CHECKPOINTING])
    namespace, name = now or DEFAULT_TRAINING_ACCOUNT
    return options.namespace or namespace, options.service_account or name


def _statement(sid: str, actions: list[str], resource: Any, **condition: Any) -> dict[str, Any]:
    found = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}
    return found | ({"Condition": condition} if condition else {})


def _document(*statements: dict[str, Any]) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _autoscaling(ground: Ground) -> Document:
    """Nodes of this cluster only, and grants on the keys of their volumes by way of SageMaker. (SageMaker Developer
    Guide: create an IAM role for HyperPod autoscaling with Karpenter)"""
    cluster = (ground.hyperpod or {}).get("ClusterArn") or ground.site.hyperpod_arn
    return _document(
        _statement("Nodes", ["sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"], cluster),
        _statement(
            "GrantKeysOfVolumes",
            ["kms:CreateGrant"],
            f"arn:{ground.partition}:kms:*:*:key/*",
            **{
                "StringLike": {"kms:ViaService": "sagemaker.*.amazonaws.com"},
                "Bool": {"kms:GrantIsForAWSResource": "true"},
                "ForAllValues:StringEquals": {
                    "kms:GrantOperations": [
                        "CreateGrant",
                        "Decrypt",
                        "DescribeKey",
                        "GenerateDataKeyWithoutPlaintext",
                        "ReEncryptFrom",
                        "ReEncryptTo",
                        "RetireGrant",
                    ]
                },
            },
        ),
        _statement(
            "LookAtKeysOfVolumes",
            ["kms:DescribeKey"],
            f"arn:{ground.partition}:kms:*:*:key/*",
            StringLike={"kms:ViaService": "sagemaker.*.amazonaws.com"},
        ),
    )


def _checkpoints(ground: Ground) -> Document:
    """Checkpoints in the cluster's bucket, logs and metrics of saving them. (SageMaker Developer Guide: set up managed
    tiered checkpointing, prerequisites)"""
    bucket = f"arn:{ground.partition}:s3:::{ground.site.bucket}"
    logs = f"arn:{ground.partition}:logs:{ground.region}:{ground.site.account}:log-group:*"
    return _document(
        _statement("ListBucket", ["s3:ListBucket"], bucket),
        _statement(
            "Checkpoints",
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            f"{bucket}/*",
        ),
        _statement("Logs", ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"], logs),
        _statement("Metrics", ["cloudwatch:PutMetricData"], "*"),
    )


def _models(role: str) -> Document:
    """The operator hands its own role to the models that it registers; AWS's managed policy lets it do so only with
    roles of AWS's naming."""
    to_models = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    return _document(_statement("PassOwnRole", ["iam:PassRole"], role, StringEquals=to_models))


def _metrics_reader(ground: Ground) -> Document:
    """What scalers ask: CloudWatch and the account's Prometheus workspaces. (KEDA documentation: scalers aws-cloudwatch
    and prometheus)"""
    workspaces = f"arn:{ground.partition}:aps:{ground.region}:{ground.site.account}:workspace/*"
    return _document(
        _statement(
            "CloudWatch", ["cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics", "cloudwatch:ListMetrics"], "*"
        ),
        _statement(
            "Prometheus",
            ["aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics"],
            workspaces,
        ),
    )


def _metrics_writer(ground: Ground, options: FeatureOptions) -> Document:
    """Metrics into the one workspace, and logs. (SageMaker Developer Guide: troubleshooting the HyperPod observability
    add-on)"""
    workspace = workspace_of(ground, options)
    arn = workspace["arn"] if workspace is not None else options.prometheus_workspace_arn
    none = f"arn:{ground.partition}:aps:{ground.region}:{ground.site.account}:workspace/none"
    logs = f"arn:{ground.partition}:logs:{ground.region}:{ground.site.account}:log-group:*"
    return _document(
        _statement("Metrics", ["aps:RemoteWrite"], arn or none),
        _statement(
            "Logs",
            [
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:DescribeLogGroups",
                "logs:DescribeLogStreams",
                "logs:GetLogEvents",
                "logs:PutLogEvents",
            ],
            logs,
        ),
    )
