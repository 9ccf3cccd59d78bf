"""The add-on of the HyperPod training operator.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html . Its definition is not public:
fields are those of https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
"""

from __future__ import annotations

from typing import Any

from . import manifests
from .addonparts import POD_IDENTITY_AGENT, Wanted, certificates, controller, service, webhooks
from .resources import Json

NAMESPACE = "aws-hyperpod"
MANAGER = "hp-training-operator-hp-training-controller-manager"
ACCOUNT = "hp-training-operator-controller-manager"
HYPERPOD_NODES = {"sagemaker.amazonaws.com/compute-type": "hyperpod"}
REQUIRES = (*certificates(NAMESPACE, "hp-training-operator-serving-cert"), POD_IDENTITY_AGENT)

_OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _whole(minimum: int | None = 0, **more: Any) -> Json:
    return {"type": "integer", **({} if minimum is None else {"minimum": minimum}), **more}


_RULE: Json = {
    "type": "object",
    "required": ["name", "logPattern"],
    "properties": {
        "name": {"type": "string"},
        "logPattern": {"type": "string"},
        "expectedRecurringFrequencyInSeconds": _whole(),
        "expectedStartCutOffInSeconds": _whole(),
        "metricThreshold": _whole(None),
        "metricEvaluationDataPoints": _whole(),
        "operator": {"type": "string", "enum": ["gt", "lt", "eq", "gteq", "lteq"]},
        "stopPattern": {"type": "string"},
        "faultOnMatch": {"type": "boolean"},
    },
}
_RESTART_POLICY: Json = {
    "type": "object",
    "required": ["evalPeriodSeconds"],
    "properties": {
        "evalPeriodSeconds": _whole(),
        "maxFullJobRestarts": _whole(),
        "numRestartBeforeFullJobRestart": _whole(),
        "maxNumRepeatOffendersToAvoid": _whole(),
        "scaleUpSnoozeTimeInSeconds": _whole(),
    },
}
_ELASTIC_POLICY: Json = {
    "type": "object",
    "properties": {
        "minReplicas": _whole(),
        "maxReplicas": _whole(),
        "replicaIncrementStep": _whole(1),
        "replicaDiscreteValues": {"type": "array", "items": _whole(1)},
        "gracefulShutdownTimeoutInSeconds": _whole(),
        "scalingTimeoutInSeconds": _whole(),
        "faultyScaleDownTimeoutInSeconds": _whole(),
    },
}
_RUN_POLICY: Json = {
    "type": "object",
    "properties": {
        "cleanPodPolicy": {"type": "string", "enum": ["All", "OnlyComplete", "None"], "default": "All"},
        "jobMaxRetryCount": _whole(),
        "suspend": {"type": "boolean"},
        "ttlSecondsAfterFinished": _whole(None, default=0),
        "activeDeadlineSeconds": _whole(),
        "startupDeadlineSeconds": _whole(),
        "faultDeadlineSeconds": _whole(),
        "workloadMode": {"type": "string"},
        "restartPolicy": _RESTART_POLICY,
        "logMonitoringConfiguration": {"type": "array", "items": _RULE},
    },
}
_TRAINING_JOB: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["replicaSpecs"],
            "properties": {
                "nprocPerNode": {"type": "string", "default": "auto"},
                "elasticPolicy": _ELASTIC_POLICY,
                "runPolicy": _RUN_POLICY,
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
                            "replicas": _whole(default=0),
                            "maxReplicas": _whole(),
                            "spares": _whole(default=0),
                            "template": _OPEN,
                        },
                    },
                },
            },
        },
        "status": _OPEN,
    },
}
"""UNVERIFIED: the definition is not public. Members are those of hyperpod-cli's mirror and of AWS's pages on the
operator and on elastic training; enumerations and lower limits are guesses."""


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
