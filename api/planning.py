"""Plans of what might be started, and holding a start to the plan that was shown."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, JsonValue

from api.auth import needs_approval
from api.lookups import Lookups
from api.problems import ProblemError, refuse
from api.wish import Wish
from contracts.access import Principal
from contracts.cluster import ClusterRecord, ClusterSpec
from contracts.fsx_storage import FsxStorageSpec
from contracts.model import Model, fingerprint
from contracts.names import ClusterNames
from contracts.plans import VALID_FOR, MakePlan, Plan, PlanFindings, PlannedNames
from contracts.problem import ProblemCode, invalid
from contracts.storage import DeleteStorageSpec, StorageSpec

_MOST_KEPT = 500


class _Basis(Model):
    """What a plan's ID stands for."""

    operation: str
    region: str
    spec: dict[str, Any]
    facts: dict[str, JsonValue]


class Planning:
    """Makes plans. What it keeps of them only helps to explain; a plan is recognised by its ID alone."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._facts: OrderedDict[str, dict[str, JsonValue]] = OrderedDict()

    async def findings(self, wish: Wish, record: ClusterRecord, patience: float | None = None) -> PlanFindings | None:
        """What the operation would do; None where the account gave no answer within ``patience`` seconds, or this
        gateway's own: the operation's first stage will tell then."""
        question = MakePlan(kind=wish.kind.name, record=record, spec=wish.spec.model_dump(mode="json"))
        try:
            return await self._lookups.plan(question, patience)
        except ProblemError as error:
            if error.body.code is ProblemCode.INVALID:
                raise
            return None

    def plan(self, wish: Wish, principal: Principal, findings: PlanFindings | None) -> Plan:
        """The plan as it is shown."""
        now = datetime.now(UTC).replace(microsecond=0)
        until = now + VALID_FOR
        names, spec = ClusterNames(wish.tag), wish.spec.model_dump(mode="json")
        found = findings or PlanFindings.model_validate({"draft": {}})
        return Plan(
            plan=None if findings is None else self._id(wish, findings, until),
            valid=not found.draft.blockers,
            operation=wish.workflow_id,
            kind=wish.kind.name,
            cluster=wish.tag,
            region=wish.region,
            spec=spec,
            plan_hash=wish.spec_hash,
            changes=found.draft.changes,
            cost=found.cost,
            quotas=found.quotas,
            addresses=found.addresses,
            checks=found.draft.checks,
            warnings=found.draft.warnings,
            blockers=found.draft.blockers,
            names=PlannedNames(
                eks_cluster=names.eks_cluster,
                hyperpod_cluster=names.hyperpod_cluster,
                security_group=names.security_group,
                vpc=names.network("vpc"),
                persistent_volume=_volume(names, wish.spec),
            ),
            checked_against_account=findings is not None,
            needs_approval=needs_approval(principal, wish.kind.asks_a_person(wish.spec)),
            computed_at=now,
            valid_until=until,
        )

    def hold(self, plan: str, wish: Wish, findings: PlanFindings | None) -> None:
        """Raises ProblemError: 412 where the plan does not hold any more, 422 where it was no plan of this operation,
        503 where the account gives no answer."""
        until, _, named = plan.partition(".")
        if not until.isdigit() or not named:
            raise refuse(ProblemCode.INVALID, f"{plan!r} is no plan", field="/plan", remedy="POST /api/v1/plans.")
        if findings is None:
            raise refuse(
                ProblemCode.UNAVAILABLE,
                "the account gave no answer, so whether the plan still holds cannot be told",
                remedy="Send the request again, or start without a plan.",
            )
        anew = "Make the plan anew (POST /api/v1/plans), look at it, and start with that."
        if datetime.fromtimestamp(int(until), UTC) < datetime.now(UTC):
            raise refuse(ProblemCode.STALE, "the plan is over its time", remedy=anew)
        if named != self._named(wish, findings):
            changed = self._difference(plan, findings)
            raise refuse(ProblemCode.STALE, f"the plan does not hold any more{changed}", remedy=anew)

    def _id(self, wish: Wish, findings: PlanFindings, until: datetime) -> str:
        plan = f"{int(until.timestamp())}.{self._named(wish, findings)}"
        self._facts[plan] = findings.draft.facts
        while len(self._facts) > _MOST_KEPT:
            self._facts.popitem(last=False)
        return plan

    @staticmethod
    def _named(wish: Wish, findings: PlanFindings) -> str:
        spec = wish.spec.model_dump(mode="json")
        return fingerprint(
            _Basis(operation=wish.workflow_id, region=wish.region, spec=spec, facts=findings.draft.facts)
        )

    def _difference(self, plan: str, findings: PlanFindings) -> str:
        before, now = self._facts.get(plan), findings.draft.facts
        if before is None:
            return ", or it was made for another request"
        differing = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        if not differing:
            return ": it was made for another request"
        return ": " + "; ".join(f"{key} was {before.get(key)} and is {now.get(key)}" for key in differing[:5])


def without_blockers(findings: PlanFindings | None) -> None:
    """Raises ProblemError (422) with what stands in the way."""
    if findings is not None and findings.draft.blockers:
        raise ProblemError(invalid(findings.draft.blockers))


def _volume(names: ClusterNames, spec: BaseModel) -> str | None:
    """What the volume of the storage that a spec is about is called; None where it is about none."""
    storage = spec.storage if isinstance(spec, ClusterSpec) else spec
    if not isinstance(storage, StorageSpec | FsxStorageSpec | DeleteStorageSpec):
        return None
    return names.persistent_volume(storage.claim, storage.namespace)
