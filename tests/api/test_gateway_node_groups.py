"""Routes of node groups and node pools: which operation each starts, and what they list."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from tests.api.conftest import Gateway, MakeCluster

GROUP = {"name": "gpu", "instance_types": ["g5.8xlarge"]}
POOL = {"name": "gpus", "instance_groups": ["workers"]}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "spec"),
    [
        ("POST", "node-groups", GROUP, "create-node-group/{}/gpu", {"volume_gib": 200, "capacity": "on-demand"}),
        ("POST", "node-groups/gpu/scale", {"desired": 3}, "scale-node-group/{}/gpu", {"node_group": "gpu"}),
        ("DELETE", "node-groups/gpu", None, "delete-node-group/{}/gpu", {"node_group": "gpu"}),
        ("POST", "node-pools", POOL, "create-node-pool/{}/gpus", {"consolidate_after": "5m"}),
        ("DELETE", "node-pools/gpus", None, "delete-node-pool/{}/gpus", {"node_pool": "gpus"}),
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
    url = f"/api/v1/clusters/{tag}/{path}"
    answer = await gateway.operator.request(method, url, json=body, params={"validate_only": "true"})
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["operation"] == operation.format(tag)
    assert spec.items() <= plan["spec"].items()
    viewed = await gateway.viewer.request(method, url, json=body, params={"validate_only": "true"})
    assert viewed.status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("node-groups", {**GROUP, "instance_types": ["ml.g5.8xlarge"]}, "/instance_types"),
        ("node-groups", {**GROUP, "capacity": "capacity-block"}, "/capacity_reservation_id"),
        ("node-groups", {**GROUP, "labels": {"eks.amazonaws.com/x": "y"}}, "/labels"),
        ("node-groups/gpu/scale", {"desired": 1, "minimum": 2}, "/minimum"),
        ("node-pools", {**POOL, "instance_groups": [f"g{n}" for n in range(11)]}, "/instance_groups"),
        ("node-pools", {**POOL, "consolidate_after": "soon"}, "/consolidate_after"),
    ],
)
async def test_a_mistake_is_named_by_its_field(
    gateway: Gateway, make_cluster: MakeCluster, path: str, body: dict[str, Any], pointer: str
) -> None:
    answer = await gateway.operator.post(f"/api/v1/clusters/{await make_cluster()}/{path}", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [pointer]


async def test_a_cluster_without_a_control_plane_has_neither(gateway: Gateway, make_cluster: MakeCluster) -> None:
    url = f"/api/v1/clusters/{await make_cluster()}"
    assert (await gateway.viewer.get(f"{url}/node-groups")).json() == {"node_groups": [], "live": True}
    assert (await gateway.viewer.get(f"{url}/node-pools")).json() == {"node_pools": [], "live": True}


async def test_lists_are_the_records_where_nobody_answers(
    abandoned: tuple[Gateway, Client], make_cluster: MakeCluster
) -> None:
    gateway, client = abandoned
    group = {"name": "gpu", "status": "ACTIVE", "desired": 2}
    control_plane = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
    tag = await make_cluster(client=client, control_plane=control_plane, node_groups=[group])
    listed = (await gateway.viewer.get(f"/api/v1/clusters/{tag}/node-groups")).json()
    assert (listed["live"], [each["name"] for each in listed["node_groups"]]) == (False, ["gpu"])
