"""Other installations that do what a feature does: they are used, and never touched."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.aws import is_ours
from activities.features.ground import RELEASE_NAME, RELEASE_NAMESPACE, Ground
from activities.features.ground import ground as look_at
from activities.kubernetes import listed
from contracts.feature_catalogue import CERT_MANAGER, DEFINITIONS
from contracts.features import Feature, PartKind

CONTROLLERS: dict[Feature, tuple[str, ...]] = {
    Feature.METRICS_SERVER: ("metrics-server",),
    Feature.TRAINING_OPERATOR: (
        "hp-training-operator-controller-manager",
        "hyperpod-training-operator-controller-manager",
    ),
    Feature.KUBERAY: ("kuberay-operator",),
    Feature.KEDA: ("keda-operator",),
    Feature.LOAD_BALANCER_CONTROLLER: ("aws-load-balancer-controller",),
    Feature.FSX_CSI: ("fsx-csi-controller",),
    Feature.CONTAINER_INSIGHTS: ("amazon-cloudwatch-observability-controller-manager",),
    Feature.TASK_GOVERNANCE: ("kueue-controller-manager",),
    Feature.OBSERVABILITY: ("hyperpod-observability-central-collector",),
    Feature.INFERENCE_OPERATOR: (
        "hyperpod-inference-controller-manager",
        "hyperpod-inference-operator-controller-manager",
    ),
}
"""What the controllers' Deployments are called, or labelled ``app.kubernetes.io/name``, whoever installed them."""

ALB = "ingress.k8s.aws/alb"


def foreign_installation(ground: Ground, feature: Feature) -> str | None:
    """What others have installed that does the same as the feature, in words; None if nothing is seen."""
    if _seen(ground, feature) is None:
        return None
    # An add-on or a release of ours that comes or goes, while one thing is read after the other, looks so too.
    with look_at(ground.site, ground.aws, ground.kubernetes, ground.settings) as anew:
        return _seen(anew, feature)


def _seen(ground: Ground, feature: Feature) -> str | None:
    for part in DEFINITIONS[feature].parts:
        if part.kind is PartKind.ADDON and (addon := ground.addon(part.name)) is not None:
            if is_ours(addon.get("tags", {}), ground.scope.cluster):
                return None
            return f"EKS add-on {part.name} {addon['addonVersion']} {addon['status']}, which others installed"
        if part.kind is PartKind.SETTING:
            return None
    for each in ground.deployments:
        if _is_one(each, CONTROLLERS.get(feature, ())) and not _ours(ground, each):
            return f"Deployment {each.metadata.namespace}/{each.metadata.name}, which others installed"
    if feature is Feature.LOAD_BALANCER_CONTROLLER:
        return _ingress_class(ground)
    return None


def _is_one(deployment: Any, names: tuple[str, ...]) -> bool:
    label = (deployment.metadata.labels or {}).get("app.kubernetes.io/name")
    return deployment.metadata.name in names or label in names


def _ours(ground: Ground, found: Any) -> bool:
    notes = found.metadata.annotations or {}
    return (notes.get(RELEASE_NAMESPACE), notes.get(RELEASE_NAME)) in ground.releases


def _ingress_class(ground: Ground) -> str | None:
    for each in listed(client.NetworkingV1Api(ground.api).list_ingress_class):
        if each.spec.controller == ALB and not _ours(ground, each):
            return f"IngressClass {each.metadata.name} of {ALB}, which others made"
    return None


def foreign_component(ground: Ground, name: str) -> str | None:
    """A component that others run themselves in place of its EKS add-on, in words; None if nothing is seen."""
    if name == CERT_MANAGER:
        found = [each for each in ground.deployments if _is_one(each, ("cert-manager",))]
        if found and ground.definitions_of("certificates.cert-manager.io"):
            return f"Deployment {found[0].metadata.namespace}/{found[0].metadata.name}, which others installed"
    return None
