"""What waits for something broken is helped before what was to happen later happens early."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.chaos import director as directing
from tests.chaos.asked import Asked
from tests.chaos.director import Director
from tests.chaos.schedule import Event, Kill, Misfortune, Moment, Wish
from tests.chaos.world import World
from tests.local_stack import LocalStack

BROKEN = Misfortune("broken add-on", "PUT", "/addons", {"coredns": "x"}, stands=True)


class Answers:
    """Takes every request, and answers nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **more: self


class Stack:
    sandbox = gateway = Answers()


class Scene(Director):
    """A director whose only operation is queued behind what is broken, until that is healed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directing, "Callers", lambda stack: Answers())
        monkeypatch.setattr(directing, "PAUSE", 0.0)
        monkeypatch.setattr(directing, "relieve", lambda stack: self.happened.append("relieved"))
        self.happened: list[str] = []
        super().__init__(cast(LocalStack, Stack()), cast(World, None), 1, lambda line: None)
        self.asked["a"] = Asked(Wish("a", "c0", "create-router", "POST", "/routers"), "create-router/c0/a", "run")

    def look(self) -> None:
        waits = "queued" if not self.happened else "succeeded"
        self.asked["a"].view = {"phase": waits, "stages": []}

    def _kill(self, kill: Kill) -> None:
        self.happened.append("killed")


@pytest.mark.parametrize("stands", [True, False])
def test_what_stands_is_healed_before_an_event_comes_early(monkeypatch: pytest.MonkeyPatch, stands: bool) -> None:
    scene = Scene(monkeypatch)
    later = Event(2, Moment(("a",), "settled"), Kill(("worker",)))
    scene.play((Event(1, Moment(), BROKEN), later) if stands else (later,))
    assert scene.happened == (["relieved", "killed"] if stands else ["killed"])
    assert [line for line in scene.log.lines if line.startswith("early")] == ([] if stands else [f"early: {later}"])
    assert scene.log.helped == int(stands)
