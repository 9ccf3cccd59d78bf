"""Queues: what names one waits for its quota, says why, goes before what is worth less, and gives back what it took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes_support import wait_for
from training_support import KUEUE, LONG, Trainings, ray_job, training_job

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


class Queues:
    """A queue with four GPUs in a test's namespace."""

    def __init__(self, trainings: Trainings) -> None:
        self.trainings, self.name = trainings, f"cq-{trainings.namespace}"
        self._make("resourceflavors", "ResourceFlavor", self.name, spec={})
        self._make("workloadpriorityclasses", "WorkloadPriorityClass", f"high-{self.name}", value=100)
        quota = [{"name": "nvidia.com/gpu", "nominalQuota": 4}]
        groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": self.name, "resources": quota}]}]
        spec = {"resourceGroups": groups, "preemption": {"withinClusterQueue": "LowerPriority"}}
        self._make("clusterqueues", "ClusterQueue", self.name, spec=spec)
        path = f"namespaces/{trainings.namespace}/localqueues"
        self._make(path, "LocalQueue", "team", spec={"clusterQueue": self.name})

    def _make(self, path: str, kind: str, name: str, **content: Any) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, **content}
        assert self.trainings.standalone.request("POST", f"{KUEUE}/{path}", body)[0] == 201

    def labels(self, queue: str = "team", *, high: bool = False) -> dict[str, str]:
        return {QUEUE: queue, **({PRIORITY: f"high-{self.name}"} if high else {})}

    def workload(self, job: str) -> dict[str, tuple[str, str, str]]:
        """The conditions of a job's workload: status, reason, message."""
        path = f"{KUEUE}/namespaces/{self.trainings.namespace}/workloads"
        for each in self.trainings.standalone.request("GET", path)[1]["items"]:
            if each["metadata"]["ownerReferences"][0]["name"] == job:
                conditions = each.get("status", {}).get("conditions", [])
                return {c["type"]: (c["status"], c["reason"], c["message"]) for c in conditions}
        return {}

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.trainings.standalone.request("GET", f"{KUEUE}/clusterqueues/{self.name}")[1]
        return found["status"]

    def wait_pending(self, job: str, text: str) -> None:
        wait_for(lambda: text in self.workload(job).get("QuotaReserved", ("", "", ""))[2], f"{job} to wait: {text}")


@pytest.fixture
def queues(trainings: Trainings) -> Iterator[Queues]:
    made = Queues(trainings)
    yield made
    trainings.standalone.request("DELETE", f"{KUEUE}/clusterqueues/{made.name}")


def test_a_job_waits_for_quota_and_goes_on_when_it_is_free(trainings: Trainings, queues: Queues) -> None:
    trainings.create(training_job("first", words=LONG, labels=queues.labels()))
    wait_for(lambda: trainings.is_true("first", "Running"))
    trainings.create(training_job("second", labels=queues.labels()))
    queues.wait_pending("second", "insufficient unused quota for nvidia.com/gpu in flavor")
    assert queues.workload("second")["QuotaReserved"][:2] == ("False", "Pending")
    assert trainings.is_true("second", "Suspended")
    assert not [name for name in trainings.pods() if name.startswith("second")]
    found = queues.status()
    assert (found["pendingWorkloads"], found["admittedWorkloads"]) == (1, 1)
    assert found["flavorsUsage"][0]["resources"][0]["total"] == "4"
    trainings.wait("first", "Completed")
    trainings.wait("second", "Completed")
    assert queues.workload("first")["Finished"][0] == "True"


def test_what_never_fits_and_a_queue_that_is_not_there_are_told(trainings: Trainings, queues: Queues) -> None:
    trainings.create(training_job("huge", 4, labels=queues.labels()))
    queues.wait_pending("huge", "request > maximum capacity (8 > 4)")
    trainings.create(training_job("lost", labels=queues.labels("nowhere")))
    queues.wait_pending("lost", "LocalQueue nowhere doesn't exist")
    assert queues.workload("lost")["QuotaReserved"][1] == "Inadmissible"


