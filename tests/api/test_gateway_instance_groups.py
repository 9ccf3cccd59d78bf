"""Routes of instance groups: which operation each starts, what they refuse, and what they list."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from tests.api.conftest import Gateway, MakeCluster

GROUP = {"name": "big", "instance_type": "ml.p5.48xlarge", "count": 2}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "spec"),
    [
        ("POST", "", GROUP, "add-instance-group/{}/big", {"volume_gib": 500, "subnet_placement": "shared"}),
        ("POST", "/big/scale", {"count": 3}, "scale-instance-group/{}/big", {"group": "big", "count": 3}),
        ("PATCH", "/big", {"labels": {}}, "update-instance-group/{}/big", {"group": "big", "labels": {}}),
        ("DELETE", "/big?drain=false", None, "delete-instance-group/{}/big", {"group": "big", "drain": False}),
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
    url = f"/api/v1/clusters/{tag}/instance-groups{path}" + ("&" if "?" in path else "?") + "validate_only=true"
    answer = await gateway.operator.request(method, url, json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["operation"] == operation.format(tag)
    assert spec.items() <= plan["spec"].items()
    assert (await gateway.viewer.request(method, url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("POST", "", {**GROUP, "count": True}, "/count"),
        ("POST", "", {**GROUP, "min_count": 3}, "/min_count"),
        ("POST", "/big/scale", {"count": -1}, "/count"),
        ("PATCH", "/big", {"instance_type": "ml.g5.8xlarge"}, "/instance_type"),
        ("PATCH", "/big", {}, ""),
        ("DELETE", "/no_name", None, "/group"),
    ],
)
async def test_a_mistake_is_named_by_its_field(
    gateway: Gateway, make_cluster: MakeCluster, method: str, path: str, body: dict[str, Any] | None, pointer: str
) -> None:
    url = f"/api/v1/clusters/{await make_cluster()}/instance-groups{path}"
    answer = await gateway.operator.request(method, url, json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [pointer]


async def test_groups_are_the_records_where_nobody_answers(
    abandoned: tuple[Gateway, Client], make_cluster: MakeCluster
) -> None:
    gateway, client = abandoned
    group = {"name": "workers", "instance_type": "ml.g5.8xlarge", "current": 1, "target": 2, "status": "InService"}
    hyperpod = {"name": "hp", "arn": "arn:hp", "status": "InService", "groups": [group]}
    tag = await make_cluster(client=client, hyperpod=hyperpod)
    listed = (await gateway.viewer.get(f"/api/v1/clusters/{tag}/instance-groups")).json()
    assert (listed["live"], listed["hyperpod_cluster"]) == (False, "hp")
    assert [(each["name"], each["target"]) for each in listed["instance_groups"]] == [("workers", 2)]
