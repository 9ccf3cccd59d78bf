"""What can go wrong: faults of AWS and Kubernetes, shortages, jumps of the clock, processes that die or freeze."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.chaos import calls
from tests.chaos.schedule import Action, Fault, Freeze, Kill, Misfortune
from tests.chaos.wishes import FIRST, TYPE, Plan

AGAIN = {"Retry-After": "1"}
UNABLE = "the server is currently unable to handle the request"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
WRITES = "(POST|PUT|PATCH|DELETE) .*"
VICTIMS = (("worker",), ("gateway",), ("temporal",), ("temporal", "worker", "gateway"))


@dataclass(frozen=True)
class Target:
    """Whom a misfortune is meant for: an operation of a cluster."""

    plan: Plan
    operation: str
    """Its kind."""


Draw = Callable[[Random, Target], Action | None]


def interruption(dice: Random) -> Action:
    """A kill, or a worker that is frozen."""
    return Freeze() if dice.random() < 0.12 else kill(dice)


def kill(dice: Random) -> Kill:
    """Somebody dies, and comes back at once or after a while."""
    [victims] = dice.choices(VICTIMS, (5, 2, 2, 2))
    return Kill(victims, away=dice.choice((0.0, 0.0, 60.0, 600.0)))


def _aws(what: str, service: str, operation: str, **more: Any) -> Fault:
    return Fault(what, {"api": "aws", "service": service, "operation": operation, **more})


def _change(dice: Random, target: Target) -> tuple[str, str] | None:
    """A call by which the operation changes something."""
    found = calls.changing(target.operation)
    return dice.choice(found) if found else None


def _service(dice: Random, target: Target) -> str:
    """A service that the operation calls; nearly all look at the EKS cluster."""
    return dice.choice(calls.services(target.operation) or ("eks",))


def _lost_response(dice: Random, target: Target) -> Action | None:
    if (call := _change(dice, target)) is None:
        return None
    return _aws("lost response", *call, phase="after", action="drop", times=dice.randint(1, 2))


def _lost_request(dice: Random, target: Target) -> Action | None:
    if (call := _change(dice, target)) is None:
        return None
    return _aws("lost request", *call, action="drop", times=dice.randint(1, 2))


def _error_after(dice: Random, target: Target) -> Action | None:
    if (call := _change(dice, target)) is None:
        return None
    return _aws("500 after the effect", *call, phase="after", action="http500", times=1)


def _throttled(dice: Random, target: Target) -> Action | None:
    service = _service(dice, target)
    code = {"code": "SlowDown", "status": 503} if service == "s3" else {"code": "ThrottlingException", "status": 400}
    return _aws("throttling", service, ".*", **code, headers=AGAIN, p=dice.choice((0.2, 0.5)), times=25)


def _internal(dice: Random, target: Target) -> Action | None:
    return _aws("internal error", _service(dice, target), ".*", action="http500", p=0.2, times=8)


def _slow(dice: Random, target: Target) -> Action | None:
    return _aws("latency", _service(dice, target), ".*", action="latency", latency=dice.choice((0.3, 2.0)), times=8)


def _denied(dice: Random, target: Target) -> Action | None:
    if (call := _change(dice, target)) is None:
        return None
    denial: dict[str, Any] = {"code": "AccessDeniedException", "status": 400, "message": "You are not authorized"}
    if call[0] in ("ec2", "iam", "s3"):
        code = {"ec2": "UnauthorizedOperation"}.get(call[0], "AccessDenied")
        denial |= {"code": code, "status": 403}
    return _aws("denial", *call, **denial, times=1)


def _kubernetes(what: str, operation: str, **more: Any) -> Fault:
    return Fault(what, {"api": "kubernetes", "operation": operation, **more})


def _conflict(dice: Random, target: Target) -> Action | None:
    error = {"code": "Conflict", "status": 409, "message": MODIFIED}
    return _kubernetes("409 of Kubernetes", "(PUT|PATCH) .*", **error, p=0.3, times=3)


def _too_many(dice: Random, target: Target) -> Action | None:
    return _kubernetes("429 of Kubernetes", ".*", code="TooManyRequests", status=429, headers=AGAIN, p=0.1, times=10)


def _unavailable(dice: Random, target: Target) -> Action | None:
    return _kubernetes("503 of Kubernetes", ".*", code="ServiceUnavailable", status=503, message=UNABLE, p=0.1, times=8)


def _lost_apply(dice: Random, target: Target) -> Action | None:
    if not (patterns := calls.objects(target.operation)):
        return None
    phase, operation = dice.choice(("before", "after")), dice.choice(patterns)
    what = "lost response of Kubernetes" if phase == "after" else "lost request to Kubernetes"
    return _kubernetes(what, operation, phase=phase, action="drop", times=dice.randint(1, 2))


def _slow_webhook(dice: Random, target: Target) -> Action | None:
    return _kubernetes("slow webhook", WRITES, action="latency", latency=dice.choice((1.0, 6.0)), p=0.3, times=6)


def _drop_watches(dice: Random, target: Target) -> Action | None:
    return Misfortune("watches dropped", "POST", "/kubernetes/drop-watches")


def _compact(dice: Random, target: Target) -> Action | None:
    return Misfortune("versions expired", "POST", "/kubernetes/compact")


def _jump(dice: Random, target: Target) -> Action | None:
    return Misfortune("clock jump", "POST", "/clock", {"advance": dice.choice((120, 900, 3600))})


def _consistency(dice: Random, target: Target) -> Action | None:
    return Misfortune("eventual consistency", "PUT", "/consistency", {"visible_after": dice.choice((5, 30))})


def _shortage(dice: Random, target: Target) -> Action | None:
    free = dice.randint(0, target.plan.groups[FIRST])
    return Misfortune("capacity shortage", "PUT", "/capacity", {f"{target.plan.region}a": {TYPE: free}}, stands=True)


def _no_capacity(dice: Random, target: Target) -> Action | None:
    return Misfortune("no capacity", "PUT", "/capacity", {"*": {TYPE: 0, "m6i.2xlarge": 0}}, stands=True)


def _addon(dice: Random, target: Target) -> Action | None:
    name = dice.choice(("coredns", "vpc-cni", "aws-mountpoint-s3-csi-driver"))
    return Misfortune("broken add-on", "PUT", "/addons", {name: "InsufficientNumberOfReplicas"}, stands=True)


def _file_system(dice: Random, target: Target) -> Action | None:
    return Misfortune("failing file system", "PUT", "/file-systems", {"failing": ["no capacity"]}, stands=True)


def _sick_node(dice: Random, target: Target) -> Action | None:
    node = {"fail_node": {"cluster": f"hp-cluster-{target.plan.tag}", "node": "{node}"}}
    return Misfortune("sick node", "POST", "/hyperpod", node, node_of=(target.plan.tag, FIRST))


def _broken_lifecycle(dice: Random, target: Target) -> Action | None:
    return Misfortune("failing lifecycle script", "POST", "/hyperpod", {"broken_lifecycle": {FIRST: 1}}, stands=True)


def _pod(dice: Random, target: Target) -> Action | None:
    fault = dice.choice(("image_pull", "crash_loop", "oom_at_load", "crash"))
    rule = {"fault": fault, "times": 1} | ({"cause": "nccl_timeout"} if fault == "crash" else {})
    return Misfortune("failing pod", "POST", "/kubernetes/pods", {"add": [rule]})


EVERYWHERE: tuple[tuple[int, Draw], ...] = (
    (3, _throttled),
    (2, _internal),
    (2, _slow),
    (2, _conflict),
    (2, _too_many),
    (2, _unavailable),
    (2, _lost_apply),
    (2, _slow_webhook),
    (1, _drop_watches),
    (1, _compact),
    (2, _jump),
)
LIFE = (
    *EVERYWHERE,
    (6, _lost_response),
    (3, _lost_request),
    (2, _error_after),
    (3, _denied),
    (2, _consistency),
    (2, _shortage),
    (1, _no_capacity),
    (1, _addon),
    (1, _file_system),
    (2, _sick_node),
    (1, _broken_lifecycle),
    (2, _pod),
)
TEARDOWN = (*EVERYWHERE, (4, _lost_response), (2, _lost_request), (1, _error_after))


def draw(dice: Random, target: Target, menu: tuple[tuple[int, Draw], ...]) -> Action:
    """One misfortune that can happen to the operation."""
    weights, entries = [weight for weight, _ in menu], [each for _, each in menu]
    while True:
        [entry] = dice.choices(entries, weights)
        if (drawn := entry(dice, target)) is not None:
            return drawn
