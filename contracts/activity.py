"""Signatures of activities: the only thing that workflows know of them.

A capability's module declares, beside its models, what its activities are called, take and give back::

    ENSURE_VPC = Act("network.ensure_vpc", EnsureVpc, Vpc)

``activities/`` implements them under these names; ``workflows/`` calls them. Acting and waiting are two activities: an
:class:`Act` has one effect and ends in seconds, a :class:`Wait` changes nothing and watches until a state is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import BaseModel

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)


class Queue(StrEnum):
    """Where an activity runs; see ``contracts/queues.py`` for the names of the task queues."""

    PLATFORM = "platform"
    AWS = "aws"
    WAIT = "wait"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True)
class Act(Generic[In, Out]):
    """An activity with one effect, safe to repeat. ``limit`` bounds one attempt."""

    name: str
    input: type[In]
    output: type[Out]
    queue: Queue = Queue.AWS
    limit: timedelta = timedelta(minutes=2)
    attempts: int = 25


@dataclass(frozen=True)
class Wait(Generic[In, Out]):
    """An activity that watches, with heartbeats, until a state is reached. ``limit`` bounds the whole wait."""

    name: str
    input: type[In]
    output: type[Out]
    limit: timedelta
    queue: Queue = Queue.WAIT
