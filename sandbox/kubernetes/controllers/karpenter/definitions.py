"""The custom resources of managed Karpenter, reduced to the fields that matter here.

Karpenter's: https://karpenter.sh/docs/concepts/nodepools/ . HyperPod's node class:
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html (its definition is not
public).
"""

from __future__ import annotations

from sandbox.kubernetes import manifests
from sandbox.kubernetes.resources import Json

GROUP, NODE_CLASS_GROUP = "karpenter.sh", "karpenter.sagemaker.amazonaws.com"
NODE_CLASSES = (NODE_CLASS_GROUP, "hyperpodnodeclasses")
NODE_POOLS, NODE_CLAIMS = (GROUP, "nodepools"), (GROUP, "nodeclaims")

_OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRINGS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_QUANTITIES: Json = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_DURATION = r"^(([0-9]+(s|m|h))+|Never)$"

_REQUIREMENTS: Json = {
    "type": "array",
    "maxItems": 100,
    "items": {
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": {"type": "string", "maxLength": 316},
            "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]},
            "values": {"type": "array", "items": {"type": "string"}},
            "minValues": {"type": "integer", "minimum": 1, "maximum": 50},
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            "message": "requirements with operator 'In' must have a value defined",
        }
    ],
}
_TAINTS: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["key", "effect"],
        "properties": {
            "key": {"type": "string", "minLength": 1},
            "value": {"type": "string"},
            "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
        },
    },
}
_NODE_CLASS_REF: Json = {
    "type": "object",
    "required": ["group", "kind", "name"],
    "properties": {name: {"type": "string", "minLength": 1} for name in ("group", "kind", "name")},
}
_IMMUTABLE_REF = [
    {"rule": f"self.{name} == oldSelf.{name}", "message": f"nodeClassRef.{name} is immutable"}
    for name in ("group", "kind")
]


def _template_spec(immutable: bool) -> Json:
    reference = {**_NODE_CLASS_REF, **({"x-kubernetes-validations": _IMMUTABLE_REF} if immutable else {})}
    return {
        "type": "object",
        "required": ["nodeClassRef", "requirements"],
        "properties": {
            "nodeClassRef": reference,
            "requirements": _REQUIREMENTS,
            "taints": _TAINTS,
            "startupTaints": _TAINTS,
            "expireAfter": {"type": "string", "pattern": _DURATION, "default": "720h"},
            "terminationGracePeriod": {"type": "string", "pattern": r"^([0-9]+(s|m|h))+$"},
            "resources": {"type": "object", "properties": {"requests": _QUANTITIES}},
        },
    }


_NODE_CLASS_SPEC: Json = {
    "type": "object",
    "required": ["instanceGroups"],
    "properties": {
        "instanceGroups": {
            "type": "array",
            "minItems": 1,
            "maxItems": 10,
            "items": {"type": "string", "minLength": 1, "maxLength": 63},
        }
    },
}
_NODE_POOL_SPEC: Json = {
    "type": "object",
    "required": ["template"],
    "properties": {
        "template": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "metadata": {"type": "object", "properties": {"labels": _STRINGS, "annotations": _STRINGS}},
                "spec": _template_spec(immutable=True),
            },
        },
        "disruption": {
            "type": "object",
            "required": ["consolidateAfter"],
            "default": {"consolidateAfter": "0s"},
            "properties": {
                "consolidateAfter": {"type": "string", "pattern": _DURATION},
                "consolidationPolicy": {
                    "type": "string",
                    "enum": ["WhenEmpty", "WhenEmptyOrUnderutilized"],
                    "default": "WhenEmptyOrUnderutilized",
                },
                "budgets": {
                    "type": "array",
                    "maxItems": 50,
                    "default": [{"nodes": "10%"}],
                    "items": {
                        "type": "object",
                        "required": ["nodes"],
                        "properties": {
                            "nodes": {"type": "string", "default": "10%", "pattern": r"^((100|[0-9]{1,2})%|[0-9]+)$"},
                            "schedule": {"type": "string"},
                            "duration": {"type": "string"},
                            "reasons": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                },
            },
        },
        "limits": _QUANTITIES,
        "weight": {"type": "integer", "minimum": 1, "maximum": 100},
    },
}


def _definition(group: str, kind: str, plural: str, spec: Json, *columns: tuple[str, str]) -> Json:
    return manifests.open_definition(
        group,
        kind,
        plural,
        ("v1",),
        namespaced=False,
        schema={"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": _OPEN}},
        columns=(
            *({"name": name, "type": "string", "jsonPath": path} for name, path in columns),
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ),
    )


def definitions() -> list[Json]:
    """CustomResourceDefinitions that HyperPod puts into a cluster when autoscaling is in service."""
    return [
        _definition(NODE_CLASS_GROUP, "HyperpodNodeClass", "hyperpodnodeclasses", _NODE_CLASS_SPEC),
        _definition(
            GROUP,
            "NodePool",
            "nodepools",
            _NODE_POOL_SPEC,
            ("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            ("Nodes", ".status.resources.nodes"),
        ),
        _definition(
            GROUP,
            "NodeClaim",
            "nodeclaims",
            _template_spec(immutable=False),
            ("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            ("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
            ("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
            ("Node", ".status.nodeName"),
        ),
    ]
