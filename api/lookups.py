"""Questions to the account, answered by short workflows: what can be chosen, and whether a spec would work."""

from __future__ import annotations

import uuid
from typing import TypeVar

from pydantic import BaseModel

from api.kept import Kept
from api.problems import ProblemError
from api.temporal import Temporal
from contracts.answers import ClusterUsage
from contracts.catalogue import LOOK_UP_OPTIONS_WORKFLOW, MAKE_PLAN_WORKFLOW, READ_NODES_WORKFLOW
from contracts.cluster import ClusterSpec
from contracts.node_views import NodesRead, ReadNodes
from contracts.options import LookUpOptions, Options
from contracts.plans import MakePlan, PlanFindings

_KEPT_SECONDS = 15.0
_MOST_USAGES = 500

Found = TypeVar("Found", bound=BaseModel)


class Lookups:
    """Looks up, and keeps what it found for a few seconds: a form or a page that many people see asks AWS once."""

    def __init__(self, temporal: Temporal, look_up_limit: float, check_limit: float) -> None:
        self._temporal = temporal
        self._look_up_limit = look_up_limit
        self._check_limit = check_limit
        self._options: Kept[tuple[str, tuple[str, ...]], Options] = Kept(_KEPT_SECONDS)
        self._usages: Kept[ReadNodes, ClusterUsage] = Kept(_KEPT_SECONDS, _MOST_USAGES)

    async def options(self, region: str, instance_types: list[str]) -> Options:
        """What a cluster in ``region`` can be made of. Raises ProblemError."""
        wanted = sorted(set(instance_types))
        return await self._options.get((region, tuple(wanted)), lambda: self._look_up(region, wanted))

    async def usage(self, question: ReadNodes) -> ClusterUsage:
        """How many nodes and devices a cluster has, and what pods use of them. Raises ProblemError, 503 where the
        cluster gives no answer in time."""
        return await self._usages.get(question, lambda: self._use(question))

    async def _use(self, question: ReadNodes) -> ClusterUsage:
        found = await self.read(READ_NODES_WORKFLOW, question.cluster, question, NodesRead)
        return ClusterUsage(summary=found.summary, read_at=found.read_at)

    async def _look_up(self, region: str, instance_types: list[str]) -> Options:
        question = LookUpOptions(region=region, instance_types=instance_types)
        return await self._ask(LOOK_UP_OPTIONS_WORKFLOW, region, question, Options, self._look_up_limit)

    async def plan(self, question: MakePlan, patience: float | None = None) -> PlanFindings:
        """What an operation would do. ``patience``: seconds, where the caller has more or less than starts have.

        Raises ProblemError, 503 where the account gives no answer in time.
        """
        limit = self._check_limit if patience is None else min(patience, self._look_up_limit)
        return await self._ask(MAKE_PLAN_WORKFLOW, question.record.tag, question, PlanFindings, limit)

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
