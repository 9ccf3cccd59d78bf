"""Workflows in flight outlive an upgrade of their workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.workflow import _Definition

from contracts import endpoints
from contracts.operation import Phase
from tests.durability.runs import POLL, wait_for
from tests.tour.traveller import Traveller
from tests.upgrade.builds import Builds, builds_on, earlier
from workflows.engine.leases import QUEUE_LOOKED_AT
from workflows.registry import ENTITIES, LOOKUPS, OPERATIONS

SPEED = 600.0
ENV = {"INSTANTSTART_POLL_SECONDS": POLL}


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Builds]:
    with builds_on(tmp_path, SPEED, ENV) as running:
        yield running


def people(builds: Builds) -> tuple[Traveller, Traveller]:
    """An administrator and an agent, once a worker runs."""
    builds.stack.start("gateway")
    traveller = Traveller.of(builds.stack)
    return traveller, traveller.companion("bot", "agent")


def history(traveller: Traveller, workflow_id: str) -> WorkflowHistory:
    return traveller.at(workflow_id, lambda handle: handle.fetch_history())


def patches(found: WorkflowHistory) -> set[str]:
    """The patches that a run has taken."""
    markers = [each.marker_recorded_event_attributes for each in found.events if each.event_type == MARKER]
    return {
        str(payload.data.decode())
        for marker in markers
        for details in marker.details.values()
        for payload in details.payloads
    }


MARKER = EventType.EVENT_TYPE_MARKER_RECORDED
STEP = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
ACTIVITY = EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED


def test_a_queued_operation_and_its_entity_are_carried_on_by_later_code(builds: Builds, tmp_path: Path) -> None:
    builds.start("before", earlier(tmp_path / "before"))
    traveller, _ = people(builds)
    traveller.do(endpoints.CREATE_CONTROL_PLANE, {}, tag="old")
    refusal = {"code": "AccessDeniedException", "status": 403, "message": "not today"}
    traveller.fault(service="eks", operation="DescribeAccessEntry", **refusal)
    blocked = traveller.ask(endpoints.VERIFY_ACCESS, {}, tag="old")
    traveller.blocked(blocked, "access")
    waiting = traveller.ask(endpoints.INSTALL_DEPENDENCIES, {}, tag="old")
    traveller.until_phase(waiting, Phase.QUEUED)
    builds.kill("before")

    builds.start("after")
    traveller.resolve(endpoints.RETRY_OPERATION, blocked, {})
    for operation in (blocked, waiting):
        traveller.done(operation)
    found = history(traveller, waiting)
    assert not [marker for marker in patches(found) if QUEUE_LOOKED_AT in marker]
    assert "Nondeterminism" not in builds.log("after")


def test_an_operation_ends_on_its_build_while_new_ones_and_entities_are_on_the_next(
    builds: Builds, tmp_path: Path
) -> None:
    builds.start("one", earlier(tmp_path / "before"), "one")
    traveller, agent = people(builds)
    traveller.do(endpoints.CREATE_CONTROL_PLANE, {}, tag="early")
    waiting = agent.ask(endpoints.CREATE_CONTROL_PLANE, {}, tag="late")
    plan = agent.until_phase(waiting, Phase.WAITING_FOR_APPROVAL).plan_hash

    builds.start("two", build_id="two")
    wait_for(lambda: "promote two" in builds.log("two"))
    assert status(builds) == {"one": ("current", 1), "two": ("inactive", 0)}
    builds.deployment("promote", "two", "--percent", "10")
    assert status(builds) == {"one": ("current", 1), "two": ("ramping", 0)}
    builds.deployment("promote", "two")
    assert status(builds) == {"one": ("draining", 1), "two": ("current", 0)}

    verified = traveller.do(endpoints.VERIFY_ACCESS, {}, tag="early")
    traveller.call(endpoints.APPROVE_OPERATION, {"plan_hash": plan}, id=waiting)
    ended = traveller.done(waiting)
    assert done_by(history(traveller, waiting)) == ({"one"}, {builds.pid("one")})
    assert done_by(history(traveller, verified.id)) == ({"two"}, {builds.pid("two")})
    assert builds_of(history(traveller, "cluster/early"))[-1] == "two"
    assert set(builds_of(history(traveller, "cluster/late"))) == {"two"}
    assert ended.phase is Phase.SUCCEEDED

    before = traveller.at("cluster/early", lambda entity: entity.describe()).run_id
    traveller.at("cluster/early", lambda entity: entity.signal("renew"))
    wait_for(lambda: traveller.at("cluster/early", lambda entity: entity.describe()).run_id != before)
    wait_for(lambda: set(builds_of(history(traveller, "cluster/early"))) == {"two"})

    wait_for(lambda: status(builds)["one"][1] == 0)
    builds.stop("one")
    traveller.do(endpoints.VERIFY_ACCESS, {}, tag="late")


def status(builds: Builds) -> dict[str, tuple[str, int]]:
    """What the deployment's own command says of each build."""
    rows = [line.split("\t") for line in builds.deployment("status").splitlines()]
    return {build: (state, int(count.partition(" ")[0])) for build, state, count in rows}


def builds_of(found: WorkflowHistory) -> list[str]:
    """The builds that have carried a workflow on, step by step."""
    steps = [each.workflow_task_completed_event_attributes for each in found.events if each.event_type == STEP]
    return [each.deployment_version.build_id for each in steps]


def done_by(found: WorkflowHistory) -> tuple[set[str], set[int]]:
    """The builds of a workflow's steps, and the processes that have done its activities."""
    started = [each.activity_task_started_event_attributes for each in found.events if each.event_type == ACTIVITY]
    return set(builds_of(found)), {int(each.identity.partition("@")[0]) for each in started}


@pytest.mark.parametrize("defined", [*OPERATIONS, *ENTITIES, *LOOKUPS])
def test_no_workflow_says_itself_how_it_is_versioned(defined: Any) -> None:
    # Workers without builds could complete none of its tasks: it would stand still without a word.
    assert not _Definition.must_from_class(defined).versioning_behavior
