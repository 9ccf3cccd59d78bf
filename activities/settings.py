"""Settings of the processes that run activities, from the environment (prefix ``INSTANTSTART_``).

AWS endpoints, credentials and profiles come by AWS's own variables (``AWS_ENDPOINT_URL``, ``AWS_PROFILE`` …).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

VERSION = "0.1.0"

HYPERPOD_CHART = "https://github.com/aws/sagemaker-hyperpod-cli/archive/067d658b2d5c3d347afbadd75e1425214e965dcb.tar.gz"
"""The official chart of HyperPod's dependencies, pinned to a commit; it is published only inside this repository."""
HYPERPOD_CHART_PATH = "helm_chart/HyperPodHelmChart"

KUBERAY_CHART = "https://ray-project.github.io/kuberay-helm/kuberay-operator@1.6.2"
KEDA_CHART = "https://kedacore.github.io/charts/keda@2.21.0"
LOAD_BALANCER_CONTROLLER_CHART = "https://aws.github.io/eks-charts/aws-load-balancer-controller@1.17.1"
"""The official repositories of these charts, each pinned to a version (README of each chart)."""

PROBE_IMAGE = "public.ecr.aws/docker/library/busybox:1.37.0"

PROJECT = Path(__file__).resolve().parent.parent


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore")

    poll_seconds: float = Field(15.0, gt=0)
    """How often a wait looks."""
    settle_seconds: float = Field(3.0, ge=0)
    """How long EC2 may not show what was just made (eventual consistency)."""
    shortfall_patience: float = Field(600.0, ge=0)
    """Seconds that a shortage of capacity must last before it blocks the operation."""
    price_file: Path | None = None
    """YAML file with prices that win over AWS's list: region, then item, then USD per hour."""
    default_region: str = "us-west-2"
    """The region of what names none."""
    hyperpod_chart: str = HYPERPOD_CHART
    """Chart of the HyperPod dependencies: an OCI or HTTPS reference, an archive, or a folder."""
    hyperpod_chart_path: str | None = None
    """Where the chart is inside an archive; null: the official archive's path, where the source is one."""
    kuberay_chart: str = KUBERAY_CHART
    """Chart of the KubeRay operator: an OCI reference or ``https://REPOSITORY/CHART``, both with ``@VERSION``, an
    archive, or a folder."""
    keda_chart: str = KEDA_CHART
    """Chart of KEDA, likewise."""
    load_balancer_controller_chart: str = LOAD_BALANCER_CONTROLLER_CHART
    """Chart of the AWS Load Balancer Controller, likewise."""
    probe_image: str = PROBE_IMAGE
    """Image with a POSIX shell, of the pod that tries a new claim."""
    seal_key_file: Path | None = None
    """The key that opens what the gateway has sealed: 64 bytes, as they are or in base64, for its owner only."""
    hugging_face_endpoint: str = Field("https://huggingface.co", pattern=r"^https?://[^\s]+$")
    """The Hugging Face Hub, or a mirror of it: for the platform and for the Jobs that download."""
    mlflow_endpoint: str | None = Field(None, pattern=r"^https?://[^\s]+$")
    """Where managed MLflow's tracking servers answer; null: SageMaker's own address in the server's region."""
    drift_checks: Literal["on", "off"] = "on"
    """Off: the schedules of drift checks are paused; a check that somebody asks for is made all the same."""
    drift_interval_minutes: int = Field(30, ge=1, le=7 * 24 * 60)
    """How often a cluster is compared with its record."""
    helm: str | None = None
    """The helm binary; null: the one on PATH, else ``.tools/bin/helm``."""
    helm_timeout_seconds: int = Field(300, ge=1)
    """What helm may take for one Kubernetes operation (``--timeout``)."""
    helm_cache: Path | None = None
    """Folder for downloaded charts; null: a temporary one per call."""

    def helm_binary(self) -> str:
        return self.helm or shutil.which("helm") or str(PROJECT / ".tools" / "bin" / "helm")

    def chart_path(self) -> str | None:
        """The chart's folder inside the source of the HyperPod dependencies."""
        if self.hyperpod_chart_path is not None:
            return self.hyperpod_chart_path
        return HYPERPOD_CHART_PATH if "sagemaker-hyperpod-cli" in self.hyperpod_chart else None
