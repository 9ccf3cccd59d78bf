"""Whether an object is valid: its schema, names, quantities, rules between fields, and what may not change.

The OpenAPI definitions know types and required fields; rules in code are those of Kubernetes' validation packages that
a client is likely to meet.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import jsonschema_rs

from . import expressions
from .errors import ApiError, cause, invalid, invalid_value, required
from .objects import dig
from .quantities import parse_quantity
from .resources import IMMUTABLE_FIELDS, Json, ResourceType
from .schemas import OBJECT_META, definitions, prune
from .selectors import from_label_selector, matches_labels

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_PATH_SEGMENT = re.compile(r"[^/%]+")

SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

# Values that the OpenAPI definitions leave open: (path, allowed values, within a pod spec?)
_ENUMS: dict[str, tuple[str, ...]] = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_KIND_ENUMS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("", "services"): {
        "spec.type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "spec.sessionAffinity": ("ClientIP", "None"),
    },
    ("", "persistentvolumes"): {"spec.persistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain")},
    ("batch", "cronjobs"): {"spec.concurrencyPolicy": ("Allow", "Forbid", "Replace")},
    ("batch", "jobs"): {"spec.completionMode": ("Indexed", "NonIndexed")},
    ("apps", "deployments"): {"spec.strategy.type": ("Recreate", "RollingUpdate")},
    ("apps", "statefulsets"): {"spec.podManagementPolicy": ("OrderedReady", "Parallel")},
}
_TEMPLATED = {"deployments", "replicasets", "statefulsets", "daemonsets", "jobs"}


def _referenced(schema: Any) -> dict[str, Json]:
    """The definitions that a schema needs, directly or not."""
    found: dict[str, Json] = {}
    todo = re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema))
    while todo:
        name = todo.pop()
        if name not in found and name in definitions():
            found[name] = definitions()[name]
            todo += re.findall(r'"#/\$defs/([^"]+)"', json.dumps(found[name]))
    return found


_STRUCTURAL = ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf")
_NOT_VALIDATED = {"nullable", "description", "default", "format", "example", "x-kubernetes-validations"}


def _json_schema(schema: Any) -> Any:
    """An OpenAPI v3.0 structural schema as JSON Schema 2020-12."""
    if isinstance(schema, list):
        return [_json_schema(member) for member in schema]
    if not isinstance(schema, dict) or "$ref" in schema:
        return schema
    out: Json = {}
    for key, value in schema.items():
        if key in _STRUCTURAL:
            out[key] = _json_schema(value)
        elif key == "properties":
            out[key] = {name: _json_schema(child) for name, child in value.items()}
        elif key not in _NOT_VALIDATED:
            out[key] = value
    if schema.get("x-kubernetes-int-or-string"):
        out.pop("anyOf", None)
        out["type"] = ["integer", "string"]
    for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(out.get(exclusive), bool) and out.pop(exclusive) and inclusive in out:
            out[exclusive] = out.pop(inclusive)
    if schema.get("nullable"):
        if isinstance(out.get("type"), str):
            out["type"] = [out["type"], "null"]
        if "enum" in out:
            out["enum"] = [*out["enum"], None]
    return out


@lru_cache(maxsize=2048)
def _compiled(schema_key: str, text: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(text))


class _Validators:
    """Compiled validators by ``schema_key``, shared by all clusters of the process."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[Json, Any, bool]] = {}

    def get(self, kind: ResourceType) -> tuple[Any, bool]:
        """The validator, and whether the schema has CEL rules."""
        known = self._by_key.get(kind.schema_key)
        if known is None or known[0] is not kind.schema:
            schema = _json_schema(kind.schema) if kind.custom else kind.schema
            text = json.dumps({**schema, "$defs": _referenced(schema)}, sort_keys=True)
            rules = kind.custom and expressions.has_rules(kind.schema)
            known = self._by_key[kind.schema_key] = (kind.schema, _compiled(kind.schema_key, text), rules)
        return known[1], known[2]


_validators = _Validators()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _type_name(value: Any) -> str:
    return {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}.get(
        type(value), "null"
    )


