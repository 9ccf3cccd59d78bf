"""A call to a model while it runs: a short workflow whose activity tells in its heartbeat what the model has written.

A caller who leaves ends the call: the model need not write on for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowExecutionDescription, WorkflowHandle
from temporalio.service import RPCError

from api.problems import ProblemError
from api.temporal import Temporal
from contracts.catalogue import CALL_MODEL_WORKFLOW
from contracts.inference import CallModel, ModelAnswer, Written

_LOOK_SECONDS = 0.2
_MORE = timedelta(seconds=60)
"""What a call's workflow may take beside the call."""


class Called:
    """A call that is under way."""

    def __init__(self, temporal: Temporal, handle: WorkflowHandle[Any, ModelAnswer]) -> None:
        self._temporal, self._handle = temporal, handle

    async def answer(self) -> ModelAnswer:
        """Wait for the whole answer. Raises ProblemError."""
        try:
            return await self._temporal.result(self._handle)
        except asyncio.CancelledError:
            await self._end()
            raise

    async def written(self) -> AsyncIterator[tuple[str, Any]]:
        """What is new, as ``text`` and ``reasoning`` with a ``delta``, then ``end`` with the answer, or ``problem``.

        Each is an event's name and its JSON, as text or to be written so.
        """
        seen = Written(model="", text="")
        finished = asyncio.ensure_future(self._temporal.result(self._handle))
        try:
            while not finished.done():
                await asyncio.wait([finished], timeout=_LOOK_SECONDS)
                if finished.done():
                    break
                now = await self._look(seen)
                for event in _news(seen, now):
                    yield event
                seen = now
            try:
                answer = finished.result()
            except ProblemError as error:
                yield "problem", error.body.model_dump_json(exclude_none=True)
                return
            whole = Written(model=answer.model, text=answer.text, reasoning=answer.reasoning or "")
            for event in _news(seen, whole):
                yield event
            yield "end", answer.model_dump_json()
        finally:
            if not finished.done():
                finished.cancel()
                await self._end()

    async def _look(self, seen: Written) -> Written:
        with suppress(ProblemError):
            found = await self._temporal.find(self._handle.id)
            return await _heartbeat(found) or seen
        return seen

    async def _end(self) -> None:
        with suppress(RPCError, RuntimeError):
            await asyncio.shield(self._handle.cancel(rpc_timeout=timedelta(seconds=5)))


async def called(temporal: Temporal, about: str, question: CallModel) -> Called:
    """Begin a call. Raises ProblemError (503) where nothing would carry it out."""
    limit = timedelta(seconds=question.request.timeout_seconds) + _MORE
    handle = await temporal.begin(CALL_MODEL_WORKFLOW, question, f"{CALL_MODEL_WORKFLOW}/{about}", ModelAnswer, limit)
    return Called(temporal, handle)


def _news(seen: Written, now: Written) -> list[tuple[str, Any]]:
    news = []
    for name in ("reasoning", "text"):
        before, after = getattr(seen, name), getattr(now, name)
        if len(after) > len(before):
            news.append((name, {"delta": after[len(before) :]}))
    return news


async def _heartbeat(found: WorkflowExecutionDescription | None) -> Written | None:
    """What the call's activity last told."""
    if found is None:
        return None
    for pending in found.raw_description.pending_activities:
        if pending.HasField("heartbeat_details"):
            (told,) = await found.data_converter.decode(pending.heartbeat_details.payloads[:1], [Written])
            return Written.model_validate(told)
    return None
