"""EKS add-ons as the objects they put into a cluster.

Names, namespaces and images are those of the real add-ons where these are public; contents are reduced to what a client
can observe: workloads that run or do not, CSI drivers, custom resource definitions.
https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import manifests
from .resources import Json

REGISTRY = "602401143452.dkr.ecr.us-west-2.amazonaws.com"
ADDON_LABEL = "sandbox/addon"

Objects = Callable[[str], list[Json]]
"""An add-on's version to its objects."""


def _node_agent(name: str, daemon_set: str, image: str, version: str, namespace: str = "kube-system") -> list[Json]:
    return [
        manifests.service_account(namespace, daemon_set),
        manifests.daemon_set(namespace, daemon_set, f"{REGISTRY}/{image}:{version}", version, account=daemon_set),
    ]


def _controller(namespace: str, deployment: str, image: str, version: str, replicas: int = 1) -> list[Json]:
    own = [] if namespace == "kube-system" else [manifests.namespace(namespace)]
    return [
        *own,
        manifests.service_account(namespace, deployment),
        manifests.deployment(
            namespace, deployment, f"{image}:{version}", version, account=deployment, replicas=replicas
        ),
    ]


def _csi(driver: str, prefix: str, image: str, version: str, attach: bool = False) -> list[Json]:
    account = f"{prefix}-csi-driver-sa"
    return [
        manifests.csi_driver(driver, attach),
        manifests.service_account("kube-system", account),
        manifests.daemon_set(
            "kube-system", f"{prefix}-csi-node", f"{REGISTRY}/{image}:{version}", version, account=account
        ),
        manifests.deployment(
            "kube-system", f"{prefix}-csi-controller", f"{REGISTRY}/{image}:{version}", version, account=account
        ),
    ]


def _coredns(version: str) -> list[Json]:
    image = f"{REGISTRY}/eks/coredns:{version}"
    deployment = manifests.deployment(
        "kube-system", "coredns", image, version, account="coredns", component="dns", replicas=2
    )
    deployment["spec"]["template"]["metadata"]["labels"]["k8s-app"] = "kube-dns"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "clusterIP": "10.100.0.10",
            "selector": {"k8s-app": "kube-dns"},
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}],
        },
    }
    return [manifests.service_account("kube-system", "coredns"), deployment, service]


def _cert_manager(version: str) -> list[Json]:
    objects = [manifests.namespace("cert-manager")]
    for name, image in (
        ("cert-manager", "controller"),
        ("cert-manager-cainjector", "cainjector"),
        ("cert-manager-webhook", "webhook"),
    ):
        objects += [
            manifests.service_account("cert-manager", name),
            manifests.deployment(
                "cert-manager",
                name,
                f"{REGISTRY}/eks/cert-manager-{image}:{version}",
                version,
                account=name,
                component=image,
            ),
        ]
    definition = partial(manifests.open_definition, "cert-manager.io", versions=("v1",))
    return [
        *objects,
        definition("Certificate", "certificates", short_names=("cert", "certs")),
        definition("CertificateRequest", "certificaterequests", short_names=("cr", "crs")),
        definition("Issuer", "issuers"),
        definition("ClusterIssuer", "clusterissuers", namespaced=False),
    ]


_OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

# An approximation: the operator's definition is not public. Fields are those of the operator's documentation,
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
_TRAINING_JOB: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["replicaSpecs"],
            "properties": {
                "nprocPerNode": {"type": "string", "default": "auto"},
                "elasticPolicy": _OPEN,
                "runPolicy": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {
                        "cleanPodPolicy": {"type": "string", "enum": ["All", "OnlyComplete", "None"], "default": "All"},
                        "jobMaxRetryCount": {"type": "integer", "minimum": 0},
                        "suspend": {"type": "boolean"},
                        "ttlSecondsAfterFinished": {"type": "integer", "default": 0},
                        "activeDeadlineSeconds": {"type": "integer"},
                        "startupDeadlineSeconds": {"type": "integer"},
                        "faultDeadlineSeconds": {"type": "integer"},
                        "workloadMode": {"type": "string"},
                        "restartPolicy": _OPEN,
                        "logMonitoringConfiguration": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["name", "logPattern"],
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {"name": {"type": "string"}, "logPattern": {"type": "string"}},
                            },
                        },
                    },
                },
                "replicaSpecs": {
                    "type": "array",
                    "minItems": 1,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name", "template"],
                        "properties": {
                            "name": {"type": "string"},
                            "replicas": {"type": "integer", "minimum": 0, "default": 0},
                            "maxReplicas": {"type": "integer"},
                            "spares": {"type": "integer", "default": 0},
                            "template": _OPEN,
                        },
                    },
                },
            },
        },
        "status": _OPEN,
    },
}


