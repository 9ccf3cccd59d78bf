"""What people and machines do to a running creation: blocks and retries, abort, cancel, terminate, restarts."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from tests.durability.runs import (
    ENDS,
    WORKERS,
    chart_of,
    create,
    effects,
    entries,
    faults,
    finish,
    fired,
    last_entry,
    raise_quotas,
    states,
    wait_for,
)
from tests.local_stack import LocalStack

ANSWER = {"answer": {"instance_type": "ml.g5.8xlarge", "count": 1, "availability_zone": "us-west-2a"}}
GONE_SECONDS = 40.0


def blocked(stack: LocalStack, operation: str, stage: str) -> dict[str, Any]:
    """Wait until exactly this stage blocks; returns its problem."""
    found = stack.until(operation, lambda o: o["phase"] in ENDS)
    assert found["phase"] == "blocked", found
    assert [name for name, state in states(found).items() if state == "blocked"] == [stage]
    problem: dict[str, Any] = next(each["problem"] for each in found["stages"] if each["name"] == stage)
    assert problem["remedy"]
    return problem


def retry(stack: LocalStack, operation: str, **body: Any) -> None:
    answer = stack.gateway.post(f"/operations/{operation}/retry", json=body)
    assert answer.status_code == 202, answer.text


def coming_up(stack: LocalStack, operation: str, tag: str) -> None:
    """Wait until the control plane is asked for, and stop the sandbox's clock: it stays CREATING."""
    wait_for(lambda: effects(stack, tag)["aws eks CreateCluster"] == 1)
    stack.sandbox.post("/clock", json={"paused": True}).raise_for_status()
    stack.until(operation, lambda o: states(o).get("control_plane") == "running")


def go_on(stack: LocalStack) -> None:
    stack.sandbox.post("/clock", json={"paused": False}).raise_for_status()


async def _handle(stack: LocalStack, workflow_id: str) -> WorkflowHandle[Any, Any]:
    client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}")
    return client.get_workflow_handle(workflow_id)


def test_a_missing_permission_a_quota_and_a_shortage_block_with_a_remedy_and_a_retry_goes_on_from_there(
    stack: LocalStack,
) -> None:
    group = {**WORKERS[0], "availability_zone": "us-west-2a"}
    refusal = {"code": "UnauthorizedOperation", "status": 403, "message": "You are not authorized"}
    with faults(stack, {"api": "aws", "operation": "CreateVpc", **refusal}):
        operation = create(stack, "blocks", instance_groups=[group])
        problem = blocked(stack, operation, "network")
        assert (problem["code"], problem["aws"]["operation"]) == ("denied", "CreateVpc")
        assert "ec2:CreateVpc" in problem["remedy"]
    stack.until(operation, lambda o: states(o)["identity"] == "done")  # Beside the blocked stage.

    raise_quotas(stack, **{"elastic-ips": 0})
    stack.sandbox.put("/capacity", json={"us-west-2a": {"ml.g5.8xlarge": 0}}).raise_for_status()
    before_network = last_entry(stack)
    retry(stack, operation)
    problem = blocked(stack, operation, "egress")
    assert (problem["code"], problem["aws"]["operation"]) == ("quota", "AllocateAddress")
    assert not {r["service"] for r in entries(stack, "blocks", before_network, effects=False)} & {"iam", "s3"}

    raise_quotas(stack)
    before_egress = last_entry(stack)
    retry(stack, operation)
    problem = blocked(stack, operation, "hyperpod")
    assert (problem["code"], problem["retryable"]) == ("capacity", True)
    assert "Availability Zone" in problem["remedy"]
    again = {r["operation"] for r in entries(stack, "blocks", before_egress, effects=False)}
    assert not again & {"CreateVpc", "CreateSecurityGroup", "CreateInternetGateway", "CreateBucket", "PutObject"}

    before_hyperpod = last_entry(stack)
    retry(stack, operation, corrections={"instance_groups": [{"availability_zone": "us-west-2b"}]})
    ended = finish(stack, operation)
    assert {node["zone"] for node in stack.gateway.get("/clusters/blocks").json()["record"]["nodes"]} == {"us-west-2b"}
    again = {r["operation"] for r in entries(stack, "blocks", before_hyperpod, effects=False) if r["api"] == "aws"}
    assert again <= {"CreateSubnet", "CreateRouteTable", "AssociateRouteTable", "CreateRoute", "ModifyVpcEndpoint"} | {
        "UpdateCluster",
        "BatchDeleteClusterNodes",
    }
    attempts = {stage["name"]: stage["attempt"] for stage in ended["stages"]}
    assert {name for name, attempt in attempts.items() if attempt > 1} == {"network", "egress", "hyperpod"}
    done = effects(stack, "blocks")
    assert done["aws ec2 CreateVpc"] == done["aws eks CreateCluster"] == done["aws sagemaker CreateCluster"] == 1


