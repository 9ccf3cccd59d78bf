"""The entity of a preset: versions, who may change it, and how it ends and goes on."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer

from contracts import queues
from contracts.presets import (
    DELETE_PRESET,
    MEMO_PRESET,
    MOST_VERSIONS,
    PRESET_VERSION,
    PRESET_WORKFLOW,
    SAVE_PRESET,
    AskVersion,
    PresetAnswer,
    PresetState,
    PresetSummary,
    RemovePreset,
    SavedPreset,
    SaveVersion,
)
from contracts.problem import ProblemCode
from tests.workflows.conftest import runner
from workflows import presets
from workflows.presets import Preset

pytestmark = pytest.mark.real_server


class Kept:
    """One preset, as the gateway deals with it."""

    def __init__(self, client: Client) -> None:
        self.client, self.name = client, f"p-{uuid.uuid4().hex[:8]}"

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(f"{PRESET_WORKFLOW}/{self.name}")

    async def save(self, document: dict[str, Any], by: str = "alice", **more: Any) -> SavedPreset:
        asked = SaveVersion(name=self.name, kind="training", document=document, by=by, **more)
        begin: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            PRESET_WORKFLOW,
            PresetState(name=self.name),
            id=f"{PRESET_WORKFLOW}/{self.name}",
            task_queue=queues.ENTITIES,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        try:
            saved: SavedPreset = await self.client.execute_update_with_start_workflow(
                SAVE_PRESET, asked, start_workflow_operation=begin, result_type=SavedPreset
            )
            return saved
        finally:
            await begin.workflow_handle()

    async def refused(self, document: dict[str, Any], by: str = "alice", **more: Any) -> str:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await self.save(document, by, **more)
        return _code(caught.value)

    async def delete(self, by: str = "alice", **more: Any) -> None:
        await self.handle.execute_update(DELETE_PRESET, RemovePreset(by=by, **more))

    async def load(self, version: int | None = None) -> PresetAnswer:
        return await self.handle.query(PRESET_VERSION, AskVersion(version=version), result_type=PresetAnswer)

    async def memo(self) -> PresetSummary:
        description = await self.handle.describe()
        found: PresetSummary = await description.memo_value(MEMO_PRESET, type_hint=PresetSummary)
        return found


def _code(error: WorkflowUpdateFailedError) -> str:
    assert isinstance(error.cause, ApplicationError)
    return str(error.cause.type)


@pytest.fixture
def kept(client: Client) -> Kept:
    return Kept(client)


async def test_the_first_save_begins_it_and_what_is_new_makes_a_version(kept: Kept) -> None:
    first = await kept.save({"nodes": 1}, title="a title", comment="first")
    again = await kept.save({"nodes": 1})
    second = await kept.save({"nodes": 2}, shared=True, title="another")
    assert [(each.preset.version, each.changed) for each in (first, again, second)] == [
        (1, True),
        (1, False),
        (2, True),
    ]
    assert await kept.memo() == second.preset
    assert (second.preset.owner, second.preset.shared, second.preset.title) == ("alice", True, "another")
    loaded = await kept.load(1)
    assert loaded.version is not None
    assert (loaded.version.document, loaded.version.comment) == ({"nodes": 1}, "first")
    assert (await kept.load(7)).version is None


async def test_a_save_upon_a_version_that_is_not_the_last_is_refused_and_leaves_no_event(kept: Kept) -> None:
    await kept.save({"nodes": 1}, expected=0)
    await kept.save({"nodes": 2}, expected=1)
    before = len((await kept.handle.fetch_history()).events)
    for expected in (0, 1, 3):
        assert await kept.refused({"nodes": 3}, expected=expected) == ProblemCode.STALE
    assert len((await kept.handle.fetch_history()).events) == before
    # The request whose answer was lost is sent again, with the version that it relied on.
    repeated = await kept.save({"nodes": 2}, expected=1)
    assert (repeated.preset.version, repeated.changed) == (2, False)


async def test_a_preset_is_changed_by_its_owner_and_where_it_is_shared_by_who_may(kept: Kept) -> None:
    await kept.save({"nodes": 1})
    assert await kept.refused({"nodes": 2}, by="bob") == ProblemCode.CONFLICT
    assert await kept.refused({"nodes": 2}, by="bob", may_change=True) == ProblemCode.CONFLICT
    await kept.save({"nodes": 1}, shared=True)
    assert await kept.refused({"nodes": 2}, by="bob") == ProblemCode.DENIED
    changed = await kept.save({"nodes": 2}, by="bob", may_change=True)
    assert (changed.preset.owner, changed.preset.saved_by) == ("alice", "bob")
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await kept.delete(by="carol")
    assert _code(caught.value) == ProblemCode.DENIED


async def test_a_deleted_preset_ends_and_its_name_is_free(kept: Kept) -> None:
    await kept.save({"nodes": 1})
    await kept.save({"nodes": 2})
    await kept.delete(expected=2)
    await kept.handle.result()
    anew = await kept.save({"nodes": 3}, by="bob")
    assert (anew.preset.version, anew.preset.owner) == (1, "bob")


async def test_a_save_that_is_refused_leaves_no_preset_behind(kept: Kept) -> None:
    assert await kept.refused({"nodes": 1}, expected=3) == ProblemCode.STALE
    description = await kept.handle.describe()
    assert description.status is WorkflowExecutionStatus.RUNNING
    assert MEMO_PRESET not in await description.memo()
    history = await kept.handle.fetch_history()
    timers = [
        each.timer_started_event_attributes
        for each in history.events
        if each.HasField("timer_started_event_attributes")
    ]
    assert [timer.start_to_fire_timeout.ToTimedelta() for timer in timers] == [presets.UNSAVED]
    await kept.handle.terminate()


async def test_it_goes_on_as_new_when_it_is_told_to(kept: Kept) -> None:
    await kept.save({"nodes": 1})
    first_run = (await kept.handle.describe()).run_id
    await kept.handle.signal("renew")
    async with asyncio.timeout(20):
        while (await kept.handle.describe()).run_id == first_run:
            await asyncio.sleep(0.02)
    found = await kept.load()
    assert found.version is not None
    assert found.version.document == {"nodes": 1}


async def test_it_goes_on_as_new_with_its_versions_and_replays(kept: Kept) -> None:
    first_run = None
    for number in range(1, 80):
        await kept.save({"n": number}, title=f"number {number}")
        first_run = first_run or (await kept.handle.describe()).run_id
    assert (await kept.handle.describe()).run_id != first_run
    last = await kept.load()
    assert last.summary is not None
    assert last.version is not None
    assert (last.version.document, last.version.version) == ({"n": 79}, 79)
    assert (last.summary.oldest, last.summary.title) == (79 - MOST_VERSIONS + 1, "number 79")
    assert (await kept.memo()).version == 79
    replayer = Replayer(workflows=[Preset], workflow_runner=runner(), data_converter=kept.client.data_converter)
    for run_id in (first_run, None):
        history = await kept.client.get_workflow_handle(kept.handle.id, run_id=run_id).fetch_history()
        await replayer.replay_workflow(history)
    assert MEMO_PRESET in history.events[0].workflow_execution_started_event_attributes.memo.fields
