"""The wait loop: resuming, ending, being told to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.context import Threads
from activities.errors import fail
from activities.polling import Memory, Seen, wait_until
from contracts.problem import ProblemCode


def environment(**info: Any) -> tuple[ActivityEnvironment, list[Any]]:
    found, beats = ActivityEnvironment(), []
    found.info = dataclasses.replace(found.info, **{"scheduled_time": datetime.now(UTC), **info})
    found.on_heartbeat = lambda *details: beats.append(details[0])
    return found, beats


async def wait(look: Any, limit: float = 60) -> Any:
    return await wait_until(look, what="the state", limit=timedelta(seconds=limit), poll_seconds=0.01)


async def wait_slowly() -> Any:
    return await wait_until(lambda memory: Seen("x"), what="x", limit=timedelta(hours=1), poll_seconds=60)


async def test_returns_what_was_waited_for_and_says_what_it_saw() -> None:
    env, beats = environment()

    def look(memory: Memory) -> Seen[str]:
        memory.notes["looks"] = memory.notes.get("looks", 0) + 1
        return Seen(f"look {memory.notes['looks']}", "done" if memory.notes["looks"] == 3 else None)

    assert await env.run(wait, look) == "done"
    assert [beat["detail"] for beat in beats] == ["look 1", "look 2", "look 3"]
    assert beats[-1]["polls"] == 3


async def test_what_is_nearly_there_is_seen_before_the_pace_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def no_sleep(seconds: float, memory: Memory, nudge: asyncio.Event | None) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("activities.polling._sleep", no_sleep)
    env, _ = environment()

    async def waiting() -> str:
        done: Any = lambda memory: Seen("x", "done" if memory.polls == 6 else None)  # noqa: E731
        return await wait_until(done, what="x", limit=timedelta(hours=1), poll_seconds=15)

    assert await env.run(waiting) == "done"
    assert pauses == [1, 2, 4, 8, 15, 15]


async def test_one_that_is_nudged_looks_at_once_in_the_threads_that_it_was_given() -> None:
    env, _ = environment()
    threads, nudge = Threads(1, thread_name_prefix="mine"), asyncio.Event()
    looked_in: list[str] = []

    def look(memory: Memory) -> Seen[str]:
        looked_in.append(threading.current_thread().name)
        return Seen("x", "done" if len(looked_in) == 2 else None)

    async def waiting() -> str:
        wait = wait_until(
            look, what="x", limit=timedelta(hours=2), poll_seconds=3600, first_pause=3600, threads=threads, nudge=nudge
        )
        found = asyncio.ensure_future(wait)
        while not looked_in:
            await asyncio.sleep(0.01)
        nudge.set()
        return await asyncio.wait_for(found, 30)

    assert await env.run(waiting) == "done"
    assert [name.rpartition("_")[0] for name in looked_in] == ["mine", "mine"]
    assert not nudge.is_set()


async def test_resumes_from_what_an_earlier_attempt_said() -> None:
    env, beats = environment(heartbeat_details=[{"polls": 40, "detail": "Creating", "notes": {"looks": 7}}])
    result = await env.run(wait, lambda memory: Seen("now", memory.notes["looks"]))
    assert (result, beats[-1]["polls"]) == (7, 41)


async def test_looks_over_what_passes_but_not_over_a_refusal() -> None:
    env, beats = environment()
    looks = 0

    def look(memory: Memory) -> Seen[str]:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise ConnectionClosedError(endpoint_url="http://x")
        if looks == 3:
            return Seen("back")
        fail(ProblemCode.NOT_READY, "it FAILED", "delete it")

    with pytest.raises(ApplicationError) as caught:
        await env.run(wait, look)
    assert (caught.value.type, caught.value.non_retryable) == ("not_ready", True)
    assert "retrying after: unavailable" in beats[0]["detail"]


async def test_gives_up_after_its_limit_with_the_last_detail() -> None:
    env, _ = environment(scheduled_time=datetime.now(UTC) - timedelta(hours=1))
    with pytest.raises(ApplicationError, match="1 of 2 ready") as caught:
        await env.run(wait, lambda memory: Seen("1 of 2 ready"))
    assert (caught.value.type, caught.value.non_retryable) == ("timeout", True)


async def test_looks_once_even_when_late() -> None:
    env, _ = environment(scheduled_time=datetime.now(UTC) - timedelta(hours=1))
    assert await env.run(wait, lambda memory: Seen("there", "yes")) == "yes"


async def test_ends_at_once_when_the_worker_stops() -> None:
    env, beats = environment()
    running = asyncio.ensure_future(env.run(wait_slowly))
    while not beats:
        await asyncio.sleep(0.01)
    env.worker_shutdown()
    with pytest.raises(ApplicationError) as caught:
        await asyncio.wait_for(running, 2)
    assert (caught.value.type, caught.value.non_retryable) == ("worker_shutdown", False)
    assert caught.value.next_retry_delay == timedelta(seconds=1)


async def test_ends_at_once_when_cancelled() -> None:
    env, beats = environment()
    running = asyncio.ensure_future(env.run(wait_slowly))
    while not beats:
        await asyncio.sleep(0.01)
    env.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 2)
