"""From a seed to a schedule: the same seed gives the same schedule, on every machine and Python."""

from __future__ import annotations

from random import Random

from contracts.catalogue import FOUNDERS
from tests.chaos import menu, misfortunes, stories, wishes, workloads
from tests.chaos.misfortunes import Target
from tests.chaos.schedule import (
    Action,
    Answer,
    Event,
    Freeze,
    Moment,
    Others,
    Runs,
    Schedule,
    Terminate,
    Thaw,
    Wish,
)
from tests.chaos.wishes import FIRST, MOST_WORKERS, REGIONS, Draft, Plan

SPEED = 300.0
MOST_EFFECTS = 40
MOST_STAGES = 9
SUBMITTED = 2
"""Stages of a run after which there is a job: the checks, and that it is submitted."""


class _Writer:
    """Writes events down in the order in which they are thought of."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.events: list[Event] = []
        self._count = 0
        self.kinds: dict[str, str] = {}
        """Of the operations that are wished for, by the names of the wishes."""

    def at(self, moment: Moment, action: Action) -> None:
        self._count += 1
        self.events.append(Event(self._count, moment, action))

    def taken(self) -> tuple[Event, ...]:
        """The events since the last call."""
        events, self.events = tuple(self.events), []
        return events

    def somewhere(self, name: str, effects: int = MOST_EFFECTS, stages: int = MOST_STAGES) -> Moment:
        """A moment while an operation runs."""
        if self.dice.random() < 0.5:
            return Moment((name,), "stages", self.dice.randint(0, stages))
        return Moment((name,), "effects", self.dice.randint(0, effects))

    def interrupt(self, name: str, moment: Moment) -> None:
        """Something of the platform dies or freezes; what is frozen thaws a little later, or when the world heals."""
        what = misfortunes.interruption(self.dice)
        self.at(moment, what)
        if isinstance(what, Freeze):
            self.at(Moment((name,), "settled"), Thaw())

    def wish(self, plan: Plan, draft: Draft, moment: Moment, name: str) -> str:
        """One operation, asked in a way that the dice say. What a person does to a run is asked plainly."""
        dice = self.dice
        self.kinds[name] = draft.operation
        crowd = dice.choice((1, 1, 1, 2, 4))
        plain = draft.node_of is not None or draft.operation.endswith("-training")
        by = "agent" if not plain and dice.random() < (0.25 if draft.settles else 0.08) else "admin"
        wish = Wish(
            name=name,
            cluster=plan.tag,
            operation=draft.operation,
            method=draft.method,
            path=f"/clusters{draft.path}" if draft.operation in FOUNDERS else f"/clusters/{plan.tag}{draft.path}",
            body=draft.body,
            crowd=crowd,
            keyed=crowd == 1 or dice.random() < 0.6,
            rival=draft.rival if by == "admin" and dice.random() < 0.4 else None,
            interrupted=dice.random() < 0.1,
            by=by,
            node_of=draft.node_of,
            settles=draft.settles,
        )
        self.at(moment, wish)
        if by == "agent" and dice.random() < 0.6:
            self.at(Moment((name,), "quiet"), Answer(name, "approve", {}, {}))
        return name


def generate(seed: int) -> Schedule:
    """The schedule of a seed: one to three clusters, each with up to four rounds of operations, and misfortunes."""
    dice = Random(f"chaos {seed}")
    writer = _Writer(dice)
    plans = [
        Plan(tag=f"c{number}", region=dice.choice(REGIONS), groups={FIRST: dice.randint(1, MOST_WORKERS)})
        for number in range(dice.choice((1, 1, 1, 1, 1, 2, 2, 3)))
    ]
    names = {
        plan.tag: _life(writer, plan, rounds=dice.randint(*((2, 5) if len(plans) == 1 else (1, 3)))) for plan in plans
    }
    if dice.random() < 0.25:
        imported = Plan(tag=wishes.IMPORTED, region=REGIONS[0], groups={FIRST: 1})
        name = writer.wish(imported, wishes.importing(), writer.somewhere("c0.create"), "imp.import")
        detect = Draft("redetect-cluster", "POST", "/redetection")
        writer.wish(imported, detect, Moment((name,), "settled"), "imp.redetect")
    every = [name for each in names.values() for name in each]
    for _ in range(dice.randint(2, 4)):
        name = _one_of(dice, every)
        writer.interrupt(name, _during(writer, name))
    for _ in range(dice.randint(3, 7)):
        plan = dice.choice(plans)
        name = _one_of(dice, names[plan.tag])
        meant = Target(plan, writer.kinds[name])
        writer.at(_during(writer, name, early=True), misfortunes.draw(dice, meant, misfortunes.LIFE))
    life = writer.taken()

    for plan in plans:
        name = writer.wish(plan, wishes.deletion(plan), Moment(), f"{plan.tag}.delete")
        for _ in range(dice.randint(0, 2)):
            writer.interrupt(name, writer.somewhere(name))
        for _ in range(dice.randint(0, 3)):
            meant = Target(plan, "delete-cluster")
            writer.at(_during(writer, name, early=True), misfortunes.draw(dice, meant, misfortunes.TEARDOWN))
    return Schedule(seed=seed, speed=SPEED, life=life, teardown=writer.taken())


def _one_of(dice: Random, names: list[str]) -> str:
    """One of these operations, the first of which is the longest by far."""
    return names[0] if dice.random() < 0.4 else dice.choice(names)


def _during(writer: _Writer, name: str, early: bool = False) -> Moment:
    """A moment of an operation. ``early``: as a rule at once, so that it meets what the operation does."""
    if early and writer.dice.random() < 0.8:
        return Moment((name,))
    return writer.somewhere(name, *((MOST_EFFECTS, MOST_STAGES) if name.endswith((".create", ".delete")) else (6, 4)))


def _life(writer: _Writer, plan: Plan, rounds: int) -> list[str]:
    """A cluster is created, then several things are done to it, some of them at once; returns the wishes' names."""
    dice = writer.dice
    asks = dice.random() < 0.3
    first = f"{plan.tag}.create"
    names = [writer.wish(plan, wishes.creation(dice, plan, asks), Moment(), first)]
    if asks:
        count = plan.groups[FIRST]
        chosen = wishes.capacity_answer(plan, "a", count)
        other = wishes.capacity_answer(plan, "b", count + 1) if dice.random() < 0.6 else None
        writer.at(Moment((first,), "quiet"), Answer(first, "decide", chosen, other))
    if dice.random() < 0.6:
        writer.at(Moment((first,), "blocked"), Answer(first, "retry", {}, {} if dice.random() < 0.5 else None))
    before: tuple[str, ...] = (first,)
    if dice.random() < 0.6:
        writer.at(Moment((first,), "settled"), Others(plan.tag))
    if ground := menu.foundation(dice, plan):
        now = [
            writer.wish(plan, draft, Moment(before, "settled"), f"{plan.tag}.0{'ab'[place]}.{draft.operation}")
            for place, draft in enumerate(ground)
        ]
        names += now
        before = tuple(now)
    for number in range(rounds):
        plan.next_round()
        now = _apart(writer, plan, Moment(before, "settled"), f"{plan.tag}.{number + 1}")
        if now:
            names += now
            before = tuple(now)
            continue
        if dice.random() < 0.3:
            now += _story(writer, plan, Moment(before, "settled"), f"{plan.tag}.{number + 1}")
        for place in range(dice.choice((1, 2, 2, 3))):
            draft = menu.draw(dice, plan)
            name = f"{plan.tag}.{number + 1}{'abc'[place]}.{draft.operation}"
            now.append(writer.wish(plan, draft, Moment(before, "settled"), name))
            if dice.random() < 0.08:
                writer.at(writer.somewhere(name, 4, 2), Answer(name, "abort", {"reason": "somebody else's mind"}))
            elif dice.random() < 0.06:
                writer.at(writer.somewhere(name, 4, 2), Terminate(name))
            elif dice.random() < 0.25:
                writer.at(Moment((name,), "blocked"), Answer(name, "retry", {}, {}))
        names += now
        before = tuple(now)
    return names


