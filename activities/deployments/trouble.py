"""What keeps a replica from serving, in words, and whether it may pass by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.deployments.causes import TAIL_LINES, cause_of
from activities.deployments.manifests import PROBE_SECONDS
from activities.errors import clean
from activities.kubernetes import REQUEST_TIMEOUT, time_of
from activities.nodes.sight import Raw, items
from contracts.problem import ProblemCode

IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
    | {"RegistryUnavailable"}
)
NOT_STARTED = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""(kubelet: reasons of waiting containers)"""
MOUNT_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedMapVolume"})
MOST_CRASHES = 2
"""A server that has ended so often without a word that is known will end again."""
MOST_TRIES = 5
"""Ends for a cause that may pass, such as a throttled download."""
KILLED = (137, 143)
"""Exit codes of SIGKILL and SIGTERM."""


@dataclass(frozen=True)
class Trouble:
    """One replica's. ``passes``: by itself, perhaps; it counts only when it lasts."""

    reason: str
    """Kubernetes' word."""
    detail: str
    remedy: str
    code: ProblemCode = ProblemCode.NOT_READY
    field: str | None = None
    passes: bool = False
    scheduling: bool = False
    """It waits for a node: as long as capacity may take."""


def find(api: client.ApiClient, pod: Raw, startup_minutes: int) -> Trouble | None:
    """What is in the pod's way; None where it only needs time."""
    status = pod.get("status") or {}
    if unplaced := _unplaced(status):
        return unplaced
    if status.get("phase") == "Failed":
        return _ended_by_kubernetes(status)
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        if container.get("ready"):
            continue
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason in IMAGE:
            return _image(reason, container.get("image") or "", waiting.get("message") or "")
        if reason in NOT_STARTED:
            return _not_started(reason, waiting.get("message") or "")
        if (ended := _last_end(container)) is not None:
            found = _crash(api, pod, container, ended, startup_minutes)
            # Started anew, it may do better: what ended it once is no trouble then.
            return None if found.passes and "running" in (container.get("state") or {}) else found
        if reason in STARTING and (mount := _mount(api, pod)) is not None:
            return mount
    return None


def progress(api: client.ApiClient, pods: Iterable[Raw]) -> str:
    """What the pods that are not ready are at, in a few words."""
    for pod in pods:
        status = pod.get("status") or {}
        if not (pod.get("spec") or {}).get("nodeName"):
            return "a pod waits for a node"
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in STARTING:
                return "pulling the image" if "Pulling" in _reasons(api, pod) else "mounting storage"
            if started := ((container.get("state") or {}).get("running") or {}).get("startedAt"):
                seconds = (time_of(api) - datetime.fromisoformat(str(started))).total_seconds()
                return f"loading the model for {max(int(seconds // 60), 0)} min"
    return "its pods are not made yet"


