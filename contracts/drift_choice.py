"""Which differences of a report somebody means, and whether they can be settled so."""

from __future__ import annotations

from contracts.drift import AdoptDriftSpec, Difference, DriftReport, RestoreDriftSpec, Way
from contracts.problem import FieldError, ProblemCode


def way_of(spec: AdoptDriftSpec | RestoreDriftSpec, found: Difference) -> Way:
    return found.adopt if isinstance(spec, AdoptDriftSpec) else found.restore


def _refused(spec: AdoptDriftSpec | RestoreDriftSpec, found: Difference) -> bool:
    """Whether to adopt it needs a word that was not said."""
    return isinstance(spec, AdoptDriftSpec) and found.weakens and not spec.accept_weaker_security


def chosen_of(
    report: DriftReport, spec: AdoptDriftSpec | RestoreDriftSpec
) -> tuple[list[Difference], list[FieldError]]:
    """The differences that are meant, and what stands in the way of each."""
    there = {each.id: each for each in report.differences}
    chosen: list[Difference] = []
    faults: list[FieldError] = []
    for position, identifier in enumerate(spec.differences):
        pointer = f"/differences/{position}"
        difference = there.get(identifier)
        if difference is None:
            faults.append(_changed(report, identifier, pointer))
        elif not (way := way_of(spec, difference)).possible:
            remedy = f"Use {way.operation}." if way.operation else "See what else the difference can be settled by."
            faults.append(
                FieldError(
                    field=pointer, detail=f"{difference.detail}: {way.why}", remedy=remedy, code=ProblemCode.UNSUPPORTED
                )
            )
        elif _refused(spec, difference):
            faults.append(_weaker(difference))
        else:
            chosen.append(difference)
    return chosen, faults


def _changed(report: DriftReport, identifier: str, pointer: str) -> FieldError:
    place = identifier.rpartition("~")[0]
    now = next((each for each in report.differences if each.id.rpartition("~")[0] == place), None)
    said = f"now {now.detail}" if now else "the last check does not find it any more, or left it out"
    return FieldError(
        field=pointer,
        detail=f"{identifier} has changed since: {said}",
        remedy=f"Look at it, and choose {now.id}." if now else "Check for drift, and read the report.",
        code=ProblemCode.CONFLICT,
    )


def _weaker(found: Difference) -> FieldError:
    return FieldError(
        field="/accept_weaker_security",
        detail=f"{found.detail}: to adopt it accepts a hole in the cluster's security",
        remedy="Restore it; or, if it is meant so, have a person accept it (accept_weaker_security: true).",
        code=ProblemCode.INVALID,
    )
