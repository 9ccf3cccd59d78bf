"""Training runs through the gateway: looked at, planned, asked for, and refused at the field that is at fault."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from contracts.training import ASK_FOR_GPUS
from tests.api.conftest import Eventually, Gateway, MakeCluster
from tests.api.fake_training import SPEC

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}


async def path_of(make_cluster: MakeCluster) -> str:
    return f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/training-runs"


async def test_runs_are_listed_and_one_is_read(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    (found,) = (await gateway.viewer.get(path, params={"namespace": "team"})).json()["runs"]
    assert (found["namespace"], found["state"], found["restarts"]["job"]) == ("team", "running", 1)
    one = (await gateway.viewer.get(f"{path}/qwen3-sft")).json()
    assert (one["run"]["reported"]["step"], one["spec"]["recipe"]["kind"]) == (1200, "pytorch")
    missing = await gateway.viewer.get(f"{path}/nobody", params={"namespace": "team"})
    assert (missing.status_code, missing.json()["detail"]) == (404, "there is no training run team/nobody")


async def test_a_cluster_without_a_control_plane_has_none(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = f"/api/v1/clusters/{await make_cluster()}/training-runs"
    assert (await gateway.viewer.get(path)).json()["runs"] == []
    assert (await gateway.viewer.get(f"{path}/qwen3-sft")).status_code == 404


async def test_a_start_is_an_operation_about_its_name(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    tag = path.split("/")[4]
    started = await gateway.operator.post(path, json=SPEC)
    assert (started.status_code, started.json()["id"]) == (202, f"run-training/{tag}/qwen3-sft")
    there = await gateway.operator.post(path, json={**SPEC, "namespace": "team"})
    assert there.json()["id"] == f"run-training/{tag}/team/qwen3-sft"
    other = await gateway.operator.post(path, json={**SPEC, "nodes": 4})
    assert other.status_code == 409, "asked for something else while it runs"
    for action in ("stop", "suspend", "resume"):
        done = await gateway.operator.post(f"{path}/qwen3-sft/{action}", json={"reason": "night"})
        assert (done.status_code, done.json()["id"]) == (202, f"{action}-training/{tag}/qwen3-sft")
    bare = await gateway.operator.post(f"{path}/qwen3-sft/stop", params={"namespace": "team"})
    assert bare.json()["id"] == f"stop-training/{tag}/team/qwen3-sft"


async def test_a_stop_of_what_never_was_is_refused_before_it_holds_the_name(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    path = await path_of(make_cluster)
    refused = await gateway.operator.post(f"{path}/qwen3-sft-typo/stop")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    unknown_here = await gateway.operator.post(f"{path}/qwen3-sft/stop")
    assert unknown_here.status_code == 202, "its job is there, whoever began it"


async def begun_with(temporal: Client, operation: str) -> dict[str, Any]:
    """What an operation was started with."""
    history = await temporal.get_workflow_handle(operation).fetch_history()
    inputs = history.events[0].workflow_execution_started_event_attributes.input
    (found,) = await temporal.data_converter.decode(inputs.payloads)
    return dict(found)


async def test_what_an_agent_would_stop_is_the_job_that_it_saw(
    gateway: Gateway, make_cluster: MakeCluster, temporal: Client
) -> None:
    path = await path_of(make_cluster)
    asked = await gateway.agent.post(f"{path}/qwen3-sft/stop", json={"reason": "diverged"})
    assert (asked.status_code, asked.json()["phase"]) == (202, "waiting_for_approval")
    assert (await begun_with(temporal, asked.json()["id"]))["plan_facts"], "a later job of the name is another one"
    own = await gateway.operator.post(f"{path}/qwen3-sft/suspend", json={"reason": "night"})
    assert (await begun_with(temporal, own.json()["id"])).get("plan_facts") is None


async def test_a_person_who_asks_for_what_an_agent_waits_for_has_approved_it(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    url = f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/instance-groups/big/scale"
    asked = await gateway.agent.post(url, json={"count": 3})
    assert asked.json()["phase"] == "waiting_for_approval"
    shown = f"/api/v1/operations/{asked.json()['id']}"
    await eventually(lambda: gateway.viewer.get(shown), lambda r: r.json()["stages"])
    again = await gateway.agent.post(url, json={"count": 3})
    assert again.json()["detail"] is None, "an agent's own word is none"
    assert (await gateway.operator.post(url, json={"count": 3})).status_code == 202
    said = await eventually(lambda: gateway.viewer.get(shown), lambda r: r.json()["detail"])
    assert "asked anew by operator" in said.json()["detail"]


async def test_an_agent_may_train_but_stops_and_suspends_with_a_persons_word(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    path, only = await path_of(make_cluster), {"validate_only": "true"}
    plan = (await gateway.agent.post(path, json=SPEC, params=only)).json()
    assert (plan["kind"], plan["needs_approval"]) == ("run-training", False)
    for action, needs in (("stop", True), ("suspend", True), ("resume", False)):
        answer = (await gateway.agent.post(f"{path}/qwen3-sft/{action}", json={}, params=only)).json()
        assert answer["needs_approval"] is needs


async def test_without_gpus_the_answer_is_to_ask_the_user(gateway: Gateway, make_cluster: MakeCluster) -> None:
    body = {key: value for key, value in SPEC.items() if key != "gpus_per_node"}
    refused = await gateway.operator.post(await path_of(make_cluster), json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "/gpus_per_node")
    assert refused.json()["remedy"] == ASK_FOR_GPUS


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Qwen_3"}, "/name"),
        ({"instance_types": ["ml.g5.12xlarge", "ml.p5.48xlarge"]}, "/instance_types"),
        ({"env": {"T": "hf_abcdefghijklmnop"}}, "/env/T"),
        ({"log_monitoring": [{"name": "x", "pattern": "(a+)+$", "every_seconds": 5}]}, "/log_monitoring/0/pattern"),
        ({"recipe": {"kind": "pytorch", "script_path": "train.py"}}, "/recipe/script_path"),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4}, "tiered_checkpointing": True}, "/tiered_checkpointing"),
    ],
)
async def test_a_fault_is_refused_at_its_field(
    gateway: Gateway, make_cluster: MakeCluster, change: dict[str, Any], field: str
) -> None:
    refused = await gateway.operator.post(await path_of(make_cluster), json={**SPEC, **change})
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert refused.json()["remedy"]
    assert "hf_abc" not in refused.text
