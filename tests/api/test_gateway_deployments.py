"""Model servers through the gateway: looked at, planned, asked for, and refused at the field that is at fault."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.deployments import ASK_FOR_GPUS
from tests.api.conftest import Gateway, MakeCluster

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
BODY = {"name": "chat", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1}


async def path_of(make_cluster: MakeCluster) -> str:
    return f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/deployments"


async def test_deployments_are_listed_and_one_is_read(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    (found,) = (await gateway.viewer.get(path, params={"namespace": "team"})).json()["deployments"]
    assert (found["namespace"], found["name"], found["state"]) == ("team", "chat", "ready")
    one = (await gateway.viewer.get(f"{path}/chat")).json()
    assert (one["deployment"]["model"], one["spec"]["gpu_count"]) == ("Qwen/Qwen3-0.6B", 1)
    missing = await gateway.viewer.get(f"{path}/nobody", params={"namespace": "team"})
    assert (missing.status_code, missing.json()["detail"]) == (
        404,
        "namespace team has no deployment nobody; it has chat",
    )


async def test_a_cluster_without_a_control_plane_has_none(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = f"/api/v1/clusters/{await make_cluster()}/deployments"
    assert (await gateway.viewer.get(path)).json()["deployments"] == []
    assert (await gateway.viewer.get(f"{path}/chat")).status_code == 404
    assert (await gateway.viewer.get("/api/v1/clusters/nowhere/deployments")).status_code == 404


async def test_a_command_is_looked_at_without_a_cluster_being_asked(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    # This one has no Kubernetes that could be asked.
    path = f"/api/v1/clusters/{await make_cluster()}/deployments/parse"
    asked = {"command": "vllm serve m -tp 4 --port 8001", "gpu_count": 2, "port": 8000}
    found = (await gateway.viewer.post(path, json=asked)).json()
    assert found["command"]["argv"] == ["vllm", "serve", "m", "-tp", "4", "--port", "8001"]
    assert (found["command"]["engine"], found["gpus_used"]) == ("vllm", 4)
    assert [(each["rule"], each["severity"]) for each in found["findings"]] == [
        ("port", "error"),
        ("parallel-gpus", "error"),
    ]
    shell = (await gateway.viewer.post(path, json={"command": "a && b"})).json()
    assert shell["findings"][0]["rule"] == "shell-syntax"
    nowhere = await gateway.viewer.post("/api/v1/clusters/nowhere/deployments/parse", json=asked)
    assert nowhere.status_code == 404


async def test_a_start_is_an_operation_about_its_name(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    tag = path.split("/")[4]
    started = await gateway.operator.post(path, json=BODY)
    assert (started.status_code, started.json()["id"]) == (202, f"create-deployment/{tag}/chat")
    there = await gateway.operator.post(path, json={**BODY, "namespace": "team"})
    assert there.json()["id"] == f"create-deployment/{tag}/team/chat"
    updated = await gateway.operator.put(f"{path}/chat", json=BODY)
    assert (updated.status_code, updated.json()["kind"]) == (202, "update-deployment")
    scaled = await gateway.operator.post(f"{path}/chat/scale", json={"replicas": 0}, params={"namespace": "team"})
    assert scaled.json()["id"] == f"scale-deployment/{tag}/team/chat"
    deleted = await gateway.operator.delete(f"{path}/chat")
    assert (deleted.status_code, deleted.json()["kind"]) == (202, "delete-deployment")


async def test_an_agent_may_serve_a_model_but_deletes_with_a_persons_word(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    path = await path_of(make_cluster)
    plan = (await gateway.agent.post(path, json=BODY, params={"validate_only": "true"})).json()
    assert (plan["kind"], plan["needs_approval"]) == ("create-deployment", False)
    public = {**BODY, "service": "public"}
    opened = (await gateway.agent.post(path, json=public, params={"validate_only": "true"})).json()
    assert opened["needs_approval"], "a load balancer is paid for, and lets others in"
    ended = (await gateway.agent.delete(f"{path}/chat", params={"validate_only": "true"})).json()
    assert ended["needs_approval"]


async def test_without_gpus_the_answer_is_to_ask_the_user(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    body = {key: value for key, value in BODY.items() if key != "gpu_count"}
    refused = await gateway.operator.post(path, json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "/gpu_count")
    assert refused.json()["remedy"] == ASK_FOR_GPUS


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"command": "cd /s3 && vllm serve m"}, "/command"),
        ({"gpu_count": 99}, "/gpu_count"),
        ({"service": "public", "public": "internet-facing"}, "/confirm_public"),
        ({"env": {"T": "hf_abcdefghijklmnop"}}, "/env/T"),
        ({"command": "HF_TOKEN=hf_abcdefghijklmnop vllm serve m"}, "/command"),
    ],
)
async def test_a_fault_is_refused_at_its_field(
    gateway: Gateway, make_cluster: MakeCluster, change: dict[str, Any], field: str
) -> None:
    refused = await gateway.operator.post(await path_of(make_cluster), json={**BODY, **change})
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert "hf_abc" not in refused.text


async def test_an_update_has_one_name(gateway: Gateway, make_cluster: MakeCluster) -> None:
    refused = await gateway.operator.put(f"{await path_of(make_cluster)}/other", json=BODY)
    assert (refused.status_code, refused.json()["field"]) == (422, "/name")