def test_a_higher_priority_takes_the_quota_of_a_lower_one(trainings: Trainings, queues: Queues) -> None:
    trainings.create(training_job("low", words=LONG, labels=queues.labels()))
    wait_for(lambda: trainings.is_true("low", "Running"))
    wait_for(lambda: "Batch 65 " in trainings.log("low-pods-0"))
    trainings.create(training_job("high", labels=queues.labels(high=True)))
    wait_for(lambda: trainings.is_true("high", "Running"), "the higher one to run", 30)
    assert queues.workload("low")["Evicted"][:2] == ("True", "Preempted")
    wait_for(lambda: bool(trainings.condition("low", "Suspended")))
    trainings.wait("high", "Completed")
    wait_for(lambda: trainings.is_true("low", "Running"), "the lower one to go on", 30)
    wait_for(lambda: "Loaded checkpoint from checkpoints/checkpoint-" in trainings.log("low-pods-0"))


def test_ray_jobs_and_jobs_wait_in_the_same_queue(trainings: Trainings, queues: Queues) -> None:
    trainings.create(training_job("busy", words=LONG, labels=queues.labels()))
    wait_for(lambda: trainings.is_true("busy", "Running"))
    job = ray_job("ray")
    job["metadata"]["labels"] = queues.labels()
    trainings.create(job)
    queues.wait_pending("ray", "pod set gpu")
    path = f"/apis/batch/v1/namespaces/{trainings.namespace}/jobs"
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    template = {"spec": {**spec, "restartPolicy": "Never"}}
    body = {"metadata": {"name": "batch", "labels": queues.labels()}, "spec": {"template": template}}
    trainings.standalone.request("POST", path, body)
    queues.wait_pending("batch", "pod set main")
    trainings.standalone.request(
        "DELETE", f"/apis/sagemaker.amazonaws.com/v1/namespaces/{trainings.namespace}/hyperpodpytorchjobs/busy"
    )
    wait_for(lambda: queues.workload("ray").get("Admitted", ("",))[0] == "True", "the job of Ray", 30)


def test_a_stopped_queue_admits_nothing(trainings: Trainings, queues: Queues) -> None:
    path = f"{KUEUE}/clusterqueues/{queues.name}"
    patch = {"spec": {"stopPolicy": "Hold"}}
    trainings.standalone.request("PATCH", path, patch, content_type="application/merge-patch+json")
    trainings.create(training_job("held", labels=queues.labels()))
    queues.wait_pending("held", "is stopped")
    patch = {"spec": {"stopPolicy": "None"}}
    trainings.standalone.request("PATCH", path, patch, content_type="application/merge-patch+json")
    wait_for(lambda: trainings.is_true("held", "Running"), "the job to run", 30)


def test_a_workload_that_is_taken_out_of_its_queue_gives_back_its_quota(trainings: Trainings, queues: Queues) -> None:
    trainings.create(training_job("out", words=LONG, labels=queues.labels()))
    wait_for(lambda: trainings.is_true("out", "Running"))
    base = f"{KUEUE}/namespaces/{trainings.namespace}/workloads"
    name = trainings.standalone.request("GET", base)[1]["items"][0]["metadata"]["name"]
    merge = {"content_type": "application/merge-patch+json"}
    trainings.standalone.request("PATCH", f"{base}/{name}", {"spec": {"active": False}}, **merge)
    wait_for(lambda: trainings.is_true("out", "Suspended") and not trainings.pods(), "the job to stop", 30)
    assert queues.workload("out")["Evicted"][:2] == ("True", "Deactivated")
    assert queues.status()["admittedWorkloads"] == 0
    trainings.standalone.request("PATCH", f"{base}/{name}", {"spec": {"active": True}}, **merge)
    wait_for(lambda: trainings.is_true("out", "Running"), "the job to go on", 30)


def test_a_job_that_somebody_suspends_is_started_again_by_its_queue(trainings: Trainings, queues: Queues) -> None:
    trainings.create(training_job("self", words=LONG, labels=queues.labels()))
    wait_for(lambda: trainings.is_true("self", "Running"))
    trainings.patch("self", {"suspend": True})
    wait_for(lambda: trainings.get("self")["spec"]["runPolicy"]["suspend"] is False, "the queue to act")
