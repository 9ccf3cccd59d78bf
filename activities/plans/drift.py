"""What adopting or restoring drift would do, by the last check."""

from __future__ import annotations

from activities.plans.world import Planner, World
from contracts.catalogue import ADOPT_DRIFT, RESTORE_DRIFT
from contracts.drift import AdoptDriftSpec, Change, Difference, DriftReport, RestoreDriftSpec, title
from contracts.drift_choice import chosen_of, way_of
from contracts.plans import Action, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode


def planners(world: World) -> dict[str, Planner]:
    return {
        ADOPT_DRIFT.name: lambda request: _plan(request, AdoptDriftSpec.model_validate(request.spec)),
        RESTORE_DRIFT.name: lambda request: _plan(request, RestoreDriftSpec.model_validate(request.spec)),
    }


def _plan(request: MakePlan, spec: AdoptDriftSpec | RestoreDriftSpec) -> PlanDraft:
    if request.record.drift is None:
        detail = f"Cluster {request.record.tag} was never compared with its record"
        remedy = "Check for drift first."
        return PlanDraft(blockers=[FieldError(field="", detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND)])
    report = request.record.drift.report
    picked, faults = chosen_of(report, spec)
    return PlanDraft(
        changes=[_change(each, spec) for each in picked],
        warnings=_warnings(report, picked, spec),
        blockers=faults,
        facts={each.id: each.found for each in picked},
    )


def _change(found: Difference, spec: AdoptDriftSpec | RestoreDriftSpec) -> PlannedChange:
    adopts = isinstance(spec, AdoptDriftSpec)
    path = f", {found.path.replace('_', ' ')}" if found.path else ""
    where = f"{'record of ' if adopts else ''}{title(found.kind)}"
    restored = Action.CREATE if found.change is Change.GONE else Action.CHANGE
    return PlannedChange(
        action=Action.CHANGE if adopts else restored,
        kind=where,
        name=f"{found.name}{path}",
        detail=way_of(spec, found).why,
        before=found.recorded if adopts else found.found,
        after=found.found if adopts else found.recorded,
    )


def _warnings(report: DriftReport, picked: list[Difference], spec: AdoptDriftSpec | RestoreDriftSpec) -> list[str]:
    when = f"{report.checked_at:%Y-%m-%d %H:%M} UTC"
    told = [f"by the check of {when}; the operation looks again first"] if picked else []
    if isinstance(spec, AdoptDriftSpec):
        told += [f"accepts a hole in security: {each.detail}" for each in picked if each.weakens]
    return told
