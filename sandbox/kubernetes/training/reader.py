"""What a pod of a training prints, one piece after the other, whenever somebody asks.

Nothing is printed ahead: a training of a million steps costs nothing until its log is read, and then no more than a log
keeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sandbox.kubernetes.logs import KEEP_LINES, Line
from sandbox.kubernetes.programs import training_lines as lines
from sandbox.kubernetes.programs.crashes import CONTAINER, CRASHES, say
from sandbox.kubernetes.programs.training import Trainer
from sandbox.kubernetes.programs.training_lines import CLOSING_SECONDS, Place

from .attempts import CRASHED, DONE, JUDGED, STOPPED, Attempt, Fall, Run


@dataclass
class Bookmark:
    """How far a container's log is written."""

    attempt: int = 0
    index: int = 0
    """So many lines of the opening, and then steps."""
    noise: int = 0


def read(run: Run, uid: str, pod: str, mark: Bookmark, until: float) -> tuple[list[Line], float | None]:
    """The lines that are due and were not read before, and when the next is, if that is known. Moves the mark."""
    found: list[Line] = []
    while (attempt := run.attempt(mark.attempt)) is not None:
        if attempt.number != mark.attempt:
            mark.attempt, mark.index, mark.noise = attempt.number, 0, 0
        if uid in attempt.members:
            place = Place(attempt.members[uid], attempt.nodes, attempt.number, attempt.first_step, pod)
            following = _advance(found, run.trainer, attempt, place, mark, min(until, attempt.stop))
            if attempt.stop > until:
                return found, min(following, attempt.stop)
            found += [(attempt.stop, text) for text in _ending(run.trainer, attempt, place)]
        elif attempt.ended is None:
            return found, None
        mark.attempt, mark.index, mark.noise = attempt.number + 1, 0, 0
    return found, None


def _advance(
    found: list[Line], trainer: Trainer, attempt: Attempt, place: Place, mark: Bookmark, until: float
) -> float:
    """Add what is due in an attempt; when the next line is."""
    start = len(found)
    opening = lines.opening(trainer, place, attempt.begun)
    following = _open(found, opening, mark, until)
    if math.isinf(following):
        following = _step(found, trainer, attempt, place, mark, until, len(opening))
    if trainer.noise:
        following = min(following, _babble(found, trainer, attempt, place, mark, until))
        found[start:] = sorted(found[start:], key=lambda line: line[0])
    return following


def _open(found: list[Line], opening: list[Line], mark: Bookmark, until: float) -> float:
    """Add what is due of the opening; when its next line is, infinity when it is over."""
    for at, text in opening[mark.index :]:
        if at > until:
            return at
        found.append((at, text))
        mark.index += 1
    return math.inf


def _step(
    found: list[Line], trainer: Trainer, attempt: Attempt, place: Place, mark: Bookmark, until: float, opened: int
) -> float:
    """Add what is due of the steps, which begin behind ``opened`` lines, and the closing; when the next of them is."""
    done = attempt.steps_at(trainer, until)
    mark.index = max(mark.index, opened + done - attempt.first_step - KEEP_LINES)
    step, following = attempt.first_step + 1 + mark.index - opened, math.inf
    while step <= trainer.steps:
        following = attempt.at_step(trainer, step)
        if following > until:
            return following
        texts = lines.step(trainer, place, attempt.moment(trainer, step, following))
        found += [(following, text) for text in texts]
        mark.index, step = mark.index + 1, step + 1
    if step > trainer.steps + 1:
        return math.inf
    following = attempt.done_at(trainer)
    if following <= until:
        took = following - CLOSING_SECONDS - attempt.stepping_from
        found += [(following, text) for text in lines.closing(trainer, place, following, took)]
        mark.index, following = mark.index + 1, math.inf
    return following


def _babble(found: list[Line], trainer: Trainer, attempt: Attempt, place: Place, mark: Bookmark, until: float) -> float:
    """Add the lines of no interest; when the next is."""
    total = max(int((until - attempt.begun) * trainer.noise), 0)
    for number in range(max(mark.noise, total - KEEP_LINES), total):
        found.append((attempt.begun + (number + 1) / trainer.noise, lines.noise(place, number)))
    mark.noise = max(mark.noise, total)
    return attempt.begun + (mark.noise + 1) / trainer.noise


def _ending(trainer: Trainer, attempt: Attempt, place: Place) -> list[str]:
    """What is printed at the end of an attempt."""
    at, how = attempt.stop, attempt.how
    fall = attempt.fall if attempt.fall is not None and attempt.fall.at <= at else None
    found: list[str] = []
    if fall is not None:
        how = CRASHED
        found += words(trainer, attempt, place, fall)
    if how == DONE or (fall is not None and CRASHES[fall.cause].scope == CONTAINER and fall.rank == place.rank):
        return found
    if not trainer.agent:
        return found + (_launcher(fall, place) if fall is not None else [])
    if how == STOPPED:
        return [lines.agent(at, place, "WARNING", "Received 15 death signal, shutting down workers")]
    if fall is not None and fall.rank == place.rank:
        crash = CRASHES[fall.cause]
        local = trainer.processes - 1
        what = (
            f"failed (exitcode: {crash.exit_code}) local_rank: {local} (pid: {70 + local}) of binary: /usr/bin/python3"
        )
        found.append(lines.agent(at, place, "ERROR", what))
        found.append(lines.agent(at, place, "INFO", "Transitioned from AgentState.RUNNING to AgentState.FAULTED"))
    elif how == JUDGED and place.rank == 0:
        found.append(lines.agent(at, place, "ERROR", attempt.told))
        found.append(lines.agent(at, place, "INFO", "Transitioned from AgentState.RUNNING to AgentState.FAULTED"))
    found.append(lines.agent(at, place, "INFO", "Stopping workers..."))
    return found


def words(trainer: Trainer, attempt: Attempt, place: Place, fall: Fall) -> list[str]:
    """What the process that fails says, or those that notice."""
    crash = CRASHES[fall.cause]
    mine = fall.rank == place.rank
    texts = crash.lines if mine else crash.peers
    if mine and fall.message:
        texts = (fall.message.replace("{", "{{").replace("}", "}}"),)
    local = trainer.processes - 1 if mine else 0
    return say(
        texts,
        rank=place.rank * trainer.processes + local,
        local=local,
        world=place.nodes * trainer.processes,
        step=attempt.steps_at(trainer, fall.at) + 1,
        path=trainer.checkpoints,
        pod=place.pod,
    )


def _launcher(fall: Fall, place: Place) -> list[str]:
    """torchrun's report of a process that failed."""
    code = CRASHES[fall.cause].exit_code
    return [
        "E1130 00:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:874] failed "
        f"(exitcode: {code}) local_rank: 0 (pid: 71) of binary: /usr/bin/python3",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        f"Root Cause (first observed failure): rank: {place.rank}, exitcode: {code}",
    ]
