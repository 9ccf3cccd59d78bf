"""The EKS control plane."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from contracts.activity import Act, Wait
from contracts.model import Ensured, Model
from contracts.network import Scope

SUPPORTED_KUBERNETES_VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35")
"""In standard support that HyperPod's dependencies are known to run on."""
DEFAULT_KUBERNETES_VERSION = "1.34"


def _quoted(version: object) -> object:
    if isinstance(version, float):
        raise ValueError(f"a version is text, not the number {version}: write it in quotes, '1.30'")
    return version


def _supported(version: str) -> str:
    if version not in SUPPORTED_KUBERNETES_VERSIONS:
        raise ValueError(f"{version!r} is not supported; one of {', '.join(SUPPORTED_KUBERNETES_VERSIONS)} is")
    return version


KubernetesVersion = Annotated[str, BeforeValidator(_quoted), AfterValidator(_supported)]


class EnsureControlPlane(Model):
    scope: Scope
    kubernetes_version: str
    role_arn: str
    subnet_ids: list[str]
    security_group_id: str
    service_cidr: str


class ControlPlane(Ensured):
    """``status`` is EKS's own: CREATING, ACTIVE …"""

    name: str
    arn: str
    status: str
    kubernetes_version: str
    endpoint: str | None = None
    oidc_issuer: str | None = None
    cluster_security_group_id: str | None = None


class WaitForControlPlane(Model):
    scope: Scope
    name: str


ENSURE_CONTROL_PLANE = Act("eks.ensure_control_plane", EnsureControlPlane, ControlPlane)
WAIT_FOR_CONTROL_PLANE = Wait(
    "eks.wait_for_control_plane", WaitForControlPlane, ControlPlane, limit=timedelta(minutes=45)
)
