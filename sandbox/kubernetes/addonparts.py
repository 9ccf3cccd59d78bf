"""What most add-ons are made of: agents on nodes, controllers, drivers, webhooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import manifests
from .resources import Json

REGISTRY = "602401143452.dkr.ecr.us-west-2.amazonaws.com"

CERTIFICATES = "certificates.cert-manager.io"


@dataclass(frozen=True)
class Wanted:
    """An add-on as it is asked for: ``configuration`` is its configurationValues."""

    version: str
    configuration: dict[str, Any] = field(default_factory=dict)

    def setting(self, path: str, default: Any = None) -> Any:
        """A value of the configuration by its path, ``a.b.c``."""
        found: Any = self.configuration
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return default if found is None else found


Objects = Callable[[Wanted], list[Json]]


@dataclass(frozen=True)
class Requirement:
    """An object without which an add-on cannot be installed, and what EKS says then."""

    group: str
    plural: str
    namespace: str | None
    name: str
    message: str
    code: str = "K8sResourceNotFound"
    available: bool = False
    """Whether it is a Deployment that must have replicas."""


def certificates(namespace: str, certificate: str) -> tuple[Requirement, ...]:
    """cert-manager, for an add-on that asks it for a certificate of this name."""
    return (
        Requirement(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            None,
            CERTIFICATES,
            f'resource mapping not found for name: "{certificate}" namespace: "{namespace}": no matches for kind '
            '"Certificate" in version "cert-manager.io/v1": ensure CRDs are installed first',
        ),
        Requirement(
            "apps",
            "deployments",
            "cert-manager",
            "cert-manager-webhook",
            'Internal error occurred: failed calling webhook "webhook.cert-manager.io": no endpoints available for '
            'service "cert-manager-webhook"',
            "AdmissionRequestDenied",
            available=True,
        ),
    )


POD_IDENTITY_AGENT = Requirement(
    "apps",
    "daemonsets",
    "kube-system",
    "eks-pod-identity-agent",
    "The add-on needs the DaemonSet eks-pod-identity-agent in namespace kube-system, which was not found",
)


def driver_requirement(driver: str, title: str) -> Requirement:
    message = f"{title} CSI driver not installed (missing CSIDriver {driver})."
    return Requirement("storage.k8s.io", "csidrivers", None, driver, message, "InsufficientNumberOfReplicas")


def node_agent(account: str, daemon_set: str, image: str, version: str) -> list[Json]:
    """A DaemonSet of kube-system with its account. ``account`` names what it is part of, too."""
    return [
        manifests.service_account("kube-system", account),
        manifests.daemon_set("kube-system", daemon_set, f"{REGISTRY}/{image}:{version}", version, account=account),
    ]


def controller(
    namespace: str,
    deployment: str,
    image: str,
    version: str,
    *,
    account: str = "",
    replicas: int = 1,
    selector: dict[str, str] | None = None,
) -> list[Json]:
    """A Deployment with its namespace and its account; ``selector`` are labels of the nodes that it runs on."""
    account = account or deployment
    own = [] if namespace == "kube-system" else [manifests.namespace(namespace)]
    made = manifests.deployment(
        namespace, deployment, f"{image}:{version}", version, account=account, replicas=replicas
    )
    if selector:
        made["spec"]["template"]["spec"]["nodeSelector"] = selector
    return [*own, manifests.service_account(namespace, account), made]


def csi(
    driver: str, prefix: str, image: str, version: str, *, account: str = "", attach: bool = False, replicas: int = 2
) -> list[Json]:
    """A CSI driver: its controllers, its agents on nodes, and their accounts."""
    image = f"{REGISTRY}/{image}:{version}"
    controller_account = account or f"{prefix}-csi-controller-sa"
    node_account = account or f"{prefix}-csi-node-sa"
    return [
        manifests.csi_driver(driver, attach),
        *(manifests.service_account("kube-system", name) for name in dict.fromkeys((controller_account, node_account))),
        manifests.daemon_set("kube-system", f"{prefix}-csi-node", image, version, account=node_account),
        manifests.deployment(
            "kube-system", f"{prefix}-csi-controller", image, version, account=controller_account, replicas=replicas
        ),
    ]


def service(namespace: str, name: str, selector: dict[str, str], port: int = 443) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector, "ports": [{"name": "main", "port": port}]},
    }


def webhooks(kind: str, name: str, namespace: str, service_name: str, rules: dict[str, tuple[str, str]]) -> Json:
    """A webhook configuration, which nobody calls here: a hook's name -> the group and the resource that it judges."""
    hooks = [
        {
            "name": hook,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": service_name, "namespace": namespace, "path": f"/{resource}"}},
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [resource],
                }
            ],
        }
        for hook, (group, resource) in rules.items()
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": hooks,
    }


def api_service(name: str, namespace: str, service_name: str) -> Json:
    """An aggregated API, which is stored and not served."""
    version, _, group = name.partition(".")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": service_name, "namespace": namespace, "port": 443},
        },
    }
