"""What a schedule is made of: wishes, faults, kills and answers, each with the moment at which it happens.

A moment is told by what can be observed of the operations, never by the wall clock, so that a schedule happens in the
same order on a slow machine and on a quick one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

ENDED = ("succeeded", "aborted", "failed")
QUIET = (*ENDED, "blocked", "waiting_for_decision", "waiting_for_approval", "queued")
"""Phases in which an operation does nothing by itself."""
FINISHED = ("done", "skipped", "unchanged")


@dataclass(frozen=True)
class Moment:
    """When an event happens. An operation that has ended has reached everything."""

    after: tuple[str, ...] = ()
    """Names of wishes; the moment has come when all have reached ``reached``. None: at the very beginning."""
    reached: str = "asked"
    """``asked``; ``quiet``: ended, or waits for somebody or something; ``settled``: ended or blocked, and ``blocked``,
    which is said of what concerns only that; ``stages`` or ``effects``: so many (``count``) are done."""
    count: int = 0

    def __str__(self) -> str:
        if not self.after:
            return "at once"
        who = ", ".join(self.after)
        match self.reached:
            case "stages":
                return f"after {self.count} stages of {who}"
            case "effects":
                return f"after {self.count} effects of {who}"
            case _:
                return f"when {who} {'is' if len(self.after) == 1 else 'are'} {self.reached}"


@dataclass(frozen=True)
class Seen:
    """What is known of an operation: its phase, stages that are finished, effects in the ledger so far."""

    phase: str
    stages: int = 0
    effects: int = 0


def has_come(moment: Moment, seen: Mapping[str, Seen]) -> bool:
    """Whether a moment has come, by what is known of the wishes that were asked. A wish that was refused is told as
    ended."""
    return all(name in seen and _reached(moment, seen[name]) for name in moment.after)


def _reached(moment: Moment, seen: Seen) -> bool:
    if seen.phase in ENDED:
        return True
    match moment.reached:
        case "asked":
            return True
        case "quiet":
            return seen.phase in QUIET
        case "settled" | "blocked":
            return seen.phase == "blocked"
        case "stages":
            return seen.stages >= moment.count or seen.phase == "blocked"
        case "effects":
            return seen.effects >= moment.count or seen.phase == "blocked"
    raise ValueError(f"nothing is ever {moment.reached!r}")


@dataclass(frozen=True)
class Wish:
    """An operation, and how it is asked for."""

    kind: ClassVar[str] = "wish"
    name: str
    """Of the wish within its schedule."""
    cluster: str
    """The cluster's tag."""
    operation: str
    """The operation's kind."""
    method: str
    path: str
    """Below ``/api/v1``. ``{node}`` is the first node of the group ``node_of``."""
    body: dict[str, Any] | None = None
    crowd: int = 1
    """Requests at once."""
    keyed: bool = True
    """With an Idempotency-Key, the same for the whole crowd."""
    rival: dict[str, Any] | None = None
    """A body that differs, asked by somebody else when the crowd was answered."""
    interrupted: bool = False
    """The gateway is killed while the crowd asks."""
    by: str = "admin"
    """``admin`` or ``agent``."""
    node_of: str | None = None
    settles: tuple[str, ...] = ()
    """What others changed, by the names of those events: a check is made, and the differences that it tells of that are
    what the body chooses."""

    def __str__(self) -> str:
        body = f" {json.dumps(self.body, sort_keys=True)}" if self.body is not None else ""
        how = [f"{self.crowd} at once"] if self.crowd > 1 else []
        how += [] if self.keyed else ["without key"]
        how += ["the gateway killed meanwhile"] if self.interrupted else []
        how += [f"then {json.dumps(self.rival, sort_keys=True)}"] if self.rival is not None else []
        how += [f"by {self.by}"] if self.by != "admin" else []
        how += [f"what a check tells of {', '.join(self.settles)}"] if self.settles else []
        return f"ask {self.name}: {self.method} {self.path}{body}" + (f" ({', '.join(how)})" if how else "")


@dataclass(frozen=True)
class Answer:
    """What is said to an operation that waits, by two callers at once if ``other`` is given."""

    kind: ClassVar[str] = "answer"
    wish: str
    action: str
    """``decide``, ``retry``, ``approve``, ``abort``."""
    body: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] | None = None

    def __str__(self) -> str:
        at_once = f" and at once {json.dumps(self.other, sort_keys=True)}" if self.other is not None else ""
        return f"{self.action} {self.wish} {json.dumps(self.body, sort_keys=True)}{at_once}"


@dataclass(frozen=True)
class Kill:
    """``kill -9``, and a start once the sandbox's clock has gone on."""

    kind: ClassVar[str] = "kill"
    services: tuple[str, ...]
    away: float = 0.0
    """Seconds of the sandbox that pass while they are dead."""

    def __str__(self) -> str:
        return f"kill -9 {' '.join(self.services)}" + (f", {self.away:g} s away" if self.away else "")


