"""Plans: shown without a change, and held to when they are started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio.client import Client

from tests.api.conftest import Gateway
from tests.api.fake_workflows import NODES, OCCUPIED

Name = Callable[[str], str]
MakeCluster = Callable[..., Awaitable[str]]


async def _plan(gateway: Gateway, tag: str, kind: str = "verify-cluster", **more: object) -> dict[str, object]:
    answer = await gateway.viewer.post("/api/v1/plans", json={"kind": kind, "cluster": tag, **more})
    assert answer.status_code == 200, answer.text
    document: dict[str, object] = answer.json()
    return document


async def test_a_plan_changes_nothing_and_names_the_operation(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    plan = await _plan(gateway, tag)
    assert plan["operation"] == f"verify-cluster/{tag}"
    assert plan["valid"]
    assert plan["checked_against_account"]
    assert (await gateway.viewer.get(f"/api/v1/operations/verify-cluster/{tag}")).status_code == 404


async def test_a_plan_of_a_new_cluster_lists_its_blockers_instead_of_refusing(gateway: Gateway, name: Name) -> None:
    spec = {"network": {"vpc_cidr": OCCUPIED}}
    plan = await _plan(gateway, name("new"), "create-cluster", spec=spec)
    assert not plan["valid"]
    assert [each["field"] for each in plan["blockers"]] == ["/network/vpc_cidr"]  # type: ignore[index, attr-defined]


async def test_an_operation_starts_with_a_plan_that_holds(
    gateway: Gateway, temporal: Client, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster()
    plan = await _plan(gateway, tag)
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/verification?plan={plan['plan']}")
    assert answer.status_code == 202, answer.text


async def test_a_plan_is_refused_when_the_world_has_changed_and_the_answer_says_what(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster()
    plan = await _plan(gateway, tag)
    NODES[tag] = 3
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/verification?plan={plan['plan']}")
    assert (answer.status_code, answer.json()["code"]) == (412, "stale")
    assert "nodes was 0 and is 3" in answer.json()["detail"]
    assert (await gateway.viewer.get(f"/api/v1/operations/verify-cluster/{tag}")).status_code == 404


async def test_a_plan_is_refused_after_its_time(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    named = str((await _plan(gateway, tag))["plan"]).partition(".")[2]
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/verification?plan=1000000000.{named}")
    assert answer.status_code == 412
    assert "over its time" in answer.json()["detail"]


async def test_the_plan_of_another_operation_is_refused(gateway: Gateway, make_cluster: MakeCluster) -> None:
    one, other = await make_cluster(), await make_cluster()
    plan = await _plan(gateway, one)
    answer = await gateway.operator.post(f"/api/v1/clusters/{other}/verification?plan={plan['plan']}")
    assert answer.status_code == 412


async def test_what_is_no_plan_or_no_kind_is_named_by_its_field(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/verification?plan=nonsense")
    assert (answer.status_code, answer.json()["field"]) == (422, "/plan")
    answer = await gateway.viewer.post("/api/v1/plans", json={"kind": "make-coffee", "cluster": tag})
    assert (answer.status_code, answer.json()["field"]) == (422, "/kind")
    bad = {"kind": "create-storage", "cluster": tag, "spec": {"prefix": "no-slash"}}
    answer = await gateway.viewer.post("/api/v1/plans", json=bad)
    assert (answer.status_code, answer.json()["field"]) == (422, "/spec/prefix")
    answer = await gateway.viewer.post("/api/v1/plans", json={"kind": "verify-cluster", "cluster": "nobody"})
    assert answer.status_code == 404
