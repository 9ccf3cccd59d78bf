"""What a Job and its pods show of themselves, in words.

Nothing is told that a workload wrote itself (messages of ended containers may be the end of their log) or that repeats
what it was started with (errors of starting a command quote it): those may hold secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from activities.errors import clean
from activities.nodes.sight import Raw, labels_of
from contracts.jobs import JobPod, JobState, JobView
from contracts.words import number_of

LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
ENDS = (
    ("Failed", JobState.FAILED),
    ("FailureTarget", JobState.FAILED),
    ("Complete", JobState.SUCCEEDED),
    ("SuccessCriteriaMet", JobState.SUCCEEDED),
)
"""Conditions that decide how a Job ends: the second and last come first, while its last pods go."""
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
TOLD = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
    }
)
"""Why containers wait, where the kubelet's message speaks of images, names and times only."""

_FIRST = {"Failed": 0, "Unknown": 1, "Pending": 2, "Running": 3}


def as_job(job: Raw) -> JobView:
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    state, reason, ended_at = _state(job, spec, status)
    return JobView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        state=state,
        reason=clean(reason) if reason else None,
        active=status.get("active") or 0,
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        completions=spec.get("completions"),
        parallelism=spec.get("parallelism", 1),
        started_at=status.get("startTime"),
        finished_at=ended_at,
        labels=labels_of(job),
        images=list(dict.fromkeys(_images(spec))),
    )


def as_pod(pod: Raw) -> JobPod:
    status = pod.get("status") or {}
    containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    ends = [ended for each in containers if (ended := _ended(each)) is not None]
    codes = [ended["exitCode"] for ended in ends]
    reason, message = _trouble(pod, status, containers)
    return JobPod(
        name=pod["metadata"]["name"],
        phase=status.get("phase") or "Unknown",
        node=(pod.get("spec") or {}).get("nodeName") or None,
        reason=reason,
        message=clean(message) if message else None,
        restarts=sum(each.get("restartCount") or 0 for each in containers),
        exit_code=next((code for code in codes if code != 0), 0 if codes else None),
    )


def by_need(pod: JobPod) -> tuple[int, str]:
    """What pods are sorted by: those in trouble first."""
    return _FIRST.get(pod.phase, len(_FIRST)), pod.name


def _state(job: Raw, spec: Raw, status: Raw) -> tuple[JobState, str | None, str | None]:
    """State, its reason, and when the Job ended."""
    true = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
    for kind, state in ENDS:
        if (condition := true.get(kind)) is not None:
            over = kind in ("Failed", "Complete")
            at = (status.get("completionTime") or condition.get("lastTransitionTime")) if over else None
            return state, _words(condition), at
    if spec.get("suspend"):
        queue = labels_of(job).get(LABEL_QUEUE)
        return JobState.SUSPENDED, f"it waits in Kueue's queue {queue}" if queue else "it was suspended", None
    active = status.get("active") or 0
    # Clusters that do not count Ready pods tell only of active ones.
    if active and status.get("ready", active):
        return JobState.RUNNING, None, None
    return JobState.PENDING, _awaited(spec, status, active), None


def _awaited(spec: Raw, status: Raw, active: int) -> str:
    if active:
        return f"{number_of(active, 'pod')} without a node, or not Ready yet"
    if spec.get("parallelism", 1) == 0:
        return "its parallelism is 0: no pods are made"
    if failed := status.get("failed"):
        return f"{number_of(failed, 'pod')} failed; the next one comes after a back-off"
    return "its pods are not made yet"


def _words(condition: Raw) -> str | None:
    return ": ".join(filter(None, (condition.get("reason"), condition.get("message")))) or None


def _images(spec: Raw) -> Iterator[str]:
    template: Any = (spec.get("template") or {}).get("spec") or {}
    for container in [*(template.get("containers") or ()), *(template.get("initContainers") or ())]:
        if container.get("image"):
            yield container["image"]


def _trouble(pod: Raw, status: Raw, containers: list[Raw]) -> tuple[str | None, str | None]:
    """What holds the pod up or ended it: Kubernetes' word, and a sentence."""
    if status.get("reason"):
        return status["reason"], status.get("message")
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    for kind, held in (("DisruptionTarget", "True"), ("PodScheduled", "False")):
        condition = conditions.get(kind) or {}
        if condition.get("status") == held:
            return condition.get("reason") or kind, condition.get("message")
    waiting = [each["state"]["waiting"] for each in containers if (each.get("state") or {}).get("waiting")]
    stuck = next((each for each in waiting if each.get("reason") not in STARTING), None)
    if stuck is not None:
        return stuck.get("reason"), stuck.get("message") if stuck.get("reason") in TOLD else None
    for container in containers:
        ended = _ended(container)
        if ended is not None and ended["exitCode"] != 0:
            again = ", and was started again" if "running" in (container.get("state") or {}) else ""
            sentence = f"container {container['name']} ended with exit code {ended['exitCode']}{again}"
            return ended.get("reason") or "Error", sentence
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating", None
    return next((each.get("reason") for each in waiting), None), None


def _ended(container: Raw) -> Raw | None:
    """How a container ended: now, or the last time before it was started again."""
    found: Raw | None = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get(
        "terminated"
    )
    return found