def _story(writer: _Writer, plan: Plan, moment: Moment, place: str) -> list[str]:
    """A long run that is suspended and resumed, stopped, or both. Empty: the cluster cannot train."""
    found = workloads.long_run(plan)
    if found is None:
        return []
    run, draft = found
    names = [writer.wish(plan, draft, moment, f"{place}.{draft.operation}")]
    now = Moment((names[0],), "stages", SUBMITTED)
    for verb in writer.dice.choice((("stop",), ("suspend", "resume"), ("suspend", "resume", "stop"))):
        draft = workloads.to_run(run, verb)
        names.append(writer.wish(plan, draft, now, f"{place}.{draft.operation}"))
        now = Moment((names[-1],), "settled")
    return names


def _apart(writer: _Writer, plan: Plan, moment: Moment, place: str) -> list[str]:
    """A round of something else: others change things, or an experiment is copied. Empty: an ordinary one."""
    dice = writer.dice
    server = stories.source(dice, plan)
    if server is not None and dice.random() < 0.5:
        return _copied(writer, plan, moment, place, server)
    return _drift(writer, plan, moment, place) if dice.random() < 0.3 else []


def _drift(writer: _Writer, plan: Plan, moment: Moment, place: str) -> list[str]:
    """Others change something, an operation works on something else, a check is made, and what it tells is adopted or
    restored, now and then both at once."""
    dice = writer.dice
    changed = stories.besides(dice, plan, place)
    for each in changed:
        writer.at(moment, each)
    names = []
    if dice.random() < 0.5 and (other := stories.elsewhere(dice, plan, changed)) is not None:
        names.append(writer.wish(plan, other, moment, f"{place}a.{other.operation}"))
        moment = Moment((names[0],), "settled")
    draft = stories.settlement(dice, plan, changed)
    name = writer.wish(plan, draft, moment, f"{place}b.{draft.operation}")
    names.append(name)
    if dice.random() < 0.3:
        verb = "adopt" if draft.operation == "restore-drift" else "restore"
        draft = stories.settlement(dice, plan, changed, verb)
        names.append(writer.wish(plan, draft, Moment((name,)), f"{place}c.{draft.operation}"))
    if dice.random() < 0.4:
        writer.at(Moment((name,), "blocked"), Answer(name, "retry", {}, {}))
    if dice.random() < 0.4:
        writer.interrupt(name, writer.somewhere(name, 3, 3))
    if dice.random() < 0.08:
        writer.at(writer.somewhere(name, 3, 3), Terminate(name))
    return names


def _copied(writer: _Writer, plan: Plan, moment: Moment, place: str, server: str) -> list[str]:
    """An experiment is copied to another tracking server, once or, when more was reported, again."""
    dice = writer.dice
    names = []
    others = sorted((plan.servers & plan.standing) - {server})
    if others:
        other = dice.choice(others)
    else:
        draft = workloads.create_server(dice, plan)
        other = str((draft.body or {})["name"])
        names.append(writer.wish(plan, draft, moment, f"{place}a.{draft.operation}"))
        moment = Moment((names[0],), "settled")
    for turn in range(dice.choice((1, 1, 2))):
        writer.at(moment, Runs(plan.tag, server, dice.randint(1, 3)))
        draft = stories.copy(plan, server, other)
        name = writer.wish(plan, draft, moment, f"{place}{'bc'[turn]}.{draft.operation}")
        names.append(name)
        moment = Moment((name,), "settled")
        if dice.random() < 0.5:
            writer.interrupt(name, writer.somewhere(name, 3, 2))
    return names
