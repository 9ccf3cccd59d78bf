"""Diagnoses through the gateway: what a worker is asked, and subjects that cannot be."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from contracts import queues, visibility
from contracts.diagnostics import Diagnose
from contracts.operation import MEMO_LABEL, Label
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}


def path(tag: str) -> str:
    return f"/api/v1/clusters/{tag}/diagnoses"


def asked(answer: Any) -> Diagnose:
    """What the worker was asked."""
    assert answer.status_code == 200, answer.text
    return Diagnose.model_validate_json(answer.json()["read"][0]["what"])


async def test_a_worker_is_asked_about_the_subject_of_a_cluster(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    body = {"subject": {"kind": "training-run", "name": "llama", "namespace": "ml"}, "since_hours": 48}
    question = asked(await gateway.viewer.post(path(tag), json=body))
    assert (question.cluster, question.region, question.eks_cluster) == (tag, "us-west-2", "eks")
    assert (question.hyperpod, question.since_hours) == (f"hp-cluster-{tag}", 48)
    assert (question.subject.title, question.focus, question.failed_at) == ("training-run ml/llama", None, None)


async def test_a_cluster_without_a_control_plane_is_asked_about_without_one(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    question = asked(await gateway.viewer.post(path(await make_cluster()), json={"subject": {"kind": "cluster"}}))
    assert question.eks_cluster is None


async def test_a_blocked_operation_is_told_with_its_stages_even_before_there_is_a_cluster(
    gateway: Gateway, eventually: Eventually, name: Name
) -> None:
    tag = name("block")
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    url = f"/api/v1/operations/create-cluster/{tag}"
    blocked = await eventually(lambda: gateway.viewer.get(url), lambda r: r.json().get("phase") == "blocked")
    body = {"subject": {"kind": "operation", "name": f"create-cluster/{tag}"}}
    answer = await gateway.viewer.post(path(tag), json=body)
    question = asked(answer)
    assert question.region == "us-west-2"
    assert question.focus is not None
    assert question.focus.kind == "cluster"
    assert question.failed_at is not None
    texts = [entry.text for entry in question.stages]
    assert "Network began" in texts
    assert any(blocked.json()["problem"]["detail"] in text for text in texts)
    assert answer.json()["subject"] == {"kind": "operation", "name": f"create-cluster/{tag}", "namespace": "default"}


async def test_repairs_that_were_tried_are_told_and_one_that_succeeded_has_nothing_to_explain(
    gateway: Gateway, make_cluster: MakeCluster, temporal: Client, eventually: Eventually
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    label = Label(kind="reboot-nodes", cluster=tag, region="r", started_by="me", spec_hash="x", request_id="r")
    attribute = SearchAttributePair(SearchAttributeKey.for_keyword(visibility.CLUSTER), tag)
    outcome: dict[str, Any] = {
        "before": "hyperpod-i-1",
        "now": "hyperpod-i-1",
        "instance_before": "i-1",
        "instance_now": "i-1",
    }
    outcome |= {"faults": ["label fault-types=NvidiaErrorReboot"]}
    await temporal.execute_workflow(
        "reboot-nodes",
        {"nodes": [outcome]},
        id=f"reboot-nodes/{tag}/i-1",
        task_queue=queues.WORKFLOWS,
        memo={MEMO_LABEL: label},
        search_attributes=TypedSearchAttributes([attribute]),
    )

    async def ask() -> Diagnose:
        body = {"subject": {"kind": "node", "name": "i-1"}}
        return asked(await gateway.viewer.post(path(tag), json=body))

    found = await eventually(ask, lambda question: question.repairs and question.repairs[0].nodes)
    (repair,) = found.repairs
    assert (repair.action, repair.target, repair.nodes) == ("reboot", "i-1", ["hyperpod-i-1", "i-1"])
    assert repair.faults == {name: ["label fault-types=NvidiaErrorReboot"] for name in ("hyperpod-i-1", "i-1")}
    assert repair.succeeded
    body = {"subject": {"kind": "operation", "name": f"reboot-nodes/{tag}/i-1"}}
    well = (await gateway.viewer.post(path(tag), json=body)).json()
    assert well["causes"] == []
    assert "succeeded: there is nothing to explain" in well["note"]
    assert repair.at <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("subject", "field"),
    [
        ({"kind": "training-run"}, "/subject/name"),
        ({"kind": "cluster", "name": "x"}, "/subject/name"),
        ({"kind": "rack", "name": "x"}, "/subject/kind"),
        ({"kind": "pod", "name": "x", "namespace": "Not_One"}, "/subject/namespace"),
    ],
)
async def test_subjects_that_cannot_be_are_refused_before_anything_is_asked(
    gateway: Gateway, make_cluster: MakeCluster, subject: dict[str, Any], field: str
) -> None:
    answer = await gateway.viewer.post(path(await make_cluster()), json={"subject": subject})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_what_is_not_there_is_404(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually, name: Name
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    for subject in (
        {"kind": "pod", "name": "nowhere"},
        {"kind": "operation", "name": f"create-cluster/{uuid.uuid4()}"},
    ):
        answer = await gateway.viewer.post(path(tag), json={"subject": subject})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await gateway.viewer.post(path("nowhere"), json={"subject": {"kind": "cluster"}})).status_code == 404


async def test_an_operation_on_another_cluster_is_refused(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually, name: Name
) -> None:
    other = name("block")
    await gateway.operator.post("/api/v1/clusters", json={"tag": other})
    body = {"subject": {"kind": "operation", "name": f"create-cluster/{other}"}}
    answer = await gateway.viewer.post(path(await make_cluster()), json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "/subject/name")


@pytest.mark.parametrize("hours", [0, -1, 337])
async def test_only_the_last_two_weeks_can_be_read(gateway: Gateway, make_cluster: MakeCluster, hours: float) -> None:
    body = {"subject": {"kind": "cluster"}, "since_hours": hours}
    answer = await gateway.viewer.post(path(await make_cluster()), json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "/since_hours")


async def test_without_a_token_nothing_is_told(gateway: Gateway) -> None:
    answer = await gateway.anonymous.post(path("x"), json={"subject": {"kind": "cluster"}})
    assert answer.status_code == 401
