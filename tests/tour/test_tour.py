"""The tour leaves nothing out."""

from __future__ import annotations

import pytest
from temporalio.workflow import _Definition

from contracts.catalogue import KINDS
from tests.local_stack import LocalStack
from tests.replay import library
from tests.tour.drive import Tour
from tests.tour.histories import of_tour
from workflows.registry import ENTITIES, LOOKUPS

PATHS = {"done", "decided", "corrected", "skipped", "aborted", "cancelled", "approved", "rejected", "terminated"}
"""What can become of an operation on its way; the tour meets each of them at least once."""


def names(workflows: tuple[type, ...]) -> list[str]:
    return [str(_Definition.must_from_class(each).name) for each in workflows]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_operation_is_driven_to_success(tour: Tour, kind: str) -> None:
    ran = [each for each in tour.runs if each.workflow_type == kind]
    assert "COMPLETED" in {each.status for each in ran}
    assert kind in {each.kind for each in tour.operations}


def test_every_way_of_an_operation_is_gone(tour: Tour) -> None:
    assert {each.path for each in tour.operations} >= PATHS


@pytest.mark.parametrize("workflow", names(LOOKUPS))
def test_every_look_up_is_asked(tour: Tour, workflow: str) -> None:
    assert workflow in {each.workflow_type for each in tour.runs}


@pytest.mark.parametrize("workflow", names(ENTITIES))
def test_every_entity_lives_and_ends(tour: Tour, workflow: str) -> None:
    assert "COMPLETED" in {each.status for each in tour.runs if each.workflow_type == workflow}


async def test_the_code_that_made_the_histories_replays_them(tour: Tour, toured_stack: LocalStack) -> None:
    fresh = await of_tour(toured_stack, tour)
    named = ((f"{workflow_type}.{path}", history) for workflow_type, path, history in fresh)
    assert not await library.failures(named, library.replayer())


def test_nothing_is_left_running(tour: Tour) -> None:
    assert not [each for each in tour.runs if each.status == "RUNNING"]
