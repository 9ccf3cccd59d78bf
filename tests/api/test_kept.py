"""Answers that are kept: one look-up for many who ask."""

from __future__ import annotations

import asyncio

import pytest

from api.kept import Kept


class Source:
    """Answers when it is told to, with a number that grows; fails as long as ``broken``."""

    def __init__(self) -> None:
        self.asked = 0
        self.broken = False
        self.go = asyncio.Event()

    async def look_up(self) -> int:
        self.asked += 1
        await self.go.wait()
        if self.broken:
            raise ValueError("broken")
        return self.asked


async def many(kept: Kept[str, int], source: Source, key: str = "a") -> list[asyncio.Task[int]]:
    asking = [asyncio.create_task(kept.get(key, source.look_up)) for _ in range(50)]
    while not source.asked:
        await asyncio.sleep(0)
    return asking


async def test_many_who_ask_at_once_and_later_cost_one_look_up() -> None:
    kept, source = Kept[str, int](60.0), Source()
    asking = await many(kept, source)
    source.go.set()
    assert await asyncio.gather(*asking) == [1] * 50
    assert await kept.get("a", source.look_up) == 1
    assert await kept.get("b", source.look_up) == 2


async def test_what_is_too_old_is_looked_up_anew() -> None:
    kept, source = Kept[str, int](-1.0), Source()
    source.go.set()
    assert [await kept.get("a", source.look_up) for _ in range(3)] == [1, 2, 3]


async def test_a_failure_is_everybodys_who_waits_and_is_not_kept() -> None:
    kept, source = Kept[str, int](60.0), Source()
    source.broken = True
    asking = await many(kept, source)
    source.go.set()
    ended = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in ended] == [ValueError] * 50
    assert source.asked == 1
    source.broken = False
    assert await kept.get("a", source.look_up) == 2


async def test_others_get_the_answer_when_the_one_who_asked_first_leaves() -> None:
    kept, source = Kept[str, int](60.0), Source()
    first, *others = await many(kept, source)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source.go.set()
    assert await asyncio.gather(*others) == [1] * 49


async def test_only_the_newest_answers_are_kept() -> None:
    kept, source = Kept[str, int](60.0, most=2), Source()
    source.go.set()
    for key in ("a", "b", "c"):
        await kept.get(key, source.look_up)
    assert [await kept.get(key, source.look_up) for key in ("b", "c", "a")] == [2, 3, 4]
