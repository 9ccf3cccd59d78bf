"""Starting operations: once, validated, and answered like every long-running operation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from contracts.cluster import ClusterSpec
from contracts.model import fingerprint
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name
from tests.api.fake_workflows import OCCUPIED, SLOW_TO_CHECK


async def test_a_start_is_answered_with_202_the_operation_and_its_status_monitor(gateway: Gateway, name: Name) -> None:
    tag = name("run")
    answer = await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert body["id"] == f"create-cluster/{tag}"
    assert body["phase"] == "running"
    assert body["started_by"] == "operator-1"
    assert body["plan_hash"] == fingerprint(ClusterSpec(tag=tag, region="us-west-2"))
    location = f"{gateway.url}/api/v1/operations/create-cluster/{tag}"
    assert answer.headers["Operation-Location"] == answer.headers["Location"] == location
    assert answer.headers["Retry-After"] == "5"
    assert body["links"]["self"] == location
    assert body["links"]["events"] == f"{location}/events"
    assert f"/namespaces/default/workflows/create-cluster%2F{tag}/{body['run_id']}" in body["links"]["temporal"]


async def test_concurrent_creates_are_one_operation(gateway: Gateway, temporal: Client, name: Name) -> None:
    tag = name("run")
    answers = await asyncio.gather(
        *(gateway.operator.post("/api/v1/clusters", json={"tag": tag, "region": "us-west-2"}) for _ in range(8)),
        gateway.admin.post("/api/v1/clusters", json={"tag": tag}),
    )
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1


async def test_another_specification_is_a_conflict_that_names_the_running_operation(
    gateway: Gateway, name: Name
) -> None:
    tag = name("run")
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    answer = await gateway.operator.post("/api/v1/clusters", json={"tag": tag, "kubernetes_version": "1.33"})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "conflict"
    assert answer.json()["operation"] == f"create-cluster/{tag}"
    assert "operator-1" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"tag": "Demo_1"}, ["/tag"]),
        ({"tag": "ok", "colour": "red"}, ["/colour"]),
        ({"tag": "ok", "network": {"vpc_cidr": "10.0.0.0/8"}}, ["/network/vpc_cidr"]),
        (
            {"tag": "ok", "kubernetes_version": "1.1", "storage": {"claim": "X"}},
            ["/kubernetes_version", "/storage/claim"],
        ),
        (
            {"tag": "ok", "instance_groups": [{"instance_type": "g5.8xlarge", "count": -1}]},
            ["/instance_groups/0/instance_type", "/instance_groups/0/count"],
        ),
        (
            {
                "tag": "ok",
                "instance_groups": [
                    {"instance_type": "ml.g5.8xlarge", "count": 1, "capacity": {"kind": "training-plan"}}
                ],
            },
            ["/instance_groups/0/capacity/training_plan"],
        ),
        (
            {"tag": "ok", "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 1}] * 2},
            ["/instance_groups/1/name"],
        ),
        ({"tag": "ok", "region": "eu-north-1"}, ["/region"]),
        ({}, ["/tag"]),
        ([], [""]),
    ],
)
async def test_every_fault_of_the_input_is_named_by_its_pointer(
    gateway: Gateway, body: Any, pointers: list[str]
) -> None:
    answer = await gateway.operator.post("/api/v1/clusters", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == pointers
    assert answer.json()["instance"] == "/api/v1/clusters"


async def test_a_region_that_is_not_served_is_refused_with_those_that_are(gateway: Gateway) -> None:
    answer = await gateway.operator.post("/api/v1/clusters", json={"tag": "ok", "region": "eu-north-1"})
    assert "us-west-2, us-east-1" in answer.json()["detail"]


async def test_what_the_account_finds_wrong_is_refused_before_anything_starts(
    gateway: Gateway, temporal: Client, name: Name
) -> None:
    tag = name("run")
    body = {"tag": tag, "network": {"vpc_cidr": OCCUPIED}}
    answer = await gateway.operator.post("/api/v1/clusters", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "/network/vpc_cidr"
    assert (await gateway.operator.get(f"/api/v1/operations/create-cluster/{tag}")).status_code == 404


async def test_an_account_that_does_not_answer_in_time_does_not_hold_the_start(gateway: Gateway, name: Name) -> None:
    tag = name("run")
    body = {"tag": tag, "network": {"vpc_cidr": SLOW_TO_CHECK}}
    answer = await gateway.operator.post("/api/v1/clusters", json=body)
    assert answer.status_code == 202
    again = await gateway.operator.post("/api/v1/clusters", json=body)
    assert again.json()["run_id"] == answer.json()["run_id"]


async def test_validate_only_answers_with_the_plan_and_touches_nothing(gateway: Gateway, name: Name) -> None:
    tag = name("run")
    answer = await gateway.agent.post("/api/v1/clusters?validate_only=true", json={"tag": tag})
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["valid"]
    assert plan["checked_against_account"]
    assert plan["needs_approval"]
    assert plan["spec"]["region"] == "us-west-2"
    assert plan["plan_hash"] == fingerprint(ClusterSpec(tag=tag, region="us-west-2"))
    assert plan["names"]["eks_cluster"] == f"eks-cluster-{tag}"
    assert (await gateway.operator.get(f"/api/v1/operations/create-cluster/{tag}")).status_code == 404


async def test_a_repeated_key_gives_the_first_operation_even_after_it_ended(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag, headers = name("run"), {"Idempotency-Key": name("key")}
    first = await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers=headers)
    assert first.status_code == 202
    await temporal.get_workflow_handle(f"create-cluster/{tag}").signal("finish")
    url = f"/api/v1/operations/create-cluster/{tag}"
    await eventually(lambda: gateway.operator.get(url), lambda r: r.json()["phase"] == "succeeded")
    again = await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers=headers)
    assert again.status_code == 202
    assert again.json()["run_id"] == first.json()["run_id"]
    assert again.json()["phase"] == "succeeded"

    other_run = await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    assert other_run.json()["run_id"] != first.json()["run_id"]
    listed = f"/api/v1/operations?cluster={tag}"
    await eventually(lambda: gateway.operator.get(listed), lambda r: len(r.json()["operations"]) == 2)
    late = await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers=headers)
    assert late.json()["run_id"] == first.json()["run_id"]
    assert late.headers["Operation-Location"].endswith(f"?run_id={first.json()['run_id']}")
    assert (await gateway.operator.get(late.headers["Operation-Location"])).json()["phase"] == "succeeded"


async def test_a_key_with_another_request_is_refused(gateway: Gateway, name: Name, eventually: Eventually) -> None:
    tag, headers = name("run"), {"Idempotency-Key": name("key")}
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers=headers)
    other = {"tag": tag, "kubernetes_version": "1.33"}
    answer = await gateway.operator.post("/api/v1/clusters", json=other, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["field"] == "/Idempotency-Key"

    def elsewhere() -> Awaitable[httpx.Response]:
        return gateway.operator.post("/api/v1/clusters", json={"tag": name("run")}, headers=headers)

    answer = await eventually(elsewhere, lambda r: r.status_code == 422)
    assert tag in answer.json()["detail"]


async def test_a_key_that_joined_a_running_operation_leads_to_it_after_it_ended(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag, headers = name("run"), {"Idempotency-Key": name("key")}
    first = await gateway.admin.post("/api/v1/clusters", json={"tag": tag})
    joined = await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers=headers)
    assert joined.json()["run_id"] == first.json()["run_id"]
    await temporal.get_workflow_handle(f"create-cluster/{tag}").signal("finish")
    url = f"/api/v1/operations/create-cluster/{tag}"
    await eventually(lambda: gateway.operator.get(url), lambda r: r.json()["phase"] == "succeeded")
    again = await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers=headers)
    assert (again.json()["run_id"], again.json()["phase"]) == (first.json()["run_id"], "succeeded")


async def test_keys_of_different_callers_do_not_meet(gateway: Gateway, name: Name) -> None:
    headers = {"Idempotency-Key": name("key")}
    first = await gateway.operator.post("/api/v1/clusters", json={"tag": name("run")}, headers=headers)
    second = await gateway.admin.post("/api/v1/clusters", json={"tag": name("run")}, headers=headers)
    assert first.status_code == second.status_code == 202


async def test_stages_start_on_a_known_cluster_in_its_region(
    gateway: Gateway, temporal: Client, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster(region="us-east-1")
    for path, operation in {
        "access": f"verify-access/{tag}",
        "verification": f"verify-cluster/{tag}",
        "storage": f"create-storage/{tag}/s3-claim",
        "control-plane": f"create-control-plane/{tag}",
    }.items():
        answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/{path}")
        assert answer.status_code == 202, answer.text
        assert answer.json()["id"] == operation
        memo = await (await temporal.get_workflow_handle(operation).describe()).memo()
        assert memo["operation"]["region"] == "us-east-1"


async def test_a_stage_of_an_unknown_cluster_is_not_found_and_names_what_is_making_it(
    gateway: Gateway, name: Name
) -> None:
    tag = name("run")
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/verification")
    assert answer.status_code == 404
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/verification")
    assert answer.status_code == 404
    assert answer.json()["operation"] == f"create-cluster/{tag}"


async def test_a_control_plane_may_begin_a_new_cluster(gateway: Gateway, temporal: Client, name: Name) -> None:
    tag = name("run")
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/control-plane?region=us-east-1")
    assert answer.status_code == 202
    memo = await (await temporal.get_workflow_handle(f"create-control-plane/{tag}").describe()).memo()
    assert memo["operation"]["region"] == "us-east-1"
    bad = await gateway.operator.post(f"/api/v1/clusters/{tag}/control-plane", json={"kubernetes_version": "1.1"})
    assert bad.json()["errors"][0]["field"] == "/kubernetes_version"


async def test_a_cluster_cannot_be_in_two_regions(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(region="us-east-1")
    answer = await gateway.operator.post("/api/v1/clusters", json={"tag": tag, "region": "us-west-2"})
    assert answer.status_code == 409
    assert "us-east-1" in answer.json()["detail"]
