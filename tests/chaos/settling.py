"""What others have changed past the platform, and what became of it: restored, adopted, or still a difference. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos import beside
from tests.chaos.beside import Changed
from tests.chaos.done import Done, about

SETTLING = ("restore-drift", "adopt-drift")


@dataclass(frozen=True)
class Stands:
    """What stands in the end of what others have changed."""

    change: Changed
    now: Any
    recorded: Any


def settled(found: Iterable[Stands], operations: Iterable[Done]) -> list[str]:
    """After a restoration the thing is as it was recorded, after an adoption the record says what is, and without
    either it stays a difference, whatever was done elsewhere. What another operation was about in between, or one that
    was not carried through, is left out."""
    done = sorted(operations, key=lambda each: each.finished)
    faults = []
    for each in _last(found):
        change = each.change
        after = [op for op in done if op.cluster == change.event.cluster and op.finished > change.at]
        if any(_blurs(op, change) for op in after):
            continue
        by = [op.kind for op in after if op.kind in SETTLING and _names(op, change)]
        match by[0] if by else None:
            case "restore-drift":
                want = (change.recorded, change.recorded)
            case "adopt-drift":
                want = (change.after, change.after)
            case _:
                want = (change.after, change.recorded)
        said = {"restore-drift": "was restored", "adopt-drift": "was adopted"}.get(by[0] if by else "", "was left")
        if each.now != want[0]:
            faults.append(f"{change} {said}, and is {each.now}")
        if each.recorded is not None and each.recorded != want[1]:
            faults.append(f"{change} {said}, and recorded is {each.recorded}")
    return faults


def effects(changes: Iterable[Changed], operations: Iterable[Done]) -> list[Done]:
    """What changes and their restorations mean to what stands, as operations in their order."""
    done, found = list(operations), []
    for change in changes:
        found.append(_as_done(change, change.after, change.at, "succeeded"))
        found += [
            _as_done(change, change.recorded, op.finished, op.phase)
            for op in done
            if op.kind == "restore-drift" and op.cluster == change.event.cluster and _names(op, change)
        ]
    return found


def unrecorded(changes: Iterable[Changed], operations: Iterable[Done]) -> dict[str, set[str]]:
    """Instance groups that others have made, by cluster, and nobody has adopted."""
    done = list(operations)
    found: dict[str, set[str]] = {}
    for change in changes:
        adopted = any(op.kind == "adopt-drift" and op.phase == "succeeded" and _names(op, change) for op in done)
        if change.event.what == "group" and not adopted:
            found.setdefault(change.event.cluster, set()).add(change.event.thing)
    return found


def _last(found: Iterable[Stands]) -> list[Stands]:
    """The last change of each thing. A group that is made, and its count that is changed, are one."""
    return list(
        {(each.change.event.cluster, each.change.what.fact, each.change.event.thing): each for each in found}.values()
    )


def _names(done: Done, change: Changed) -> bool:
    return done.cluster == change.event.cluster and any(
        change.named_by(str(each)) for each in done.spec.get("differences", ())
    )


def _blurs(done: Done, change: Changed) -> bool:
    """Whether what an operation did to the thing is not told by what others changed."""
    if done.kind in SETTLING:
        return _names(done, change) and done.phase != "succeeded"
    at_it = change.event.thing in (about(done)[1], str(done.spec.get("name", "")), str(done.spec.get("target", "")))
    return at_it or done.kind in beside.WIDE


def _as_done(change: Changed, value: Any, finished: str, phase: str) -> Done:
    event = change.event
    spec: Mapping[str, Any] = {"what": event.what, "thing": event.thing, "kind": change.what.about, "value": value}
    return Done(f"beside/{event.name}", event.name, "beside", event.cluster, phase, spec=spec, finished=finished)
