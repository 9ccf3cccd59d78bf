"""Training jobs of SageMaker, from the request to the model in its bucket, on the sandbox's clock.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html and its neighbours; statuses:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html . How long a job trains is
read from its command line, environment and hyperparameters as for a pod; its log is in CloudWatch Logs, where the
first instance's stream is written about once a minute. UNVERIFIED: the wording of refusals and reasons; durations are
guesses. Quotas, spot interruptions, warm pools, profilers and debug rules are not simulated.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moto.logs.models import logs_backends

from sandbox import timings
from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.base import aware
from sandbox.aws.mlflow import Mlflow
from sandbox.aws.world import Place, World, paginate
from sandbox.kubernetes.programs.crashes import CRASHES
from sandbox.kubernetes.programs.model import Surroundings
from sandbox.kubernetes.programs.training import Trainer, recognise
from sandbox.kubernetes.training.attempts import STOPPED as STOPPED_BY_HAND
from sandbox.kubernetes.training.attempts import Attempt, Fall, Run
from sandbox.kubernetes.training.reader import Bookmark, read

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
PAGE = 10
RUNNING, COMPLETED, FAILED, STOPPING, STOPPED = "InProgress", "Completed", "Failed", "Stopping", "Stopped"
DEFAULT_RUNTIME = 86_400
_TICK = 60.0
_NO_CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
    "Please retry using a different ML instance type or after some time."
)
_PHASES = {
    "Starting": "Starting the training job",
    "Downloading": "Downloading the training image",
    "Training": "Training image download completed. Training in progress.",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Completed": "Training job completed",
    "Stopped": "Training job stopped",
    "Failed": "Training job failed",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
}
_COPIED = (
    *("HyperParameters", "AlgorithmSpecification", "RoleArn", "InputDataConfig", "OutputDataConfig", "ResourceConfig"),
    *("VpcConfig", "CheckpointConfig", "ExperimentConfig", "TensorBoardOutputConfig", "Environment", "RetryStrategy"),
    *("RemoteDebugConfig", "InfraCheckConfig", "MlflowConfig", "ProfilerConfig", "DebugHookConfig"),
)


@dataclass
class TrainingJob:
    name: str
    arn: str
    place: Place
    created: datetime
    request: dict[str, Any]
    status: str = RUNNING
    secondary: str = "Starting"
    transitions: list[dict[str, Any]] = field(default_factory=list)
    changed: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    reason: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    run: Run | None = None
    mark: Bookmark = field(default_factory=Bookmark)


@dataclass
class TrainingJobState:
    held: dict[Place, dict[str, TrainingJob]] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    """Regular expression for names, and how such jobs fail: a cause of ``crashes.py``, or FailureReason itself."""


class TrainingJobs:
    """Handlers of SageMaker's operations on training jobs; tags of other things are left to ``others``."""

    def __init__(self, world: World, others: Mlflow) -> None:
        self.world, self._others = world, others
        self.state = TrainingJobState()
        world.on("training-job.next", self._next)
        world.on("training-job.tick", self._tick)

    def held(self, place: Place) -> dict[str, TrainingJob]:
        return self.state.held.setdefault(place, {})

    # Operations

    def CreateTrainingJob(self, call: Call) -> Any:
        p, held = call.params, self.held(call.place)
        name = p["TrainingJobName"]
        arn = call.arn("sagemaker", f"training-job/{name}")
        if name in held:
            why = (
                "Training job names must be unique within an AWS account and region, and a training job with this name"
            )
            raise AwsError("ResourceInUse", f"{why} already exists ({arn})")
        if problem := self.world.role_problem(p["RoleArn"], "sagemaker.amazonaws.com"):
            raise AwsError("ValidationException", f"Could not assume role {p['RoleArn']}: {problem}.")
        algorithm = p.get("AlgorithmSpecification") or {}
        if bool(algorithm.get("TrainingImage")) == bool(algorithm.get("AlgorithmName")):
            raise AwsError("ValidationException", "Specify exactly one of TrainingImage and AlgorithmName.")
        if not p.get("ResourceConfig"):
            raise AwsError("ValidationException", "ResourceConfig is required.")
        bucket = p["OutputDataConfig"]["S3OutputPath"].removeprefix("s3://").partition("/")[0]
        if bucket not in backends.s3(call.account).buckets:
            raise AwsError("ValidationException", f"No S3 bucket {bucket} for the output path.")
        job = TrainingJob(name, arn, call.place, self.world.now(), p)
        job.tags = {tag["Key"]: tag["Value"] for tag in p.get("Tags") or []}
        held[name] = job
        self._enter(job, "Starting")
        self._later(timings.TRAINING_JOB_START, job)
        return {"TrainingJobArn": arn}

    def DescribeTrainingJob(self, call: Call) -> Any:
        job = self._find(call)
        p = job.request
        found: dict[str, Any] = {
            "TrainingJobName": job.name,
            "TrainingJobArn": job.arn,
            "TrainingJobStatus": job.status,
            "SecondaryStatus": job.secondary,
            "SecondaryStatusTransitions": job.transitions,
            "CreationTime": job.created,
            "LastModifiedTime": job.changed or job.created,
            "StoppingCondition": {"MaxRuntimeInSeconds": DEFAULT_RUNTIME, **(p.get("StoppingCondition") or {})},
            "EnableNetworkIsolation": bool(p.get("EnableNetworkIsolation")),
            "EnableInterContainerTrafficEncryption": bool(p.get("EnableInterContainerTrafficEncryption")),
            "EnableManagedSpotTraining": bool(p.get("EnableManagedSpotTraining")),
            **{name: p[name] for name in _COPIED if p.get(name) is not None},
        }
        if job.reason:
            found["FailureReason"] = job.reason
        if job.started is not None:
            found["TrainingStartTime"] = job.started
            seconds = int(((job.ended or self.world.now()) - job.started).total_seconds())
            found["TrainingTimeInSeconds"] = found["BillableTimeInSeconds"] = seconds
        if job.ended is not None:
            found["TrainingEndTime"] = job.ended
        if job.status in (COMPLETED, STOPPED) and job.started is not None:
            found["ModelArtifacts"] = {"S3ModelArtifacts": self._artifact(job)}
        return found

    def ListTrainingJobs(self, call: Call) -> Any:
        p = call.params
        found = [
            job
            for job in self.held(call.place).values()
            if p.get("StatusEquals") in (None, job.status)
            and p.get("NameContains", "") in job.name
            and _between(job.created, p.get("CreationTimeAfter"), p.get("CreationTimeBefore"))
            and _between(job.changed or job.created, p.get("LastModifiedTimeAfter"), p.get("LastModifiedTimeBefore"))
        ]
        by = {"Name": lambda job: job.name, "Status": lambda job: job.status}.get(
            p.get("SortBy", ""), lambda job: job.created
        )
        found.sort(key=by, reverse=p.get("SortOrder", "Descending") == "Descending")
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or PAGE)
        summaries = [
            {
                "TrainingJobName": job.name,
                "TrainingJobArn": job.arn,
                "CreationTime": job.created,
                "LastModifiedTime": job.changed or job.created,
                "TrainingJobStatus": job.status,
                "SecondaryStatus": job.secondary,
                **({"TrainingEndTime": job.ended} if job.ended else {}),
            }
            for job in page
        ]
        return {"TrainingJobSummaries": summaries, "NextToken": token}

    def StopTrainingJob(self, call: Call) -> Any:
        job = self._find(call)
        if job.status in (STOPPING, STOPPED):
            return {}
        if job.status != RUNNING:
            why = f"The request was rejected because the training job is in status {job.status}."
            raise AwsError("ValidationException", why)
        job.status = STOPPING
        self._print(job)
        attempt = job.run.current if job.run is not None else None
        if attempt is not None:
            attempt.ended, attempt.how = self.world.clock.timestamp(), STOPPED_BY_HAND
        self._enter(job, "Stopping")
        self._later(timings.TRAINING_JOB_STOP, job)
        return {}

    def DeleteTrainingJob(self, call: Call) -> Any:
        job = self._find(call)
        if job.status in (RUNNING, STOPPING):
            raise AwsError("ResourceInUse", f"Training job {job.name} is in status {job.status}.")
        del self.held(job.place)[job.name]
        return {}

    def AddTags(self, call: Call) -> Any:
        if (job := self._tagged(call)) is None:
            return self._others.AddTags(call)
        job.tags.update({tag["Key"]: tag["Value"] for tag in call.params["Tags"]})
        return {"Tags": _tag_list(job.tags)}

    def ListTags(self, call: Call) -> Any:
        job = self._tagged(call)
        return self._others.ListTags(call) if job is None else {"Tags": _tag_list(job.tags)}

    def DeleteTags(self, call: Call) -> Any:
        if (job := self._tagged(call)) is None:
            return self._others.DeleteTags(call)
        for key in call.params["TagKeys"]:
            job.tags.pop(key, None)
        return {}

    def _tagged(self, call: Call) -> TrainingJob | None:
        """None for a request that is not about a training job."""
        arn = call.params["ResourceArn"]
        if ":training-job/" not in arn:
            return None
        job = self.held(call.place).get(arn.rpartition("/")[2])
        if job is None:
            raise AwsError("ResourceNotFound", f"Resource {arn} not found.")
        return job

    def _find(self, call: Call) -> TrainingJob:
        name = call.params["TrainingJobName"]
        job = self.held(call.place).get(name)
        if job is None:
            # AWS answers so, and not with ResourceNotFound.
            raise AwsError("ValidationException", "Requested resource not found.")
        return job

    # The life of a job

    def _later(self, seconds: float, job: TrainingJob, event: str = "next") -> None:
        self.world.clock.schedule(
            seconds, f"training-job.{event}", place=list(job.place), name=job.name, secondary=job.secondary
        )

    def _enter(self, job: TrainingJob, secondary: str, message: str = "") -> None:
        now = self.world.now()
        if job.transitions:
            job.transitions[-1]["EndTime"] = now
        job.secondary, job.changed = secondary, now
        job.transitions.append({"Status": secondary, "StartTime": now, "StatusMessage": message or _PHASES[secondary]})

    def _alive(self, place: list[str], name: str, secondary: str) -> TrainingJob | None:
        job = self.held((place[0], place[1])).get(name)
        return job if job is not None and job.secondary == secondary else None

    def _next(self, place: list[str], name: str, secondary: str) -> None:
        job = self._alive(place, name, secondary)
        if job is None:
            return
        match secondary:
            case "Starting":
                if self.world.free("*", "*", job.request["ResourceConfig"].get("InstanceType", "")) == 0:
                    self._end(job, FAILED, "Failed", _NO_CAPACITY)
                    return
                self._enter(job, "Downloading")
                self._later(timings.TRAINING_JOB_DOWNLOAD, job)
            case "Downloading":
                if missing := self._missing(job):
                    self._end(job, FAILED, "Failed", f"ClientError: Data download failed:No objects at {missing}")
                    return
                self._train(job)
            case "Training":
                self._trained(job)
            case "Uploading":
                self._end(job, COMPLETED, "Completed")
            case "Stopping":
                self._end(job, STOPPED, "Stopped")

    def _missing(self, job: TrainingJob) -> str:
        """A place of input data at which there is nothing."""
        for channel in job.request.get("InputDataConfig") or []:
            uri = ((channel.get("DataSource") or {}).get("S3DataSource") or {}).get("S3Uri", "")
            bucket, _, prefix = uri.removeprefix("s3://").partition("/")
            held = backends.s3(job.place[0]).buckets.get(bucket) if uri else None
            if uri and (held is None or not any(key.startswith(prefix) for key in held.keys)):
                return str(uri)
        return ""

    def _train(self, job: TrainingJob) -> None:
        now = self.world.clock.timestamp()
        job.started = self.world.now()
        self._enter(job, "Training")
        resources = job.request["ResourceConfig"]
        count = int(resources.get("InstanceCount") or 1)
        trainer = _trainer(job)
        job.run = Run(job.name, trainer)
        attempt = Attempt.start(0, now, 0, {f"algo-{number + 1}": number for number in range(count)})
        if cause := next((why for pattern, why in self.state.failing.items() if re.fullmatch(pattern, job.name)), ""):
            at = attempt.at_step(trainer, max(1, trainer.steps // 2)) if cause in CRASHES else attempt.stepping_from
            attempt.fall = Fall(at, cause if cause in CRASHES else "cuda_oom", 0)
        job.run.add(attempt)
        ends = min(attempt.stop, attempt.done_at(trainer))
        limit = (job.request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds") or DEFAULT_RUNTIME
        self._later(min(ends - now, float(limit)), job)
        self._later(_TICK, job, "tick")

    def _trained(self, job: TrainingJob) -> None:
        now, run = self.world.clock.timestamp(), job.run
        attempt = run.last if run is not None else None
        self._print(job)
        if run is None or attempt is None:
            return
        if attempt.fall is not None and attempt.fall.at <= now:
            cause = next((why for pattern, why in self.state.failing.items() if re.fullmatch(pattern, job.name)), "")
            crash = CRASHES[attempt.fall.cause]
            words = crash.lines[-1] if crash.lines else crash.reason
            why = f'AlgorithmError: ExecuteUserScriptError:\nExitCode {abs(crash.exit_code)}\nErrorMessage "{words}"'
            self._end(job, FAILED, "Failed", why if cause in CRASHES or not cause else cause)
        elif attempt.done_at(run.trainer) <= now + 0.001:
            self._enter(job, "Uploading")
            self._later(timings.TRAINING_JOB_UPLOAD, job)
        else:
            self._end(job, STOPPED, "MaxRuntimeExceeded")

    def _end(self, job: TrainingJob, status: str, secondary: str, reason: str = "") -> None:
        job.status, job.reason, job.ended = status, reason, self.world.now()
        self._enter(job, secondary, reason)
        if status in (COMPLETED, STOPPED) and job.started is not None:
            bucket, _, key = self._artifact(job).removeprefix("s3://").partition("/")
            backend = backends.s3(job.place[0])
            if bucket in backend.buckets:
                backend.put_object(bucket, key, b"a model of the sandbox")
                self.world.changed("s3")

    @staticmethod
    def _artifact(job: TrainingJob) -> str:
        return f"{job.request['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job.name}/output/model.tar.gz"

    # Its log

    def _tick(self, place: list[str], name: str, secondary: str) -> None:
        job = self._alive(place, name, secondary)
        if job is not None:
            self._print(job)
            self._later(_TICK, job, "tick")

    def _print(self, job: TrainingJob) -> None:
        """Bring the log of the first instance up to date."""
        if job.run is None or job.started is None:
            return
        lines, _ = read(job.run, "algo-1", "algo-1", job.mark, self.world.clock.timestamp())
        if not lines:
            return
        backend = logs_backends[job.place[0]][job.place[1]]
        stream = f"{job.name}/algo-1-{int(job.started.timestamp())}"
        if LOG_GROUP not in backend.groups:
            backend.create_log_group(LOG_GROUP, {})
        if stream not in backend.groups[LOG_GROUP].streams:
            backend.create_log_stream(LOG_GROUP, stream)
        events = [{"timestamp": int(at * 1000), "message": text} for at, text in lines]
        backend.groups[LOG_GROUP].put_log_events(stream, events)
        self.world.changed("logs")

    # State

    def dump(self) -> bytes:
        return pickle.dumps(self.state, protocol=pickle.HIGHEST_PROTOCOL)

    def load(self, dumped: bytes) -> None:
        self.state = pickle.loads(dumped)

    def reset(self) -> None:
        self.state = TrainingJobState()


def _trainer(job: TrainingJob) -> Trainer:
    """What a job runs, as it would be recognised in a pod."""
    p = job.request
    algorithm = p.get("AlgorithmSpecification") or {}
    words = [*(algorithm.get("ContainerEntrypoint") or []), *(algorithm.get("ContainerArguments") or [])]
    environment = {**(p.get("Environment") or {}), **(p.get("HyperParameters") or {})}
    container = {"name": "algo", "image": algorithm.get("TrainingImage", ""), "command": ["torchrun", *words]}
    program = recognise(container, Surroundings(env=environment, gpus=1))
    if program is None or program.trainer is None:
        raise ValueError(f"{job.name}: no training in {words}")
    return program.trainer


def _between(at: datetime, after: datetime | None, before: datetime | None) -> bool:
    return (after is None or at >= aware(after)) and (before is None or at <= aware(before))


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
