"""One schedule on a stack of its own: it happens, the world is healed, and what must hold is looked at."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cli.stack.child import Service
from tests.chaos import beside, evidence, invariants, others, settling, standing, tracked
from tests.chaos.asked import Asked
from tests.chaos.beside import Site
from tests.chaos.director import Director
from tests.chaos.done import Done
from tests.chaos.schedule import Schedule
from tests.chaos.wishes import REGIONS
from tests.chaos.world import Holdings, Thing, World
from tests.local_stack import LocalStack, local_stack

SETTINGS = {
    "INSTANTSTART_POLL_SECONDS": "0.25",
    # Nobody looks at the console or speaks MCP, and each start of the gateway would make them.
    "INSTANTSTART_FACES": "api",
    "INSTANTSTART_REGIONS": ",".join(REGIONS),
}


@dataclass
class Result:
    """What came of a schedule."""

    seed: int
    faults: list[str] = field(default_factory=list)
    """Violations; none: it has passed."""
    operations: Counter[str] = field(default_factory=Counter)
    """Kind and how it ended."""
    misfortunes: Counter[str] = field(default_factory=Counter)
    """What happened, by class: kills, rules that fired, shortages."""
    answers: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    """Rules of faults that have ``met`` a call, and others (``missed``)."""
    effects: int = 0
    """Calls that changed something."""
    checks: Counter[str] = field(default_factory=Counter)
    """What was looked at of drift and of copied experiments, and how often."""
    helped: int = 0
    """How often something was healed early, because everything waited for it."""
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def run(
    schedule: Schedule,
    folder: Path,
    keep: Path,
    through: Callable[[Service], Service],
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Carry out a schedule with a stack in ``folder``.

    ``keep``: where ledger, histories and logs of a failure go. ``through``: how its services are started.
    """
    began = time.monotonic()
    result = Result(schedule.seed)
    with local_stack(folder, schedule.speed, SETTINGS, through=through) as stack:
        director = Director(stack, World(stack), schedule.seed, say)
        try:
            _play(stack, director, schedule, result)
        except Exception as error:  # Whatever ends the run is a finding, and its evidence is wanted.
            result.faults.append(f"{type(error).__name__}: {error}")
        result.faults = list(dict.fromkeys(director.log.faults + result.faults))
        result.misfortunes, result.answers = director.log.misfortunes, director.log.answers
        result.rules.update("met" if met else "missed" for met in director.log.rules.values())
        result.checks = director.log.checks
        result.effects, result.helped = len(director.ledger), director.log.helped
        for each in director.asked.values():
            result.operations[f"{each.wish.operation} {each.phase if each.id else 'refused'}"] += 1
        if result.faults:
            evidence.save(stack, schedule, result.faults, director.log.lines, keep)
    result.seconds = time.monotonic() - began
    return result


def _play(stack: LocalStack, director: Director, schedule: Schedule, result: Result) -> None:
    world = director.world
    imports = any(wish.operation == "import-cluster" for wish in schedule.wishes)
    others.settle_in_account(world, cluster=imports)
    before = world.things()
    director.play(schedule.life)
    director.heal()
    result.faults += _standing(director, schedule, before)
    director.play(schedule.teardown)
    director.heal()
    director.look()
    after = world.things()
    result.faults += invariants.all_ended([_done(director, each) for each in _each(director)])
    again = {each.id for each in _each(director) if any(stage["attempt"] > 1 for stage in each.view["stages"])}
    waited = {each.id: each.waits for each in _each(director)}
    result.faults += invariants.effects_once(director.ledger, again, waited)
    result.faults += invariants.others_untouched(before, after)
    ends = [director.asked.get(wish.name) for wish in schedule.wishes if wish.operation == "delete-cluster"]
    if all(each is not None and (each.phase == "succeeded" or not each.id) for each in ends):
        result.faults += invariants.nothing_left(before, after)
    result.faults += invariants.workflows_well(evidence.runs(stack))


def _standing(director: Director, schedule: Schedule, before: list[Thing]) -> list[str]:
    """What must hold of clusters that stand, when nothing happens to them any more."""
    world = director.world
    done = [_done(director, each) for each in _each(director)]
    records = {tag: record for tag in _tags(schedule) if (record := director.record(tag)) is not None}
    for tag in {each.event.cluster for each in director.changed} & set(records):
        world.calm(tag, records[tag]["region"])
    holdings = {tag: world.holdings(tag, record["region"]) for tag, record in records.items()}
    now = world.things()
    theirs = {tag: others.of_cluster(world, tag, record["region"]) for tag, record in records.items()}
    return [
        *invariants.all_ended(done),
        *invariants.explained(before, now, records),
        *invariants.there(now, records, holdings, done, settling.unrecorded(director.changed, done)),
        *standing.as_asked([*done, *settling.effects(director.changed, done)], holdings),
        *settling.settled(_stands(director, records), done),
        *_copies(director, done, records, holdings),
        *invariants.others_untouched(before, now),
        *invariants.theirs_kept(director.settled, theirs),
    ]


def _stands(director: Director, records: dict[str, Any]) -> list[settling.Stands]:
    """What there is now of everything that others have changed."""
    found = []
    for each in director.changed:
        tag, thing = each.event.cluster, each.event.thing
        if tag in records:
            site = Site(director.world, tag, records[tag]["region"])
            now, recorded = beside.fact(site, each.event), each.what.recorded(records[tag], thing)
            found.append(settling.Stands(each, now, recorded))
            director.log.checks["what others changed"] += 1
    return found


def _copies(director: Director, done: list[Done], records: dict[str, Any], holdings: dict[str, Holdings]) -> list[str]:
    """Whether copied experiments are like their sources, to which nothing was reported since."""
    faults = []
    for each in done:
        if each.kind != "sync-experiments" or each.phase != "succeeded" or each.cluster not in records:
            continue
        region, source = records[each.cluster]["region"], str(each.spec["source"])
        copy = str(each.spec["destination"]).rpartition("/")[2]
        if not {source, copy} <= holdings[each.cluster].servers or director.reported.get(source, "") > each.finished:
            continue
        there, copied = (tracked.runs(director.world, region, name) or [] for name in (source, copy))
        faults += [f"{each.id}: {fault}" for fault in tracked.copied(there, copied)]
        director.log.checks["copied experiments"] += 1
    return faults


def _tags(schedule: Schedule) -> list[str]:
    return sorted({wish.cluster for wish in schedule.wishes})


def _each(director: Director) -> list[Asked]:
    """Every run once, though several wishes may have joined it."""
    return list({each.run_id: each for each in director.asked.values() if each.id}.values())


def _done(director: Director, asked: Asked) -> Done:
    return Done(
        id=asked.id,
        run_id=asked.run_id,
        kind=asked.wish.operation,
        cluster=asked.wish.cluster,
        phase=asked.phase,
        reason=asked.reason,
        spec=director.spec(asked),
        finished=str(asked.view.get("updated_at", "")),
        node_of=asked.wish.node_of,
        terminated=asked.terminated,
    )
