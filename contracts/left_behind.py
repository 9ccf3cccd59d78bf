"""What an operation that was ended early has left in place, in words: every face says it so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HEADINGS = {"exists": "What exists", "deleted": "What was deleted"}
_NOTHING = {"What exists": "It has made nothing.", "What was deleted": "It has deleted nothing."}


@dataclass(frozen=True)
class LeftBehind:
    """What one step has made, deleted, or may have."""

    stage: str
    """The stage's title, where it is known; else its name."""
    what: str
    step: str
    """The activity, e.g. ``deployments.apply deployment-1``."""


@dataclass(frozen=True)
class Remains:
    """The result of an operation that was ended early."""

    heading: str
    done: list[LeftBehind]
    unknown: list[LeftBehind]
    """Steps that were cut short: what they would have done may be there or not."""


def remains_of(result: Mapping[str, Any] | None, titles: Mapping[str, str]) -> Remains | None:
    """The parts of a result that tell what was left; None where it tells nothing of it.

    ``titles``: of stages, by name. A step is named ``<stage>/<activity>[/<key>]``. (``workflows/engine/stage.py``)
    """
    for member, heading in HEADINGS.items():
        done = (result or {}).get(member)
        if result is not None and isinstance(done, Mapping) and "unknown" in result:
            known = [_left(step, str(what), titles) for step, what in done.items()]
            return Remains(heading, known, [_left(step, "", titles) for step in result["unknown"] or ()])
    return None


def remains_lines(remains: Remains) -> list[str]:
    """A line for each thing, under its heading."""
    lines = [f"{remains.heading}:" if remains.done else _NOTHING[remains.heading]]
    lines += [f"  {each.stage}: {each.what or each.step}" for each in _once(remains.done)]
    if remains.unknown:
        lines.append("Not known, because it was cut short (look before you start it again):")
        lines += [f"  {each.stage}: {each.step}" for each in remains.unknown]
    return lines


def _left(step: str, what: str, titles: Mapping[str, str]) -> LeftBehind:
    stage, _, activity = step.partition("/")
    return LeftBehind(titles.get(stage, stage), what, activity.replace("/", " "))


def _once(found: Iterable[LeftBehind]) -> list[LeftBehind]:
    """Several steps may say of one thing that it is there."""
    return list({(each.stage, each.what or each.step): each for each in found}.values())
