"""Routes of model pools and routers: which operation each starts, what they list, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from contracts import queues
from contracts.deployments import ASK_FOR_GPUS
from contracts.names import pool_keeper_id
from tests.api.conftest import Eventually, Gateway, MakeCluster

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
POOL: dict[str, Any] = {"name": "pool", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1}
ROUTER: dict[str, Any] = {"name": "front", "target": {"deployment": "chat"}}
WISH: dict[str, Any] = {"assignments": {"chat": 2, "search": 1}}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "spec", "approval"),
    [
        ("POST", "model-pools", POOL, "create-model-pool/{}/pool", {"service": "none"}, False),
        ("POST", "model-pools", {**POOL, "namespace": "ml"}, "create-model-pool/{}/ml/pool", {}, False),
        ("POST", "model-pools/pool/scale", {"replicas": 4}, "scale-model-pool/{}/pool", {"replicas": 4}, False),
        ("PUT", "model-pools/pool/assignments", WISH, "assign-model-pool/{}/pool", WISH, False),
        ("PUT", "model-pools/pool/assignments?namespace=ml", WISH, "assign-model-pool/{}/ml/pool", WISH, False),
        ("DELETE", "model-pools/pool", None, "delete-model-pool/{}/pool", {"name": "pool"}, True),
        ("POST", "routers", ROUTER, "create-router/{}/front", {"policy": "cache_aware", "port": 30_000}, False),
        ("DELETE", "routers/front?namespace=ml", None, "delete-router/{}/ml/front", {"name": "front"}, True),
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
    approval: bool,
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    url = f"/api/v1/clusters/{tag}/{path}{'&' if '?' in path else '?'}validate_only=true"
    answer = await gateway.agent.request(method, url, json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert (plan["operation"], plan["needs_approval"]) == (operation.format(tag), approval)
    assert spec.items() <= plan["spec"].items()
    assert (await gateway.viewer.request(method, url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("POST", "model-pools", {**POOL, "service": "public"}, "/service"),
        ("PUT", "model-pools/pool/assignments", {"assignments": {"chat": -1}}, "/assignments/chat"),
        ("PUT", "model-pools/pool/assignments", {"assignments": {"unassigned": 1}}, "/assignments/unassigned"),
        ("PUT", "model-pools/pool/assignments", {**WISH, "public": {"other": "internal"}}, "/public/other"),
        ("PUT", "model-pools/pool/assignments", {**WISH, "public": {"chat": "internet-facing"}}, "/confirm_public"),
        ("POST", "model-pools/pool/scale", {"replicas": 0}, "/replicas"),
        ("POST", "routers", {"name": "front", "target": {}}, "/target"),
        ("POST", "routers", {"name": "front", "target": {"pool": "pool"}}, "/target/service"),
        ("POST", "routers", {**ROUTER, "metrics_port": 30_000}, "/metrics_port"),
        ("POST", "routers", {**ROUTER, "service": "public", "public": "internet-facing"}, "/confirm_public"),
        ("POST", "routers", {**ROUTER, "policy": "psychic"}, "/policy"),
    ],
)
async def test_a_fault_is_told_at_its_field(
    gateway: Gateway, make_cluster: MakeCluster, method: str, path: str, body: dict[str, Any], pointer: str
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    answer = await gateway.operator.request(method, f"/api/v1/clusters/{tag}/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert pointer in {error["field"].removesuffix("/[key]") for error in answer.json()["errors"]} | {
        answer.json()["field"]
    }


async def test_pools_are_listed_with_who_keeps_them(
    gateway: Gateway, make_cluster: MakeCluster, temporal: Client, eventually: Eventually
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    path = f"/api/v1/clusters/{tag}/model-pools"
    (found,) = (await gateway.viewer.get(path)).json()["model_pools"]
    assert (found["name"], found["unassigned"], found.get("keeper")) == ("pool", 1, None)
    keeper = await temporal.start_workflow(
        "model-pool", id=pool_keeper_id(tag, "default", "pool"), task_queue=queues.WORKFLOWS
    )
    try:

        async def pool() -> dict[str, Any]:
            listed: dict[str, Any] = (await gateway.viewer.get(path)).json()["model_pools"][0]
            return listed

        found = await eventually(pool, lambda listed: listed.get("keeper") is not None)
        assert (found["keeper"]["state"], found["keeper"]["repairs"]) == ("watching", 3)
        one = (await gateway.viewer.get(f"{path}/pool")).json()
        assert one["pool"]["keeper"]["detail"] == "chat 1 of 1, 1 free"
        assert [pod["business"] for pod in one["pods"]] == ["chat", "unassigned"]
    finally:
        await keeper.signal("retire")
        await keeper.result()
    assert (await gateway.viewer.get(f"{path}/nobody")).status_code == 404


async def test_routers_are_listed_and_one_is_read(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/routers"
    (found,) = (await gateway.viewer.get(path, params={"namespace": "ml"})).json()["routers"]
    assert (found["namespace"], found["name"], found["targets"]) == ("ml", "front", 2)
    one = (await gateway.viewer.get(f"{path}/front")).json()
    assert one["workers"][0]["pod"] == "chat-1"
    assert (await gateway.viewer.get(f"{path}/nobody")).status_code == 404


@pytest.mark.parametrize("kind", ["model-pools", "routers"])
async def test_a_cluster_without_a_control_plane_has_none(
    gateway: Gateway, make_cluster: MakeCluster, kind: str
) -> None:
    path = f"/api/v1/clusters/{await make_cluster()}/{kind}"
    assert (await gateway.viewer.get(path)).json()[kind.replace("-", "_")] == []
    assert (await gateway.viewer.get(f"{path}/chat")).status_code == 404


async def test_without_gpus_the_answer_is_to_ask_the_user(gateway: Gateway, make_cluster: MakeCluster) -> None:
    body = {key: value for key, value in POOL.items() if key != "gpu_count"}
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    refused = await gateway.operator.post(f"/api/v1/clusters/{tag}/model-pools", json=body)
    assert (refused.status_code, refused.json()["remedy"]) == (422, ASK_FOR_GPUS)
