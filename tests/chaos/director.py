"""Makes the events of a schedule happen, each at its moment."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from temporalio.client import Client
from temporalio.service import RPCError

from contracts.catalogue import KINDS
from tests.chaos import others
from tests.chaos.asked import Asked, Log
from tests.chaos.callers import Callers
from tests.chaos.healing import QUOTAS, People, heal
from tests.chaos.schedule import (
    QUIET,
    Answer,
    Event,
    Fault,
    Freeze,
    Kill,
    Misfortune,
    Others,
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
"""Seconds without any change after which those that run wait, it seems, for others that are blocked: what was to happen
later happens now, and people come to help."""
PAUSE = 0.4
ADVANCE_LIMIT = 300.0


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
        self._people = People(self.callers, self.log)
        self._rules: dict[str, str] = {}
        self._regions: dict[str, str] = {}
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
            stalled = unchanged() > STALLED
            if stalled or all(each.ended or each.phase in QUIET for each in self.asked.values()):
                if self._people.decide(self._all(), limit=2):
                    continue
                if waiting:  # Nothing moves any more that could bring their moments.
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

    def _turn_comes(self) -> bool:
        """Whether something is queued although nobody holds anything: its turn must come."""
        open_ones = [each for each in self._all() if not each.ended]
        return bool(open_ones) and all(each.phase == "queued" for each in open_ones)

    def _watch(self) -> Callable[[], float]:
        """Tells for how many seconds there was no change."""
        since, last = time.monotonic(), ""

        def unchanged() -> float:
            nonlocal since, last
            now = json.dumps([[each.seen.stages, each.phase, each.effects] for each in self._all()])
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
        self.log.misfortunes[misfortune.what] += 1

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
        wanted = {"decide": "waiting_for_decision", "retry": "blocked"}.get(answer.action)
        if asked is None or asked.ended or (wanted and asked.phase != wanted):
            return
        bodies = [("admin", answer.body)] + ([("rival", answer.other)] if answer.other is not None else [])
        stage = asked.blocked if answer.action == "retry" else None
        if stage is not None:
            bodies = [(by, {"stage": stage["name"], "attempt": stage["attempt"], **body}) for by, body in bodies]
        path, headers = f"/operations/{asked.id}/{answer.action}", {"Idempotency-Key": f"{self._seed}-{number}"}
        with ThreadPoolExecutor(2) as both:
            sent = [both.submit(self.callers.send, by, "POST", path, json=body, headers=headers) for by, body in bodies]
            accepted = self._judge(answer, [each.result() for each in sent])
        if len(accepted) > 1:
            self.log.faults.append(f"two answers to {asked.id} were accepted: {answer}")
