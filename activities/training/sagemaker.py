"""Submission to SageMaker itself: CreateTrainingJob, on instances of its own.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html. Jobs are told from others by
marks in their names, and keep what they were made from in their hyperparameters: one description tells all of it. A
job's name is never free again in its account and region, so that each attempt has another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from activities.aws import tags_of
from activities.errors import classify, clean, code_of, fail, is_absent
from activities.identity.roles import ensure_role
from activities.training.paths import Job, Raw, Site
from activities.training.sagemaker_request import (
    RoleFor,
    files_of,
    job_request,
    kept,
    launch_for,
    read_kept,
    role_for,
)
from activities.training.sagemaker_storage import storage_of, upload
from contracts.names import (
    ANNOTATION_OPERATION,
    ANNOTATION_RUN,
    ANNOTATION_SPEC,
    LABEL_CLUSTER,
    LABEL_TRAINING,
    ClusterNames,
    sagemaker_training_job,
    training_job_mark,
)
from contracts.network import Scope
from contracts.node_views import NodeCondition
from contracts.problem import ProblemCode
from contracts.recipes.launch import Launch
from contracts.training_activities import SubmitTraining
from contracts.training_parts import Restarts, Submission, TrainingState

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""(SageMaker Developer Guide: log groups and streams)"""
FIRST_INSTANCE = "algo-1"
RESOURCE = "training-job"
MOST_LISTED = 200
"""Jobs of a cluster that are looked at, the newest."""
ENDING = 6
"""Characters of a job's name that tell one attempt from the next. (contracts.names.sagemaker_training_job)"""
MOST_KEPT = 500
"""Descriptions of jobs that have ended, which do not change any more."""
BY_SECONDARY = {
    "Pending": TrainingState.QUEUED,
    "Starting": TrainingState.STARTING,
    "LaunchingMLInstances": TrainingState.STARTING,
    "PreparingTrainingStack": TrainingState.STARTING,
    "Downloading": TrainingState.STARTING,
    "DownloadingTrainingImage": TrainingState.STARTING,
    "Training": TrainingState.RUNNING,
    "Updating": TrainingState.RUNNING,
    "Uploading": TrainingState.RUNNING,
    "Interrupted": TrainingState.RESTARTING,
    "Restarting": TrainingState.RESTARTING,
}
"""Of a job that is in progress. (SageMaker API: SecondaryStatusTransition)"""
OVERDUE = {
    "MaxRuntimeExceeded": "the job reached its deadline",
    "MaxWaitTimeExceeded": "no spot capacity came within max_wait_hours",
}
"""How SageMaker stops a job by itself."""