def test_after_an_abort_a_cancellation_and_a_termination_creating_again_adopts_everything(stack: LocalStack) -> None:
    operation = create(stack, "again")
    coming_up(stack, operation, "again")
    stack.gateway.post(f"/operations/{operation}/abort", json={"reason": "lunch"}).raise_for_status()
    aborted = stack.until(operation, lambda o: o["phase"] == "aborted")
    assert "lunch" in aborted["detail"]
    assert states(aborted)["network"] == "done"
    assert states(aborted)["control_plane"] == "pending"
    record = stack.gateway.get("/clusters/again").json()["record"]
    assert record["network"]["vpc_id"]
    assert record["identity"]
    left = aborted["result"]["exists"]
    assert left["network/network.ensure_vpc"] == record["network"]["vpc_id"]
    assert left["control_plane/eks.ensure_control_plane"] == "eks-cluster-again"
    assert len([each for each in left.values() if each.startswith("nat-")]) == 2

    assert create(stack, "again") == operation
    stack.until(operation, lambda o: states(o).get("control_plane") == "running")
    asyncio.run(_cancel(stack, operation))
    cancelled = stack.until(operation, lambda o: o["phase"] == "aborted")
    assert cancelled["run_id"] != aborted["run_id"]

    assert create(stack, "again") == operation
    stack.until(operation, lambda o: states(o).get("control_plane") == "running")
    asyncio.run(_terminate(stack, operation))
    terminated = stack.until(operation, lambda o: o["phase"] == "aborted")
    assert terminated["run_id"] not in (cancelled["run_id"], aborted["run_id"])

    assert create(stack, "again") == operation
    go_on(stack)
    ended = finish(stack, operation)
    assert states(ended)["network"] == states(ended)["identity"] == "unchanged"
    assert set(states(ended).values()) == {"done", "unchanged"}
    done = effects(stack, "again")
    assert done["aws ec2 CreateVpc"] == done["aws eks CreateCluster"] == 1
    assert done["aws ec2 CreateNatGateway"] == done["aws ec2 AllocateAddress"] == 2
    view = stack.gateway.get("/clusters/again").json()
    assert view["holding"] == view["queued"] == []


async def _cancel(stack: LocalStack, workflow_id: str) -> None:
    await (await _handle(stack, workflow_id)).cancel()


async def _terminate(stack: LocalStack, workflow_id: str) -> None:
    await (await _handle(stack, workflow_id)).terminate("look-out: a test")


