"""The add-on of the HyperPod inference operator, with the load balancer controller and the KEDA that it brings.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment-setup.html ; names as in
helm_chart/HyperPodHelmChart/charts/inference-operator/migration of github.com/aws/sagemaker-hyperpod-cli
"""

from __future__ import annotations

from functools import partial

from . import manifests
from .addonparts import Wanted, certificates, controller, driver_requirement, service
from .resources import Json

NAMESPACE = "hyperpod-inference-system"
MANAGER = "hyperpod-inference-controller-manager"
GROUP = "inference.sagemaker.aws.amazon.com"
REQUIRES = (
    *certificates(NAMESPACE, "hyperpod-inference-serving-cert"),
    driver_requirement("s3.csi.aws.com", "S3"),
    driver_requirement("fsx.csi.aws.com", "FSx"),
)


def objects(wanted: Wanted) -> list[Json]:
    definition = partial(manifests.open_definition, GROUP, versions=("v1", "v1alpha1"))
    made = [
        *controller(NAMESPACE, MANAGER, "amazon/hyperpod-inference-operator", wanted.version),
        definition("InferenceEndpointConfig", "inferenceendpointconfigs"),
        definition("JumpStartModel", "jumpstartmodels"),
        definition("SageMakerEndpointRegistration", "sagemakerendpointregistrations"),
        service(NAMESPACE, "hyperpod-inference-conversion-webhook", {"app": MANAGER}),
    ]
    if wanted.setting("alb.enabled", True):
        made += _load_balancers(wanted)
    if wanted.setting("keda.enabled", True):
        made += _keda(wanted)
    return made


def _load_balancers(wanted: Wanted) -> list[Json]:
    account = wanted.setting("alb.serviceAccount.name", "aws-load-balancer-controller")
    _, holder, deployment = controller(
        NAMESPACE, "hyperpod-inference-alb", "eks/aws-load-balancer-controller", wanted.version, account=account
    )
    _annotate(holder, wanted.setting("alb.serviceAccount.roleArn"))
    definition = partial(manifests.open_definition, "elbv2.k8s.aws", versions=("v1beta1",))
    ingress_class = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "alb"},
        "spec": {"controller": "ingress.k8s.aws/alb"},
    }
    return [
        holder,
        deployment,
        definition("IngressClassParams", "ingressclassparams", namespaced=False),
        definition("TargetGroupBinding", "targetgroupbindings"),
        ingress_class,
    ]


def _keda(wanted: Wanted) -> list[Json]:
    made: list[Json] = []
    for deployment, account in (
        ("keda-operator", "keda-operator"),
        ("keda-operator-metrics-apiserver", "keda-metrics-server"),
        ("keda-admission-webhooks", "keda-webhook"),
    ):
        _, *own = controller(NAMESPACE, deployment, "kedacore/keda", wanted.version, account=account)
        made += own
    _annotate(
        made[0], wanted.setting("keda.auth.aws.irsa.roleArn") or wanted.setting("keda.podIdentity.aws.irsa.roleArn")
    )
    definition = partial(manifests.open_definition, "keda.sh", versions=("v1alpha1",))
    return [
        *made,
        definition("ScaledObject", "scaledobjects", short_names=("so",)),
        definition("ScaledJob", "scaledjobs", short_names=("sj",)),
        definition("TriggerAuthentication", "triggerauthentications", short_names=("ta", "triggerauth")),
        definition(
            "ClusterTriggerAuthentication", "clustertriggerauthentications", namespaced=False, short_names=("cta",)
        ),
    ]


def _annotate(account: Json, role: str | None) -> None:
    if role:
        account["metadata"]["annotations"] = {"eks.amazonaws.com/role-arn": role}
