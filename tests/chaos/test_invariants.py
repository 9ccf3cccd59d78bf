"""Each invariant is silent about a run that is well, and speaks of each way in which one is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos import invariants, standing
from tests.chaos.done import Done
from tests.chaos.invariants import Run
from tests.chaos.world import Group, Holdings, Thing

VPC = Thing("VPC", "vpc-11111111", "us-west-2", "instantstart-vpc", "c0")
THEIRS = Thing("VPC", "vpc-99999999", "us-west-2", "theirs", facts="[('owner', 'them')]")
ROLE = Thing("role", "instantstart-c0-node", "iam", "instantstart-c0-node")
INTERFACE = Thing("interface", "eni-11111111", "us-west-2", within="vpc-11111111")
RECORD: dict[str, Any] = {
    "tag": "c0",
    "network": {"vpc_id": "vpc-11111111"},
    "hyperpod": {"groups": [{"name": "workers"}]},
    "node_groups": [{"name": "cpu1"}],
    "storage": [{"claim": "s3-claim"}],
}
HELD = Holdings(
    groups={"workers": Group(2, (("example.com/team", "red"),))}, node_groups={"cpu1": Group(1)}, claims={"s3-claim"}
)


def done(kind: str, phase: str = "succeeded", **more: Any) -> Done:
    fields: dict[str, Any] = {"id": f"{kind}/c0", "run_id": "r", "kind": kind, "cluster": "c0", "phase": phase}
    return Done(**{**fields, **more})


CREATED = done(
    "create-cluster",
    finished="1",
    spec={"instance_groups": [{"name": "workers", "count": 1}], "storage": {"claim": "s3-claim"}},
)
SCALED = done("scale-instance-group", finished="2", spec={"group": "workers", "count": 2})
LABELLED = done("update-instance-group", finished="3", spec={"group": "workers", "labels": {"example.com/team": "red"}})
NODES = done("create-node-group", finished="4", spec={"name": "cpu1", "scaling": {"desired": 1}})
ALL = [CREATED, SCALED, LABELLED, NODES]


def call(operation: str, resource: str = "", **more: Any) -> dict[str, Any]:
    row = {
        "api": "aws",
        "service": "ec2",
        "operation": operation,
        "region": "us-west-2",
        "effect": True,
        "resource": resource,
        "user_agent": "boto3 op/create-cluster/c0 req/1",
        "parameters": {"TagSpecifications": [{"Tags": [{"Key": "Name", "Value": "one"}]}], "ClientToken": resource},
    }
    return {**row, **more}


def test_operations_that_succeeded_were_aborted_or_say_what_they_wait_for_are_well() -> None:
    assert invariants.all_ended([done("a"), done("b", "aborted"), done("c", "blocked", reason="no room")]) == []


@pytest.mark.parametrize(
    ("phase", "reason"), [("running", "hyperpod"), ("queued", "behind"), ("failed", "defect"), ("blocked", "")]
)
def test_an_operation_that_runs_for_ever_has_failed_or_waits_for_nothing_is_found(phase: str, reason: str) -> None:
    [fault] = invariants.all_ended([done("a"), done("b", phase, reason=reason)])
    assert fault.startswith("b/c0")


@pytest.mark.parametrize(
    "run",
    [
        Run("w", "FAILED"),
        Run("w", "TIMED_OUT"),
        Run("w", "RUNNING", task_attempt=7),
        Run("w", "COMPLETED", task_failures=("NON_DETERMINISTIC_ERROR",)),
    ],
)
def test_a_workflow_that_failed_or_whose_tasks_fail_is_found(run: Run) -> None:
    well = [Run("v", "RUNNING", task_attempt=1), Run("v", "COMPLETED"), Run("v", "TERMINATED"), Run("v", "CANCELED")]
    assert invariants.workflows_well(well) == []
    [fault] = invariants.workflows_well([*well, run])
    assert " w" in fault


def test_what_is_made_once_again_after_its_end_or_by_another_cluster_is_once() -> None:
    other = call("CreateVpc", "vpc-3", user_agent="boto3 op/create-cluster/c1 req/2")
    lost = call("CreateVpc", "vpc-4", effect=False)
    ledger = [call("CreateVpc", "vpc-1"), call("CreateVpc", "vpc-1"), other, lost]
    assert invariants.effects_once(ledger) == []
    ended = call("DeleteVpc", "", parameters={"VpcId": "vpc-1"})
    assert invariants.effects_once([*ledger, ended, call("CreateVpc", "vpc-2")]) == []
    by_others = call("DeleteVpc", "", parameters={"VpcId": "vpc-1"}, user_agent="boto3 op/- req/-")
    assert invariants.effects_once([*ledger, by_others, call("CreateVpc", "vpc-2")]) == []


def test_a_thing_that_is_made_twice_is_found() -> None:
    [fault] = invariants.effects_once([call("CreateVpc", "vpc-1"), call("CreateVpc", "vpc-2")])
    assert "CreateVpc of one" in fault
    assert invariants.effects_once([call("CreateVpc", f"vpc-{n}", user_agent="boto3 op/- req/-") for n in "12"]) == []
    runs = [call("CreateRun", server, service="sagemaker-mlflow") for server in ("mlflow-1", "mlflow-2")]
    assert invariants.effects_once(runs) == [], "a run is copied to one server and to another"
    other = call("DeleteVpc", "", parameters={"VpcId": "vpc-9"})
    assert invariants.effects_once([call("CreateVpc", "vpc-1"), other, call("CreateVpc", "vpc-2")])


def test_an_act_that_is_done_twice_by_one_request_is_found_unless_it_was_retried() -> None:
    acts = [
        call(
            "BatchAddClusterNodes",
            parameters={"ClusterName": "hp", "ClientToken": token, "NodesToAdd": [{"IncrementTargetCountBy": 1}]},
        )
        for token in ("1", "2")
    ]
    assert invariants.effects_once(acts[:1]) == []
    [fault] = invariants.effects_once(acts)
    assert "2 times by create-cluster/c0" in fault
    assert invariants.effects_once(acts, retried=["create-cluster/c0"]) == []
    assert invariants.effects_once(acts, told_to_wait={"create-cluster/c0": 1}) == []
    assert invariants.effects_once([*acts, acts[0]], told_to_wait={"create-cluster/c0": 1})


def test_things_that_a_record_a_mark_a_name_or_a_network_explains_are_well() -> None:
    now = [THEIRS, VPC, ROLE, INTERFACE]
    assert invariants.explained([THEIRS], now, {"c0": RECORD}) == []
    unmarked = replace(VPC, cluster="")
    assert invariants.explained([THEIRS], [unmarked, INTERFACE], {"c0": RECORD}) == []


@pytest.mark.parametrize(
    "extra",
    [
        Thing("elastic IP", "eipalloc-11111111", "us-west-2"),
        Thing("VPC", "vpc-22222222", "us-east-1", "instantstart-vpc", "c7"),
        Thing("role", "instantstart-c01-node", "iam", "instantstart-c01-node"),
        Thing("interface", "eni-22222222", "us-west-2", within="vpc-99999999"),
    ],
)
def test_a_thing_that_nobody_knows_of_is_found(extra: Thing) -> None:
    [fault] = invariants.explained([THEIRS], [THEIRS, VPC, extra], {"c0": RECORD})
    assert extra.id in fault


def test_a_second_thing_of_one_name_is_found() -> None:
    [fault] = invariants.explained([], [VPC, replace(VPC, id="vpc-22222222")], {"c0": RECORD})
    assert fault.startswith("2 times VPC")


def test_a_record_that_tells_what_there_is_is_well() -> None:
    assert invariants.there([VPC], {"c0": RECORD}, {"c0": HELD}) == []


@pytest.mark.parametrize(
    ("held", "now", "word"),
    [
        (HELD, [], "vpc-11111111"),
        (replace(HELD, groups={}), [VPC], "instance group workers"),
        (replace(HELD, node_groups={}), [VPC], "node group cpu1"),
        (replace(HELD, claims=set()), [VPC], "claim s3-claim"),
        (replace(HELD, claims={"s3-claim", "more"}), [VPC], "claim more"),
        (replace(HELD, groups={**HELD.groups, "g1": Group(1)}), [VPC], "instance group g1"),
    ],
)
def test_a_record_that_tells_something_else_is_found(held: Holdings, now: list[Thing], word: str) -> None:
    [fault] = invariants.there(now, {"c0": RECORD}, {"c0": held})
    assert word in fault


def test_what_was_asked_in_the_order_of_its_end_is_what_there_is() -> None:
    assert standing.as_asked(reversed(ALL), {"c0": HELD}) == []
    more = replace(HELD, groups={"workers": Group(2, (("example.com/team", "red"), ("others", "kept")))})
    assert standing.as_asked(ALL, {"c0": more}) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda held: replace(held, groups={"workers": Group(1, HELD.groups["workers"].labels)}), "workers"),
        (lambda held: replace(held, groups={"workers": Group(2)}), "workers"),
        (lambda held: replace(held, groups={**held.groups, "g1": Group(1)}), "g1"),
        (lambda held: replace(held, groups={}), "workers"),
        (lambda held: replace(held, node_groups={"cpu1": Group(2)}), "cpu1"),
        (lambda held: replace(held, claims=set()), "s3-claim"),
        (lambda held: replace(held, deployments={"chat": 1}), "chat"),
        (lambda held: replace(held, credentials={"token"}), "token"),
        (lambda held: replace(held, rays={"ray"}), "ray"),
        (lambda held: replace(held, servers={"mlflow"}), "mlflow"),
        (lambda held: replace(held, routers={"front"}), "front"),
        (lambda held: replace(held, endpoints={"qwen"}), "qwen"),
        (lambda held: replace(held, autoscalers={"chat"}), "chat"),
        (lambda held: replace(held, node_pools={"elastic"}), "elastic"),
        (lambda held: replace(held, connections={"default"}), "default"),
    ],
)
def test_what_is_not_as_it_was_asked_is_found(change: Callable[[Holdings], Holdings], word: str) -> None:
    [fault] = standing.as_asked(ALL, {"c0": change(HELD)})
    assert word in fault


def test_an_operation_that_was_not_carried_through_says_nothing_about_what_it_was_about() -> None:
    half = done("scale-node-group", "aborted", finished="5", spec={"node_group": "cpu1", "desired": 4})
    assert standing.as_asked([*ALL, half], {"c0": replace(HELD, node_groups={"cpu1": Group(4)})}) == []
    assert standing.as_asked([*ALL, half], {"c0": replace(HELD, claims=set())})


def test_what_is_scaled_by_itself_may_have_any_number_and_must_be_there() -> None:
    served = done("create-deployment", finished="5", spec={"name": "chat", "replicas": 1})
    by_load = done("create-autoscaler", finished="6", spec={"target": "chat"})
    by_karpenter = done("create-node-pool", finished="7", spec={"name": "elastic", "instance_groups": ["workers"]})
    held = replace(HELD, autoscalers={"chat"}, node_pools={"elastic"}, deployments={"chat": 4}, groups={})
    [fault] = standing.as_asked([*ALL, served, by_load, by_karpenter], {"c0": held})
    assert fault.startswith("groups workers")
    scaled = replace(held, groups={"workers": Group(5)})
    assert standing.as_asked([*ALL, served, by_load, by_karpenter], {"c0": scaled}) == []
    assert standing.as_asked([*ALL, served, by_karpenter], {"c0": replace(scaled, autoscalers=set())})


def test_connections_of_training_come_and_go() -> None:
    connected = done("connect-experiments", finished="5", spec={"namespace": "default"})
    held = replace(HELD, connections={"default"})
    assert standing.as_asked([*ALL, connected], {"c0": held}) == []
    apart = done("disconnect-experiments", finished="6", spec={"namespace": "default"})
    assert standing.as_asked([*ALL, connected, apart], {"c0": HELD}) == []
    assert standing.as_asked([*ALL, connected, apart], {"c0": held})


def test_nobody_need_have_recorded_what_a_terminated_operation_was_about_and_all_else_must_be() -> None:
    cut = done("add-instance-group", "aborted", spec={"name": "g1"}, terminated=True)
    held = replace(HELD, groups={**HELD.groups, "g1": Group(1)})
    assert invariants.there([VPC], {"c0": RECORD}, {"c0": held}, [cut]) == []
    assert invariants.there([VPC], {"c0": RECORD}, {"c0": held}, [replace(cut, terminated=False)])
    assert invariants.there([VPC], {"c0": RECORD}, {"c0": replace(held, node_groups={})}, [cut])
    assert invariants.there([VPC], {"c0": RECORD}, {"c0": held}, [replace(cut, cluster="c1")])


def test_nodes_that_were_deleted_make_their_group_smaller() -> None:
    fewer = done("delete-nodes", finished="5", spec={"nodes": ["i-1"]}, node_of="workers")
    held = replace(HELD, groups={"workers": Group(1, HELD.groups["workers"].labels)})
    assert standing.as_asked([*ALL, fewer], {"c0": held}) == []
    assert standing.as_asked([*ALL, fewer], {"c0": HELD})


@pytest.mark.parametrize(
    ("operations", "there"),
    [
        ([done("delete-instance-group", finished="5", spec={"group": "workers"})], replace(HELD, groups={})),
        ([done("delete-node-group", finished="5", spec={"node_group": "cpu1"})], replace(HELD, node_groups={})),
        ([done("delete-storage", finished="5", spec={"claim": "s3-claim"})], replace(HELD, claims=set())),
        (
            [
                done("create-deployment", finished="5", spec={"name": "chat", "replicas": 1}),
                done("scale-deployment", finished="6", spec={"name": "chat", "replicas": 3}),
            ],
            replace(HELD, deployments={"chat": 3}),
        ),
        (
            [done("create-ray-cluster", finished="5", spec={"name": "ray"})],
            replace(HELD, rays={"ray"}),
        ),
    ],
)
def test_later_operations_have_the_last_word(operations: list[Done], there: Holdings) -> None:
    assert standing.as_asked([*ALL, *operations], {"c0": there}) == []
    assert standing.as_asked(ALL, {"c0": there})


def test_others_things_that_are_gone_or_changed_are_found() -> None:
    assert invariants.others_untouched([THEIRS], [THEIRS, VPC]) == []
    assert "is gone" in invariants.others_untouched([THEIRS], [VPC])[0]
    assert "was changed" in invariants.others_untouched([THEIRS], [replace(THEIRS, facts="[]")])[0]


def test_what_others_have_in_a_cluster_and_is_not_as_it_was_is_found() -> None:
    settled = {"c0": {"ConfigMap": "{'a': 'b'}", "instance group": "1"}}
    assert invariants.theirs_kept(settled, {"c0": {**settled["c0"], "more": "2"}}) == []
    [fault] = invariants.theirs_kept(settled, {"c0": {**settled["c0"], "instance group": "0"}})
    assert "instance group in c0 was 1, is 0" in fault
    assert len(invariants.theirs_kept(settled, {})) == 2


def test_what_is_left_after_the_end_of_everything_is_found() -> None:
    assert invariants.nothing_left([THEIRS], [THEIRS]) == []
    [fault] = invariants.nothing_left([THEIRS], [THEIRS, ROLE])
    assert ROLE.id in fault
