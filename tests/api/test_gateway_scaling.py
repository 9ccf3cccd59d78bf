"""Routes of managed endpoints and autoscalers: which operation each starts, what they list, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Gateway, MakeCluster

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
WORKER = {"image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "/opt/ml/model"], "gpu_count": 1}
ENDPOINT: dict[str, Any] = {
    "name": "qwen",
    "source": {"type": "s3", "bucket": "models-bucket", "location": "qwen"},
    "worker": WORKER,
    "instance_types": ["ml.g5.8xlarge"],
}
TRIGGER = {"type": "prometheus", "server_address": "http://prometheus.monitoring:9090", "query": "load", "threshold": 5}
AUTOSCALER: dict[str, Any] = {"target": "chat", "triggers": [TRIGGER]}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "spec"),
    [
        ("POST", "endpoints", ENDPOINT, "create-endpoint/{}/qwen", {"replicas": 1, "namespace": "default"}),
        ("POST", "endpoints", {**ENDPOINT, "namespace": "ml"}, "create-endpoint/{}/ml/qwen", {"namespace": "ml"}),
        ("PUT", "endpoints/qwen", {**ENDPOINT, "replicas": 2}, "update-endpoint/{}/qwen", {"replicas": 2}),
        ("DELETE", "endpoints/qwen", None, "delete-endpoint/{}/qwen", {"name": "qwen"}),
        ("DELETE", "endpoints/qwen?namespace=ml", None, "delete-endpoint/{}/ml/qwen", {"namespace": "ml"}),
        ("POST", "autoscalers", AUTOSCALER, "create-autoscaler/{}/chat", {"max_replicas": 5}),
        ("POST", "autoscalers", {**AUTOSCALER, "name": "own"}, "create-autoscaler/{}/own", {"target": "chat"}),
        ("DELETE", "autoscalers/chat?namespace=ml", None, "delete-autoscaler/{}/ml/chat", {"name": "chat"}),
    ],
)
async def test_each_route_plans_its_operation(
    gateway: Gateway,
    make_cluster: MakeCluster,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    operation: str,
    spec: dict[str, Any],
) -> None:
    tag = await make_cluster()
    joint = "&" if "?" in path else "?"
    url = f"/api/v1/clusters/{tag}/{path}{joint}validate_only=true"
    answer = await gateway.operator.request(method, url, json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["operation"] == operation.format(tag)
    assert spec.items() <= plan["spec"].items()
    assert (await gateway.viewer.request(method, url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("endpoints", {**ENDPOINT, "worker": {"image": "x"}}, "/worker/gpu_count"),
        ("endpoints", {**ENDPOINT, "source": {"type": "s3", "bucket": "NO"}}, "/source/bucket"),
        ("endpoints", {**ENDPOINT, "source": {"type": "hugging-face", "model_id": "x"}}, "/source/model_id"),
        ("endpoints", {**ENDPOINT, "worker": None}, "/worker"),
        ("autoscalers", {**AUTOSCALER, "triggers": [{**TRIGGER, "threshold": 0}]}, "/triggers/0/threshold"),
        ("autoscalers", {**AUTOSCALER, "triggers": []}, "/triggers"),
    ],
)
async def test_a_mistake_is_named_by_its_field(
    gateway: Gateway, make_cluster: MakeCluster, path: str, body: dict[str, Any], pointer: str
) -> None:
    answer = await gateway.operator.post(f"/api/v1/clusters/{await make_cluster()}/{path}", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [pointer]


async def test_an_update_that_names_another_endpoint_is_refused(gateway: Gateway, make_cluster: MakeCluster) -> None:
    url = f"/api/v1/clusters/{await make_cluster()}/endpoints/other"
    answer = await gateway.operator.put(url, json=ENDPOINT)
    assert (answer.status_code, answer.json()["field"]) == (422, "/name")


@pytest.mark.parametrize(
    ("path", "there"),
    [("endpoints", "qwen"), ("autoscalers", "chat")],
)
async def test_they_are_listed_and_read_as_they_are_now(
    gateway: Gateway, make_cluster: MakeCluster, path: str, there: str
) -> None:
    root = f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/{path}"
    listed = (await gateway.viewer.get(root, params={"namespace": "ml"})).json()
    assert [(each["namespace"], each["name"]) for each in listed[path]] == [("ml", there)]
    found = await gateway.viewer.get(f"{root}/{there}")
    assert found.status_code == 200
    absent = await gateway.viewer.get(f"{root}/gone")
    assert (absent.status_code, absent.json()["code"]) == (404, "not_found")
    assert f"there are: {there}" in absent.json()["detail"]
    wrong = await gateway.viewer.get(root, params={"namespace": "Not_One"})
    assert wrong.status_code == 422


async def test_a_cluster_without_a_control_plane_has_neither(gateway: Gateway, make_cluster: MakeCluster) -> None:
    root = f"/api/v1/clusters/{await make_cluster()}"
    assert (await gateway.viewer.get(f"{root}/endpoints")).json()["endpoints"] == []
    assert (await gateway.viewer.get(f"{root}/autoscalers")).json()["autoscalers"] == []
    assert (await gateway.viewer.get(f"{root}/endpoints/qwen")).status_code == 404
    assert (await gateway.viewer.get(f"{root}/autoscalers/chat")).status_code == 404
