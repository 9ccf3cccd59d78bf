"""What the roles of experiments allow: a tracking server its artifacts, a job to report to the servers it was
connected to.

(SageMaker Developer Guide: set up IAM permissions for MLflow; set up IAM permissions for MLflow Apps; Service
Authorization Reference: Amazon SageMaker with MLflow; EKS User Guide: create IAM role with trust policy required by EKS
Pod Identity)
"""

from __future__ import annotations

import re
from typing import Any

from activities.experiments.servers import SERVER, kind_of
from activities.identity.policies import Document
from contracts.names import mlflow_prefix, short_hash
from contracts.tracking_servers import ServerKind

REPORTING = [
    f"sagemaker-mlflow:{action}"
    for action in (
        "CreateExperiment",
        "CreateRun",
        "DeleteTag",
        "FinalizeLoggedModel",
        "GetExperiment",
        "GetExperimentByName",
        "GetLoggedModel",
        "GetMetricHistory",
        "GetRun",
        "ListArtifacts",
        "ListLoggedModelArtifacts",
        "LogBatch",
        "LogInputs",
        "LogLoggedModelParams",
        "LogMetric",
        "LogModel",
        "LogOutputs",
        "LogParam",
        "SearchExperiments",
        "SearchRuns",
        "SetExperimentTag",
        "SetLoggedModelTags",
        "SetTag",
        "UpdateRun",
    )
]
"""What a job does that reports, reads its own runs, and goes on with one after a restart. It deletes nothing."""
CALL_APP = "sagemaker:CallMlflowAppApi"
"""An app knows no finer one."""
MOST_SERVERS = 8
"""A role's inline policies have 10,240 characters together."""
PREFIX = "report-"
"""The names of the policies for servers begin so."""
REPORT = "Report"

_OBJECTS = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
_STORE = re.compile(r"s3://(?P<bucket>[^/]+)/?(?P<prefix>.*?)/?")


def server_trust(partition: str, region: str, account: str, name: str) -> Document:
    """Only SageMaker takes it, and only for this server."""
    arn = f"arn:{partition}:sagemaker:{region}:{account}:{SERVER}/{name}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sagemaker.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {
                    "StringEquals": {"aws:SourceAccount": account},
                    "ArnLike": {"aws:SourceArn": arn},
                },
            }
        ],
    }


def server_policy(partition: str, region: str, account: str, bucket: str, name: str, register: bool) -> Document:
    """Objects below the server's prefix, and, where it registers models, its part in SageMaker's Model Registry."""
    statements = _objects(partition, bucket, mlflow_prefix(name))
    if register:
        at = f"arn:{partition}:sagemaker:{region}:{account}"
        statements.append(
            {
                "Sid": "RegisterModels",
                "Effect": "Allow",
                "Action": [
                    "sagemaker:AddTags",
                    "sagemaker:CreateModelPackage",
                    "sagemaker:CreateModelPackageGroup",
                    "sagemaker:DescribeModelPackageGroup",
                    "sagemaker:UpdateModelPackage",
                ],
                "Resource": [f"{at}:model-package-group/*", f"{at}:model-package/*"],
            }
        )
    return {"Version": "2012-10-17", "Statement": statements}


def reporting_trust(account: str, eks_arn: str, namespace: str, service_account: str) -> Document:
    """Only EKS takes it, and only for the one service account of the one cluster."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "pods.eks.amazonaws.com"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {
                    "StringEquals": {
                        "aws:SourceAccount": account,
                        "aws:RequestTag/eks-cluster-arn": eks_arn,
                        "aws:RequestTag/kubernetes-namespace": namespace,
                        "aws:RequestTag/kubernetes-service-account": service_account,
                    }
                },
            }
        ],
    }


def reporting_policy(arn: str, artifacts: str | None) -> Document:
    """For one tracking server or app. ``artifacts`` is where its artifacts are (``s3://…``); None: unknown, or not the
    job's matter. One inline policy of the role for each server: nobody has to rewrite what others have added."""
    actions: Any = CALL_APP if kind_of(arn) is ServerKind.APP else REPORTING
    statements: list[dict[str, Any]] = [{"Sid": REPORT, "Effect": "Allow", "Action": actions, "Resource": arn}]
    store = _STORE.fullmatch(artifacts or "")
    if store is not None and store["prefix"]:
        statements += _objects(arn.split(":")[1], store["bucket"], store["prefix"])
    return {"Version": "2012-10-17", "Statement": statements}


def policy_name(arn: str) -> str:
    """What the policy of a server is called in the role."""
    return f"{PREFIX}{short_hash(arn, 16)}"


def reported_to(policy: Document) -> str:
    """The server of a policy that :func:`reporting_policy` made."""
    return next(str(each["Resource"]) for each in policy["Statement"] if each.get("Sid") == REPORT)


def _objects(partition: str, bucket: str, prefix: str) -> list[dict[str, Any]]:
    """Everything below a prefix of a bucket, and nothing beside it."""
    arn = f"arn:{partition}:s3:::{bucket}"
    return [
        {
            "Sid": "ListArtifacts",
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": arn,
            "Condition": {"StringLike": {"s3:prefix": [prefix, f"{prefix}/*"]}},
        },
        {"Sid": "Artifacts", "Effect": "Allow", "Action": _OBJECTS, "Resource": f"{arn}/{prefix}/*"},
    ]
