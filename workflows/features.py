"""update-features: managed features switched on and off, each as a stage of its own.

Features that do not need each other are switched side by side; one that fails blocks its own stage, and those that
wait for it.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import UPDATE_FEATURES
from contracts.cluster import replaced
from contracts.eks import ControlPlane
from contracts.feature_catalogue import DEFINITIONS, planned, predecessors
from contracts.features import (
    ENSURE_PART,
    READ_FEATURES,
    REMOVE_PART,
    WAIT_FOR_PART,
    ChangePart,
    Feature,
    FeatureChanges,
    FeatureOptions,
    FeatureState,
    FeatureStatus,
    PartKind,
    PartState,
    ReadFeatures,
    Site,
    WaitForPart,
)
from contracts.identity import ENSURE_OIDC_PROVIDER, EnsureOidcProvider
from contracts.operation import Outcome, Start
from contracts.plans import PlanFindings
from contracts.problem import Problem, ProblemCode, problem
from workflows.dependencies import dependencies_stage
from workflows.engine import Operation, Skipped, StagePlan, StageRun, together
from workflows.engine.failures import refusal
from workflows.parts import control_plane_of, feature_site_of, identity_of
from workflows.plans import checks, checks_stage

PREREQUISITES = StagePlan("dependencies", "Components that the features need")
INPUTS: dict[Feature, tuple[str, ...]] = {
    Feature.TIERED_CHECKPOINTING: ("memory_percentage", "namespace", "service_account"),
    Feature.OBSERVABILITY: ("prometheus_workspace_arn", "grafana_workspace_arn"),
}
IN_TIME = (
    PartKind.NAMESPACE,
    PartKind.WORKSPACE,
    PartKind.ADDON,
    PartKind.RELEASE,
    PartKind.DEFINITIONS,
    PartKind.SETTING,
)
"""Parts that take a while to come, or to go."""


@workflow.defn(name=UPDATE_FEATURES.name)
class UpdateFeatures(Operation[FeatureChanges]):
    kind = UPDATE_FEATURES
    stages = (checks(),)

    @workflow.init
    def __init__(self, start: Start[FeatureChanges]) -> None:
        super().__init__(start)
        self.plan = planned(start.spec)
        self.ended: dict[Feature, FeatureStatus | None] = {}
        """The features whose stages have ended, with what came of them."""

    @workflow.run
    async def run(self, start: Start[FeatureChanges]) -> Outcome:
        return await self.carry_out()

    @classmethod
    def planned_stages(cls, spec: FeatureChanges) -> tuple[StagePlan, ...]:
        """The checks, then one for every feature that is looked after."""
        plan = planned(spec)
        needs = spec.enable_prerequisites and any(on and DEFINITIONS[each].components for each, on in plan.items())
        inputs = {each: tuple(f"{each.value}/{name}" for name in INPUTS.get(each, ())) for each in plan}
        return (
            checks(*(path for paths in inputs.values() for path in paths)),
            *((PREREQUISITES,) if needs else ()),
            *(StagePlan(each.value, DEFINITIONS[each].title, inputs=inputs[each], skippable=True) for each in plan),
        )

    def leases(self) -> tuple[str, ...]:
        settings = any(DEFINITIONS[each].changes_hyperpod for each in self.plan)
        components = PREREQUISITES.name in self.progress.stages
        return (
            *(f"features/{each.value}" for each in self.plan),
            *(("hyperpod",) if settings else ()),
            *(("eks",) if components else ()),
        )

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        site = feature_site_of(self)
        findings = await checks_stage(self)
        if PREREQUISITES.name in self.progress.stages:
            await self._install(control_plane, _missing(findings))
        await together(*(self._switch(site, feature, on) for feature, on in self.plan.items()))
        statuses = [status for status in self.ended.values() if status is not None]
        return {"features": [status.model_dump(mode="json") for status in statuses]}

    async def _install(self, control_plane: ControlPlane, missing: list[str]) -> None:
        """The stage of the components that features need, as far as they are missing; the others are not touched."""
        if missing:
            identity = identity_of(self)
            await dependencies_stage(self, control_plane, identity, lambda: missing)
            return

        async def steps(run: StageRun) -> None:
            run.observed = True
            run.detail("nothing is missing")

        await self.stage(PREREQUISITES.name, steps)

    async def _switch(self, site: Site, feature: Feature, on: bool) -> None:
        """Run the stage of a feature, after those that must have ended before."""
        before = predecessors(feature, self.plan)
        await workflow.wait_condition(lambda: self.ending or all(each in self.ended for each in before))
        self.check_aborted()

        async def steps(run: StageRun) -> FeatureStatus:
            return await self._enable(run, site, feature) if on else await self._disable(run, site, feature)

        try:
            self.ended[feature] = await self.stage(feature.value, steps)
        except Skipped:
            self.ended[feature] = None

    async def _enable(self, run: StageRun, site: Site, feature: Feature) -> FeatureStatus:
        definition, options = DEFINITIONS[feature], self._options(feature)
        before = await self._read(run, site, feature, "before")
        if before.state is FeatureState.FOREIGN:
            run.observed = True
            run.detail(f"used as it is: {before.detail}")
            return before
        if definition.oidc:
            await run.act(ENSURE_OIDC_PROVIDER, EnsureOidcProvider(scope=site.scope, eks_cluster=site.eks_cluster))
        waiting = []
        for part in definition.parts:
            change = ChangePart(site=site, feature=feature, part=part, options=options)
            done = await run.act(ENSURE_PART, change, key=part.key)
            if part.kind not in IN_TIME or (before.state is FeatureState.ON and not done.changed):
                continue
            waited = WaitForPart(site=site, feature=feature, part=part, options=options)
            seen = await run.wait(WAIT_FOR_PART, waited, key=part.key)
            if seen.state is PartState.WAITING_FOR_NODES:
                waiting.append(seen.detail or part.words)
        after = await self._read(run, site, feature, "after")
        if after.state is not FeatureState.ON and not (waiting and after.state is FeatureState.DEGRADED):
            raise refusal(_not_reached(after, "on"))
        run.detail("; ".join(waiting) or f"on{f', {after.version}' if after.version else ''}")
        return after

    async def _disable(self, run: StageRun, site: Site, feature: Feature) -> FeatureStatus:
        options, kept = self._options(feature), []
        before = await self._read(run, site, feature, "before")
        if before.state is FeatureState.FOREIGN:
            raise refusal(
                problem(
                    ProblemCode.FOREIGN,
                    f"{feature.value} is not ours to switch off: {before.detail}",
                    field=f"/{feature.value}",
                    remedy="Whoever installed it can remove it; skip this stage.",
                )
            )
        for part in DEFINITIONS[feature].removal:
            change = ChangePart(site=site, feature=feature, part=part, options=options)
            done = await run.act(REMOVE_PART, change, key=part.key)
            if done.detail:
                kept.append(done.detail)
            if done.changed and part.kind in IN_TIME:
                gone = WaitForPart(site=site, feature=feature, part=part, options=options, gone=True)
                await run.wait(WAIT_FOR_PART, gone, key=part.key)
        after = await self._read(run, site, feature, "after")
        if after.state not in (FeatureState.OFF, FeatureState.FOREIGN):
            raise refusal(_not_reached(after, "off"))
        run.detail("; ".join(["off", *kept]))
        return after

    async def _read(self, run: StageRun, site: Site, feature: Feature, key: str) -> FeatureStatus:
        """What a feature is now, put into the cluster's record."""
        found = await run.act(READ_FEATURES, ReadFeatures(site=site, features=[feature]), key=key)
        status = found.of(feature)
        features = replaced("features", self.record.features, status)
        await run.record(features=sorted(features, key=lambda each: each.feature.value))
        return status

    def _options(self, feature: Feature) -> FeatureOptions:
        toggle = self.spec.named.get(feature)
        return FeatureOptions.of(toggle) if toggle is not None else FeatureOptions()


def _missing(findings: PlanFindings) -> list[str]:
    """The components that the plan found missing."""
    names = findings.draft.facts.get("missing_components")
    return [str(name) for name in names] if isinstance(names, list) else []


def _not_reached(status: FeatureStatus, wanted: str) -> Problem:
    code = ProblemCode.UNAVAILABLE if status.state is FeatureState.UNKNOWN else ProblemCode.NOT_READY
    detail = f"{status.feature.value} is {status.state.value}, not {wanted}"
    return problem(
        code,
        f"{detail}: {status.detail}" if status.detail else detail,
        remedy="Mend what it names, then retry.",
        retryable=True,
    )
