"""An end to what a body may hold."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive


def limited(receive: Receive, most: int, refusal: str) -> Receive:
    """``receive`` for a body of at most ``most`` bytes, however it comes; else it raises HTTPException (413)."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise HTTPException(413, refusal)
        return message

    return receiving
