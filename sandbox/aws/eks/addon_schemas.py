"""The JSON Schemas of add-ons' configurations, and what a configuration must satisfy.

https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeAddonConfiguration.html . The real schemas are longer;
the members here are those that AWS's guides use. An add-on without one of its own accepts any object. UNVERIFIED:
which members the HyperPod add-ons require.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import yaml

from sandbox.aws.call import AwsError

DRAFT = "http://json-schema.org/draft-07/schema#"

_OBJECT: dict[str, Any] = {"type": "object"}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_SWITCH = {"type": "object", "properties": {"enabled": {"type": "boolean"}}}
_ROLE = {"type": "string", "pattern": r"^(arn:aws[a-z-]*:iam::\d{12}:role/.+)?$"}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _metrics(*names: str) -> dict[str, Any]:
    level = {"type": "string", "enum": ["BASIC", "ADVANCED", "DISABLED"]}
    metric = {"type": "object", "properties": {"level": level, "scrapeInterval": {"type": "integer"}}}
    return {"type": "object", "properties": dict.fromkeys(names, metric)}


SCHEMAS: dict[str, dict[str, Any]] = {
    "coredns": _closed(
        {
            "replicaCount": _COUNT,
            "computeType": _TEXT,
            "corefile": _TEXT,
            "autoScaling": _OBJECT,
            "resources": _OBJECT,
            "nodeSelector": _OBJECT,
            "affinity": _OBJECT,
            "podDisruptionBudget": _OBJECT,
            "podAnnotations": _OBJECT,
            "podLabels": _OBJECT,
            "tolerations": {"type": "array"},
            "topologySpreadConstraints": {"type": "array"},
        }
    ),
    "amazon-sagemaker-hyperpod-training-operator": _closed(
        {
            "hpTrainingControllerManager": {
                "type": "object",
                "properties": {"manager": _OBJECT, "nodeSelector": _OBJECT, "tolerations": {"type": "array"}},
            }
        }
    ),
    "amazon-sagemaker-hyperpod-inference": _closed(
        {
            "executionRoleArn": _ROLE,
            "tlsCertificateS3Bucket": _TEXT,
            "hyperpodClusterArn": _TEXT,
            "jumpstartGatedModelDownloadRoleArn": _ROLE,
            "alb": _SWITCH,
            "keda": _SWITCH,
        },
        "executionRoleArn",
        "tlsCertificateS3Bucket",
    ),
    "amazon-sagemaker-hyperpod-observability": _closed(
        {
            "ampWorkspace": _closed(
                {"arn": _TEXT, "prometheusEndpoint": {"type": "string", "pattern": "^https?://"}},
                "arn",
                "prometheusEndpoint",
            ),
            "amgWorkspace": _closed({"arn": _TEXT, "prometheusRuleGroups": _OBJECT}),
            "metricsProvider": _metrics(
                "clusterMetrics",
                "nodeMetrics",
                "acceleratedComputeMetrics",
                "networkMetrics",
                "taskGovernanceMetrics",
                "trainingMetrics",
                "scalingMetrics",
                "customMetrics",
            ),
            "logging": _SWITCH,
        },
        "ampWorkspace",
    ),
}


def schema_of(name: str) -> dict[str, Any]:
    return {"$schema": DRAFT, **SCHEMAS.get(name, {"type": "object", "additionalProperties": True})}


def parse(name: str, values: str | None) -> dict[str, Any]:
    """The configuration of an add-on, from JSON or YAML. Raises InvalidParameterException for what is no object, or
    does not fit the add-on's schema."""
    try:
        configuration = yaml.safe_load(values) if values else {}
    except yaml.YAMLError:
        configuration = None
    if not isinstance(configuration, dict):
        raise AwsError(
            "InvalidParameterException", "ConfigurationValue provided in request is not supported", addonName=name
        )
    errors = [
        f"$.{'.'.join(str(part) for part in error.instance_path)}: {error.message}".replace("$.:", "$:")
        for error in jsonschema_rs.validator_for(schema_of(name)).iter_errors(configuration)
    ]
    if errors:
        raise AwsError(
            "InvalidParameterException",
            "ConfigurationValue provided in request is not supported: Json schema validation failed with error: "
            f"[{', '.join(errors)}]",
            addonName=name,
        )
    return configuration