def _training_operator(version: str) -> list[Json]:
    image = "amazon/hyperpod-training-operator"
    return [
        *_controller("aws-hyperpod", "hyperpod-training-operator-controller-manager", image, version),
        manifests.open_definition(
            "sagemaker.amazonaws.com",
            "HyperPodPyTorchJob",
            "hyperpodpytorchjobs",
            ("v1",),
            schema=_TRAINING_JOB,
            columns=({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},),
        ),
    ]


def _inference_operator(version: str) -> list[Json]:
    definition = partial(manifests.open_definition, "inference.sagemaker.aws.amazon.com", versions=("v1", "v1alpha1"))
    return [
        *_controller(
            "hyperpod-inference-system",
            "hyperpod-inference-controller-manager",
            "amazon/hyperpod-inference-operator",
            version,
        ),
        definition("InferenceEndpointConfig", "inferenceendpointconfigs"),
        definition("JumpStartModel", "jumpstartmodels"),
        definition("SageMakerEndpointRegistration", "sagemakerendpointregistrations"),
    ]


CATALOG: dict[str, Objects] = {
    "vpc-cni": lambda v: _node_agent("vpc-cni", "aws-node", "amazon-k8s-cni", v),
    "kube-proxy": lambda v: _node_agent("kube-proxy", "kube-proxy", "eks/kube-proxy", v),
    "coredns": _coredns,
    "eks-pod-identity-agent": lambda v: _node_agent(
        "eks-pod-identity-agent", "eks-pod-identity-agent", "eks/eks-pod-identity-agent", v
    ),
    "eks-node-monitoring-agent": lambda v: _node_agent(
        "eks-node-monitoring-agent", "eks-node-monitoring-agent", "eks/eks-node-monitoring-agent", v
    ),
    "cert-manager": _cert_manager,
    "aws-mountpoint-s3-csi-driver": lambda v: _csi("s3.csi.aws.com", "s3", "eks/aws-s3-csi-driver", v),
    "aws-fsx-csi-driver": lambda v: _csi("fsx.csi.aws.com", "fsx", "eks/aws-fsx-csi-driver", v),
    "aws-efs-csi-driver": lambda v: _csi("efs.csi.aws.com", "efs", "eks/aws-efs-csi-driver", v),
    "aws-ebs-csi-driver": lambda v: _csi("ebs.csi.aws.com", "ebs", "eks/aws-ebs-csi-driver", v, attach=True),
    "metrics-server": lambda v: _controller("kube-system", "metrics-server", f"{REGISTRY}/eks/metrics-server", v, 2),
    "amazon-sagemaker-hyperpod-training-operator": _training_operator,
    "amazon-sagemaker-hyperpod-inference": _inference_operator,
    "amazon-sagemaker-hyperpod-taskgovernance": lambda v: _controller(
        "kueue-system", "kueue-controller-manager", "amazon/kueue", v
    ),
    "amazon-sagemaker-hyperpod-observability": lambda v: _controller(
        "hyperpod-observability", "hyperpod-observability-central-collector", "amazon/hyperpod-observability", v
    ),
    "amazon-cloudwatch-observability": lambda v: _controller(
        "amazon-cloudwatch", "amazon-cloudwatch-observability-controller-manager", "amazon/cloudwatch-agent-operator", v
    ),
}


def objects(name: str, version: str) -> list[Json]:
    """What an add-on consists of, marked as its own. An unknown one is a deployment in a namespace of its name."""
    build = CATALOG.get(name) or (lambda v: _controller(name, f"{name}-controller", f"amazon/{name}", v))
    found = build(version)
    for obj in found:
        if obj["kind"] != "Namespace":
            obj["metadata"].setdefault("labels", {})[ADDON_LABEL] = name
    return found
