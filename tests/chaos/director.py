"""Makes the events of a schedule happen, each at its moment."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
from temporalio.client import Client
from temporalio.service import RPCError

from contracts.catalogue import KINDS
from tests.chaos import beside, others, tracked
from tests.chaos.asked import Asked, Log
from tests.chaos.beside import Changed, Site
from tests.chaos.callers import Callers
from tests.chaos.healing import QUOTAS, People, heal, relieve
from tests.chaos.schedule import (
    QUIET,
    Answer,
    Beside,
    Event,
    Fault,
    Freeze,
    Kill,
    Misfortune,
    Others,
    Runs,
    Seen,
    Terminate,
    Thaw,
    Wish,
    has_come,
)
from tests.chaos.wishes import REGIONS
from tests.chaos.world import World
from tests.local_stack import LocalStack

PATIENCE = 300.0
"""Seconds without any change after which an operation that says it runs does nothing."""
STALLED = 45.0
"""Seconds without any change after which those that run wait, it seems, for others that are blocked: people come to
help, what stands in the way is healed, and what was to happen later happens now."""
STALLED_BY_MISFORTUNE = 30.0
"""The same where something is broken that nobody else heals: hours of the sandbox's clock."""
PAUSE = 0.4
ADVANCE_LIMIT = 300.0
CHECK_LIMIT = 60.0
"""Seconds for a check for drift, which is not made while nobody can."""


class DoesNothing(Exception):
    """Operations say that they run, and nothing happens."""


