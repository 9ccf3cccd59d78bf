"""The four kinds of patches, and who owns what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone, deployment

APPLY = "application/apply-patch+yaml"


def apply(
    standalone: Standalone, namespace: str, name: str, data: Any, manager: str, force: bool = False
) -> tuple[int, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager={manager}&force={str(force).lower()}"
    return standalone.request("PATCH", path, body, content_type=APPLY)


def test_merge_json_and_strategic(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("web", 0))
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "envoy:1"}]}}}}
    patched = apps.patch_namespaced_deployment("web", namespace, side)
    assert {c.name for c in patched.spec.template.spec.containers} == {"main", "side"}
    gone = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    patched = apps.patch_namespaced_deployment("web", namespace, gone)
    assert [c.name for c in patched.spec.template.spec.containers] == ["main"]
    patched = apps.patch_namespaced_deployment(
        "web", namespace, [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    )
    assert patched.spec.replicas == 0
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}})
    patched = core.patch_namespaced_config_map(
        "m", namespace, {"data": {"a": None}}, _content_type="application/merge-patch+json"
    )
    assert patched.data == {"b": "2"}
    with pytest.raises(ApiException) as error:
        core.patch_namespaced_config_map("m", namespace, [{"op": "test", "path": "/data/b", "value": "3"}])
    assert error.value.status == 422


def test_unknown_patch_type(standalone: Standalone, namespace: str) -> None:
    apply(standalone, namespace, "m", {"a": "1"}, "one")
    path = f"/api/v1/namespaces/{namespace}/configmaps/m"
    assert standalone.request("PATCH", path, {}, content_type="text/plain")[0] == 415


def test_apply_conflicts_and_force(standalone: Standalone, namespace: str) -> None:
    assert apply(standalone, namespace, "m", {"a": "1"}, "one")[0] == 201
    code, answer = apply(standalone, namespace, "m", {"a": "2"}, "two")
    assert (code, answer["reason"]) == (409, "Conflict")
    assert answer["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "field": ".data.a", "message": 'conflict with "one"'}
    ]
    assert apply(standalone, namespace, "m", {"a": "2"}, "two", force=True)[1]["data"] == {"a": "2"}
    assert apply(standalone, namespace, "m", {"a": "1"}, "one")[0] == 409


def test_apply_gives_up_what_it_omits(standalone: Standalone, namespace: str) -> None:
    apply(standalone, namespace, "m", {"a": "1", "b": "2"}, "one")
    apply(standalone, namespace, "m", {"c": "3"}, "two")
    _, answer = apply(standalone, namespace, "m", {"a": "1"}, "one")
    assert answer["data"] == {"a": "1", "c": "3"}
    before = answer["metadata"]["resourceVersion"]
    assert apply(standalone, namespace, "m", {"a": "1"}, "one")[1]["metadata"]["resourceVersion"] == before
    fields = {entry["manager"]: entry["fieldsV1"] for entry in answer["metadata"]["managedFields"]}
    assert fields == {"one": {"f:data": {"f:a": {}}}, "two": {"f:data": {"f:c": {}}}}


def test_apply_needs_a_manager_and_known_fields(standalone: Standalone, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps/m"
    assert standalone.request("PATCH", path, body, content_type=APPLY)[0] == 400
    code, answer = standalone.request("PATCH", f"{path}?fieldManager=x", {**body, "bad": 1}, content_type=APPLY)
    assert code == 500
    assert "field not declared in schema" in answer["message"]


def test_apply_merges_lists_by_key(standalone: Standalone, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"

    def send(manager: str, **container: Any) -> Any:
        body = deployment("web", 0)
        body["spec"]["template"]["spec"] = {"containers": [{"name": "main", **container}]}
        if manager != "one":
            body["spec"] = {"template": {"spec": body["spec"]["template"]["spec"]}}
        return standalone.request("PATCH", f"{path}?fieldManager={manager}", body, content_type=APPLY)

    assert send("one", image="nginx:1", ports=[{"containerPort": 80}])[0] == 201
    code, answer = send("two", env=[{"name": "A", "value": "1"}])
    assert code == 200, answer
    (container,) = answer["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"], container["ports"][0]["containerPort"]) == (
        "nginx:1",
        [{"name": "A", "value": "1"}],
        80,
    )


def test_typed_apply(core: client.CoreV1Api, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typed"}, "data": {"a": "1"}}
    made = core.patch_namespaced_config_map(
        "typed", namespace, body, field_manager="me", force=True, _content_type=APPLY
    )
    assert made.metadata.managed_fields[0].operation == "Apply"


def test_update_takes_ownership(standalone: Standalone, core: client.CoreV1Api, namespace: str) -> None:
    apply(standalone, namespace, "m", {"a": "1"}, "one")
    core.patch_namespaced_config_map("m", namespace, {"data": {"a": "2"}}, field_manager="editor")
    code, answer = apply(standalone, namespace, "m", {"a": "1"}, "one")
    assert code == 409
    assert "editor" in json.dumps(answer)


def test_status_and_scale_are_apart(api: client.ApiClient, standalone: Standalone, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    made = apps.create_namespaced_deployment(namespace, deployment("web", 0))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    merge = "application/merge-patch+json"
    body = {"spec": {"replicas": 9}, "status": {"replicas": 7}}
    _, answer = standalone.request("PATCH", f"{path}/status", body, content_type=merge)
    assert answer["spec"]["replicas"] == 0
    scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 2}})
    assert scale.spec.replicas == 2
    assert apps.read_namespaced_deployment("web", namespace).metadata.generation == made.metadata.generation + 1


def test_a_list_member_that_is_applied_no_more_goes_as_a_whole(
    standalone: Standalone, api: client.ApiClient, namespace: str
) -> None:
    def applied(*names: str) -> list[str]:
        body = deployment("web", 0)
        body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": name, "value": "1"} for name in names]
        body = {"apiVersion": "apps/v1", "kind": "Deployment", **body}
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web?fieldManager=one"
        status, answer = standalone.request("PATCH", path, body, content_type=APPLY)
        assert status in (200, 201), answer
        return [each["name"] for each in answer["spec"]["template"]["spec"]["containers"][0]["env"]]

    assert applied("A", "B") == ["A", "B"]
    assert applied("B", "C") == ["B", "C"]
    assert applied("C") == ["C"]