def is_ready(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def events_of(api: client.ApiClient, namespace: str, kind: str, name: str) -> list[Raw]:
    """Events about an object, the newest last."""
    listing = partial(client.CoreV1Api(api).list_namespaced_event, namespace)
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    return sorted(items(listing, field_selector=selector), key=_when)


def _when(event: Raw) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _reasons(api: client.ApiClient, pod: Raw) -> set[str]:
    metadata = pod["metadata"]
    return {each.get("reason") or "" for each in events_of(api, metadata["namespace"], "Pod", metadata["name"])}


def _unplaced(status: Raw) -> Trouble | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = clean(condition.get("message") or "no node takes it")
            return Trouble(
                reason=condition.get("reason") or "Unschedulable",
                detail=f"no node takes a replica: {message}",
                remedy="Add nodes that have what it takes, give back GPUs elsewhere, or ask for less; then retry.",
                code=ProblemCode.CAPACITY,
                passes=True,
                scheduling=True,
            )
    return None


def _ended_by_kubernetes(status: Raw) -> Trouble:
    """Evicted or the like: the controller makes another pod."""
    reason = status.get("reason") or "Failed"
    detail = clean(status.get("message") or reason)
    remedy = "A new replica comes by itself; look at the node if it happens again."
    return Trouble(reason=reason, detail=f"a replica was ended: {detail}", remedy=remedy, passes=True)


def _image(reason: str, image: str, message: str) -> Trouble:
    return Trouble(
        reason=reason,
        detail=f"the image {image} is not pulled: {clean(message) or reason}",
        remedy="Correct the image's name and tag; nodes must reach its registry, and may pull from it.",
        code=ProblemCode.INVALID if reason == "InvalidImageName" else ProblemCode.NOT_READY,
        field="/image",
        passes=reason != "InvalidImageName",
    )


def _not_started(reason: str, message: str) -> Trouble:
    # Of RunContainerError the message repeats the command.
    told = f": {clean(message)}" if reason == "CreateContainerConfigError" and message else ""
    return Trouble(
        reason=reason,
        detail=f"the container cannot be made ({reason}){told}",
        remedy="Store the credentials that it names in its namespace, and look whether the image has the program.",
        passes=True,
    )


def _mount(api: client.ApiClient, pod: Raw) -> Trouble | None:
    metadata = pod["metadata"]
    found = [
        each
        for each in events_of(api, metadata["namespace"], "Pod", metadata["name"])
        if each.get("reason") in MOUNT_EVENTS
    ]
    if not found:
        return None
    return Trouble(
        reason=found[-1]["reason"],
        detail=f"storage is not mounted: {clean(found[-1].get('message') or found[-1]['reason'])}",
        remedy="Look at the claim (it must be Bound) and at the driver of its storage.",
        field="/storage",
        passes=True,
    )


def _last_end(container: Raw) -> Raw | None:
    for state in ("state", "lastState"):
        ended: Raw | None = (container.get(state) or {}).get("terminated")
        if ended is not None:
            return ended
    return None


def _crash(api: client.ApiClient, pod: Raw, container: Raw, ended: Raw, startup_minutes: int) -> Trouble:
    """A server that ended: by Kubernetes (memory, a probe), or by itself."""
    restarts, code = container.get("restartCount") or 0, ended.get("exitCode")
    reason = ended.get("reason") or "Error"
    if reason == "OOMKilled":
        return Trouble(
            reason=reason,
            detail="the server was ended because it took more memory than the machine had left for it",
            remedy="Ask for more memory (resources.memory_gib), or for a larger instance type.",
            field="/resources/memory_gib",
        )
    if reason == "StartError" or code == 128:
        return Trouble(
            reason=reason,
            detail="the program of the command could not be started in the image",
            remedy="Correct the command, or choose an image that has the program.",
            field="/command",
        )
    if code in KILLED and "Killing" in _reasons(api, pod):
        return _probe(pod, ended, startup_minutes)
    cause, line = cause_of(_log(api, pod, container, restarts))
    told = f": {line}" if line else ""
    if cause is None:
        return Trouble(
            reason=reason,
            detail=f"the server ended with exit code {code}, {restarts + _now(container)} times by now{told}",
            remedy="Read the pod's log, and correct the command or the image.",
            field="/command",
            passes=restarts < MOST_CRASHES,
        )
    return Trouble(
        reason=reason,
        detail=f"the server ended: {cause.said}{told}",
        remedy=cause.remedy,
        code=cause.code,
        field=cause.field,
        passes=cause.passes and restarts < MOST_TRIES,
    )


def _now(container: Raw) -> int:
    """One more end where the container is not running again."""
    return 1 if "terminated" in (container.get("state") or {}) else 0


def _probe(pod: Raw, ended: Raw, startup_minutes: int) -> Trouble:
    """A server that the kubelet ended: while it loaded, if it ran for just as long as it was given for that."""
    began, finished = (ended.get(key) for key in ("startedAt", "finishedAt"))
    seconds = 0.0
    if began and finished:
        seconds = (datetime.fromisoformat(str(finished)) - datetime.fromisoformat(str(began))).total_seconds()
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0
    given = startup_minutes * 60
    if given - 2 * PROBE_SECONDS <= seconds <= given + grace + 6 * PROBE_SECONDS:
        return Trouble(
            reason="StartupProbe",
            detail=f"the server had not loaded its model after {startup_minutes} minutes",
            remedy="Give more startup_timeout_minutes, or serve the model from faster storage.",
            code=ProblemCode.TIMEOUT,
            field="/startup_timeout_minutes",
        )
    return Trouble(
        reason="Unhealthy",
        detail="the server was ended because it did not answer its probe any more",
        remedy="Read the pod's log: it hangs, or listens elsewhere than the port says.",
        field="/port",
    )


def _log(api: client.ApiClient, pod: Raw, container: Raw, restarts: int) -> str:
    """The end of what the container that ended has written; empty where it is gone."""
    metadata = pod["metadata"]
    running = "terminated" not in (container.get("state") or {})
    read: Any = partial(client.CoreV1Api(api).read_namespaced_pod_log, metadata["name"], metadata["namespace"])
    try:
        answer = read(
            container=container["name"],
            previous=running and restarts > 0,
            tail_lines=TAIL_LINES,
            _preload_content=False,
            _request_timeout=REQUEST_TIMEOUT,
        )
        return bytes(answer.data).decode(errors="replace")
    except ApiException as error:
        if error.status in (400, 404):
            return ""
        raise


def as_raw(found: Any) -> Raw:
    """A typed read's answer that was not read into a model."""
    document: Raw = json.loads(found.data)
    return document
