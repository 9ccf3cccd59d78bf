"""A watch ends when its last watcher leaves, whatever happens in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from api.events import Watch
from api.mapping import Seen
from contracts.operation import Label, Operation, Phase


class FakeTemporal:
    """A run that stays as it is; its history's long poll, when it is cancelled, ends as ``stop`` says, once."""

    def __init__(self, stop: BaseException) -> None:
        self.client: Any = SimpleNamespace(get_workflow_handle=lambda *_, **__: self)
        self._stop: BaseException | None = stop

    async def fetch_history_events(self, **_: Any) -> AsyncIterator[Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            stop, self._stop = self._stop, None
            raise stop or cancelled from None
        yield

    async def find(self, *_: Any) -> None:
        await asyncio.Event().wait()


def seen() -> Seen:
    now = datetime.now(UTC)
    operation = Operation.model_validate(
        {
            "id": "create-cluster/demo",
            "kind": "create-cluster",
            "cluster": "demo",
            "phase": Phase.RUNNING,
            "stages": [],
            "plan_hash": "0",
            "started_by": "test",
            "started_at": now,
            "updated_at": now,
            "completion": "",
        }
    )
    label = Label(
        kind="create-cluster", cluster="demo", region="us-west-2", started_by="test", spec_hash="0", request_id="0"
    )
    return Seen(operation, label, 1, open=True, active=False)


@pytest.mark.parametrize("stop", [asyncio.CancelledError(), RPCError("cancelled", RPCStatusCode.CANCELLED, b"")])
@pytest.mark.parametrize("turns", range(6))
async def test_a_watch_closes_in_the_moment_of_a_change(stop: BaseException, turns: int) -> None:
    watch = Watch(FakeTemporal(stop), seen(), detail_seconds=1)  # type: ignore[arg-type]
    watch.start()
    for _ in range(3):
        await asyncio.sleep(0)
    watch._dirty.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    done, _ = await asyncio.wait([asyncio.create_task(watch.close())], timeout=60)
    assert done
