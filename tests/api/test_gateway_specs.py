"""What an operation carries out, as its approval and its corrections rest on."""

from __future__ import annotations

from temporalio.client import Client

from contracts import queues
from contracts.instance_groups import ScaleInstanceGroupSpec
from contracts.operation import Label, Origin, Start
from tests.api.conftest import Eventually, Gateway, Name


async def test_the_spec_is_what_is_carried_out_also_after_a_correction(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    tag = name("block")
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    url = f"/api/v1/operations/create-cluster/{tag}"
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "blocked")
    asked = (await gateway.viewer.get(f"{url}/spec")).json()
    assert (asked["kind"], asked["cluster"]) == ("create-cluster", tag)
    assert asked["spec"]["network"]["vpc_id"] is None

    body = {"corrections": {"network": {"vpc_id": "vpc-12345678"}}}
    assert (await gateway.operator.post(f"{url}/retry", json=body)).status_code == 202

    await eventually(
        lambda: gateway.viewer.get(f"{url}/spec"), lambda r: r.json()["spec"]["network"]["vpc_id"] == "vpc-12345678"
    )


async def test_the_plan_of_the_spec_is_the_plan_that_an_approval_is_bound_to(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    tag = name("agent")
    await gateway.agent.post("/api/v1/clusters", json={"tag": tag})
    url = f"/api/v1/operations/create-cluster/{tag}"
    waits = await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "waiting_for_approval")
    asked = await eventually(lambda: gateway.viewer.get(f"{url}/spec"), lambda r: r.is_success)

    plan = await gateway.operator.post("/api/v1/plans", json=asked.json())

    assert plan.json()["plan_hash"] == waits.json()["plan_hash"]


async def test_the_spec_of_an_operation_that_does_not_exist_is_not_found(gateway: Gateway, name: Name) -> None:
    answer = await gateway.viewer.get(f"/api/v1/operations/create-cluster/{name('none')}/spec")
    assert answer.status_code == 404


async def test_without_a_worker_the_spec_is_unavailable_not_absent(
    abandoned: tuple[Gateway, Client], name: Name
) -> None:
    gateway, client = abandoned
    tag = name("alone")
    label = Label(
        kind="verify-access", cluster=tag, region="us-west-2", started_by="test", spec_hash="x", request_id="r"
    )
    await client.start_workflow(
        "verify-access", id=f"verify-access/{tag}", task_queue=queues.WORKFLOWS, memo={"operation": label}
    )
    answer = await gateway.viewer.get(f"/api/v1/operations/verify-access/{tag}/spec")
    assert answer.status_code == 503


async def test_the_spec_of_a_run_that_was_terminated_before_it_began_is_what_was_asked(
    gateway: Gateway, temporal: Client, name: Name
) -> None:
    tag = name("early")
    spec = ScaleInstanceGroupSpec(group="workers", count=2)
    start = Start[ScaleInstanceGroupSpec](
        cluster=tag, region="us-west-2", spec=spec, origin=Origin(by="test", role="operator", request_id="r")
    )
    label = Label(
        kind="scale-instance-group", cluster=tag, region="us-west-2", started_by="test", spec_hash="x", request_id="r"
    )
    identifier = f"scale-instance-group/{tag}/workers"
    run = await temporal.start_workflow(
        "scale-instance-group", start, id=identifier, task_queue="nobody-polls-it", memo={"operation": label}
    )
    await run.terminate("somebody gives it up")

    answer = await gateway.viewer.get(f"/api/v1/operations/{identifier}/spec")

    assert (answer.status_code, answer.json().get("spec")) == (200, spec.model_dump(mode="json"))
