"""Questions to the account, answered by short workflows: what can be chosen, and whether a spec would work."""

from __future__ import annotations

import asyncio
import time
import uuid

from api.problems import ProblemError
from api.temporal import Temporal
from contracts.catalogue import CHECK_CLUSTER_WORKFLOW, LOOK_UP_OPTIONS_WORKFLOW
from contracts.cluster import ClusterSpec
from contracts.options import CheckCluster, Findings, LookUpOptions, Options
from contracts.problem import ProblemCode, invalid

_KEPT_SECONDS = 15.0
_MOST_KEPT = 64

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
        return await self._temporal.execute(
            LOOK_UP_OPTIONS_WORKFLOW,
            LookUpOptions(region=region, instance_types=instance_types),
            f"{LOOK_UP_OPTIONS_WORKFLOW}/{region}/{uuid.uuid4()}",
            Options,
            self._look_up_limit,
        )

    async def check(self, spec: ClusterSpec, region: str) -> bool:
        """Whether the account was asked; False if it gave no answer, or none in time: then the operation's own check,
        its first stage, will tell.

        Raises ProblemError (422) with what the account finds wrong.
        """
        try:
            findings = await self._temporal.execute(
                CHECK_CLUSTER_WORKFLOW,
                CheckCluster(spec=spec, region=region),
                f"{CHECK_CLUSTER_WORKFLOW}/{spec.tag}/{uuid.uuid4()}",
                Findings,
                self._check_limit,
            )
        except ProblemError as error:
            if error.body.code is ProblemCode.INVALID:
                raise
            return False
        if findings.errors:
            raise ProblemError(invalid(findings.errors))
        return True


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
