"""Diagnoses: what is wrong with a thing, from evidence that is read and never changed.

A diagnosis claims a cause only where rules find evidence for it; else its list of causes is empty, and the timeline is
what is known.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from contracts.activity import Act, Queue
from contracts.logs import KeptPlace
from contracts.model import Model, fault
from contracts.names import KUBERNETES_NAME
from contracts.operation import Operation, Stage, StageState

LONGEST_TEXT = 1000
"""Characters of an entry of a timeline: the scheduler gives a reason for every kind of node."""
LONGEST_LINE = 300
"""Characters of a line of a log."""
MOST_ENTRIES = 200
"""Of a timeline; what causes rest on is always among them."""
MOST_CAUSES = 5
MOST_EVIDENCE = 12
"""Entries that are shown of one cause."""
MOST_STAGES = 60

SubjectKind = Literal["operation", "cluster", "node", "training-run", "deployment", "pod"]
IN_NAMESPACES = ("training-run", "deployment", "pod")


class Subject(Model):
    """What is to be diagnosed."""

    kind: SubjectKind
    name: str = Field("", max_length=600)
    """An operation's id; a node's instance, Kubernetes name or logical ID; the name of a training run (or of any
    HyperPodPyTorchJob, RayJob or Job), a deployment or a pod. Empty for the cluster."""
    namespace: str = Field("default", max_length=KUBERNETES_NAME.maximum, pattern=f"^{KUBERNETES_NAME.pattern}$")
    """Of a training run, a deployment or a pod."""

    @model_validator(mode="after")
    def _named(self) -> Subject:
        if self.kind != "cluster" and not self.name:
            raise fault("/name", f"which {self.kind} is to be diagnosed? Give its name")
        if self.kind == "cluster" and self.name:
            raise fault("/name", "a cluster is named by the path; leave the name out")
        return self

    @property
    def title(self) -> str:
        """``training-run team-a/llama``."""
        within = self.kind in IN_NAMESPACES and self.namespace != "default"
        return " ".join(filter(None, (self.kind, f"{self.namespace}/{self.name}" if within else self.name)))


class DiagnosisRequest(Model):
    """What somebody asks."""

    subject: Subject
    since_hours: float = Field(24, gt=0, le=24 * 14)
    """How far back events and logs are read."""


class Source(StrEnum):
    """Where a line of a timeline was read."""

    HYPERPOD_EVENT = "hyperpod-event"
    """SageMaker ListClusterEvents, DescribeClusterEvent."""
    CLUSTER = "cluster"
    """Status and messages of the HyperPod cluster and of the EKS control plane."""
    INSTANCE = "instance"
    """Status and message of a member of the HyperPod cluster."""
    ADDON = "addon"
    """Health of an EKS add-on."""
    NETWORK = "network"
    """Subnets and security groups, as EC2 shows them."""
    QUOTA = "quota"
    """Service Quotas."""
    IDENTITY = "identity"
    """Roles, as IAM shows them."""
    NODE = "node"
    """Labels, taints and conditions of a Kubernetes node."""
    KUBERNETES_EVENT = "kubernetes-event"
    JOB = "job"
    """Conditions of a job, a deployment or the like."""
    QUEUE = "queue"
    """Kueue's Workloads and queues."""
    STORAGE = "storage"
    """Claims and volumes."""
    POD = "pod"
    """Conditions of a pod, and how its containers wait and ended."""
    LOG = "log"
    """A line of a container's log, where a rule knows it."""
    STAGE = "stage"
    """A stage of one of our operations, or its problem."""


Severity = Literal["info", "warning", "error"]


class TimelineEntry(Model):
    """Something that happened, or that is so."""

    at: datetime | None = None
    """Null: it is so now, and nobody tells since when; such entries come last."""
    source: Source
    severity: Severity = "info"
    subject: str
    """What it is about: ``node hyperpod-i-…``, ``pod team-a/llama-0``, ``subnet subnet-…`` …"""
    text: str = Field(max_length=LONGEST_TEXT)
    node: str | None = None
    """The Kubernetes node that it happened on, where one is known."""
    count: int = 1
    """How often it was seen."""
    last_at: datetime | None = None
    """When it was seen last, where that was several times; ``at`` is the first."""


class NextStep(Model):
    """What to do next: a proposal. Nothing is ever started by itself."""

    level: Literal["investigate", "correct", "wait", "reboot", "replace", "support"]
    """``investigate`` needs somebody to look; ``correct`` a change of what was asked; ``wait`` time or capacity;
    ``support`` AWS."""
    operation: str | None = None
    """The kind of operation that does it, where one does."""
    spec: dict[str, JsonValue] | None = None
    """What that operation is to be started with: complete, unless ``why`` says what is to be filled in."""
    why: str


class Cause(Model):
    """A probable cause."""

    rule: str
    """Stable: programs branch on it."""
    title: str
    confidence: float = Field(ge=0, le=1)
    """By how telling the evidence is, how many sources agree, how near it is to the failure, and whether another cause
    explains it; see docs/diagnostics.md."""
    explanation: str
    evidence: list[TimelineEntry] = Field(default_factory=list)
    """The first comes first: which pod or node was the first to fail is often the answer."""
    more_evidence: int = 0
    """Entries that are not shown."""
    fix: str
    source: str
    """Where the meaning of the evidence is documented: a URL, or a section of our documentation."""
    explained_by: str | None = None
    """The rule of another cause of this diagnosis, of which this one looks like a consequence."""
    next_step: NextStep | None = None


