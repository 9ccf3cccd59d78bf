"""update-software: asked for once, and watched group by group to the end of the update or of its way back."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from contracts.catalogue import UPDATE_SOFTWARE as UPDATE
from contracts.operation import Outcome, Start
from contracts.problem import ProblemCode
from contracts.software import (
    READ_SOFTWARE,
    UPDATE_SOFTWARE,
    WAIT_FOR_SOFTWARE,
    GroupSoftware,
    ReadSoftware,
    SoftwareUpdated,
    UpdateSoftware,
    UpdateSoftwareSpec,
    WaitForSoftware,
)
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import problem_of
from workflows.parts import control_plane_of, hyperpod_of
from workflows.plans import checks, checks_stage

INPUTS = ("groups", "image_id", "release_version", "rolling")
SOFTWARE = StagePlan("software", "Software update", inputs=INPUTS)


@workflow.defn(name=UPDATE.name)
class UpdateSoftwareOfGroups(Operation[UpdateSoftwareSpec]):
    kind = UPDATE
    stages = (checks(*INPUTS), SOFTWARE)

    @workflow.init
    def __init__(self, start: Start[UpdateSoftwareSpec]) -> None:
        super().__init__(start)
        self._before: list[GroupSoftware] | None = None
        """The groups as they were before the request; None: nothing was asked for that is not at its end."""

    @workflow.run
    async def run(self, start: Start[UpdateSoftwareSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod",)

    async def runbook(self) -> dict[str, Any]:
        self._eks = control_plane_of(self).name
        self._hyperpod = hyperpod_of(self).name
        await checks_stage(self)
        updated, unchanged = await self.stage(SOFTWARE.name, self._update)
        groups = updated.groups if updated is not None else []
        return {
            "updated": [each.model_dump(mode="json") for each in groups],
            "unchanged": unchanged,
        }

    async def _update(self, run: StageRun) -> tuple[SoftwareUpdated | None, list[str]]:
        """An update that failed or was rolled back is at its end: a retry asks for another. One that is still on its
        way is not asked for again, whatever became of the answer."""
        if self._before is None:
            question = ReadSoftware(cluster=self.start.cluster, region=self.start.region, hyperpod=self._hyperpod)
            self._before = (await run.act(READ_SOFTWARE, question)).groups
        before = self._before
        asked = await run.act(
            UPDATE_SOFTWARE,
            UpdateSoftware(scope=self.scope, name=self._hyperpod, spec=self.spec, before=before),
        )
        if not asked.groups:
            run.detail(f"on the asked software already: {', '.join(asked.unchanged)}")
            return None, asked.unchanged
        try:
            updated = await run.wait(
                WAIT_FOR_SOFTWARE,
                WaitForSoftware(
                    scope=self.scope,
                    name=self._hyperpod,
                    eks_cluster=self._eks,
                    groups=asked.groups,
                    before=before,
                ),
            )
        except ActivityError as error:
            if problem_of(error).code is ProblemCode.NOT_READY:
                self._before = None
            raise
        await run.record(**updated.recorded(self.record.hyperpod))
        run.detail(
            "; ".join(
                f"{each.group} on {_software(each)}, {number_of(each.nodes, 'node')} Ready" for each in updated.groups
            )
        )
        return updated, asked.unchanged


def _software(group: GroupSoftware) -> str:
    return (group.current_image if group.custom else group.current_version) or "its new image"