def _schema_causes(kind: ResourceType, obj: Json) -> list[Json]:
    validator, _ = _validators.get(kind)
    if validator.is_valid(obj):
        return []
    causes = []
    for error in validator.iter_errors(obj):
        path = expressions.path_text(tuple(error.instance_path))
        keyword = error.schema_path[-1] if error.schema_path else ""
        if keyword == "required" or "required" in error.schema_path[-2:]:
            causes.append(required(f"{path}.{error.kind.property}".lstrip(".")))
        elif keyword == "enum":
            options = error.kind.options
            options = json.loads(options) if isinstance(options, str) else options
            allowed = ", ".join(json.dumps(option) for option in options)
            message = f"Unsupported value: {_short(error.instance)}: supported values: {allowed}"
            causes.append(cause("FieldValueNotSupported", path, message))
        elif keyword == "type":
            message = f"Invalid value: {json.dumps(_type_name(error.instance))}: {error.message[:160]}"
            causes.append(cause("FieldValueTypeInvalid", path, message))
        else:
            causes.append(invalid_value(path, f"Invalid value: {_short(error.instance)}: {error.message[:200]}"))
    return sorted(causes, key=lambda c: str(c["field"]))


def _name_causes(kind: ResourceType, name: str) -> list[Json]:
    field = "metadata.name"
    if kind.group == "rbac.authorization.k8s.io":
        valid, limit, message = _PATH_SEGMENT.fullmatch(name), 253, "may not contain '/' or '%'"
    elif (kind.group, kind.plural) in {("", "namespaces"), ("", "services")}:
        valid, limit, message = _DNS_LABEL.fullmatch(name), 63, LABEL_MESSAGE
    else:
        valid, limit, message = _SUBDOMAIN.fullmatch(name), 253, SUBDOMAIN_MESSAGE
    causes = []
    if not valid:
        causes.append(invalid_value(field, f"Invalid value: {json.dumps(name)}: {message}"))
    if len(name) > limit:
        causes.append(invalid_value(field, f"Invalid value: {json.dumps(name)}: must be no more than {limit} bytes"))
    return causes


