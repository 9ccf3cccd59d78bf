"""Work that an activity gives to threads of its own is done on its behalf."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.aws import user_agent
from activities.context import Threads
from activities.errors import fail
from activities.fence import check, fence
from activities.inference.call import InferenceActivities
from contracts.inference import CallModel, CallRequest
from contracts.problem import ProblemCode


@activity.defn
def in_threads() -> tuple[list[str], str]:
    """What two threads at once, and the activity itself, would call themselves to AWS."""
    with Threads(2) as threads:
        told = list(threads.map(lambda _: user_agent(), range(4)))
    return told, user_agent()


def test_calls_from_threads_say_the_activitys_operation() -> None:
    told, own = ActivityEnvironment().run(in_threads)

    assert " op/" in own
    assert " op/-" not in own
    assert told == [own] * 4


async def test_a_call_to_a_model_says_the_activitys_operation_and_meets_its_fence() -> None:
    class Closed:
        def check(self) -> None:
            fail(ProblemCode.UNAVAILABLE, "another one has taken its place", "Ask again.")

    class Clusters:
        def connect(self, region: str, cluster: str) -> None:
            told.append(user_agent())
            check()

    told: list[str] = []
    clusters: Any = Clusters()
    closed: Any = Closed()
    request = CallRequest(prompt="Hello.")
    asked = CallModel(region="us-west-2", eks_cluster="eks", namespace="default", service="chat", request=request)
    put_up = fence.set(closed)
    try:
        with pytest.raises(ApplicationError, match="taken its place"):
            await ActivityEnvironment().run(InferenceActivities(clusters).call, asked)
    finally:
        fence.reset(put_up)
    (own,) = told
    assert " op/" in own
    assert " op/-" not in own


def test_outside_an_activity_nobodys_operation_is_said() -> None:
    assert " op/- " in user_agent()
