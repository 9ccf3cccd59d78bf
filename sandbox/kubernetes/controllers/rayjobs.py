"""KubeRay's RayJobs: a Ray cluster of their own, and a Job that submits to it and follows what is printed.

https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html ; statuses and reasons as in
https://github.com/ray-project/kuberay/blob/master/ray-operator/apis/ray/v1/rayjob_types.go . The submitter's container
stands for the driver: its log is the driver's, and when it ends the job has. Submission mode ``K8sJobMode`` only; the
others are carried out as it is. UNVERIFIED: how long each state takes; that a lost worker ends the driver at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sandbox.kubernetes.objects import clone, dig, is_true, owner_reference, parse_time
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, controller_of, is_deleted, object_key
from .deployments import DEPLOYMENTS
from .jobs import JOBS
from .rayclusters import GROUP, OPERATOR, operating

PLURAL, KIND = "rayjobs", "RayJob"
COMPONENT = "rayjob-controller"
FINISHED = ("Complete", "Failed")
CLUSTERS = (GROUP, "rayclusters")
_FROM_NAME, _FROM_KIND = "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"


class RayJobs(Controller):
    name = "rayjobs"
    watches = ((GROUP, PLURAL), CLUSTERS, JOBS, DEPLOYMENTS)

    def _kind(self, plural: str = PLURAL) -> ResourceType | None:
        return self.store.type(GROUP, "v1", plural)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key in (CLUSTERS, JOBS):
            owner = controller_of(change.new, KIND)
            if owner is not None:
                yield owner
            elif change.storage_key == CLUSTERS:
                # A job that was told to use a cluster of somebody else's waits for it.
                yield from list(self.store.objects_of((GROUP, PLURAL)))
        elif change.storage_key == DEPLOYMENTS:
            if OPERATOR in change.new["metadata"]["name"]:
                yield from list(self.store.objects_of((GROUP, PLURAL)))
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self._kind()
        job = self.find(kind, key) if kind else None
        if kind is None or job is None or is_deleted(job) or not operating(self):
            return
        status, now = clone(job.get("status") or {}), self.registry.timestamp()
        state = status.get("jobDeploymentStatus", "")
        if state in FINISHED:
            self._shut_down(job, key, status)
            return
        status["observedGeneration"] = job["metadata"].get("generation", 1)
        if dig(job, "spec.suspend"):
            self._stop(job, status)
            for name in ("rayClusterName", "jobId", "startTime", "dashboardURL", "rayClusterStatus"):
                status.pop(name, None)
            status.update(jobDeploymentStatus="Suspended", jobStatus="")
        else:
            if state in ("", "Suspended", "Retrying"):
                self._initialize(job, status, now)
            if not self._too_long(job, status):
                self._go_on(job, key, status, now)
        self.status(kind, job, status)

    def _initialize(self, job: Json, status: Json, now: str) -> None:
        meta = job["metadata"]
        tried = int(status.get("failed", 0))
        suffix = hashlib.sha256(f"{meta['uid']}/{tried}/{now}".encode()).hexdigest()[:5]
        selector = dig(job, "spec.clusterSelector", {})
        status.update(
            jobId=dig(job, "spec.jobId") or f"{meta['name']}-{suffix}",
            rayClusterName=selector.get("ray.io/cluster") or f"{meta['name']}-{suffix}",
            jobDeploymentStatus="Initializing",
            jobStatus="",
            startTime=now,
        )

    def _go_on(self, job: Json, key: Key, status: Json, now: str) -> None:
        cluster = self._cluster(job, status)
        if cluster is None:
            return
        status["rayClusterStatus"] = clone(cluster.get("status") or {})
        if status["jobDeploymentStatus"] == "Initializing":
            if dig(cluster, "status.state") != "ready":
                return
            service = dig(cluster, "status.head.serviceName", "")
            status["dashboardURL"] = f"{service}.{key[0]}.svc.cluster.local:8265"
            self._submit(job, status, cluster)
            status.update(jobDeploymentStatus="Running", jobStatus="PENDING")
        submitter = self._submitter(job)
        if submitter is None:
            return
        pods = self.owned(submitter, "Pod")
        if dig(cluster, "status.state") == "ready" and self._worker_lost(cluster):
            for pod in pods:
                self.cluster.training.fell(pod, "ray_node_lost")
                self.cluster.controllers.enqueue("kubelet", object_key(pod))
        if any(dig(pod, "status.phase") == "Running" for pod in pods) and status["jobStatus"] == "PENDING":
            status["jobStatus"] = "RUNNING"
            status["rayJobInfo"] = {"startTime": now}
        elif is_true(submitter, "Complete"):
            self._finish(status, now, "SUCCEEDED", "Job finished successfully.")
            status["succeeded"] = int(status.get("succeeded", 0)) + 1
        elif is_true(submitter, "Failed"):
            self._failed(job, status, now)

    def _worker_lost(self, cluster: Json) -> bool:
        """Whether a pod of a cluster that was complete is gone."""
        wanted = dig(cluster, "status.desiredWorkerReplicas", 0)
        return bool(dig(cluster, "status.readyWorkerReplicas", 0) < wanted)

    def _failed(self, job: Json, status: Json, now: str) -> None:
        message = "Job entrypoint command failed with exit code 1"
        status["failed"] = int(status.get("failed", 0)) + 1
        if status["failed"] <= int(dig(job, "spec.backoffLimit", 0)):
            self._stop(job, status)
            status.update(jobDeploymentStatus="Retrying", jobStatus="", message=message)
            self.later(1, object_key(job))
            return
        self._finish(status, now, "FAILED", message)
        status.update(jobDeploymentStatus="Failed", reason="AppFailed")
        self.registry.event(job, "AppFailed", message, True, COMPONENT)

    @staticmethod
    def _finish(status: Json, now: str, job_status: str, message: str) -> None:
        status.update(jobDeploymentStatus="Complete", jobStatus=job_status, message=message, endTime=now)
        status["rayJobInfo"] = {**(status.get("rayJobInfo") or {}), "endTime": now}

    def _too_long(self, job: Json, status: Json) -> bool:
        limit = dig(job, "spec.activeDeadlineSeconds")
        if limit is None:
            return False
        left = parse_time(status["startTime"]) + int(limit) - self.registry.now()
        if left > 0:
            if dig(job, "status.startTime") != status["startTime"]:
                self.later(left + 0.001, object_key(job))
            return False
        self._stop(job, status)
        since = f"StartTime: {status['startTime']}. ActiveDeadlineSeconds: {limit}"
        message = f"The RayJob has passed the activeDeadlineSeconds. {since}"
        status.update(
            jobDeploymentStatus="Failed", reason="DeadlineExceeded", message=message, endTime=self.registry.timestamp()
        )
        return True

    def _shut_down(self, job: Json, key: Key, status: Json) -> None:
        """The Ray cluster goes with the job, when it is to."""
        if not dig(job, "spec.shutdownAfterJobFinishes") or dig(job, "spec.clusterSelector"):
            return
        kept = int(dig(job, "spec.ttlSecondsAfterFinished", 0))
        left = parse_time(status.get("endTime") or self.registry.timestamp()) + kept - self.registry.now()
        if left > 0:
            self.later(left, key)
        else:
            self._delete_cluster(job, status)

    # What a job is made of

    def _cluster(self, job: Json, status: Json) -> Json | None:
        kind, meta = self._kind("rayclusters"), job["metadata"]
        if kind is None:
            return None
        name = status["rayClusterName"]
        if (held := self.store.get(kind, meta["namespace"], name)) is not None:
            return held
        if dig(job, "spec.clusterSelector"):
            self.registry.event(job, "RayClusterNotFound", f"RayCluster {name} not found", True, COMPONENT)
            self.later(10, object_key(job))
            return None
        origin = {_FROM_NAME: meta["name"], _FROM_KIND: KIND}
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "labels": {**(meta.get("labels") or {}), **origin},
                "annotations": {
                    k: v
                    for k, v in (meta.get("annotations") or {}).items()
                    if not k.startswith("kubectl.kubernetes.io")
                },
                "ownerReferences": [owner_reference(job)],
            },
            "spec": clone(dig(job, "spec.rayClusterSpec", {})),
        }
        return self.registry.create(kind, meta["namespace"], body)

    def _submitter(self, job: Json) -> Json | None:
        return next((held for held in self.owned(job, "Job") if not is_deleted(held)), None)

    def _submit(self, job: Json, status: Json, cluster: Json) -> None:
        if self._submitter(job) is not None:
            return
        meta, spec = job["metadata"], job["spec"]
        head = dig(cluster, "spec.headGroupSpec.template.spec", {})
        image = next(iter(head.get("containers") or [{}])).get("image", "")
        template = clone(spec.get("submitterPodTemplate") or {"spec": {"containers": [{}]}})
        template.setdefault("metadata", {})
        container = template["spec"]["containers"][0]
        container.setdefault("name", "ray-job-submitter")
        container.setdefault("image", image)
        address = f"http://{status['dashboardURL']}"
        environment = {
            "PYTHONUNBUFFERED": "1",
            "RAY_DASHBOARD_ADDRESS": status["dashboardURL"],
            "RAY_JOB_SUBMISSION_ID": status["jobId"],
        }
        given = {each["name"] for each in container.get("env") or []}
        container["env"] = [
            *(container.get("env") or []),
            *({"name": name, "value": value} for name, value in environment.items() if name not in given),
        ]
        if not container.get("command"):
            submit = f"ray job submit --address {address} --no-wait --submission-id {status['jobId']}"
            follow = f"ray job logs --address {address} --follow {status['jobId']}"
            container["command"] = ["/bin/bash", "-ce", "--"]
            container["args"] = [f"{submit} -- {spec.get('entrypoint', '')} ; {follow}"]
        template["spec"].setdefault("restartPolicy", "Never")
        for amounts in (container.get("resources") or {}).values():
            if isinstance(amounts, dict):
                amounts.update({name: str(amount) for name, amount in amounts.items()})
        origin = {_FROM_NAME: meta["name"], _FROM_KIND: KIND}
        annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith("sandbox/")}
        template["metadata"]["annotations"] = {**annotations, **(template["metadata"].get("annotations") or {})}
        body = {
            "metadata": {"name": meta["name"], "labels": origin, "ownerReferences": [owner_reference(job)]},
            "spec": {"backoffLimit": 0, "template": template},
        }
        self.registry.create(self.kind("jobs", "batch"), meta["namespace"], body)

    def _stop(self, job: Json, status: Json) -> None:
        """Cluster and submitter go."""
        self._delete_cluster(job, status)
        for held in self.owned(job, "Job"):
            if not is_deleted(held):
                self.registry.delete(self.kind("jobs", "batch"), held, {"propagationPolicy": "Background"})

    def _delete_cluster(self, job: Json, status: Json) -> None:
        kind = self._kind("rayclusters")
        for held in self.owned(job, "RayCluster") if kind else []:
            if not is_deleted(held) and kind is not None:
                self.registry.delete(kind, held, {"propagationPolicy": "Background"})
