"""One attempt of a training: from the start of its processes on all nodes to their end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sandbox.kubernetes.programs.training import Trainer
from sandbox.kubernetes.programs.training_lines import CLOSING_SECONDS, STARTUP_SECONDS, Moment, loss_of

DONE, CRASHED, JUDGED, LOST, STOPPED = "done", "crashed", "judged", "lost", "stopped"
"""How an attempt ends: its steps are done; a process failed; a rule about its log was broken; a pod of it went; it was
told to."""


@dataclass
class Fall:
    """The end of a process by itself."""

    at: float
    cause: str
    """Of ``sandbox/kubernetes/programs/crashes.py``."""
    rank: int
    """The node on which it happens."""
    message: str = ""
    """Instead of the usual words."""


@dataclass
class Attempt:
    number: int
    begun: float
    first_step: int
    """So many steps were done before."""
    members: dict[str, int]
    """Uids of the pods, and their ranks."""
    phases: list[tuple[float, float]]
    """From when on the training goes at which pace: 1 is full speed, 0 stands still. In order of time."""
    outliers: list[tuple[float, float, float | None]] = field(default_factory=list)
    """From when until when the loss is so much; None is not a number."""
    fall: Fall | None = None
    ended: float | None = None
    how: str = ""
    told: str = ""
    """Why, in the words of the elastic agent."""

    @classmethod
    def start(cls, number: int, now: float, first_step: int, members: dict[str, int]) -> Attempt:
        return cls(number, now, first_step, members, [(now + STARTUP_SECONDS, 1.0)])

    @property
    def nodes(self) -> int:
        return len(self.members)

    @property
    def stepping_from(self) -> float:
        return self.phases[0][0]

    @property
    def stop(self) -> float:
        """When nothing is printed any more."""
        ends = (self.ended, self.fall.at if self.fall else None)
        return min((at for at in ends if at is not None), default=math.inf)

    def pace(self, at: float) -> float:
        return next((pace for since, pace in reversed(self.phases) if since <= at), 0.0)

    def steps_at(self, trainer: Trainer, at: float) -> int:
        """How many steps are done at a time, those of former attempts included."""
        seconds = 0.0
        for (since, pace), until in zip(self.phases, [p[0] for p in self.phases[1:]] + [at], strict=True):
            seconds += max(min(until, at) - since, 0.0) * pace
        # A hair more: a step that ends now is done.
        return min(self.first_step + int(seconds / trainer.step_seconds + 1e-6), trainer.steps)

    def at_step(self, trainer: Trainer, step: int) -> float:
        """When a step ends; infinity if it never does."""
        left = (step - self.first_step) * trainer.step_seconds
        for (since, pace), until in zip(self.phases, [p[0] for p in self.phases[1:]] + [math.inf], strict=True):
            if pace and left <= (until - since) * pace:
                return since + left / pace
            left -= (until - since) * pace if pace else 0.0
        return math.inf

    def done_at(self, trainer: Trainer) -> float:
        return self.at_step(trainer, trainer.steps) + CLOSING_SECONDS

    def moment(self, trainer: Trainer, step: int, at: float) -> Moment:
        loss = loss_of(trainer, step)
        for since, until, value in self.outliers:
            if since <= at < until:
                loss = math.nan if value is None else value
        return Moment(step, at, loss, self.pace(at), self.stepping_from)


@dataclass
class Run:
    """A training with all its attempts; the oldest are forgotten."""

    key: str
    trainer: Trainer
    attempts: list[Attempt] = field(default_factory=list)

    KEPT = 20

    @property
    def current(self) -> Attempt | None:
        """The attempt that goes on."""
        last = self.last
        return last if last is not None and last.ended is None else None

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def attempt(self, number: int) -> Attempt | None:
        """An attempt by its number, or the oldest that is known after it."""
        return next((each for each in self.attempts if each.number >= number), None)

    def add(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        del self.attempts[: -self.KEPT]