class Director:
    """Plays the parts of a schedule on a stack. ``asked`` has what was asked so far, by the names of wishes."""

    def __init__(self, stack: LocalStack, world: World, seed: int, say: Callable[[str], None]) -> None:
        self.stack, self.world, self._seed, self._say = stack, world, seed, say
        self.callers = Callers(stack)
        self.asked: dict[str, Asked] = {}
        self.log = Log()
        self.ledger: list[dict[str, Any]] = []
        self.settled: dict[str, dict[str, str]] = {}
        """What others had in the clusters when they settled there."""
        self.changed: list[Changed] = []
        """What others have changed past the platform, in order."""
        self.reported: dict[str, str] = {}
        """When runs were last reported to a tracking server."""
        self._people = People(self.callers, self.log)
        self._differing: dict[str, list[str]] = {}
        """IDs of the differences that a check has told of a change, by its event."""
        self._rules: dict[str, str] = {}
        self._regions: dict[str, str] = {}
        self._stands = False
        """Whether something is broken that nobody heals by itself."""
        self._stalled: dict[str, Seen] = {}
        """By run: how all operations stood when nothing had changed for so long that they wait, it seems, for others.
        Those are not waited for again with every event that then comes early."""
        self._told = 0
        stack.sandbox.put("/quotas", json=QUOTAS).raise_for_status()

    def play(self, events: tuple[Event, ...]) -> None:
        """Let all events happen, until every operation has ended or waits, for somebody or for what is blocked."""
        waiting = list(events)
        unchanged = self._watch()
        while True:
            self.look()
            known = {name: each.seen for name, each in self.asked.items()}
            if (due := next((event for event in waiting if has_come(event.at, known)), None)) is not None:
                waiting.remove(due)
                self._note(str(due))
                self._do(due)
                continue
            if stalled := unchanged() > (STALLED_BY_MISFORTUNE if self._stands else STALLED):
                self._stalled = self._stand()
            elif not self._stalled.items() <= self._stand().items():  # What they waited for may have come.
                self._stalled = {}
            if all(each.ended or each.phase in QUIET or each.run_id in self._stalled for each in self._all()):
                if self._people.decide(self._all(), limit=2):
                    continue
                if waiting:  # Nothing moves any more that could bring their moments.
                    if not self._relieved():
                        self._note(f"early: {waiting[0]}")
                        self._do(waiting.pop(0))
                    continue
                if stalled or not self._turn_comes():
                    return
            time.sleep(PAUSE)

    def heal(self) -> None:
        """Make the world well and help what waits. Returns when all have ended, or were retried in vain. Raises
        DoesNothing."""
        for each in self.stack.sandbox.get("/faults").json()["fired"]:
            self.log.misfortunes[self._rules.get(each["rule"], "other")] += 1
            self.log.rules[each["rule"]] = True
        heal(self.stack)
        self._stands = False
        self._note("healed")
        for asked in self._all():
            asked.retries = 0
        unchanged = self._watch()
        while True:
            self.look()
            self._people.decide(self._all())
            in_vain = self._people.mend(self._all())
            left = [each for each in self._all() if not each.ended]
            if all(each in in_vain or (in_vain and each.phase == "queued") for each in left):
                self.log.faults += [f"{e.id} stays blocked although all is well: {e.reason}" for e in in_vain]
                return
            if unchanged() > PATIENCE:
                stuck = [f"{each.id} ({each.phase}: {each.reason})" for each in left]
                raise DoesNothing(f"nothing happens for {PATIENCE:g} s to {'; '.join(stuck)}")
            time.sleep(PAUSE)

    def look(self) -> None:
        """Read what became of the operations, and the ledger's new entries."""
        for each in self._all():
            if not each.ended:
                each.view = self.callers.read(f"/operations/{each.id}", run_id=each.run_id)
        since = self.ledger[-1]["number"] if self.ledger else 0
        rows = self.stack.sandbox.get("/ledger", params={"since": since, "effects_only": "true"}).json()["entries"]
        self.ledger += rows
        for row in rows:
            for each in self._all():
                each.effects += not each.ended and each.caused(row)

    def record(self, tag: str) -> dict[str, Any] | None:
        """The record of a cluster; None if there is none."""
        answer = self.callers.send("admin", "GET", f"/clusters/{tag}")
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["record"]
        return found

    def spec(self, asked: Asked) -> dict[str, Any]:
        """What an operation carried out."""
        found: dict[str, Any] = self.callers.read(f"/operations/{asked.id}/spec", run_id=asked.run_id)["spec"]
        return found

    def _all(self) -> list[Asked]:
        """Every operation once, though several wishes may have joined it."""
        return list({id(each): each for each in self.asked.values()}.values())

    def _stand(self) -> dict[str, Seen]:
        """How each operation stands by itself: effects in its cluster may be of others."""
        return {each.run_id: replace(each.seen, effects=0) for each in self._all() if each.id}

    def _relieved(self) -> bool:
        """Heal what stands, and retry what is blocked by it, before events come early; whether there was any."""
        if not self._stands:
            return False
        self._stands, self._stalled = False, {}
        relieve(self.stack)
        self._note("what stands is healed")
        self.log.helped += 1
        self._people.mend(self._all())
        return True

    def _turn_comes(self) -> bool:
        """Whether something is queued although nobody holds anything: its turn must come."""
        open_ones = [each for each in self._all() if not each.ended]
        return bool(open_ones) and all(each.phase == "queued" for each in open_ones)

    def _watch(self) -> Callable[[], float]:
        """Tells for how many seconds there was no change."""
        since, last = time.monotonic(), ""

        def unchanged() -> float:
            nonlocal since, last
            told = [[each.seen.stages, each.phase, each.effects] for each in self._all()]
            now = json.dumps([self.log.helped, *told])
            if now != last:
                since, last = time.monotonic(), now
            return time.monotonic() - since

        return unchanged

    def _note(self, line: str) -> None:
        self.log.lines.append(line)
        for each in self.log.lines[self._told :]:
            self._say(each)
        self._told = len(self.log.lines)

    def _do(self, event: Event) -> None:
        match event.action:
            case Wish() as wish:
                self._ask(wish)
            case Answer() as answer:
                self._answer(answer, event.number)
            case Kill() as kill:
                self._kill(kill)
            case Freeze():
                self._freeze()
            case Thaw():
                self.stack.thaw()
            case Terminate(name):
                self._terminate(name)
            case Fault() as fault:
                self._rules[str(event.number)] = fault.what
                self.log.rules[str(event.number)] = False
                rule = {"id": str(event.number), **fault.rule}
                self.stack.sandbox.post("/faults", json={"add": [rule]}).raise_for_status()
            case Misfortune() as misfortune:
                self._misfortune(misfortune)
            case Others(tag):
                self.settled[tag] = others.settle_in_cluster(self.world, tag, self._region(tag))
            case Beside() as event_beside:
                self._change_beside(event_beside)
            case Runs(tag, server, count):
                if tracked.report(self.world, self._region(tag), server, count):
                    self.reported[server] = beside.now()
                    self.log.misfortunes["reported runs"] += 1

    def _region(self, tag: str) -> str:
        return self._regions.get(tag, REGIONS[0])

    def _kill(self, kill: Kill) -> None:
        self.stack.kill(*kill.services)
        if kill.away:
            body = {"advance": kill.away}
            self.stack.sandbox.post("/clock", json=body, timeout=ADVANCE_LIMIT).raise_for_status()
        self.stack.start(*kill.services)
        self.log.misfortunes[f"kill of {'all' if len(kill.services) > 1 else kill.services[0]}"] += 1

    def _freeze(self) -> None:
        self.stack.freeze("worker")
        self.stack.start("worker")
        self.log.misfortunes["frozen worker"] += 1

    def _terminate(self, name: str) -> None:
        asked = self.asked.get(name)
        if asked is None or asked.ended:
            return
        try:
            asyncio.run(self._terminate_now(asked.id, asked.run_id))
        except RPCError as error:  # It has ended in this moment.
            self._note(f"     not terminated: {error}")
            return
        asked.terminated = True
        self.log.misfortunes["termination in Temporal"] += 1

    async def _terminate_now(self, workflow_id: str, run_id: str) -> None:
        temporal = await Client.connect(f"127.0.0.1:{self.stack.settings.ports.temporal}")
        await temporal.get_workflow_handle(workflow_id, run_id=run_id).terminate("somebody gives it up")

    def _misfortune(self, misfortune: Misfortune) -> None:
        body = misfortune.body
        if misfortune.node_of is not None:
            tag, group = misfortune.node_of
            body = self._with_node(body, tag, group)
            if body is None:
                return
        answer = self.stack.sandbox.request(misfortune.method, misfortune.path, json=body, timeout=ADVANCE_LIMIT)
        if misfortune.node_of is None:  # A node may have gone in the meantime.
            answer.raise_for_status()
        self._stands |= misfortune.stands
        self.log.misfortunes[misfortune.what] += 1

    def _change_beside(self, event: Beside) -> None:
        """Somebody changes something, of which a check has been made just before."""
        if self.record(event.cluster) is None:
            return
        site = Site(self.world, event.cluster, self._region(event.cluster))
        report = self._check(event.cluster)
        record = self.record(event.cluster)
        if record is None or (found := beside.change(site, event)) is None:
            self._note("     nothing was changed")
            return
        before, after = found
        recorded = beside.CHANGES[event.what].recorded(record, event.thing)
        sure = report is not None and not self._passed_over(report, event)
        made = Changed(event, before, after, before if recorded is None else recorded, beside.now(), sure)
        self.changed.append(made)
        self._note(f"     {made}")
        self.log.misfortunes[f"others changed: {event.what}"] += 1

    def _check(self, tag: str) -> dict[str, Any] | None:
        """What a check tells now; None where none can be made."""
        try:
            answer = self.callers.send("admin", "POST", f"/clusters/{tag}/drift/check", patience=CHECK_LIMIT)
        except AssertionError as error:
            self._note(f"     no check: {error}")
            return None
        if answer.status_code >= 500:
            self.log.faults.append(f"a check of {tag} was answered {answer.status_code}: {answer.text[:300]}")
        report: dict[str, Any] | None = answer.json()["report"] if answer.status_code == 200 else None
        return report

    @staticmethod
    def _passed_over(report: dict[str, Any], event: Beside) -> bool:
        """Whether a check has left out what somebody changes or has changed, or could not look at it."""
        member = "/".join(beside.CHANGES[event.what].difference.format(name=event.thing).split("/")[:2])
        left_out = any(each.startswith(member) for each in report["skipped"])
        return left_out or any(member.partition("/")[0] in each["kinds"] for each in report["unread"])

    def _differences(self, wish: Wish) -> list[str]:
        """IDs of the differences that a check tells of what others have changed. It has to, unless something else has
        been at the thing in between."""
        changes = [each for each in self.changed if each.event.name in wish.settles]
        report = self._check(wish.cluster) if changes else None
        if report is None:
            return []
        told = []
        for each in changes:
            mine = [found["id"] for found in report["differences"] if each.named_by(found["id"])]
            if not mine:  # Somebody else is settling it already: what was told before is answered once more.
                told += self._differing.get(each.event.name, [])
            told += mine
            self._differing.setdefault(each.event.name, mine)
            self.log.checks["told" if mine else "not told"] += 1
            if not mine and self._must_be_told(each, report):
                self.log.faults.append(f"a check does not tell of what others changed: {each}")
        return list(dict.fromkeys(told))

    def _must_be_told(self, change: Changed, report: dict[str, Any]) -> bool:
        if not change.sure or self._passed_over(report, change.event) or change.after == change.recorded:
            return False
        site = Site(self.world, change.event.cluster, self._region(change.event.cluster))
        mine = [each for each in self._all() if each.id and each.wish.cluster == change.event.cluster]
        return beside.fact(site, change.event) == change.after and not any(
            beside.may_touch(each.wish, change.event)
            for each in mine
            if not each.ended or str(each.view.get("updated_at", "")) > change.at
        )

    def _with_node(self, body: Any, tag: str, group: str) -> Any:
        """A body with the name of the group's first node; None where it has none."""
        node = self.world.node_of(tag, self._region(tag), group)
        return None if node is None else json.loads(json.dumps(body).replace("{node}", node))

    def _ask(self, wish: Wish) -> None:
        body = wish.body
        if wish.node_of is not None:
            body = self._with_node(body, wish.cluster, wish.node_of)
            if body is None:
                self.asked[wish.name] = Asked(wish)
                return
        if wish.settles:
            found = self._differences(wish)
            body = {**(body or {}), "differences": found}
            if not found:
                self._note("     there is nothing to settle")
                self.asked[wish.name] = Asked(wish)
                return
        if wish.operation == "create-cluster" and body is not None:
            self._regions[wish.cluster] = body["region"]
        headers = {"Idempotency-Key": f"chaos-{self._seed}-{wish.name}"} if wish.keyed else {}
        with ThreadPoolExecutor(wish.crowd) as crowd:
            sent = [
                crowd.submit(self.callers.send, wish.by, wish.method, wish.path, json=body, headers=headers)
                for _ in range(wish.crowd)
            ]
            if wish.interrupted:
                self._kill(Kill(("gateway",)))
            answers = [each.result() for each in sent]
        accepted = self._judge(wish, answers)
        if wish.keyed and len({(each["id"], each["run_id"]) for each in accepted}) > 1:
            self.log.faults.append(f"one Idempotency-Key of {wish.name} has started several runs")
        self._join(wish, wish.name, accepted)
        if wish.rival is not None:
            self._rival(wish, wish.rival)

    def _join(self, wish: Wish, name: str, accepted: list[dict[str, Any]]) -> None:
        """Remember each run that was started, once."""
        known = {each.run_id: each for each in self._all() if each.id}
        for number, view in enumerate({each["run_id"]: each for each in accepted}.values()):
            asked = known.get(view["run_id"]) or Asked(wish, view["id"], view["run_id"], view)
            self.asked[name if number == 0 else f"{name}+{number}"] = asked
        self.asked.setdefault(name, Asked(wish))

    def _rival(self, wish: Wish, body: dict[str, Any]) -> None:
        first = self.asked[wish.name]
        for view in self._judge(wish, [self.callers.send("rival", wish.method, wish.path, json=body)]):
            joined = view["run_id"] == first.run_id
            if joined and not KINDS[wish.operation].last_wins:
                self.log.faults.append(f"another specification has joined {first.id}")
            if not joined:
                self._join(wish, f"{wish.name}.rival", [view])

    def _judge(self, wish: Wish | Answer, answers: list[httpx.Response]) -> list[dict[str, Any]]:
        """The operations of answers that accepted. A refusal must be a problem with a code and a reason."""
        for answer in answers:
            self.log.answers[str(answer.status_code)] += 1
            if answer.status_code == 202:
                continue
            problem = answer.json() if answer.status_code < 500 else {}
            if not problem.get("code") or not problem.get("detail"):
                self.log.faults.append(f"{wish} was answered {answer.status_code}: {answer.text[:300]}")
            self._note(f"     refused ({answer.status_code}): {problem.get('detail')}")
        return [each.json() for each in answers if each.status_code == 202]

    def _answer(self, answer: Answer, number: int) -> None:
        asked = self.asked.get(answer.wish)
        phases = {"decide": "waiting_for_decision", "retry": "blocked", "approve": "waiting_for_approval"}
        wanted = phases.get(answer.action)
        if asked is None or asked.ended or (wanted and asked.phase != wanted):
            return
        bodies = [("admin", answer.body)] + ([("rival", answer.other)] if answer.other is not None else [])
        stage = asked.blocked if answer.action == "retry" else None
        if stage is not None:
            bodies = [(by, {"stage": stage["name"], "attempt": stage["attempt"], **body}) for by, body in bodies]
        if answer.action == "approve":
            bodies = [(by, {"plan_hash": asked.view["plan_hash"], **body}) for by, body in bodies]
        path, headers = f"/operations/{asked.id}/{answer.action}", {"Idempotency-Key": f"{self._seed}-{number}"}
        with ThreadPoolExecutor(2) as both:
            sent = [both.submit(self.callers.send, by, "POST", path, json=body, headers=headers) for by, body in bodies]
            accepted = self._judge(answer, [each.result() for each in sent])
        if len(accepted) > 1:
            self.log.faults.append(f"two answers to {asked.id} were accepted: {answer}")
