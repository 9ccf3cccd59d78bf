"""Small workflows under the real names, which speak the interface between gateway and workflows.

What an operation does follows from its tag: ``ask-…`` asks for capacity, so do ``choose-…`` (with choices), ``short-…``
and ``drain-…`` for what they are called after, ``block-…`` and ``odd-…`` block at their second stage (an odd one may be
skipped, and its problem is full of signs),
``beat-…`` runs an activity with live details, ``crash-…`` fails without an outcome, everything else runs until it is
told to finish.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import activity, workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ApplicationError

from contracts import visibility
from contracts.capacity import CapacityAnswer
from contracts.catalogue import AccessSpec, ControlPlaneSpec, VerificationSpec
from contracts.cluster import MEMO_RECORD, ClusterRecord, ClusterSpec, ClusterView, RecordChange
from contracts.corrections import apply_corrections
from contracts.credentials import StoreCredentialSpec
from contracts.decision import COMBINATIONS, Abort, Answer, Approval, Decision, Resolution, Supersede
from contracts.drain import DrainAnswer
from contracts.features import FeatureChanges
from contracts.instance_groups import ScaleInstanceGroupSpec, ShortfallAnswer
from contracts.jobs import JobDetail, JobsRead, JobState, JobView, ListJobs, ReadJob
from contracts.model import fingerprint
from contracts.models import DownloadSpec
from contracts.node_views import NodeKind, NodesRead, NodesSummary, NodeView, ReadNodes, ResourceTotal
from contracts.operation import (
    MEMO_LABEL,
    MEMO_PROGRESS,
    Label,
    Outcome,
    Phase,
    Progress,
    Said,
    Stage,
    StageState,
    Start,
)
from contracts.plans import Action, MakePlan, PlanDraft, PlanFindings, PlannedChange
from contracts.problem import FieldError, Problem, ProblemCode, field_errors, invalid, problem
from contracts.storage import (
    Claim,
    ContentsRead,
    ListContents,
    ListStorage,
    ReadStorageDefaults,
    StorageClaims,
    StorageDefaults,
    StorageSpec,
    StoredObject,
)
from tests.api.fake_diagnoses import DIAGNOSES
from tests.api.fake_drift import DRIFT
from tests.api.fake_experiments import EXPERIMENTS
from tests.api.fake_models import MODELS
from tests.api.fake_pools import POOLS
from tests.api.fake_ray import RAY
from tests.api.fake_readings import READINGS, refuse
from tests.api.fake_scaling import SCALING
from tests.api.fake_serving import SERVING
from tests.api.fake_training import TRAINING
from workflows.inference import CallModelWorkflow
from workflows.logs import FollowLogsWorkflow, ReadLogsWorkflow
from workflows.lookups import ListServicesWorkflow

OCCUPIED = "10.66.0.0/16"
SLOW_TO_CHECK = "10.67.0.0/16"
NODES: dict[str, int] = {}
"""How many nodes the clusters have: what plans rest on."""
NODE_READINGS: Counter[str] = Counter()
"""How often the nodes of which cluster were read."""


@activity.defn(name="hyperpod.wait_for_nodes")
async def wait_for_nodes(limit: int) -> None:
    for n in range(1, limit):
        activity.heartbeat({"detail": f"{n} of {limit} nodes are Ready"})
        await asyncio.sleep(0.2)


ODD = problem(
    ProblemCode.CONFLICT,
    "<b>taken</b> by *someone* | $x$ :red[else]",
    field="/network/vpc_cidr",
    remedy="Choose another block.",
)


def question(first: str, now: datetime) -> Decision:
    """What operations ask: ``ask`` without any choices, the others as the real ones do."""
    match first:
        case "choose":
            zones = ["us-west-2a", "us-west-2b", "us-west-2z"]
            on_demand = {"kind": "on-demand"}
            return Decision(
                id="capacity",
                question="Which capacity?",
                answer_schema=CapacityAnswer.model_json_schema(),
                options={
                    "instance_type": ["ml.g5.8xlarge", "ml.g6.8xlarge"],
                    "availability_zone": [*zones],
                    COMBINATIONS: [{"instance_type": "ml.g5.8xlarge", "availability_zone": zones[0]}],
                    "capacity": [on_demand, {"kind": "spot"}],
                },
                default={
                    "instance_type": "ml.g5.8xlarge",
                    "count": 1,
                    "availability_zone": zones[0],
                    "capacity": on_demand,
                },
                asked_at=now,
            )
        case "short":
            return Decision(
                id="nodes",
                question="Two of four instances came. What now?",
                answer_schema=ShortfallAnswer.model_json_schema(),
                options={"remedy": [{"kind": "wait"}, {"kind": "fewer", "count": 2}, {"kind": "abort"}]},
                asked_at=now,
            )
        case "drain":
            return Decision(
                id="drain",
                question="Three pods do not leave. What now?",
                answer_schema=DrainAnswer.model_json_schema(),
                options={"choice": ["wait", "go-on", "stop"]},
                asked_at=now,
            )
        case _:
            return Decision(id="capacity", question="Which?", answer_schema={"type": "object"}, asked_at=now)


class Engine:
    def __init__(self) -> None:
        self.stages = {"network": Stage(name="network", title="Network"), "nodes": Stage(name="nodes", title="Nodes")}
        self.version = 0
        self.phase = Phase.RUNNING
        self.detail: str | None = None
        self.decision: Decision | None = None
        self.answer: Answer | None = None
        self.resolution: Resolution | None = None
        self.approval: Approval | None = None
        self.aborted: Abort | None = None
        self.finished = False
        self.answers: list[Said] = []
        self.plan_hash = ""
        self.spec: dict[str, Any] = {}

    def emit(self) -> None:
        self.version += 1
        progress = Progress(
            version=self.version,
            phase=self.phase,
            detail=self.detail,
            stages=list(self.stages.values()),
            decision=self.decision,
            plan_hash=self.plan_hash,
            problem=next((s.problem for s in self.stages.values() if s.state is StageState.BLOCKED), None),
            result=self.result() if self.phase is Phase.SUCCEEDED else None,
            answers=self.answers,
            updated_at=workflow.now(),
        )
        workflow.upsert_memo({MEMO_PROGRESS: progress})
        workflow.upsert_search_attributes(
            [
                SearchAttributeKey.for_keyword(visibility.PHASE).value_set(self.phase.value),
                SearchAttributeKey.for_bool(visibility.NEEDS_ATTENTION).value_set(self.phase.needs_attention),
            ]
        )

    def result(self) -> dict[str, Any]:
        return {"cluster": "made", **({"answer": self.answer.answer, "by": self.answer.by} if self.answer else {})}

    def hear(self, action: Any, by: str, stage: str | None, detail: str | None) -> None:
        self.answers.append(Said(action=action, by=by, at=workflow.now(), stage=stage, detail=detail))

    def stage(self, name: str, **changes: Any) -> None:
        self.stages[name] = self.stages[name].model_copy(update=changes)

    async def until(self, condition: Any) -> bool:
        await workflow.wait_condition(lambda: self.aborted is not None or condition())
        return self.aborted is None

    async def go(self, start: Start[Any]) -> Outcome:
        self.plan_hash = fingerprint(start.spec)
        spec = self.spec = start.spec.model_dump(mode="json")
        if start.needs_approval:
            self.phase = Phase.WAITING_FOR_APPROVAL
            self.emit()
            if not await self.until(lambda: self.approval) or not self.approval or not self.approval.approved:
                return self.end(Phase.ABORTED)
        self.phase = Phase.RUNNING
        now = workflow.now()
        self.stage("network", state=StageState.DONE, attempt=1, started_at=now, finished_at=now)
        self.stage("nodes", state=StageState.RUNNING, attempt=1, started_at=now)
        self.emit()
        match start.cluster.partition("-")[0]:
            case "ask" | "choose" | "short" | "drain" as first:
                self.phase = Phase.WAITING_FOR_DECISION
                self.decision = question(first, workflow.now())
                self.emit()
                await self.until(lambda: self.answer)
            case "block":
                await self.block(spec, problem(ProblemCode.CAPACITY, "no capacity"))
            case "odd":
                self.stage("nodes", skippable=True)
                await self.block(spec, ODD)
            case "beat":
                await workflow.execute_activity(
                    wait_for_nodes,
                    100,
                    activity_id="nodes/hyperpod.wait_for_nodes",
                    start_to_close_timeout=timedelta(minutes=1),
                    heartbeat_timeout=timedelta(seconds=20),
                    cancellation_type=workflow.ActivityCancellationType.ABANDON,
                    retry_policy=RetryPolicy(maximum_attempts=2),
                )
            case "crash":
                raise ApplicationError("a defect", non_retryable=True)
            case _:
                await self.until(lambda: self.finished)
        if self.aborted:
            return self.end(Phase.ABORTED)
        self.decision = None
        self.stage("nodes", state=StageState.DONE, finished_at=workflow.now())
        return self.end(Phase.SUCCEEDED)

    async def block(self, spec: dict[str, Any], failed: Problem) -> None:
        self.spec = spec
        for attempt in range(1, 100):
            self.stage("nodes", state=StageState.BLOCKED, attempt=attempt, problem=failed)
            self.phase, self.resolution = Phase.BLOCKED, None
            self.detail = f"asked for {spec.get('kubernetes_version')}"
            self.emit()
            if not await self.until(lambda: self.resolution):
                return
            assert self.resolution is not None
            if not self.resolution.corrections:
                return
            spec = self.spec = apply_corrections(spec, self.resolution.corrections)

    def end(self, phase: Phase) -> Outcome:
        self.phase = phase
        self.emit()
        return Outcome(phase=phase)

    @workflow.update
    def decide(self, answer: Answer) -> None:
        self.answer = answer
        self.hear("decide", answer.by, answer.decision, str(answer.answer))

    @decide.validator
    def _decide(self, answer: Answer) -> None:
        if answer.answer.get("availability_zone") == "us-west-2z":
            found = invalid(
                [FieldError(field="/answer/availability_zone", detail="us-west-2z does not offer the type")]
            )
            raise ApplicationError(found.detail, found.model_dump(mode="json"), type=found.code.value)

    @workflow.update
    def resolve(self, resolution: Resolution) -> None:
        self.resolution = resolution
        self.hear(resolution.action, resolution.by, resolution.stage, None)

    @resolve.validator
    def _resolve(self, resolution: Resolution) -> None:
        try:
            ClusterSpec.model_validate(apply_corrections(self.spec, resolution.corrections or {}))
        except ValidationError as error:
            found = invalid(field_errors(error, "/corrections"))
            raise ApplicationError(found.detail, found.model_dump(mode="json"), type=found.code.value) from error

    @workflow.update
    def abort(self, abort: Abort) -> None:
        self.aborted = abort
        self.detail = f"aborted by {abort.by}"
        self.hear("abort", abort.by, None, abort.reason)

    @workflow.update
    def approve(self, approval: Approval) -> None:
        self.approval = approval
        self.hear("approve" if approval.approved else "reject", approval.by, None, approval.reason)

    @approve.validator
    def _approve(self, approval: Approval) -> None:
        if approval.reason == "refuse me":
            raise refuse(ProblemCode.CONFLICT, "the workflow refuses")

    @workflow.query(name="spec")
    def query_spec(self) -> dict[str, Any]:
        return self.spec

    @workflow.signal
    def nudge(self, detail: str) -> None:
        self.detail = detail
        self.emit()

    @workflow.signal
    def finish(self) -> None:
        self.finished = True


@workflow.defn(name="create-cluster")
class CreateCluster(Engine):
    @workflow.run
    async def run(self, start: Start[ClusterSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="create-control-plane")
class CreateControlPlane(Engine):
    @workflow.run
    async def run(self, start: Start[ControlPlaneSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="verify-access")
class VerifyAccess(Engine):
    @workflow.run
    async def run(self, start: Start[AccessSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="create-storage")
class CreateStorage(Engine):
    @workflow.run
    async def run(self, start: Start[StorageSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="verify-cluster")
class VerifyCluster(Engine):
    @workflow.run
    async def run(self, start: Start[VerificationSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="cluster")
class Cluster:
    @workflow.init
    def __init__(self, record: ClusterRecord) -> None:
        self.record = record

    @workflow.run
    async def run(self, record: ClusterRecord) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    async def amend(self, change: RecordChange) -> None:
        """Keeps what it is told after readers had time to look."""
        await workflow.sleep(0.5)
        self.record = ClusterRecord.model_validate(change.applied(self.record))
        workflow.upsert_memo({MEMO_RECORD: self.record})

    @workflow.query
    def view(self) -> ClusterView:
        return ClusterView(record=self.record.model_copy(update={"kubernetes_version": "1.34"}))


@workflow.defn(name="make-plan")
class MakePlanOf:
    """What the account says: one block is occupied, one is slow to check; how many nodes there are is a fact; of
    clusters that are called ``left…`` something is there to delete."""

    @workflow.run
    async def run(self, asked: MakePlan) -> PlanFindings:
        block = asked.spec.get("network", {}).get("vpc_cidr")
        if block == SLOW_TO_CHECK:
            await workflow.wait_condition(lambda: False)
        occupied = [FieldError(field="/network/vpc_cidr", detail="overlaps vpc-1")] if block == OCCUPIED else []
        facts = {"nodes": NODES.get(asked.record.tag, 0)}
        left = asked.kind == "delete-cluster" and asked.record.tag.startswith("left")
        changes = [PlannedChange(action=Action.DELETE, kind="VPC", name="vpc-1")] if left else []
        return PlanFindings(draft=PlanDraft(changes=changes, blockers=occupied, facts=facts))


@workflow.defn(name="scale-instance-group")
class ScaleInstanceGroup(Engine):
    @workflow.run
    async def run(self, start: Start[ScaleInstanceGroupSpec]) -> Outcome:
        return await self.go(start)

    @workflow.update
    def supersede(self, wish: Supersede) -> None:
        spec = ScaleInstanceGroupSpec.model_validate(wish.spec)
        self.plan_hash = fingerprint(spec)
        label = workflow.memo_value(MEMO_LABEL, type_hint=Label)
        workflow.upsert_memo({MEMO_LABEL: label.model_copy(update={"spec_hash": self.plan_hash})})
        self.detail = f"asked anew by {wish.by}: {spec.count}"
        self.emit()


@workflow.defn(name="read-nodes")
class ReadNodesOf:
    """Five nodes, n-1 to n-5, the third of which is sick. Those of clusters called ``mute-…`` do not answer."""

    @workflow.run
    async def run(self, asked: ReadNodes) -> NodesRead:
        NODE_READINGS[asked.cluster] += 1
        if asked.cluster.startswith("mute-"):
            raise refuse(ProblemCode.UNAVAILABLE, "Kubernetes does not answer")
        every = [
            NodeView(name=f"n-{number}", kind=NodeKind.HYPERPOD, group="workers", healthy=number != 3)
            for number in range(1, 6)
        ]
        found = [view for view in every if asked.node in (None, view.name) and not (asked.unhealthy and view.healthy)]
        if not found:
            raise refuse(ProblemCode.NOT_FOUND, f"no node {asked.node}")
        rest = [view for view in found if asked.after is None or view.name > asked.after]
        page = rest[: asked.size]
        return NodesRead(
            nodes=page,
            summary=NodesSummary(
                nodes=len(every),
                ready=4,
                unhealthy=1,
                pods=9,
                resources=[ResourceTotal(name="nvidia.com/gpu", capacity=40, allocatable=32, used=24, pending=16)],
            ),
            matching=len(found),
            last=page[-1].name if page and len(rest) > len(page) else None,
            read_at=workflow.now(),
        )


@workflow.defn(name="list-jobs")
class ListJobsOf:
    """Five Jobs, j-1 to j-5, the third of which has failed, in every namespace that is asked for."""

    @workflow.run
    async def run(self, asked: ListJobs) -> JobsRead:
        every = [
            JobView(
                namespace=asked.namespace or "default",
                name=f"j-{number}",
                state=JobState.FAILED if number == 3 else JobState.RUNNING,
            )
            for number in range(1, 6)
        ]
        rest = [
            job
            for job in every
            if asked.state in (None, job.state) and (asked.position is None or job.name > asked.position)
        ]
        page = rest[: asked.size]
        position = page[-1].name if len(rest) > len(page) else None
        return JobsRead(jobs=page, position=position, read_at=workflow.now())


@workflow.defn(name="read-job")
class ReadJobOf:
    @workflow.run
    async def run(self, asked: ReadJob) -> JobDetail:
        if asked.name != "j-1":
            raise refuse(ProblemCode.NOT_FOUND, f"{asked.namespace} of {asked.eks_cluster} has j-1")
        job = JobView(namespace=asked.namespace, name=asked.name, state=JobState.RUNNING)
        return JobDetail(job=job, read_at=workflow.now())


CLAIM = Claim(claim="s3-claim", namespace="ml", volume="v", bucket="b", prefix="own/", phase="Bound", managed=False)
ODD_KEYS = ["..", "a b+%2F", "tab\t\x01", "\U0001f600", "é"]


@workflow.defn(name="update-features")
class UpdateFeatures(Engine):
    @workflow.run
    async def run(self, start: Start[FeatureChanges]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="store-credential")
class StoreCredential(Engine):
    @workflow.run
    async def run(self, start: Start[StoreCredentialSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="download-model")
class DownloadModel(Engine):
    @workflow.run
    async def run(self, start: Start[DownloadSpec]) -> Outcome:
        return await self.go(start)


@workflow.defn(name="list-storage")
class ListStorageOf:
    @workflow.run
    async def run(self, asked: ListStorage) -> StorageClaims:
        return StorageClaims(claims=[CLAIM])


@workflow.defn(name="read-storage-defaults")
class ReadStorageDefaultsOf:
    """What it was asked with."""

    @workflow.run
    async def run(self, asked: ReadStorageDefaults) -> StorageDefaults:
        return StorageDefaults(
            claim=StorageSpec().claim,
            namespace=StorageSpec().namespace,
            bucket=asked.bucket or "derived",
            region=asked.scope.region,
            bucket_exists=asked.bucket is not None,
            claim_exists=asked.eks_cluster is not None,
        )


@workflow.defn(name="list-storage-contents")
class ListStorageContentsOf:
    """The odd keys, each below the prefix that was asked for; the position is one that S3 might give."""

    @workflow.run
    async def run(self, asked: ListContents) -> ContentsRead:
        if (asked.namespace, asked.claim) != (CLAIM.namespace, CLAIM.claim):
            raise refuse(ProblemCode.NOT_FOUND, f"There is no S3 claim {asked.claim}; there are: ml/s3-claim")
        begin = int(asked.after.removeprefix("position/+=")) if asked.after is not None else 0
        end = begin + asked.size
        return ContentsRead(
            claim=CLAIM,
            objects=[
                StoredObject(key=asked.prefix + key, size=5, modified=workflow.now()) for key in ODD_KEYS[begin:end]
            ],
            common_prefixes=[f"{asked.prefix}deep/"] if begin == 0 else [],
            last=f"position/+={end}" if end < len(ODD_KEYS) else None,
        )


WORKFLOWS: list[Any] = [
    CallModelWorkflow,
    ReadLogsWorkflow,
    FollowLogsWorkflow,
    ListServicesWorkflow,
    *READINGS,
    *DIAGNOSES,
    *DRIFT,
    *MODELS,
    *EXPERIMENTS,
    StoreCredential,
    DownloadModel,
    *SERVING,
    *TRAINING,
    *POOLS,
    *RAY,
    *SCALING,
    UpdateFeatures,
    ListStorageOf,
    ReadStorageDefaultsOf,
    ListStorageContentsOf,
    ListJobsOf,
    ReadJobOf,
    ReadNodesOf,
    CreateCluster,
    CreateControlPlane,
    VerifyAccess,
    CreateStorage,
    VerifyCluster,
    Cluster,
    MakePlanOf,
    ScaleInstanceGroup,
]
