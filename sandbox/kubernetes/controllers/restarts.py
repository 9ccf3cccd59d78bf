"""The budget of restarts of a HyperPodPyTorchJob.

``runPolicy.jobMaxRetryCount`` limits all restarts. ``runPolicy.restartPolicy`` says how many restarts within the pods
come before the whole job is restarted with new ones, and how often that may be, within a period that begins anew with
each multiple of ``evalPeriodSeconds`` after the job's start.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html ; UNVERIFIED: that periods are counted
from the start, that all restarts count against ``jobMaxRetryCount``, and that a job without any limit is not restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.kubernetes.objects import dig, parse_time, set_condition
from sandbox.kubernetes.resources import Json

if TYPE_CHECKING:
    from .training import TrainingJobController

OPERATOR = "hp-training-operator"


def restart(operator: TrainingJobController, job: Json, status: Json, reason: str, message: str) -> None:
    """The processes failed for this reason: start them again if the budget allows it, else give the job up."""
    policy, limit = dig(job, "spec.runPolicy.restartPolicy"), dig(job, "spec.runPolicy.jobMaxRetryCount")
    now, name = operator.registry.timestamp(), job["metadata"]["name"]
    operator.registry.event(job, reason, message, True, OPERATOR)
    counted = _counted(operator, status, policy)
    if limit is None and policy is None:
        limit = 0
    if limit is not None and status["restartCount"] >= int(limit):
        operator.fail(job, status, reason, f"{message}; all {limit} retries are used")
        return
    before = dig(policy, "numRestartBeforeFullJobRestart")
    full = before is not None and counted["restartCount"] >= int(before)
    if full:
        most = dig(policy, "maxFullJobRestarts")
        if most is not None and counted["fullJobRestartCount"] >= int(most):
            used = f"{before} restarts within the pods and {most} of the whole job are used"
            operator.fail(job, status, reason, f"{message}; {used}")
            return
        counted["fullJobRestartCount"] += 1
        counted["restartCount"] = 0
        operator.stop_all(job)
    else:
        counted["restartCount"] += 1
        operator.stop_failed(job)
    status["restartCount"] += 1
    status["restartStatus"] = counted
    what = "the whole job" if full else "processes within the pods"
    set_condition(status, "Running", "False", reason, message, now)
    operator.registry.event(
        job, "FullJobRestart" if full else "JobRestart", f"Restarting {what} of {name}", component=OPERATOR
    )
    operator.later(0.01, (job["metadata"]["namespace"], name))


def _counted(operator: TrainingJobController, status: Json, policy: Json | None) -> dict[str, int]:
    """What was used in the present period."""
    seconds = int(dig(policy, "evalPeriodSeconds", 0))
    age = operator.registry.now() - parse_time(status["startTime"])
    period = int(age // seconds) if seconds > 0 else 0
    found = status.get("restartStatus") or {}
    if found.get("currentEvalPeriod") != period:
        found = {}
    return {
        "currentEvalPeriod": period,
        "fullJobRestartCount": int(found.get("fullJobRestartCount", 0)),
        "restartCount": int(found.get("restartCount", 0)),
    }