@dataclass(frozen=True)
class Freeze:
    """SIGSTOP to the worker, and another worker beside it."""

    kind: ClassVar[str] = "freeze"

    def __str__(self) -> str:
        return "freeze the worker, and start another"


@dataclass(frozen=True)
class Thaw:
    """SIGCONT to the workers that were frozen: they go on beside the others as if nothing had happened."""

    kind: ClassVar[str] = "thaw"

    def __str__(self) -> str:
        return "thaw"


@dataclass(frozen=True)
class Terminate:
    """Somebody terminates an operation's workflow in Temporal, past the platform."""

    kind: ClassVar[str] = "terminate"
    wish: str

    def __str__(self) -> str:
        return f"terminate the workflow of {self.wish}"


@dataclass(frozen=True)
class Fault:
    """A rule of the sandbox's faults, in force until it has fired ``times`` times or the world is healed."""

    kind: ClassVar[str] = "fault"
    what: str
    """Its class, as summaries count it."""
    rule: dict[str, Any]

    def __str__(self) -> str:
        return f"fault {self.what}: {json.dumps(self.rule, sort_keys=True)}"


@dataclass(frozen=True)
class Misfortune:
    """A request to the sandbox's admin API: shortages, sick nodes, jumps of the clock, broken watches."""

    kind: ClassVar[str] = "misfortune"
    what: str
    method: str
    path: str
    body: Any = None
    node_of: tuple[str, str] | None = None
    """Cluster and group whose first node takes the place of ``{node}`` in the body."""
    stands: bool = False
    """Until somebody heals it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.method} {self.path} {json.dumps(self.body, sort_keys=True)}"


@dataclass(frozen=True)
class Others:
    """Others settle in a cluster: what they have there must stay as it is."""

    kind: ClassVar[str] = "others"
    cluster: str

    def __str__(self) -> str:
        return f"others settle in {self.cluster}"


@dataclass(frozen=True)
class Beside:
    """Somebody changes something of a cluster past the platform."""

    kind: ClassVar[str] = "beside"
    name: str
    """Of the event, for those who settle it."""
    cluster: str
    what: str
    """A key of ``beside.CHANGES``."""
    thing: str
    value: Any = None

    def __str__(self) -> str:
        value = f" becomes {json.dumps(self.value)}" if self.value is not None else ""
        return f"{self.name}: {self.what} {self.thing} of {self.cluster}{value}, past the platform"


@dataclass(frozen=True)
class Runs:
    """Runs are reported to a tracking server, and those that were are carried on."""

    kind: ClassVar[str] = "runs"
    cluster: str
    server: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} runs more are reported to {self.server}"


Action = Wish | Answer | Kill | Freeze | Thaw | Terminate | Fault | Misfortune | Others | Beside | Runs


@dataclass(frozen=True)
class Event:
    number: int
    """Of the event within its schedule; ``WITHOUT`` names it."""
    at: Moment
    action: Action

    def __str__(self) -> str:
        return f"{self.number:3}. {self.at}: {self.action}"


@dataclass(frozen=True)
class Schedule:
    """A life of one or more clusters. ``teardown`` begins when ``life`` has happened and the world was healed."""

    seed: int
    speed: float
    life: tuple[Event, ...]
    teardown: tuple[Event, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return self.life + self.teardown

    @property
    def wishes(self) -> tuple[Wish, ...]:
        return tuple(event.action for event in self.events if isinstance(event.action, Wish))

    def without(self, numbers: Iterable[int]) -> Schedule:
        """The schedule with events left out. What waits for a wish that is left out does not wait for it any more."""
        gone = set(numbers)
        lost = {e.action.name for e in self.events if e.number in gone and isinstance(e.action, Wish)}

        def kept(events: tuple[Event, ...]) -> tuple[Event, ...]:
            rest = (event for event in events if event.number not in gone and not _about(event, lost))
            return tuple(
                replace(event, at=replace(event.at, after=tuple(n for n in event.at.after if n not in lost)))
                for event in rest
            )

        return replace(self, life=kept(self.life), teardown=kept(self.teardown))

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, clock at {self.speed:g}x", *map(str, self.life), "  -- healed; teardown --"]
        return "\n".join([*lines, *map(str, self.teardown)])

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "seed": self.seed,
            "speed": self.speed,
            **{
                part: [
                    {"number": e.number, "at": asdict(e.at), "kind": e.action.kind, **asdict(e.action)}
                    for e in getattr(self, part)
                ]
                for part in ("life", "teardown")
            },
        }


def _about(event: Event, lost: set[str]) -> bool:
    return isinstance(event.action, Answer | Terminate) and event.action.wish in lost
