"""Work that an activity gives to threads of its own is done on its behalf."""

from __future__ import annotations

from temporalio import activity
from temporalio.testing import ActivityEnvironment

from activities.aws import user_agent
from activities.context import Threads


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


def test_outside_an_activity_nobodys_operation_is_said() -> None:
    assert " op/- " in user_agent()
