"""What is told of Jobs and pods whose states the sandbox does not bring about: without a sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from activities.jobs.view import as_job, as_pod, by_need
from contracts.jobs import JobPod, JobState

AT = "2026-11-29T12:00:00Z"


def job(conditions: tuple[str, ...] = (), spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    told = [
        {"type": kind, "status": "True", "reason": "Because", "message": "it is so", "lastTransitionTime": AT}
        for kind in conditions
    ]
    return {
        "metadata": {"namespace": "ml", "name": "train"},
        "spec": {"parallelism": 1, "template": {"spec": {"containers": []}}, **(spec or {})},
        "status": {"conditions": told, **status},
    }


def pod(conditions: list[dict[str, Any]] | None = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train-x"}, "spec": {}, "status": {"conditions": conditions or [], **status}}


def container(state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0) -> dict[str, Any]:
    return {"name": "main", "state": state, "lastState": last or {}, "restartCount": restarts}


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [
        (job(("FailureTarget",), active=1, ready=1), JobState.FAILED, "Because: it is so"),
        (job(("SuccessCriteriaMet",), active=1, ready=1), JobState.SUCCEEDED, "Because: it is so"),
        (job(active=2, ready=1), JobState.RUNNING, None),
        (job(active=2), JobState.RUNNING, None),
        (job(active=1, ready=0), JobState.PENDING, "1 pod without a node, or not Ready yet"),
        (job(failed=2), JobState.PENDING, "2 pods failed; the next one comes after a back-off"),
        (job(spec={"parallelism": 0}), JobState.PENDING, "its parallelism is 0: no pods are made"),
        (job(), JobState.PENDING, "its pods are not made yet"),
    ],
)
def test_a_state_is_told_with_its_reason(given: dict[str, Any], state: JobState, reason: str | None) -> None:
    found = as_job(given)
    assert (found.state, found.reason) == (state, reason)


def test_a_job_has_ended_only_when_its_last_pods_are_gone() -> None:
    assert as_job(job(("FailureTarget",), active=1)).finished_at is None
    assert as_job(job(("FailureTarget", "Failed"))).finished_at is not None


def test_images_are_named_once_those_of_init_containers_too() -> None:
    template = {"containers": [{"image": "a"}, {"image": "b"}], "initContainers": [{"image": "a"}, {"image": "c"}]}
    assert as_job(job(spec={"template": {"spec": template}})).images == ["a", "b", "c"]


def test_a_container_that_was_started_again_tells_how_it_ended_before() -> None:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "the end of its log"}}
    found = as_pod(pod(phase="Running", containerStatuses=[container({"running": {}}, last, restarts=3)]))
    assert (found.reason, found.restarts, found.exit_code) == ("OOMKilled", 3, 137)
    assert found.message == "container main ended with exit code 137, and was started again"


def test_an_evicted_or_preempted_pod_says_why() -> None:
    evicted = as_pod(pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."))
    assert (evicted.reason, evicted.message) == ("Evicted", "The node was low on resource: memory.")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "made room"}
    preempted = as_pod(pod([target], phase="Failed"))
    assert (preempted.reason, preempted.message) == ("PreemptionByScheduler", "made room")


def test_a_message_that_quotes_the_command_is_not_told() -> None:
    quoting = {"waiting": {"reason": "RunContainerError", "message": 'exec: "train --token=abc": not found'}}
    found = as_pod(pod(phase="Pending", containerStatuses=[container(quoting)]))
    assert (found.reason, found.message) == ("RunContainerError", None)


def test_a_pod_that_starts_or_goes_says_so() -> None:
    starting = {"waiting": {"reason": "ContainerCreating"}}
    assert as_pod(pod(phase="Pending", containerStatuses=[container(starting)])).reason == "ContainerCreating"
    going = pod(phase="Running", containerStatuses=[container({"running": {}})])
    assert as_pod(going).reason is None
    going["metadata"]["deletionTimestamp"] = AT
    assert as_pod(going).reason == "Terminating"


def test_pods_in_trouble_come_first() -> None:
    pods = [
        JobPod(name=f"{phase}-{number}", phase=phase)
        for phase in ("Succeeded", "Running", "Pending", "Failed")
        for number in (2, 1)
    ]
    names = [each.name for each in sorted(pods, key=by_need)]
    assert names == [f"{phase}-{n}" for phase in ("Failed", "Pending", "Running", "Succeeded") for n in (1, 2)]
