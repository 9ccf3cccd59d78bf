"""A pod's way from one service of a pool to another, step by step: out, drained, in, serving.

Every step looks first at where the pod is, so that the way may be begun anew at any point, by whoever comes next.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from contracts.activity import Act, Wait
from contracts.model_pools import (
    ATTACH_POD,
    DETACH_POD,
    WAIT_FOR_DRAINED_POD,
    WAIT_FOR_SERVING_POD,
    MovePod,
    PoolRef,
)
from contracts.pool_moves import UNASSIGNED, Move
from workflows.engine import together

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)

AT_ONCE = 10
"""Pods that are on their way side by side."""


class Steps(Protocol):
    """How activities are called: by a stage of an operation, or by a pool's keeper."""

    async def act(self, signature: Act[In, Out], argument: In, key: str | None = None) -> Out: ...

    async def wait(self, signature: Wait[In, Out], argument: In, key: str | None = None) -> Out: ...


async def move_pods(steps: Steps, pool: PoolRef, moves: list[Move]) -> None:
    """Carry moves out. A pod that is gone, or that somebody else has moved, is left: the moves are planned anew then.

    Free pods come first: nobody waits for them.
    """
    ordered = sorted(moves, key=lambda move: (move.source != UNASSIGNED, move.pod))
    for begin in range(0, len(ordered), AT_ONCE):
        await together(*(_move(steps, pool, move) for move in ordered[begin : begin + AT_ONCE]))


async def _move(steps: Steps, pool: PoolRef, move: Move) -> None:
    asked = MovePod(**pool.model_dump(), move=move)
    if move.source != UNASSIGNED:
        if (await steps.act(DETACH_POD, asked, move.pod)).gone:
            return
        if (await steps.wait(WAIT_FOR_DRAINED_POD, asked, move.pod)).gone:
            return
    if (await steps.act(ATTACH_POD, asked, move.pod)).gone or move.target == UNASSIGNED:
        return
    await steps.wait(WAIT_FOR_SERVING_POD, asked, move.pod)
