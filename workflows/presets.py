"""A preset: one long-lived workflow for each, which keeps its last versions.

It waits for nothing but updates, and has no activities. What everybody may see of it in a list is its memo.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow

from contracts.presets import (
    DELETE_PRESET,
    MEMO_PRESET,
    PRESET_VERSION,
    PRESET_WORKFLOW,
    SAVE_PRESET,
    AskVersion,
    PresetAnswer,
    PresetState,
    RemovePreset,
    SavedPreset,
    SaveVersion,
    same,
)
from contracts.problem import ProblemCode, problem
from workflows.engine.failures import refusal

CONTINUE_AFTER_EVENTS = 200
"""Each save has a document in its events; the versions that are kept are handed on."""
UNSAVED = timedelta(minutes=1)
"""Begun by a save that was refused, it ends after so long."""


@workflow.defn(name=PRESET_WORKFLOW)
class Preset:
    @workflow.init
    def __init__(self, state: PresetState) -> None:
        self._state = state
        self._deleted = False
        self._renew = False
        self._dirty = bool(state.versions)

    @workflow.run
    async def run(self, state: PresetState) -> None:
        while not self._must_continue():
            self._publish()
            try:
                await workflow.wait_condition(
                    lambda: self._dirty or self._deleted or self._must_continue(),
                    timeout=None if self._state.versions else UNSAVED,
                    timeout_summary="whether the save that began it was refused",
                )
            except TimeoutError:
                return
            if self._deleted:
                await workflow.wait_condition(workflow.all_handlers_finished)
                return
        await workflow.wait_condition(workflow.all_handlers_finished)
        if not self._deleted:
            workflow.continue_as_new(self._state, memo=self._memo())

    @workflow.update(name=SAVE_PRESET)
    def save(self, asked: SaveVersion) -> SavedPreset:
        """Make a version, unless it is the last one already."""
        before = self._state
        self._state = before.with_version(asked, workflow.now())
        self._dirty = self._dirty or self._state != before
        return SavedPreset(preset=self._state.summary, changed=self._state.versions != before.versions)

    @save.validator
    def _validate_save(self, asked: SaveVersion) -> None:
        self._refuse_deleted()
        state = self._state
        if not state.versions:
            if asked.expected:
                raise refusal(
                    problem(
                        ProblemCode.STALE,
                        f"there is no preset {state.name!r}, and version {asked.expected} was relied on",
                        remedy="Save it without If-Match.",
                    )
                )
            return
        last = state.versions[-1]
        self._refuse_others(asked.by, asked.may_change, asked.may_see, "save")
        if last.kind != asked.kind or not same(last.document, asked.document):
            # What is equal was saved by this very request before, whose answer was lost.
            self._refuse_stale(asked.expected)

    @workflow.update(name=DELETE_PRESET)
    def delete(self, asked: RemovePreset) -> None:
        """Forget all versions."""
        self._deleted = True

    @delete.validator
    def _validate_delete(self, asked: RemovePreset) -> None:
        self._refuse_deleted()
        if not self._state.versions:
            raise refusal(problem(ProblemCode.NOT_FOUND, f"there is no preset {self._state.name!r}"))
        self._refuse_others(asked.by, asked.may_change, asked.may_see, "delete")
        self._refuse_stale(asked.expected)

    @workflow.query(name=PRESET_VERSION)
    def version(self, asked: AskVersion) -> PresetAnswer:
        """One version, with the summary."""
        if not self._state.versions or self._deleted:
            return PresetAnswer()
        return PresetAnswer(summary=self._state.summary, version=self._state.find(asked.version))

    @workflow.signal(name="renew")
    def renew(self) -> None:
        """Continue as new now: an operator's way to move the preset to a new build."""
        self._renew = True

    def _refuse_deleted(self) -> None:
        if self._deleted:
            raise refusal(
                problem(
                    ProblemCode.BUSY,
                    f"preset {self._state.name!r} is just being deleted",
                    remedy="Send the request again.",
                )
            )

    def _refuse_others(self, by: str, may_change: bool, may_see: bool, what: str) -> None:
        state = self._state
        if state.owner == by:
            return
        if not state.shared and not may_see:
            raise refusal(
                problem(
                    ProblemCode.CONFLICT,
                    f"the name {state.name!r} is taken by a preset that is not shared with you",
                    field="/name",
                    remedy="Choose another name.",
                )
            )
        if not may_change:
            raise refusal(
                problem(
                    ProblemCode.DENIED,
                    f"preset {state.name!r} belongs to {state.owner}; {by} may load it, and not {what} it",
                    remedy="Save it under another name.",
                )
            )

    def _refuse_stale(self, expected: int | None) -> None:
        last = self._state.versions[-1].version
        if expected is None or expected == last:
            return
        relied = f"version {expected} was relied on" if expected else "it was to be made"
        raise refusal(
            problem(
                ProblemCode.STALE,
                f"preset {self._state.name!r} has version {last}, and {relied}",
                remedy=f"Look at version {last}, and send If-Match: {last}.",
            )
        )

    def _must_continue(self) -> bool:
        info = workflow.info()
        return (
            self._renew
            or info.is_continue_as_new_suggested()
            or info.get_current_history_length() > CONTINUE_AFTER_EVENTS
        )

    def _publish(self) -> None:
        if self._dirty:
            self._dirty = False
            summary = self._state.summary
            workflow.upsert_memo(self._memo())
            workflow.set_current_details(f"**{summary.name}** version {summary.version}: {summary.title}")

    def _memo(self) -> dict[str, Any]:
        """What readers see without a worker; a new run begins with it."""
        return {MEMO_PRESET: self._state.summary.model_dump(mode="json")}
