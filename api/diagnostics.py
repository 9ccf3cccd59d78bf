"""Diagnoses: what is wrong with a thing of a cluster, from evidence that is read now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import Reader
from api.filters import clause, started
from api.managed import Tag, known, record_of
from api.mapping import Seen, from_row
from api.problems import wrong_field
from api.services import Parts, Services, reply
from contracts import visibility
from contracts.catalogue import DIAGNOSE_WORKFLOW, REBOOT_NODES, REPLACE_NODES, RUN_TRAINING
from contracts.cluster import ClusterRecord
from contracts.diagnostics import (
    MOST_ENTRIES,
    Diagnose,
    Diagnosis,
    DiagnosisRequest,
    Repair,
    Source,
    SourceRead,
    Subject,
    entries_of,
    focus_of,
)
from contracts.logs import KeptPlace
from contracts.names import ClusterNames, training_run_prefix
from contracts.operation import Operation, Phase

router = APIRouter(prefix="/api/v1/clusters/{tag}/diagnoses", tags=["diagnoses"])

REPAIR_DAYS = 14
MOST_REPAIRS = 50


@router.post("", operation_id="diagnose", response_model=Diagnosis, summary="Diagnose something")
async def diagnose(request: Request, services: Parts, _: Reader, tag: Tag, body: DiagnosisRequest) -> Response:
    """Why an operation is blocked or has failed, why a training run, a deployment or a pod does not run, what ails a
    node or the cluster: probable causes with their evidence, one timeline over AWS, Kubernetes, logs and our own
    stages, and a next step as a proposal. It only reads. No cause is told where none is known."""
    request.state.only_reads = True
    seen = await _operation(services, tag, body)
    if seen is not None and seen.operation.phase is Phase.SUCCEEDED:
        return reply(_nothing_to_explain(body.subject, seen.operation))
    record = await record_of(services, tag) if seen is not None else await known(services, tag)
    question = Diagnose(
        cluster=tag,
        region=record.region if record is not None else seen.label.region if seen is not None else "",
        eks_cluster=_eks(record, tag, seen),
        hyperpod=_hyperpod(record, tag),
        subject=body.subject,
        since_hours=body.since_hours,
        repairs=await _repairs(services, tag),
        kept=_kept(record, body.subject if seen is None else focus_of(seen.operation)),
        **_told_by(seen),
    )
    return reply(await services.lookups.read(DIAGNOSE_WORKFLOW, tag, question, Diagnosis))


async def _operation(services: Services, tag: str, body: DiagnosisRequest) -> Seen | None:
    """The operation that is the subject. Raises ProblemError (404, or 422 where it is another cluster's)."""
    if body.subject.kind != "operation":
        return None
    seen = await services.operation(body.subject.name)
    if seen.operation.cluster != tag:
        raise wrong_field(
            "/subject/name",
            f"{seen.operation.id} is an operation on cluster {seen.operation.cluster}, not on {tag}",
            f"Ask cluster {seen.operation.cluster} for it.",
        )
    return seen


def _nothing_to_explain(subject: Subject, operation: Operation) -> Diagnosis:
    """Of an operation that succeeded. What ails its cluster or its thing now is not its doing."""
    stages = entries_of(operation)[:MOST_ENTRIES]
    focus = focus_of(operation)
    return Diagnosis(
        subject=subject,
        timeline=stages,
        note=f"{operation.id} succeeded: there is nothing to explain. For what is wrong now diagnose the {focus.title}",
        read=[SourceRead(source=Source.STAGE, what="stages of the operation", ok=True, entries=len(stages))],
        read_at=datetime.now(UTC),
    )


def _told_by(seen: Seen | None) -> dict[str, Any]:
    """What an operation tells of itself."""
    if seen is None:
        return {}
    operation = seen.operation
    stands = operation.phase in (Phase.BLOCKED, Phase.FAILED, Phase.ABORTED)
    return {
        "focus": focus_of(operation),
        "stages": entries_of(operation),
        "failed_at": _blocked_at(operation) if stands else None,
        "run": operation.run_id if operation.kind == RUN_TRAINING.name else None,
    }


def _blocked_at(operation: Operation) -> datetime:
    """When the first stage that stands still failed."""
    ends = [stage.finished_at for stage in operation.stages if stage.problem is not None and stage.finished_at]
    return min(ends, default=operation.updated_at)


def _kept(record: ClusterRecord | None, about: Subject) -> KeptPlace | None:
    """Where logs of a training run were kept."""
    bucket = record.identity.bucket if record is not None and record.identity is not None else None
    if bucket is None or about.kind != "training-run":
        return None
    return KeptPlace(bucket=bucket, prefix=training_run_prefix(about.namespace, about.name, "").rstrip("/"))


def _hyperpod(record: ClusterRecord | None, tag: str) -> str | None:
    """Also where no operation has verified it yet: the one that makes it may be what is asked about."""
    if record is not None and record.hyperpod is not None:
        return record.hyperpod.name
    return ClusterNames(tag).hyperpod_cluster if record is None or record.origin == "created" else None


def _eks(record: ClusterRecord | None, tag: str, seen: Seen | None) -> str | None:
    if record is not None and record.control_plane is not None:
        return record.control_plane.name
    began = seen is not None and any(
        stage.name == "control_plane" and stage.started_at is not None for stage in seen.operation.stages
    )
    return ClusterNames(tag).eks_cluster if began else None


async def _repairs(services: Services, tag: str) -> list[Repair]:
    """Reboots and replacements of the last days, which a next step is chosen by."""
    kinds = {REBOOT_NODES.name: "reboot", REPLACE_NODES.name: "replace"}
    names = ", ".join(f"'{name}'" for name in kinds)
    since = datetime.now(UTC) - timedelta(days=REPAIR_DAYS)
    conditions = [f"WorkflowType IN ({names})", clause(visibility.CLUSTER, tag), started(">=", since)]
    found = await services.temporal.list(" AND ".join(filter(None, conditions)), MOST_REPAIRS, None)
    repairs = []
    for row in found.rows:
        seen = await from_row(row)
        if seen is None or seen.operation.phase is Phase.WAITING_FOR_APPROVAL:
            continue
        operation = seen.operation
        repairs.append(
            Repair(
                action="reboot" if kinds[operation.kind] == "reboot" else "replace",
                target=operation.id.rpartition("/")[2],
                nodes=_nodes_of(operation),
                faults=_faults_of(operation),
                at=operation.updated_at if operation.phase.ended else operation.started_at,
                succeeded=operation.phase is Phase.SUCCEEDED,
            )
        )
    return repairs


def _nodes_of(operation: Operation) -> list[str]:
    """The nodes that an operation's result names, as they were called before and after."""
    return list(dict.fromkeys(name for each in _outcomes(operation) for name in _names(each)))


def _faults_of(operation: Operation) -> dict[str, list[str]]:
    """What was told of each node's faults before it was repaired, by all of its names."""
    found: dict[str, list[str]] = {}
    for each in _outcomes(operation):
        if isinstance(told := each.get("faults"), list):
            found |= {name: [str(text) for text in told] for name in _names(each)}
    return found


def _outcomes(operation: Operation) -> list[dict[str, Any]]:
    outcomes = (operation.result or {}).get("nodes")
    return [each for each in outcomes if isinstance(each, dict)] if isinstance(outcomes, list) else []


def _names(outcome: dict[str, Any]) -> list[str]:
    keys = ("before", "now", "instance_before", "instance_now")
    return [name for key in keys if isinstance(name := outcome.get(key), str)]
