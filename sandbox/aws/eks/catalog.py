"""Kubernetes versions and add-ons of the simulated EKS.

Versions: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html. Add-on names are EKS's own; their
version numbers are plausible for their time but UNVERIFIED one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

DEFAULT_VERSION = "1.34"


@dataclass(frozen=True)
class KubernetesVersion:
    version: str
    patch: str
    released: datetime
    end_of_standard: datetime
    end_of_extended: datetime


def _date(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


VERSIONS = {
    v.version: v
    for v in (
        KubernetesVersion("1.31", "1.31.13", _date(2024, 9, 26), _date(2025, 11, 26), _date(2026, 11, 26)),
        KubernetesVersion("1.32", "1.32.9", _date(2025, 1, 23), _date(2026, 3, 23), _date(2027, 3, 23)),
        KubernetesVersion("1.33", "1.33.5", _date(2025, 5, 29), _date(2026, 7, 29), _date(2027, 7, 29)),
        KubernetesVersion("1.34", "1.34.2", _date(2025, 10, 2), _date(2026, 12, 2), _date(2027, 12, 2)),
        KubernetesVersion("1.35", "1.35.0", _date(2026, 1, 27), _date(2027, 3, 27), _date(2028, 3, 27)),
    )
}


@dataclass(frozen=True)
class AddonKind:
    """An add-on of the catalogue. ``versions`` newest first; ``per_version`` where Kubernetes versions differ."""

    name: str
    type: str
    namespace: str
    versions: tuple[str, ...] = ()
    per_version: tuple[tuple[str, tuple[str, ...]], ...] = ()
    iam: bool = False
    service_account: str = ""
    policy: str = ""
    publisher: str = "eks"

    def available(self, kubernetes: str) -> tuple[str, ...]:
        return dict(self.per_version).get(kubernetes, self.versions)


def _kube_proxy() -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((v.version, (f"v{v.patch}-eksbuild.3", f"v{v.version}.0-eksbuild.2")) for v in VERSIONS.values())


_COREDNS = (
    ("1.31", ("v1.11.4-eksbuild.24", "v1.11.4-eksbuild.2")),
    ("1.32", ("v1.11.4-eksbuild.24", "v1.11.4-eksbuild.2")),
    ("1.33", ("v1.12.4-eksbuild.1", "v1.12.1-eksbuild.2")),
    ("1.34", ("v1.12.4-eksbuild.1", "v1.12.3-eksbuild.1")),
    ("1.35", ("v1.13.1-eksbuild.1", "v1.12.4-eksbuild.1")),
)

ADDONS = {
    a.name: a
    for a in (
        AddonKind(
            "vpc-cni",
            "networking",
            "kube-system",
            ("v1.20.4-eksbuild.2", "v1.19.6-eksbuild.7", "v1.18.6-eksbuild.1"),
            iam=True,
            service_account="aws-node",
            policy="arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",
        ),
        AddonKind("kube-proxy", "networking", "kube-system", per_version=_kube_proxy()),
        AddonKind("coredns", "networking", "kube-system", per_version=_COREDNS),
        AddonKind("eks-pod-identity-agent", "security", "kube-system", ("v1.3.10-eksbuild.1", "v1.3.8-eksbuild.2")),
        AddonKind(
            "eks-node-monitoring-agent", "observability", "kube-system", ("v1.4.2-eksbuild.1", "v1.4.1-eksbuild.1")
        ),
        AddonKind("cert-manager", "security", "cert-manager", ("v1.19.1-eksbuild.1", "v1.18.2-eksbuild.2")),
        AddonKind("metrics-server", "observability", "kube-system", ("v0.8.0-eksbuild.3", "v0.7.2-eksbuild.4")),
        AddonKind(
            "aws-ebs-csi-driver",
            "storage",
            "kube-system",
            ("v1.53.0-eksbuild.1", "v1.50.1-eksbuild.1"),
            iam=True,
            service_account="ebs-csi-controller-sa",
            policy="arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy",
        ),
        AddonKind(
            "aws-mountpoint-s3-csi-driver",
            "storage",
            "kube-system",
            ("v2.2.0-eksbuild.1", "v1.15.0-eksbuild.1"),
            iam=True,
            service_account="s3-csi-driver-sa",
        ),
        AddonKind(
            "aws-fsx-csi-driver",
            "storage",
            "kube-system",
            ("v1.7.0-eksbuild.1", "v1.6.0-eksbuild.2"),
            iam=True,
            service_account="fsx-csi-controller-sa",
            policy="arn:aws:iam::aws:policy/AmazonFSxFullAccess",
        ),
        AddonKind(
            "aws-efs-csi-driver",
            "storage",
            "kube-system",
            ("v2.1.15-eksbuild.1", "v2.1.13-eksbuild.1"),
            iam=True,
            service_account="efs-csi-controller-sa",
            policy="arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy",
        ),
        AddonKind(
            "amazon-cloudwatch-observability",
            "observability",
            "amazon-cloudwatch",
            ("v4.7.0-eksbuild.1", "v4.4.0-eksbuild.1"),
            iam=True,
            service_account="cloudwatch-agent",
            policy="arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy",
        ),
        AddonKind(
            "amazon-sagemaker-hyperpod-training-operator",
            "machine-learning",
            "aws-hyperpod",
            ("v1.2.0-eksbuild.1", "v1.0.2-eksbuild.1"),
            iam=True,
            service_account="hp-training-operator-controller-manager",
            policy="arn:aws:iam::aws:policy/AmazonSageMakerHyperPodTrainingOperatorAccess",
        ),
        AddonKind(
            "amazon-sagemaker-hyperpod-inference",
            "machine-learning",
            "hyperpod-inference-system",
            ("v1.1.0-eksbuild.1", "v1.0.0-eksbuild.1"),
            iam=True,
            service_account="hyperpod-inference-controller-manager",
        ),
        AddonKind(
            "amazon-sagemaker-hyperpod-observability",
            "observability",
            "hyperpod-observability",
            ("v1.0.6-eksbuild.1", "v1.0.3-eksbuild.1"),
            iam=True,
            service_account="hyperpod-observability-operator-otel-collector",
            policy="arn:aws:iam::aws:policy/AmazonSageMakerHyperPodObservabilityAdminAccess",
        ),
        AddonKind(
            "amazon-sagemaker-hyperpod-taskgovernance",
            "machine-learning",
            "kueue-system",
            ("v1.3.1-eksbuild.1", "v1.2.2-eksbuild.1"),
        ),
    )
}


def describe_kind(kind: AddonKind, kubernetes: str | None) -> dict[str, Any]:
    """``AddonInfo`` of DescribeAddonVersions."""
    wanted = [kubernetes] if kubernetes else list(VERSIONS)
    versions: dict[str, list[dict[str, Any]]] = {}
    for version in wanted:
        for index, addon_version in enumerate(kind.available(version)):
            compatibility = {"clusterVersion": version, "platformVersions": ["*"], "defaultVersion": index == 0}
            versions.setdefault(addon_version, []).append(compatibility)
    return {
        "addonName": kind.name,
        "type": kind.type,
        "publisher": kind.publisher,
        "owner": "aws",
        "defaultNamespace": kind.namespace,
        "addonVersions": [
            {
                "addonVersion": name,
                "architecture": ["amd64", "arm64"],
                "computeTypes": ["ec2", "auto", "hybrid"],
                "compatibilities": compatibilities,
                "requiresConfiguration": False,
                "requiresIamPermissions": kind.iam,
            }
            for name, compatibilities in versions.items()
        ],
    }