class SageMakerPath:
    submission = Submission.SAGEMAKER
    api_version = ""
    plural = ""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[str, Raw] = {}

    def launch(self, request: SubmitTraining) -> Launch:
        return launch_for(request)

    def find(self, site: Site, namespace: str, name: str) -> Job | None:
        """The newest attempt at the run."""
        mark = training_job_mark(site.cluster, namespace, name)
        for found in self._named(site, mark, most=10):
            if (kept_in := read_kept(found)) is not None and (kept_in.namespace, kept_in.name) == (namespace, name):
                return as_job(site.cluster, found)
        return None

    def list(self, site: Site, namespace: str | None) -> list[Job]:
        """The newest attempt at each run."""
        newest: dict[str, Job | None] = {}
        for name, arn in self._summaries(site, training_job_mark(site.cluster), MOST_LISTED):
            # A name without its end is the run's.
            if (run := name[:-ENDING]) not in newest:
                newest[run] = as_job(site.cluster, self._describe(site, name, arn))
        return [job for job in newest.values() if job is not None and namespace in (None, job.namespace)]

    def apply(self, site: Site, request: SubmitTraining, config: str, operation: str) -> Job:
        """The role, the files, and the job, each made once. Raises as AWS does, and NOT_FOUND, INVALID for storage that
        a training job cannot have."""
        spec = request.spec
        name = sagemaker_training_job(site.cluster, spec.namespace, spec.name, request.run)
        there = next(self._named(site, name, most=1), None)
        if there is None:
            storage = storage_of(site, spec)
            role = self._role(site, request.scope, role_for(request, storage, site.region))
            uri = upload(site, request, storage, files_of(request))
            tags = tags_of(request.scope, RESOURCE)
            wanted = job_request(request, name, role, uri, storage, tags, kept(request, operation))
            try:
                site.aws.act.sagemaker(site.region).create_training_job(**wanted)
            except Exception as error:
                if code_of(error) != "ResourceInUse":
                    raise
            there = self._describe(site, name)
        job = as_job(site.cluster, there)
        if job is None or job.run != request.run:
            detail = f"SageMaker has a training job {name} that is no attempt at this run"
            fail(ProblemCode.FOREIGN, detail, "Choose another name for the run.", field="/name")
        return job

    def delete(self, site: Site, job: Job) -> None:
        """Have it stop; what it has written stays. One that has ended is left as it is."""
        name = _name_of(job)
        if job.state.ended or job.deleting:
            return
        try:
            site.aws.act.sagemaker(site.region).stop_training_job(TrainingJobName=name)
        except Exception as error:
            # It has ended meanwhile: SageMaker says so by a ValidationException.
            if code_of(error) != "ValidationException" or not _is_over(self._describe(site, name)):
                raise

    def tail(self, site: Site, job: Job, lines: int) -> Sequence[str]:
        """Of the first instance. None where there is no log yet, or the platform may not read it: it helps, and is not
        needed."""
        logs = site.aws.read.logs(site.region)
        try:
            streams = logs.describe_log_streams(
                logGroupName=LOG_GROUP, logStreamNamePrefix=f"{_name_of(job)}/{FIRST_INSTANCE}-"
            )["logStreams"]
            if not streams:
                return []
            newest = max(streams, key=lambda each: each.get("creationTime") or 0)["logStreamName"]
            found = logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=newest, limit=lines, startFromHead=False)[
                "events"
            ]
        except Exception as error:
            if is_absent(error, "ResourceNotFoundException") or classify(error).type == ProblemCode.DENIED:
                return []
            raise
        return [f"{_stamp(each['timestamp'])} {each['message']}" for each in found]

    def suspend(self, site: Site, job: Job, suspended: bool, notes: dict[str, str | None]) -> None:
        remedy = "Stop it (stop-training), and submit it anew later: it goes on from its last checkpoint."
        fail(ProblemCode.UNSUPPORTED, "SageMaker suspends no training jobs", remedy, field="/name")

    @staticmethod
    def _role(site: Site, scope: Scope, wanted: RoleFor) -> str:
        role = ensure_role(
            site.aws, scope, purpose=wanted.purpose, trust=wanted.trust, managed=[], inline=wanted.policy
        )
        return role.arn

    def _named(self, site: Site, mark: str, most: int) -> Iterator[Raw]:
        """Descriptions of jobs with ``mark`` in their names, the newest first."""
        for name, arn in self._summaries(site, mark, most):
            yield self._describe(site, name, arn)

    @staticmethod
    def _summaries(site: Site, mark: str, most: int) -> Iterator[tuple[str, str]]:
        """Names and ARNs of such jobs."""
        given: dict[str, Any] = {"NameContains": mark, "SortBy": "CreationTime", "SortOrder": "Descending"}
        seen, token = 0, None
        while seen < most:
            more: dict[str, Any] = {"NextToken": token} if token else {}
            page = site.aws.read.sagemaker(site.region).list_training_jobs(
                **given, **more, MaxResults=min(most - seen, 100)
            )
            for each in page["TrainingJobSummaries"]:
                seen += 1
                yield each["TrainingJobName"], each["TrainingJobArn"]
            token = page.get("NextToken")
            if not token:
                return

    def _describe(self, site: Site, name: str, arn: str | None = None) -> Raw:
        with self._lock:
            ended = self._ended.get(arn or "")
        if ended is not None:
            return ended
        found: Any = site.aws.read.sagemaker(site.region).describe_training_job(TrainingJobName=name)
        if _is_over(found):
            with self._lock:
                if len(self._ended) >= MOST_KEPT:
                    self._ended.pop(next(iter(self._ended)))
                self._ended[found["TrainingJobArn"]] = found
        return dict(found)


