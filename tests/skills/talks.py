"""Conversations between an agent, its user, and the person who approves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.skills.agent import Agent, Approver, User
from tests.skills.conftest import World


@dataclass
class Talk:
    """A conversation, when it is over."""

    agent: Agent
    approved: list[str] = field(default_factory=list)
    came_of_it: Any = None
    effects: list[str] = field(default_factory=list)
    """On the cluster, in AWS and Kubernetes, while it lasted."""

    @property
    def user(self) -> User:
        return self.agent.user


Script = Callable[[Agent], Awaitable[Any]]


async def talk(world: World, skill: str, user: User, script: Script, speaker: str = "bot") -> Talk:
    """One conversation, with a person at hand who approves what the agent asks for."""
    async with world.connected(speaker) as client, world.connected("olga") as console:
        agent, person = Agent(skill, client, user), Approver(console)
        acting = asyncio.ensure_future(script(agent))
        listening = asyncio.create_task(person.listen(user))
        try:
            await asyncio.wait((acting, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over = listening.done()
            acting.cancel()
            listening.cancel()
            await asyncio.gather(acting, listening, return_exceptions=True)
    if over:
        listening.result()
    return Talk(agent, person.approved, acting.result())
