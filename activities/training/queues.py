"""Queues of task governance: what a queued job carries, why it waits, and how it is taken out of its queue.

HyperPod's task governance installs Kueue. (SageMaker Developer Guide: HyperPod task governance; Kueue: LocalQueue,
Workload, WorkloadPriorityClass, https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta1/)
"""

from __future__ import annotations

from kubernetes import client

from activities import custom
from activities.errors import clean
from activities.training.paths import Job, Raw
from contracts.training import TrainingSpec

LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
LABEL_PRIORITY = "kueue.x-k8s.io/priority-class"
WORKLOAD = custom.Kind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
LOCAL_QUEUE = custom.Kind("kueue.x-k8s.io", "v1beta1", "LocalQueue", "localqueues")
CLUSTER_QUEUE = custom.Kind("kueue.x-k8s.io", "v1beta1", "ClusterQueue", "clusterqueues")


def labels_of(spec: TrainingSpec) -> dict[str, str]:
    """Labels that put a job into its queue."""
    if spec.queue is None:
        return {}
    priority = {LABEL_PRIORITY: spec.queue.priority} if spec.queue.priority else {}
    return {LABEL_QUEUE: spec.queue.queue, **priority}


class Workloads:
    """What Kueue has made of jobs. Each namespace is listed once, and only if somebody asks."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._kept: dict[str, dict[str, Raw]] = {}

    def of(self, job: Job) -> Raw | None:
        """The Workload of a job; None where Kueue has made none yet."""
        if job.namespace not in self._kept:
            self._kept[job.namespace] = {
                owner["uid"]: each
                for each in custom.list_all(self._api, WORKLOAD, job.namespace)
                for owner in each["metadata"].get("ownerReferences") or ()
            }
        return self._kept[job.namespace].get(job.uid)


def set_active(api: client.ApiClient, job: Job, active: bool) -> None:
    """Take a job out of its queue, or put it back. Nothing where Kueue has made no Workload of it."""
    found = Workloads(api).of(job)
    if found is None:
        return
    custom.merge(api, WORKLOAD, job.namespace, found["metadata"]["name"], {"spec": {"active": active}})


def is_active(workload: Raw | None) -> bool:
    return workload is None or (workload.get("spec") or {}).get("active", True) is not False


def why_waiting(workload: Raw | None, queue: str) -> str:
    """Why a queue has not admitted a job, in Kueue's own words."""
    if workload is None:
        return f"queue {queue} has not looked at it yet"
    conditions = (workload.get("status") or {}).get("conditions") or ()
    for kind in ("Evicted", "QuotaReserved", "Admitted"):
        for each in conditions:
            unmet = each.get("status") == ("True" if kind == "Evicted" else "False")
            if is_active(workload) and "deactivated" in str(each.get("message") or ""):
                # Kueue has not looked yet at what is active again.
                continue
            if each.get("type") == kind and unmet and each.get("message"):
                return f"queue {queue}: {clean(str(each['message']), 240)}"
    return f"it waits in queue {queue}"