def as_job(cluster: str, found: Raw) -> Job | None:
    """A training job as every path shows its jobs; None for one that the platform has not made for the cluster."""
    told = read_kept(found)
    if told is None or told.cluster != cluster:
        return None
    transitions = found.get("SecondaryStatusTransitions") or []
    state = _state(found)
    resources, name = found.get("ResourceConfig") or {}, found["TrainingJobName"]
    restarted = sum(each.get("Status") in ("Restarting", "Interrupted") for each in transitions)
    return Job(
        submission=Submission.SAGEMAKER,
        name=told.name,
        namespace=told.namespace,
        uid=found["TrainingJobArn"],
        state=state,
        detail=_detail(found, state),
        reason=found.get("SecondaryStatus"),
        restarts=Restarts(job=restarted, job_limit=(found.get("RetryStrategy") or {}).get("MaximumRetryAttempts", 0)),
        deleting=found["TrainingJobStatus"] in ("Stopping", "Deleting"),
        started_at=_utc(found.get("TrainingStartTime") or found.get("CreationTime")),
        finished_at=_utc(found.get("TrainingEndTime")) if state.ended else None,
        labels={
            LABEL_CLUSTER: ClusterNames(cluster).label,
            LABEL_TRAINING: told.name,
            "app.kubernetes.io/name": told.recipe,
        },
        annotations={ANNOTATION_OPERATION: told.operation, ANNOTATION_RUN: told.run, ANNOTATION_SPEC: told.spec},
        conditions=[_condition(each) for each in transitions],
        version=f"{found.get('LastModifiedTime')} {found.get('SecondaryStatus')} {resources.get('InstanceCount')}",
        stays=True,
        logs=f"CloudWatch Logs {LOG_GROUP}, streams {name}/…",
    )


def _name_of(job: Job) -> str:
    return job.uid.rpartition("/")[2]


def _is_over(found: Raw) -> bool:
    return found["TrainingJobStatus"] in ("Completed", "Failed", "Stopped")


def _state(found: Raw) -> TrainingState:
    status, secondary = found["TrainingJobStatus"], found.get("SecondaryStatus") or ""
    match status:
        case "Completed":
            return TrainingState.SUCCEEDED
        case "Failed":
            return TrainingState.FAILED
        case "Stopped":
            return TrainingState.FAILED if secondary in OVERDUE else TrainingState.STOPPED
        case "Stopping" | "Deleting":
            return TrainingState.DELETING
        case "InProgress":
            return BY_SECONDARY.get(secondary, TrainingState.STARTING)
    return TrainingState.UNKNOWN


def _detail(found: Raw, state: TrainingState) -> str:
    """In SageMaker's words: the reason of a failure, else what it says of the step that it is at."""
    secondary = found.get("SecondaryStatus") or ""
    message = str(((found.get("SecondaryStatusTransitions") or [{}])[-1]).get("StatusMessage") or "")
    if secondary in OVERDUE:
        return f"{OVERDUE[secondary]}: {clean(message, 200)}" if message else OVERDUE[secondary]
    if state is TrainingState.FAILED:
        return clean(str(found.get("FailureReason") or message or "SageMaker does not say why"), 900)
    if state is TrainingState.STOPPED:
        return "the job was stopped"
    paid = found.get("BillableTimeInSeconds")
    more = f", {round(paid / 3600, 1)} hours billed" if paid and state is TrainingState.RUNNING else ""
    return f"{secondary}: {clean(message, 200)}{more}" if message else f"{secondary}{more}"


def _condition(transition: Raw) -> NodeCondition:
    """A step of the job; those before the present one have ended."""
    return NodeCondition(
        type=str(transition.get("Status") or ""),
        status="False" if transition.get("EndTime") else "True",
        reason=f"since {_utc(transition.get('StartTime')):%Y-%m-%d %H:%M:%S} UTC"
        if transition.get("StartTime")
        else "",
        message=clean(str(transition.get("StatusMessage") or ""), 300),
    )


def _stamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(moment: Any) -> datetime | None:
    return moment.astimezone(UTC) if isinstance(moment, datetime) else None
