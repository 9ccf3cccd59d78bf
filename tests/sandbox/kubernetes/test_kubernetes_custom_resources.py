"""Custom resources: definitions become kinds with schemas, defaults, rules, versions and subresources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, dynamic
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone, wait_for

CRDS = Path("/work/shared/crds")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(plural: str) -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "tier": {"type": "string", "enum": ["small", "large"], "default": "small"},
            "fixed": {
                "type": "string",
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
            },
        },
        "x-kubernetes-validations": [{"rule": "self.size <= 10", "message": "at most ten"}],
    }
    schema = {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    }
    subresources = {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": schema,
            "subresources": subresources,
            "additionalPrinterColumns": columns,
        }
        for name in ("v1", "v1beta1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "versions": versions,
            "names": {"plural": plural, "kind": plural.rstrip("s").capitalize(), "shortNames": [plural[:3]]},
        },
    }


@pytest.fixture(scope="module")
def widgets(standalone: Standalone) -> str:
    code, answer = standalone.request("POST", DEFINITIONS, definition("widgets"))
    assert code == 201, answer
    assert {c["type"] for c in answer["status"]["conditions"]} == {"NamesAccepted", "Established"}
    return "/apis/example.com/v1/namespaces/{}/widgets"


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_defaults_pruning_and_schema(standalone: Standalone, widgets: str, namespace: str) -> None:
    path = widgets.format(namespace)
    code, made = standalone.request("POST", path, widget("w", size=1, unknown=True))
    assert (code, made["spec"]) == (201, {"size": 1, "tier": "small"})
    assert standalone.request("POST", f"{path}?fieldValidation=Strict", widget("s", size=1, unknown=True))[0] == 400
    for bad in ({"size": 0}, {"size": 1, "tier": "huge"}, {}, {"size": "1"}, {"size": 11}):
        code, answer = standalone.request("POST", path, widget("bad", **bad))
        assert code == 422, (bad, answer)


def test_transition_rules(standalone: Standalone, widgets: str, namespace: str) -> None:
    path = widgets.format(namespace)
    standalone.request("POST", path, widget("w", size=1, fixed="a"))
    merge = "application/merge-patch+json"
    code, answer = standalone.request("PATCH", f"{path}/w", {"spec": {"fixed": "b"}}, content_type=merge)
    assert code == 422
    assert "is immutable" in answer["message"]


def test_status_scale_and_generation(standalone: Standalone, widgets: str, namespace: str) -> None:
    path = widgets.format(namespace)
    standalone.request("POST", path, {**widget("w", size=1), "status": {"lost": True}})
    merge = "application/merge-patch+json"
    _, answer = standalone.request(
        "PATCH", f"{path}/w/status", {"spec": {"size": 9}, "status": {"size": 1}}, content_type=merge
    )
    assert (answer["spec"]["size"], answer["status"], answer["metadata"]["generation"]) == (1, {"size": 1}, 1)
    _, scale = standalone.request("PATCH", f"{path}/w/scale", {"spec": {"replicas": 3}}, content_type=merge)
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 1})
    assert standalone.request("GET", f"{path}/w")[1]["metadata"]["generation"] == 2


def test_versions_share_their_objects(standalone: Standalone, widgets: str, namespace: str) -> None:
    standalone.request("POST", widgets.format(namespace), widget("w", size=1))
    _, other = standalone.request("GET", f"/apis/example.com/v1beta1/namespaces/{namespace}/widgets/w")
    assert other["apiVersion"] == "example.com/v1beta1"


def test_custom_objects_api_and_dynamic_apply(
    api: client.ApiClient, dynamic_client: dynamic.DynamicClient, widgets: str, namespace: str
) -> None:
    custom = client.CustomObjectsApi(api)
    custom.create_namespaced_custom_object("example.com", "v1", namespace, "widgets", widget("w", size=1))
    custom.patch_namespaced_custom_object("example.com", "v1", namespace, "widgets", "w", {"spec": {"size": 2}})
    assert custom.get_namespaced_custom_object("example.com", "v1", namespace, "widgets", "w")["spec"]["size"] == 2
    dynamic_client.resources.invalidate_cache()
    resource = dynamic_client.resources.get(api_version="example.com/v1", kind="Widget")
    applied = dynamic_client.server_side_apply(resource, widget("d", size=3), namespace=namespace, field_manager="me")
    assert applied.spec.size == 3


def test_unknown_kind_and_unknown_object_differ(standalone: Standalone, widgets: str, namespace: str) -> None:
    _, missing_kind = standalone.request("GET", f"/apis/nothing.example.com/v1/namespaces/{namespace}/things/x")
    _, missing_object = standalone.request("GET", f"{widgets.format(namespace)}/x")
    assert "name" not in missing_kind.get("details", {})
    assert missing_object["details"]["name"] == "x"


def test_deleting_a_definition_deletes_its_objects(standalone: Standalone, namespace: str) -> None:
    assert standalone.request("POST", DEFINITIONS, definition("gadgets"))[0] == 201
    path = f"/apis/example.com/v1/namespaces/{namespace}/gadgets"
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
    assert standalone.request("POST", path, body)[0] == 201
    standalone.request("DELETE", f"{DEFINITIONS}/gadgets.example.com")
    wait_for(lambda: standalone.request("GET", path)[0] == 404)
    wait_for(lambda: standalone.request("GET", f"{DEFINITIONS}/gadgets.example.com")[0] == 404)


def test_definitions_of_the_real_operators_load(standalone: Standalone, api: client.ApiClient) -> None:
    files = sorted(CRDS.glob("*.yaml"))
    if not files:
        pytest.skip(f"no definitions in {CRDS}")
    for file in files:
        for loaded in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
            code, answer = standalone.request("POST", DEFINITIONS, loaded)
            assert code in (201, 409), (file.name, answer)
    custom = client.CustomObjectsApi(api)
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "s"},
        "spec": {"scaleTargetRef": {"name": "web"}},
    }
    with pytest.raises(ApiException) as error:
        custom.create_namespaced_custom_object("keda.sh", "v1alpha1", "default", "scaledobjects", scaled)
    assert error.value.status == 422
    scaled["spec"] = {"scaleTargetRef": {"name": "web"}, "triggers": [{"type": "cpu", "metadata": {"value": "50"}}]}
    custom.create_namespaced_custom_object("keda.sh", "v1alpha1", "default", "scaledobjects", scaled)
    kept: Any = custom.get_namespaced_custom_object("keda.sh", "v1alpha1", "default", "scaledobjects", "s")
    assert kept["spec"] == scaled["spec"]