def test_without_a_worker_everything_can_be_read_and_answers_are_put_off_until_one_is_back(
    stack: LocalStack, undisturbed: Counter[str]
) -> None:
    asking = create(stack, "asks", instance_groups=[])
    stack.until(asking, lambda o: o["phase"] == "waiting_for_decision")
    waiting = create(stack, "waits")
    coming_up(stack, waiting, "waits")
    before = {each: stack.operation(each) for each in (asking, waiting)}
    stack.kill("worker")
    gone = time.monotonic()
    go_on(stack)

    gateway = stack.gateway
    for each in (asking, waiting):
        now = gateway.get(f"/operations/{each}").json()
        assert (now["phase"], states(now)) == (before[each]["phase"], states(before[each]))
    assert {o["id"] for o in gateway.get("/operations?page_size=100").json()["operations"]} >= set(before)
    assert gateway.get("/clusters/asks").json()["record"]["control_plane"]["status"] == "ACTIVE"
    key = {"Idempotency-Key": "asks-once"}
    put_off = gateway.post(f"/operations/{asking}/decide", json=ANSWER, headers=key)
    assert (put_off.status_code, put_off.json()["code"]) == (503, "unavailable"), put_off.text
    assert int(put_off.headers["Retry-After"]) > 0

    wait_for(lambda: time.monotonic() - gone > GONE_SECONDS)
    stack.start("worker")
    # As the answer said: again, with the same key, until a worker answers.
    wait_for(lambda: gateway.post(f"/operations/{asking}/decide", json=ANSWER, headers=key).status_code == 202, 30)
    finish(stack, asking)
    finish(stack, waiting)
    assert effects(stack, "asks") == effects(stack, "waits") == undisturbed


def test_a_helm_that_dies_in_the_middle_of_an_installation_or_an_upgrade_is_recovered_from(
    stack: LocalStack, undisturbed: Counter[str]
) -> None:
    # The release is noted as pending, and helm waits for the answer that says so.
    stuck = {"operation": "POST .*/secrets", "phase": "after", "action": "latency", "latency": 60.0, "times": 1}
    rule = {"api": "kubernetes", "service": "eks-cluster-helm", **stuck}
    with faults(stack, rule):
        creation = create(stack, "helm")
        wait_for(lambda: bool(fired(stack)))
        assert _helms(stack)
        stack.kill("worker")
        wait_for(lambda: not _helms(stack), limit=5)  # It dies with its worker: nobody goes on beside the next attempt.
        stack.start("worker")
        finish(stack, creation)
    assert _of_aws(effects(stack, "helm")) == _of_aws(undisturbed)
    # Revision 1 is the dead one, 2 brings it to its end, 3 is known by its chart and values.
    assert "revision 3 deployed" in _release(stack)

    with (chart_of(stack.settings.folder.path) / "values.yaml").open("a") as values:
        values.write("# another version\n")
    with faults(stack, rule):
        answer = stack.gateway.post("/clusters/helm/dependencies", json={})
        assert answer.status_code == 202, answer.text
        wait_for(lambda: bool(fired(stack)))
        [helm] = _helms(stack)
        os.kill(helm, signal.SIGKILL)
        stack.kill("worker")
        stack.start("worker")
        finish(stack, answer.json()["id"])
    # Revision 4 is the dead one, 5 takes it back, 6 is the upgrade.
    assert "revision 6 deployed" in _release(stack)


def _of_aws(counted: Counter[str]) -> Counter[str]:
    return Counter({name: count for name, count in counted.items() if name.startswith("aws ")})


def _release(stack: LocalStack) -> str:
    components = stack.gateway.get("/clusters/helm").json()["record"]["dependencies"]
    return str(next(each["detail"] for each in components if each["name"] == "hyperpod-dependencies"))


def _helms(stack: LocalStack) -> list[int]:
    """Processes of helm that change something in this stack."""
    endpoint = f":{stack.settings.ports.kubernetes}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"upgrade" in words and endpoint in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_decision_outlives_a_restart_of_everything_and_the_answer_goes_on(
    stack: LocalStack, undisturbed: Counter[str]
) -> None:
    operation = create(stack, "survivor", instance_groups=[])
    asked = stack.until(operation, lambda o: o["phase"] == "waiting_for_decision")
    before = entries(stack, "survivor")
    stack.stop()
    stack.start()
    still = stack.operation(operation)
    assert (still["phase"], still["decision"], still["run_id"], still["stages"]) == (
        "waiting_for_decision",
        asked["decision"],
        asked["run_id"],
        asked["stages"],
    )
    assert entries(stack, "survivor") == before
    answer = stack.gateway.post(f"/operations/{operation}/decide", json=ANSWER)
    assert answer.status_code == 202, answer.text
    finish(stack, operation)
    assert effects(stack, "survivor") == undisturbed