class SourceRead(Model):
    """A source that was asked."""

    source: Source
    what: str
    ok: bool
    problem: str | None = None
    """Why it could not be read: the diagnosis rests on the others."""
    entries: int = 0


class Diagnosis(Model):
    """What is known, and what follows from it."""

    subject: Subject
    causes: list[Cause] = Field(default_factory=list)
    """The most probable first. Empty: nothing that is known explains it; unknown stays unknown."""
    timeline: list[TimelineEntry] = Field(default_factory=list)
    """In order of time; what is so now comes last."""
    more_entries: int = 0
    """The oldest ones of many that no cause rests on are left out."""
    note: str | None = None
    """Why no cause was looked for, or that nothing is wrong: without causes, and without this, what is wrong is
    unknown."""
    read: list[SourceRead] = Field(default_factory=list)
    read_at: datetime


class Repair(Model):
    """A reboot or replacement that was tried, whatever came of it."""

    action: Literal["reboot", "replace"]
    target: str
    """The last part of the operation's id: a node's name where it was one node."""
    nodes: list[str] = Field(default_factory=list)
    """Every name that the operation tells of."""
    faults: dict[str, list[str]] = Field(default_factory=dict)
    """By any of a node's names what was told of its faults before; a name that is not there: nobody looked."""
    at: datetime
    succeeded: bool


class Diagnose(Model):
    """What a worker is asked. The gateway adds what only Temporal knows."""

    cluster: str
    region: str
    eks_cluster: str | None = None
    hyperpod: str | None = None
    subject: Subject
    since_hours: float = 24
    focus: Subject | None = None
    """What the operation is about, where the subject is an operation."""
    stages: list[TimelineEntry] = Field(default_factory=list)
    failed_at: datetime | None = None
    """When the operation failed."""
    repairs: list[Repair] = Field(default_factory=list)
    kept: KeptPlace | None = None
    """Where logs of the training run were kept; null: nowhere, or it is about something else."""
    run: str | None = None
    """The run of the operation, of which logs were kept; null: the last one."""


DIAGNOSE = Act("diagnostics.diagnose", Diagnose, Diagnosis, queue=Queue.KUBERNETES, limit=timedelta(seconds=45))

_FOCUS: dict[str, SubjectKind] = {
    "run-training": "training-run",
    "stop-training": "training-run",
    "suspend-training": "training-run",
    "resume-training": "training-run",
    "download-model": "cluster",
    "create-deployment": "deployment",
    "update-deployment": "deployment",
    "scale-deployment": "deployment",
    "reboot-nodes": "node",
    "replace-nodes": "node",
}


def focus_of(operation: Operation) -> Subject:
    """What an operation is about: the thing that its id names, else the cluster."""
    kind = _FOCUS.get(operation.kind, "cluster")
    target = operation.id.removeprefix(f"{operation.kind}/{operation.cluster}").removeprefix("/")
    if kind == "cluster" or not target or (kind == "node" and target.partition("-")[0].isdigit()):
        return Subject(kind="cluster")
    namespace, _, name = target.rpartition("/")
    return Subject(kind=kind, name=name, namespace=namespace or "default")


def entries_of(operation: Operation) -> list[TimelineEntry]:
    """What an operation tells of its own stages: when each began and ended, and why one stands still."""
    found: list[TimelineEntry] = []
    for stage in operation.stages[-MOST_STAGES:]:
        found += _stage_entries(operation, stage)
    if operation.problem is not None and all(stage.problem != operation.problem for stage in operation.stages):
        found.append(
            _entry(operation, operation.updated_at, "error", f"{operation.problem.code}: {operation.problem.detail}")
        )
    return found


def _stage_entries(operation: Operation, stage: Stage) -> list[TimelineEntry]:
    if stage.state is StageState.PENDING or stage.started_at is None:
        return []
    found = [_entry(operation, stage.started_at, "info", f"{stage.title} began")]
    if stage.problem is not None and not stage.state.finished:
        text = f"{stage.title} is blocked, {stage.problem.code}: {stage.problem.detail}"
        found.append(_entry(operation, stage.finished_at or operation.updated_at, "error", text))
    elif stage.finished_at is not None:
        told = f": {stage.detail}" if stage.detail else ""
        found.append(_entry(operation, stage.finished_at, "info", f"{stage.title} {stage.state}{told}"))
    elif stage.detail:
        found.append(_entry(operation, operation.updated_at, "info", f"{stage.title}: {stage.detail}"))
    return found


def _entry(operation: Operation, at: datetime, severity: Severity, text: str) -> TimelineEntry:
    short = " ".join(text.split())
    short = short if len(short) <= LONGEST_TEXT else f"{short[: LONGEST_TEXT - 1]}…"
    return TimelineEntry(
        at=at, source=Source.STAGE, severity=severity, subject=f"operation {operation.id}"[:200], text=short
    )
