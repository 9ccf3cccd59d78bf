"""EKS add-ons as the objects they put into a cluster.

Names, namespaces and images are those of the real add-ons where these are public; contents are reduced to what a client
can observe: workloads that run or do not, CSI drivers, custom resource definitions, webhooks that nobody calls.
https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html
"""

from __future__ import annotations

from functools import partial

from . import inferenceoperator, manifests, observability, taskgovernance, trainingoperator
from .addonparts import REGISTRY, Objects, Requirement, Wanted, api_service, controller, csi, node_agent, service
from .resources import Json

ADDON_LABEL = "sandbox/addon"


def _agent(account: str, daemon_set: str, image: str) -> Objects:
    return lambda wanted: node_agent(account, daemon_set, image, wanted.version)


def _coredns(wanted: Wanted) -> list[Json]:
    image = f"{REGISTRY}/eks/coredns:{wanted.version}"
    replicas = int(wanted.setting("replicaCount", 2))
    deployment = manifests.deployment(
        "kube-system", "coredns", image, wanted.version, account="coredns", component="dns", replicas=replicas
    )
    deployment["spec"]["template"]["metadata"]["labels"]["k8s-app"] = "kube-dns"
    dns = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "clusterIP": "10.100.0.10",
            "selector": {"k8s-app": "kube-dns"},
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}],
        },
    }
    return [manifests.service_account("kube-system", "coredns"), deployment, dns]


def _cert_manager(wanted: Wanted) -> list[Json]:
    made = [manifests.namespace("cert-manager")]
    for name, image in (
        ("cert-manager", "controller"),
        ("cert-manager-cainjector", "cainjector"),
        ("cert-manager-webhook", "webhook"),
    ):
        image_name = f"{REGISTRY}/eks/cert-manager-{image}:{wanted.version}"
        made += [
            manifests.service_account("cert-manager", name),
            manifests.deployment("cert-manager", name, image_name, wanted.version, account=name, component=image),
        ]
    definition = partial(manifests.open_definition, "cert-manager.io", versions=("v1",))
    return [
        *made,
        service("cert-manager", "cert-manager-webhook", {"app": "cert-manager-webhook"}),
        definition("Certificate", "certificates", short_names=("cert", "certs")),
        definition("CertificateRequest", "certificaterequests", short_names=("cr", "crs")),
        definition("Issuer", "issuers"),
        definition("ClusterIssuer", "clusterissuers", namespaced=False),
    ]


def _metrics_server(wanted: Wanted) -> list[Json]:
    image, replicas = f"{REGISTRY}/eks/metrics-server", int(wanted.setting("replicas", 2))
    return [
        *controller("kube-system", "metrics-server", image, wanted.version, replicas=replicas),
        service("kube-system", "metrics-server", {"app": "metrics-server"}),
        api_service("v1beta1.metrics.k8s.io", "kube-system", "metrics-server"),
    ]


def _ebs(wanted: Wanted) -> list[Json]:
    made = csi("ebs.csi.aws.com", "ebs", "eks/ebs-csi-driver", wanted.version, attach=True)
    if wanted.setting("defaultStorageClass.enabled"):
        made.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": "ebs-csi-default-sc",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "ebs.csi.aws.com",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowVolumeExpansion": True,
            }
        )
    return made


def _fsx(wanted: Wanted) -> list[Json]:
    return csi("fsx.csi.aws.com", "fsx", "eks/aws-fsx-csi-driver", wanted.version)


def _efs(wanted: Wanted) -> list[Json]:
    return csi("efs.csi.aws.com", "efs", "eks/aws-efs-csi-driver", wanted.version)


def _s3(wanted: Wanted) -> list[Json]:
    return csi("s3.csi.aws.com", "s3", "eks/aws-s3-csi-driver", wanted.version, account="s3-csi-driver-sa", replicas=1)


CATALOG: dict[str, Objects] = {
    "vpc-cni": _agent("vpc-cni", "aws-node", "amazon-k8s-cni"),
    "kube-proxy": _agent("kube-proxy", "kube-proxy", "eks/kube-proxy"),
    "coredns": _coredns,
    "eks-pod-identity-agent": _agent("eks-pod-identity-agent", "eks-pod-identity-agent", "eks/eks-pod-identity-agent"),
    "eks-node-monitoring-agent": _agent(
        "eks-node-monitoring-agent", "eks-node-monitoring-agent", "eks/eks-node-monitoring-agent"
    ),
    "cert-manager": _cert_manager,
    "metrics-server": _metrics_server,
    "aws-mountpoint-s3-csi-driver": _s3,
    "aws-fsx-csi-driver": _fsx,
    "aws-efs-csi-driver": _efs,
    "aws-ebs-csi-driver": _ebs,
    "amazon-sagemaker-hyperpod-training-operator": trainingoperator.objects,
    "amazon-sagemaker-hyperpod-inference": inferenceoperator.objects,
    "amazon-sagemaker-hyperpod-taskgovernance": taskgovernance.objects,
    "amazon-sagemaker-hyperpod-observability": observability.hyperpod,
    "amazon-cloudwatch-observability": observability.cloudwatch,
}

REQUIREMENTS: dict[str, tuple[Requirement, ...]] = {
    "amazon-sagemaker-hyperpod-training-operator": trainingoperator.REQUIRES,
    "amazon-sagemaker-hyperpod-inference": inferenceoperator.REQUIRES,
    "amazon-sagemaker-hyperpod-observability": observability.REQUIRES,
}


def objects(name: str, wanted: Wanted) -> list[Json]:
    """What an add-on consists of, marked as its own. An unknown one is a deployment in a namespace of its name."""
    build = CATALOG.get(name) or (lambda w: controller(name, f"{name}-controller", f"amazon/{name}", w.version))
    found = build(wanted)
    for obj in found:
        if obj["kind"] != "Namespace":
            obj["metadata"].setdefault("labels", {})[ADDON_LABEL] = name
    return found
