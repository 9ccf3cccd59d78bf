"""The add-on of the HyperPod training operator.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html . Its definition is not public:
fields are those of https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
"""

from __future__ import annotations

from . import manifests
from .addonparts import POD_IDENTITY_AGENT, Wanted, certificates, controller, service, webhooks
from .resources import Json

NAMESPACE = "aws-hyperpod"
MANAGER = "hp-training-operator-hp-training-controller-manager"
ACCOUNT = "hp-training-operator-controller-manager"
HYPERPOD_NODES = {"sagemaker.amazonaws.com/compute-type": "hyperpod"}
REQUIRES = (*certificates(NAMESPACE, "hp-training-operator-serving-cert"), POD_IDENTITY_AGENT)

_OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

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


def objects(wanted: Wanted) -> list[Json]:
    selector = wanted.setting("hpTrainingControllerManager.nodeSelector", HYPERPOD_NODES)
    image = "amazon/hyperpod-training-operator"
    rules = {"vhyperpodpytorchjob.kb.io": ("sagemaker.amazonaws.com", "hyperpodpytorchjobs")}
    return [
        *controller(NAMESPACE, MANAGER, image, wanted.version, account=ACCOUNT, selector=selector),
        manifests.open_definition(
            "sagemaker.amazonaws.com",
            "HyperPodPyTorchJob",
            "hyperpodpytorchjobs",
            ("v1",),
            schema=_TRAINING_JOB,
            columns=({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},),
        ),
        service(NAMESPACE, "hp-training-operator-webhook-service", {"app": MANAGER}),
        webhooks(
            "Validating",
            "hp-training-operator-validating-webhook-configuration",
            NAMESPACE,
            "hp-training-operator-webhook-service",
            rules,
        ),
    ]
