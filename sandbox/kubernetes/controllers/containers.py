"""Statuses of containers, from one state to the next: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from sandbox.kubernetes.objects import clone, dig, parse_time, set_condition
from sandbox.kubernetes.resources import Json

BACKOFF_SECONDS, BACKOFF_LIMIT = 10.0, 300.0
BACKOFF_RESET_SECONDS = 600.0
"""A container that has run so long waits as if it had failed for the first time."""
_MESSAGE_LINES, _MESSAGE_CHARACTERS = 80, 2048


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def pod_ip(uid: str) -> str:
    raw = hashlib.sha256(uid.encode()).digest()
    return f"10.{raw[0]}.{raw[1]}.{raw[2] % 254 + 1}"


def waiting(pod: Json, reason: str, message: str = "") -> list[Json]:
    """Statuses of containers that do not run yet."""
    state: Json = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": 0,
            "state": clone(state),
        }
        for container in pod["spec"]["containers"]
    ]


def running(pod: Json, container: Json, before: Json, now: str) -> Json:
    """The status of a container that starts now, for the first time or again."""
    image, uid = container.get("image", ""), pod["metadata"]["uid"]
    again = bool(dig(before, "lastState.terminated"))
    count = before.get("restartCount", 0) + (1 if again else 0)
    identity = digest(f"{uid}/{container['name']}/{count}")
    return {
        **before,
        "imageID": f"{image.split(':')[0]}@sha256:{digest(image)}",
        "containerID": f"containerd://{identity}",
        "ready": False,
        "started": False,
        "restartCount": count,
        "state": {"running": {"startedAt": now}},
    }


def ended(pod: Json, container: Json, before: Json, now: str, end: Json, last_lines: Iterable[str]) -> Json:
    """The status of a container that has ended: for good, or to start again as the pod's policy says.

    ``end`` has exitCode and reason.
    """
    code, policy = end["exitCode"], pod["spec"]["restartPolicy"]
    began = dig(before, "state.running.startedAt")
    terminated = {**end, "startedAt": began, "finishedAt": now, "containerID": before.get("containerID", "")}
    if code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        text = "\n".join(list(last_lines)[-_MESSAGE_LINES:])[-_MESSAGE_CHARACTERS:]
        terminated |= {"message": text} if text else {}
    after = {**before, "ready": False, "started": False}
    if policy == "Always" or (policy == "OnFailure" and code != 0):
        after["lastState"] = {"terminated": terminated}
        meta = pod["metadata"]
        pause = f"back-off {_text(backoff(after))} restarting failed container={container['name']}"
        message = f"{pause} pod={meta['name']}_{meta['namespace']}({meta['uid']})"
        reason = "CrashLoopBackOff" if code else "Completed"
        after["state"] = {"waiting": {"reason": reason, "message": message}}
    else:
        after["state"] = {"terminated": terminated}
    return after


def backoff(status: Json) -> float:
    """How long a container that has ended waits before it starts again."""
    last = dig(status, "lastState.terminated", {})
    if parse_time(last["finishedAt"]) - parse_time(last["startedAt"]) >= BACKOFF_RESET_SECONDS:
        return BACKOFF_SECONDS
    return float(min(BACKOFF_SECONDS * 2 ** status.get("restartCount", 0), BACKOFF_LIMIT))


def _text(seconds: float) -> str:
    """A duration as Go prints it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def summary(pod: Json, statuses: list[Json], now: str) -> Json:
    """The pod's status with these statuses of its containers: phase and conditions follow."""
    status: dict[str, Any] = clone(pod["status"])
    status["containerStatuses"] = statuses
    ends = [dig(s, "state.terminated") for s in statuses]
    codes = [end["exitCode"] for end in ends if end]
    unready = [s["name"] for s in statuses if not s["ready"]]
    if len(codes) == len(statuses):
        status["phase"] = "Failed" if any(codes) else "Succeeded"
        reason, message = ("ContainersNotReady" if any(codes) else "PodCompleted"), ""
    else:
        status["phase"] = "Running"
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    for kind in ("ContainersReady", "Ready"):
        if unready:
            set_condition(status, kind, "False", reason, message, now)
        else:
            set_condition(status, kind, "True", "", "", now)
    return status
