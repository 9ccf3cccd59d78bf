"""Every signature has its activity, on its queue."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import boto3
import pytest

from activities.registry import Activities, activities_for, signatures
from contracts.activity import Queue, Wait
from tests.activities.conftest import settings

ELSEWHERE = ("cluster.",)
"""Of the worker's own: they talk to Temporal."""


@pytest.fixture(scope="module")
def built() -> Activities:
    return Activities(settings(), boto3.Session(region_name="us-west-2"))


def test_all_signatures_are_implemented(built: Activities) -> None:
    here = {name: each for name, each in signatures().items() if each.queue is not Queue.PLATFORM}
    declared = {name for name in here if not name.startswith(ELSEWHERE)}
    assert set(built.all()) == declared


def test_they_take_and_give_what_was_declared(built: Activities) -> None:
    for name, method in built.all().items():
        signature, hints = signatures()[name], get_type_hints(method)
        given = [hint for key, hint in hints.items() if key != "return"]
        assert (given, hints["return"]) == ([signature.input], signature.output), name
        assert inspect.iscoroutinefunction(method) is isinstance(signature, Wait), name


def test_queues(built: Activities) -> None:
    names = {queue: len(activities_for(queue, built)) for queue in Queue}
    assert names[Queue.PLATFORM] == 0
    assert sum(names.values()) == len(built.all())
    assert all(names[queue] for queue in (Queue.AWS, Queue.WAIT, Queue.KUBERNETES))