def label_causes(labels: Any, field: str) -> list[Json]:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set"""
    causes = []
    for key, value in (labels or {}).items():
        prefix, slash, name = key.rpartition("/")
        if (slash and not _SUBDOMAIN.fullmatch(prefix)) or not _QUALIFIED_NAME.fullmatch(name) or len(name) > 63:
            message = "name part must consist of alphanumeric characters, '-', '_' or '.'"
            causes.append(invalid_value(field, f"Invalid value: {json.dumps(key)}: {message}"))
        if isinstance(value, str) and (not _LABEL_VALUE.fullmatch(value) or len(value) > 63):
            message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
            causes.append(invalid_value(field, f"Invalid value: {json.dumps(value)}: {message}"))
    return causes


def _quantity_causes(quantities: Any, field: str) -> list[Json]:
    causes = []
    for name, value in (quantities or {}).items():
        try:
            parse_quantity(value)
        except ValueError as error:
            causes.append(invalid_value(f"{field}[{name}]", f"Invalid value: {json.dumps(value)}: {error}"))
    return causes


def _pod_causes(spec: Json, field: str) -> list[Json]:
    causes: list[Json] = []
    for key, allowed in _ENUMS.items():
        if key in spec and spec[key] not in allowed:
            causes.append(_unsupported(f"{field}.{key}", spec[key], allowed))
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers"))
    seen: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    for index, container in enumerate(spec.get("containers") or []):
        at = f"{field}.containers[{index}]"
        name = container.get("name", "")
        if name in seen:
            causes.append(cause("FieldValueDuplicate", f"{at}.name", f"Duplicate value: {json.dumps(name)}"))
        seen.add(name)
        if not _DNS_LABEL.fullmatch(name):
            causes.append(invalid_value(f"{at}.name", f"Invalid value: {json.dumps(name)}: {LABEL_MESSAGE}"))
        if not container.get("image"):
            causes.append(required(f"{at}.image"))
        resources = container.get("resources") or {}
        for which in ("requests", "limits"):
            causes += _quantity_causes(resources.get(which), f"{at}.resources.{which}")
        for mount_index, mount in enumerate(container.get("volumeMounts") or []):
            if mount.get("name") not in volumes:
                where = f"{at}.volumeMounts[{mount_index}].name"
                causes.append(cause("FieldValueNotFound", where, f'Not found: "{mount.get("name")}"'))
        if not causes:
            causes += _limit_causes(resources, f"{at}.resources")
    return causes


def _limit_causes(resources: Json, field: str) -> list[Json]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = []
    for name, value in requests.items():
        if name in limits and parse_quantity(value) > parse_quantity(limits[name]):
            message = f'Invalid value: "{value}": must be less than or equal to {name} limit of {limits[name]}'
            causes.append(invalid_value(f"{field}.requests", message))
        elif "/" in name and limits.get(name) is None:
            causes.append(required(f"{field}.limits[{name}]", "Limit must be set for non overcommitable resources"))
    return causes


def _unsupported(field: str, value: Any, allowed: tuple[str, ...]) -> Json:
    options = ", ".join(json.dumps(option) for option in allowed)
    return cause("FieldValueNotSupported", field, f"Unsupported value: {_short(value)}: supported values: {options}")


def _kind_causes(kind: ResourceType, obj: Json) -> list[Json]:
    causes: list[Json] = []
    for path, allowed in _KIND_ENUMS.get((kind.group, kind.plural), {}).items():
        value = dig(obj, path)
        if value is not None and value not in allowed:
            causes.append(_unsupported(path, value, allowed))
    template = dig(obj, "spec.template") if kind.plural in _TEMPLATED else None
    if template is not None:
        labels = dig(template, "metadata.labels", {})
        selector = dig(obj, "spec.selector")
        if selector is not None and not matches_labels(from_label_selector(selector), labels):
            shown = json.dumps(labels, separators=(",", ":"))
            message = f"Invalid value: {shown}: `selector` does not match template `labels`"
            causes.append(invalid_value("spec.template.metadata.labels", message))
        causes += _pod_causes(template.get("spec") or {}, "spec.template.spec")
        policy = dig(template, "spec.restartPolicy")
        if kind.plural == "jobs" and policy not in ("OnFailure", "Never"):
            causes.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        elif kind.plural != "jobs" and policy not in (None, "Always"):
            causes.append(_unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    elif (kind.group, kind.plural) == ("", "pods"):
        causes += _pod_causes(obj.get("spec") or {}, "spec")
    elif kind.plural == "customresourcedefinitions":
        expected = f"{dig(obj, 'spec.names.plural')}.{dig(obj, 'spec.group')}"
        if obj["metadata"]["name"] != expected:
            message = f'Invalid value: "{obj["metadata"]["name"]}": must be spec.names.plural+"."+spec.group'
            causes.append(invalid_value("metadata.name", message))
        if sum(bool(version.get("storage")) for version in dig(obj, "spec.versions", [])) != 1:
            causes.append(
                invalid_value("spec.versions", "Invalid value: must have exactly one version marked as storage")
            )
    elif kind.plural == "persistentvolumeclaims":
        causes += _quantity_causes(dig(obj, "spec.resources.requests"), "spec.resources.requests")
        if not dig(obj, "spec.accessModes"):
            causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    elif kind.plural == "persistentvolumes":
        causes += _quantity_causes(dig(obj, "spec.capacity"), "spec.capacity")
    return causes


def _immutability_causes(kind: ResourceType, obj: Json, old: Json) -> list[Json]:
    causes = []
    if not kind.custom:
        for path in IMMUTABLE_FIELDS.get((kind.group, kind.plural), ()):
            before, after = dig(old, path), dig(obj, path)
            if before is not None and before != after:
                causes.append(invalid_value(path, f"Invalid value: {_short(after)}: field is immutable"))
    if kind.plural in ("configmaps", "secrets") and old.get("immutable"):
        for key in ("data", "binaryData", "immutable"):
            if obj.get(key) != old.get(key):
                causes.append(
                    cause("FieldValueForbidden", key, "Forbidden: field is immutable when `immutable` is set")
                )
    return causes


def drop_unknown_fields(kind: ResourceType, obj: Json, mode: str, warnings: list[str]) -> None:
    """Field validation: https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"""
    unknown = prune(kind.schema, obj)
    if kind.custom and isinstance(obj.get("metadata"), dict):
        unknown += prune({"$ref": f"#/$defs/{OBJECT_META}"}, obj["metadata"], "metadata")
    if not unknown:
        return
    if mode == "Strict":
        fields = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise ApiError(
            400,
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {fields}",
        )
    if mode == "Warn":
        warnings += [f'unknown field "{path}"' for path in unknown]


def validate(kind: ResourceType, obj: Json, old: Json | None = None) -> None:
    """Raise 422 with every cause if the object may not be stored."""
    name = obj["metadata"].get("name", "")
    causes = _name_causes(kind, name) if old is None else []
    causes += label_causes(obj["metadata"].get("labels"), "metadata.labels")
    causes += _schema_causes(kind, obj)
    if not causes:
        if kind.custom:
            if _validators.get(kind)[1]:
                causes += expressions.violations(kind.schema, obj, old)
        else:
            causes += _kind_causes(kind, obj)
    if old is not None:
        causes += _immutability_causes(kind, obj, old)
    if causes:
        raise invalid(kind, name, causes)
