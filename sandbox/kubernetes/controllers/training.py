"""The HyperPod training operator: a HyperPodPyTorchJob becomes pods.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html . The definition is not public; status
and labels are an approximation. Without the operator's deployment nothing happens, as on a real cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, dig, is_true, set_condition
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, controller_of, is_deleted, is_ready, object_key
from .deployments import DEPLOYMENTS

GROUP, PLURAL, KIND = "sagemaker.amazonaws.com", "hyperpodpytorchjobs", "HyperPodPyTorchJob"
OPERATOR = "hp-training-operator"
JOB_LABEL, REPLICA_LABEL = "training.sagemaker.amazonaws.com/job-name", "training.sagemaker.amazonaws.com/replica-type"


class TrainingJobController(Controller):
    name = "training"
    watches = ((GROUP, PLURAL), PODS, DEPLOYMENTS)

    def _kind(self) -> ResourceType | None:
        return self.store.type(GROUP, "v1", PLURAL)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == PODS:
            owner = controller_of(change.new, KIND)
            if owner is not None:
                yield owner
        elif change.storage_key == DEPLOYMENTS:
            kind = self._kind()
            if kind is not None and OPERATOR in change.new["metadata"]["name"]:
                yield from list(self.store.objects(kind))
        elif change.type != DELETED:
            yield object_key(change.new)

    def _operating(self) -> bool:
        return any(
            OPERATOR in name and dig(deployment, "status.availableReplicas", 0) > 0
            for (_, name), deployment in self.store.objects(self.kind("deployments", "apps")).items()
        )

    def reconcile(self, key: Key) -> None:
        kind = self._kind()
        job = self.find(kind, key) if kind else None
        if kind is None or job is None or is_deleted(job) or not self._operating():
            return
        if is_true(job, "Completed") or is_true(job, "Failed"):
            return
        pods = self.owned(job, "Pod")
        status, now = clone(job.get("status") or {}), self.registry.timestamp()
        set_condition(status, "Created", "True", "JobCreated", f"{key[1]} is created", now)
        if dig(job, "spec.runPolicy.suspend"):
            for pod in pods:
                if not is_deleted(pod):
                    self.registry.delete(self.kind("pods"), pod)
            set_condition(status, "Suspended", "True", "JobSuspended", "", now)
            self.status(kind, job, status)
            return
        total = self._fill(job, pods)
        pods = self.owned(job, "Pod")
        phases = [dig(pod, "status.phase") for pod in pods if not is_deleted(pod)]
        restarts = int(dig(status, "restartStatus.restartCount", 0))
        limit = int(dig(job, "spec.runPolicy.jobMaxRetryCount", 0))
        if total and phases.count("Succeeded") >= total:
            set_condition(status, "Running", "False", "JobCompleted", "", now)
            set_condition(status, "Completed", "True", "JobCompleted", f"{key[1]} has completed", now)
        elif "Failed" in phases and restarts >= limit:
            set_condition(status, "Running", "False", "JobFailed", "", now)
            set_condition(status, "Failed", "True", "JobFailed", "the number of restarts is exhausted", now)
        elif "Failed" in phases:
            # All ranks start again together.
            status["restartStatus"] = {"restartCount": restarts + 1, "lastRestartTime": now}
            for pod in pods:
                if not is_deleted(pod):
                    self.registry.delete(self.kind("pods"), pod)
        elif total and sum(is_ready(pod) for pod in pods) >= total:
            set_condition(status, "Running", "True", "JobRunning", f"{key[1]} is running", now)
        status["jobPods"] = [{"name": pod["metadata"]["name"], "phase": dig(pod, "status.phase")} for pod in pods]
        self.status(kind, job, status)

    def _fill(self, job: Json, pods: list[Json]) -> int:
        """Make the pods that are missing; how many there are to be."""
        total, meta = 0, job["metadata"]
        names = {pod["metadata"]["name"] for pod in pods}
        for replica in dig(job, "spec.replicaSpecs", []):
            count = int(replica.get("replicas", 0))
            total += count
            for index in range(count):
                name = f"{meta['name']}-{replica['name']}-{index}"
                if name in names:
                    continue
                template = clone(replica["template"])
                template["spec"].setdefault("restartPolicy", "Never")
                labels = {JOB_LABEL: meta["name"], REPLICA_LABEL: replica["name"]}
                try:
                    self.registry.create(
                        self.kind("pods"), meta["namespace"], self.make_pod(job, template, name, labels)
                    )
                except ApiError as error:
                    self.registry.event(job, "FailedCreate", f"Error creating: {error.message}", True, OPERATOR)
                    self.later(10, object_key(job))
                    return total
        return total
