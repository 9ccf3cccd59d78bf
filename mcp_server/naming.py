"""Tags for clusters that nobody has named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, date, datetime
from itertools import product
from string import ascii_lowercase
from typing import Annotated, Any

from pydantic import Field, SkipValidation

from client.aio import GatewayProblem
from contracts import catalogue, endpoints
from contracts.catalogue import OperationKind
from contracts.names import operation_id
from contracts.operation import Operation
from contracts.problem import ProblemCode
from mcp_server.asker import Asker
from mcp_server.problems import wrong_argument

NewTag = Annotated[
    SkipValidation[str | None],
    Field(
        description="The new cluster's tag, e.g. demo; all its names derive from it. Absent: a free one such as "
        "hypd-1130a, which the answer names as `cluster`; while that is made, the same call joins it."
    ),
]

_MAKING = (catalogue.CREATE_CLUSTER, catalogue.CREATE_CONTROL_PLANE, catalogue.IMPORT_CLUSTER)
"""What may be at work on a tag that no cluster has yet."""


def candidates(day: date) -> Iterator[str]:
    """Tags for a day, in order: hypd-1130a to hypd-1130z, then with two letters."""
    for length in (1, 2):
        for letters in product(ascii_lowercase, repeat=length):
            yield f"hypd-{day:%m%d}{''.join(letters)}"


async def start_named(
    who: Asker, tag: str | None, kind: OperationKind[Any], start: Callable[[str], Awaitable[Operation]]
) -> Operation:
    """What ``start`` begins for ``tag``, or for the first free tag of today where that is None.

    An operation of this ``kind`` that the caller has begun and that goes on is joined where it does the same: a call
    whose answer was lost is made again. Who else takes the same tag in the same moment is told by the gateway's answer;
    then it is the next one's turn. Raises GatewayProblem.
    """
    if tag is not None:
        return await start(tag)
    me = (await who.caller()).name
    today = datetime.now(UTC).date()
    for free in candidates(today):
        own = await who.get_if_there(endpoints.GET_OPERATION, id=operation_id(kind.name, free))
        repeated = own is not None and not own.phase.ended and own.started_by == me
        if not repeated and await _is_taken(who, free):
            continue
        try:
            begun = await start(free)
        except GatewayProblem as error:
            if error.problem.code is not ProblemCode.CONFLICT or error.problem.operation is None:
                raise
            continue
        if begun.started_by == me:
            return begun
    raise GatewayProblem(wrong_argument("tag", f"every tag of {today} is taken", "Choose one yourself."))


async def _is_taken(who: Asker, tag: str) -> bool:
    if await who.get_if_there(endpoints.GET_CLUSTER, tag=tag) is not None:
        return True
    for kind in _MAKING:
        making = await who.get_if_there(endpoints.GET_OPERATION, id=operation_id(kind.name, tag))
        if making is not None and not making.phase.ended:
            return True
    return False
