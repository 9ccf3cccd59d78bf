"""Routes of Ray clusters: which operation each starts, what they list, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.ray_clusters import ASK_FOR_GPUS
from tests.api.conftest import Gateway, MakeCluster

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
RAY: dict[str, Any] = {"name": "notebooks", "gpus_per_worker": 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "approval"),
    [
        ("POST", "ray-clusters", RAY, "create-ray-cluster/{}/notebooks", False),
        ("POST", "ray-clusters", {**RAY, "namespace": "ml"}, "create-ray-cluster/{}/ml/notebooks", False),
        ("DELETE", "ray-clusters/notebooks?namespace=ml", None, "delete-ray-cluster/{}/ml/notebooks", True),
    ],
)
async def test_each_route_plans_its_operation(
    gateway: Gateway,
    make_cluster: MakeCluster,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    operation: str,
    approval: bool,
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    url = f"/api/v1/clusters/{tag}/{path}{'&' if '?' in path else '?'}validate_only=true"
    answer = await gateway.agent.request(method, url, json=body)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["operation"], answer.json()["needs_approval"]) == (operation.format(tag), approval)
    assert (await gateway.viewer.request(method, url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({**RAY, "name": "Ray_Job"}, "/name"),
        ({**RAY, "name": "a" * 54}, "/name"),
        ({**RAY, "gpus_per_worker": -1}, "/gpus_per_worker"),
        ({**RAY, "ray_version": "2.9.0"}, "/ray_version"),
        ({**RAY, "gpus_per_worker": 0, "efa_per_worker": 1}, "/efa_per_worker"),
        ({**RAY, "env": {"HF_TOKEN": "x"}, "credential": "hub"}, "/env/HF_TOKEN"),
        ({**RAY, "labels": {"ray.io/cluster": "other"}}, "/labels"),
        ({**RAY, "storage": [{"mount_path": "/tmp"}]}, "/storage/0/mount_path"),
    ],
)
async def test_a_fault_is_told_at_its_field(
    gateway: Gateway, make_cluster: MakeCluster, body: dict[str, Any], pointer: str
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/ray-clusters", json=body)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert pointer in {error["field"] for error in problem.get("errors") or ()} | {problem["field"]}


async def test_how_many_gpus_is_asked_and_not_assumed(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/ray-clusters", json={"name": "notebooks"})
    assert answer.status_code == 422
    assert ASK_FOR_GPUS in answer.text


async def test_ray_clusters_are_listed_and_one_is_read_with_what_runs_on_it(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    path = f"/api/v1/clusters/{tag}/ray-clusters"
    (found,) = (await gateway.viewer.get(path, params={"namespace": "ml"})).json()["ray_clusters"]
    assert (found["name"], found["namespace"], found["gpus"]) == ("notebooks", "ml", 2)
    one = (await gateway.viewer.get(f"{path}/notebooks")).json()
    assert one["use"]["note"] == "1 job or session runs on it"
    absent = await gateway.viewer.get(f"{path}/lost")
    assert (absent.status_code, absent.json()["code"]) == (404, "not_found")


async def test_a_cluster_without_a_control_plane_has_none(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    path = f"/api/v1/clusters/{tag}/ray-clusters"
    assert (await gateway.viewer.get(path)).json()["ray_clusters"] == []
    assert (await gateway.viewer.get(f"{path}/notebooks")).status_code == 404
