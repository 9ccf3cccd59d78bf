"""Questions to the account, answered by short workflows: what can be chosen, and whether a spec would work."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TypeVar

from pydantic import BaseModel

from api.problems import ProblemError
from api.temporal import Temporal
from contracts.catalogue import LOOK_UP_OPTIONS_WORKFLOW, MAKE_PLAN_WORKFLOW
from contracts.cluster import ClusterSpec
from contracts.options import LookUpOptions, Options
from contracts.plans import MakePlan, PlanFindings

_KEPT_SECONDS = 15.0
_MOST_KEPT = 64

Found = TypeVar("Found", bound=BaseModel)
_Key = tuple[str, tuple[str, ...]]


class Lookups:
    """Looks up, and keeps what it found for a few seconds: a form that many people fill in asks AWS once."""

    def __init__(self, temporal: Temporal, look_up_limit: float, check_limit: float) -> None:
        self._temporal = temporal
        self._look_up_limit = look_up_limit
        self._check_limit = check_limit
        self._kept: dict[_Key, tuple[float, asyncio.Task[Options]]] = {}

    async def options(self, region: str, instance_types: list[str]) -> Options:
        """What a cluster in ``region`` can be made of. Raises ProblemError."""
        key = (region, tuple(sorted(set(instance_types))))
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is None or now - kept[0] > _KEPT_SECONDS or _failed(kept[1]):
            if len(self._kept) >= _MOST_KEPT:
                self._kept = {k: v for k, v in self._kept.items() if now - v[0] <= _KEPT_SECONDS}
            kept = now, asyncio.create_task(self._look_up(region, list(key[1])))
            self._kept[key] = kept
        # Shielded: the caller who asked first may leave, and others wait for the same answer.
        return await asyncio.shield(kept[1])

    async def _look_up(self, region: str, instance_types: list[str]) -> Options:
        question = LookUpOptions(region=region, instance_types=instance_types)
        return await self._ask(LOOK_UP_OPTIONS_WORKFLOW, region, question, Options, self._look_up_limit)

    async def plan(self, question: MakePlan) -> PlanFindings:
        """What an operation would do. Raises ProblemError, 503 where the account gives no answer in time."""
        return await self._ask(MAKE_PLAN_WORKFLOW, question.record.tag, question, PlanFindings, self._check_limit)

    async def read(self, workflow_type: str, tag: str, question: BaseModel, result: type[Found]) -> Found:
        """What a cluster shows now. Raises ProblemError, 503 where it gives no answer in time."""
        return await self._ask(workflow_type, tag, question, result, self._look_up_limit)

    async def read_if_answered(
        self, workflow_type: str, tag: str, question: BaseModel, result: type[Found]
    ) -> Found | None:
        """What a cluster shows now; None where it gives no answer soon: what its record says is shown then."""
        try:
            return await self._ask(workflow_type, tag, question, result, self._check_limit)
        except ProblemError:
            return None

    async def _ask(
        self, workflow_type: str, about: str, question: BaseModel, result: type[Found], limit: float
    ) -> Found:
        identifier = f"{workflow_type}/{about}/{uuid.uuid4()}"
        return await self._temporal.execute(workflow_type, question, identifier, result, limit)


def _failed(task: asyncio.Task[Options]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def judged_by_account(spec: ClusterSpec) -> bool:
    """Whether the spec names anything that only the account can judge."""
    network = spec.network
    named = (
        network.vpc_cidr,
        network.vpc_id,
        network.service_cidr,
        network.public_subnet_cidrs,
        network.control_plane_subnet_cidrs,
    )
    return bool(spec.instance_groups) or any(named)
