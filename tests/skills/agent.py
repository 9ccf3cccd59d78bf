"""A scripted agent: it knows a skill and what tools answer, and nothing else. And the people that it has to do with."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mcp import Client

from tests.skills.reading import SKILLS, Skill

DECISIONS = frozenset({"tag", "availability_zone", "instance_type", "count", "capacity", "gpu_count", "yes"})
"""All that an agent may ask its user."""

PASSING = frozenset({"unavailable", "throttled"})
"""Codes after which skills call again in a few seconds."""
AGAIN = 30
"""Calls until an agent gives up."""

Answer = dict[str, Any]


class Refused(Exception):
    """A tool's problem."""

    def __init__(self, problem: Answer) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


@dataclass
class User:
    """Who talks with the agent. ``decides``: what they answer, by decision."""

    decides: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    news: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    """What they have not passed on yet."""

    def tell(self, text: str) -> None:
        self.heard.append(text)
        self.news.put_nowait(text)

    def ask(self, *decisions: str) -> list[Any]:
        """Answer one message that asks for these decisions."""
        assert set(decisions) <= DECISIONS, f"nobody is to be asked for {set(decisions) - DECISIONS}"
        self.asked.extend(decisions)
        return [self.decides[decision] for decision in decisions]

    def has_heard(self, text: str) -> bool:
        return any(text in each for each in self.heard)


class Agent:
    """Plays one skill through one client. It calls no tool, and sends no argument, that the skill does not speak of."""

    def __init__(self, skill: str, client: Client, user: User | None = None) -> None:
        self.skill: Skill = SKILLS[skill]
        self.user = user or User()
        self.calls: Counter[str] = Counter()
        self._client = client

    def tell(self, text: str) -> None:
        self.user.tell(text)

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Raises Refused."""
        assert tool in self.skill.tools, f"{self.skill.name} does not speak of {tool}"
        beyond = set(arguments) - self.skill.parameters(tool)
        assert not beyond, f"{self.skill.name} does not speak of {beyond} of {tool}"
        for _ in range(AGAIN):
            self.calls[tool] += 1
            result = await self._client.call_tool(tool, arguments)
            assert result.structured_content is not None, result.content
            answer: Answer = result.structured_content
            if not result.is_error:
                return answer
            if answer["problem"]["code"] not in PASSING:
                break
            await asyncio.sleep(1)
        raise Refused(answer["problem"])

    async def plan(self, kind: str, cluster: str, spec: Answer) -> Answer:
        """Make a plan and show it; nothing may stand in its way."""
        plan = await self.call("plan_make", kind=kind, cluster=cluster, spec=spec)
        assert plan["valid"], plan["blockers"]
        assert plan["needs_approval"] or "yes" in self.user.asked, "else the user must say yes first"
        steps = Counter(f"{each['action']} {each['kind']}" for each in plan["changes"])
        cost = (plan.get("cost") or {}).get("per_hour")
        self.tell(f"The plan: {dict(steps)}; {cost} an hour; {'; '.join(plan['warnings'])}")
        return plan

    async def start(self, tool: str, **arguments: Any) -> str:
        """Start an operation, and pass on what the answer says that the user must know."""
        begun = await self.call(tool, **arguments)
        if begun["phase"] == "waiting_for_approval":
            self.tell(begun["next"])
        return str(begun["operation"])

    async def follow(self, operation: str) -> Answer:
        """Wait until the operation has ended or asks for something."""
        while True:
            seen = await self.call("operation_wait", operation=operation, timeout_seconds=45)
            now: Answer = seen["operation"]
            if seen["ended"] or now["phase"] in ("blocked", "waiting_for_decision"):
                return now

    async def done(self, operation: str) -> Answer:
        """Follow an operation that nothing is expected to hold up to its verified end."""
        ended = await self.follow(operation)
        assert ended["phase"] == "succeeded", ended
        return ended


class Approver:
    """A person with a role of their own: hears from the user what an agent asks for, and approves exactly that."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.approved: list[str] = []

    async def listen(self, user: User) -> None:
        """Approve whatever the user is told about, until cancelled."""
        while True:
            said = await user.news.get()
            operation = re.search(r"operation approve (\S+?)`", said)
            shown = re.search(r"hash (\w+)", said)
            if operation is None or shown is None:
                continue
            arguments = {"operation": operation[1], "plan_hash": shown[1]}
            result = await self._client.call_tool("operation_approve", arguments)
            assert not result.is_error, result.content
            self.approved.append(operation[1])
