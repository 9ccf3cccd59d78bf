"""Kueue, as HyperPod's task governance brings it: what names a queue waits for its quota.

https://kueue.sigs.k8s.io/docs/concepts/ . A job with the label ``kueue.x-k8s.io/queue-name`` is suspended and gets a
Workload; when its ClusterQueue, or its cohort, has quota for all its pods, the Workload is admitted and the job goes
on. Higher priorities come first, then the older ones; a job that does not fit does not hold up those behind it
(``BestEffortFIFO``). Of preemption there is ``withinClusterQueue: LowerPriority``. Messages are Kueue's. UNVERIFIED:
how the training operator is told to wait; here it is ``spec.runPolicy.suspend``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from sandbox.kubernetes.objects import clone, dig, is_true, owner_reference, set_condition
from sandbox.kubernetes.quantities import format_quantity
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import Change

from . import elasticity
from .base import Controller, Key, is_deleted, object_key
from .deployments import DEPLOYMENTS
from .jobs import JOBS
from .quotas import Flavors, Quota, requests, usage_of
from .training import TRAINING_JOBS

GROUP = "kueue.x-k8s.io"
MANAGER = "kueue-controller-manager"
QUEUE, PRIORITY = f"{GROUP}/queue-name", f"{GROUP}/priority-class"
COMPONENT = "kueue-admission"
_ALL: Key = ("all",)
RAY_JOBS, RAY_CLUSTERS = ("ray.io", "rayjobs"), ("ray.io", "rayclusters")
WORKLOADS = (GROUP, "workloads")


@dataclass(frozen=True)
class Managed:
    """A kind of job that Kueue knows."""

    kind: str
    suspend: str
    """Path of the member that stops it."""
    pod_sets: Callable[[Json], list[tuple[str, int, Json]]]
    """Name, number of pods, and template of each set."""
    finished: Callable[[Json], bool]


def _training(job: Json) -> list[tuple[str, int, Json]]:
    sets = []
    for replica in dig(job, "spec.replicaSpecs", []):
        count = int(replica.get("replicas") or 0) + int(replica.get("spares") or 0)
        if dig(job, "spec.elasticPolicy"):
            # An elastic job is admitted with the least that it can do with.
            count = elasticity.replicas(job, 0)
        sets.append((replica["name"], count, replica["template"]))
    return sets


def _ray(spec: Json) -> list[tuple[str, int, Json]]:
    sets = [("head", 1, dig(spec, "headGroupSpec.template", {}))]
    for group in spec.get("workerGroupSpecs") or []:
        sets.append((group["groupName"], int(group.get("replicas") or 0), group["template"]))
    return sets


MANAGED: dict[tuple[str, str], Managed] = {
    JOBS: Managed(
        "Job",
        "suspend",
        lambda job: [("main", int(dig(job, "spec.parallelism", 1)), dig(job, "spec.template", {}))],
        lambda job: is_true(job, "Complete") or is_true(job, "Failed"),
    ),
    TRAINING_JOBS: Managed(
        "HyperPodPyTorchJob",
        "runPolicy.suspend",
        _training,
        lambda job: is_true(job, "Completed") or is_true(job, "Failed"),
    ),
    RAY_JOBS: Managed(
        "RayJob",
        "suspend",
        lambda job: _ray(dig(job, "spec.rayClusterSpec", {})),
        lambda job: dig(job, "status.jobDeploymentStatus") in ("Complete", "Failed"),
    ),
    RAY_CLUSTERS: Managed("RayCluster", "suspend", lambda job: _ray(job["spec"]), lambda job: False),
}


class Kueue(Controller):
    """One key for all: a pass looks at every job that names a queue."""

    name = "kueue"
    watches = (*MANAGED, WORKLOADS, (GROUP, "clusterqueues"), (GROUP, "localqueues"), DEPLOYMENTS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key in MANAGED:
            if QUEUE in (change.new["metadata"].get("labels") or {}):
                yield _ALL
        elif change.storage_key == DEPLOYMENTS:
            if change.new["metadata"]["name"] == MANAGER:
                yield _ALL
        elif change.old is None or change.type == "DELETED" or change.old.get("spec") != change.new.get("spec"):
            yield _ALL

    def _kind(self, plural: str) -> ResourceType | None:
        return self.store.type(GROUP, "v1beta1", plural)

    def _operating(self) -> bool:
        held = self.store.get(self.kind("deployments", "apps"), "kueue-system", MANAGER)
        return bool(dig(held, "status.availableReplicas", 0) > 0)

    def reconcile(self, key: Key) -> None:
        kind = self._kind("workloads")
        if kind is None or not self._operating():
            return
        queues = {obj["metadata"]["name"]: Quota.of(obj) for obj in self._objects("clusterqueues")}
        waiting: list[tuple[Json, Managed, ResourceType, Json]] = []
        for storage_key, managed in MANAGED.items():
            for job in list(self.store.objects_of(storage_key).values()):
                if QUEUE not in (job["metadata"].get("labels") or {}) or is_deleted(job):
                    continue
                if any(reference.get("controller") for reference in job["metadata"].get("ownerReferences") or []):
                    continue
                job_kind = self.store.type_of(storage_key)
                workload = self._workload(kind, managed, job)
                if managed.finished(job):
                    self._finish(kind, workload)
                elif not dig(workload, "spec.active", True):
                    self._suspend(job_kind, managed, job, True)
                    self._deactivate(kind, workload)
                elif is_true(workload, "Admitted"):
                    self._suspend(job_kind, managed, job, False)
                    if (admitting := queues.get(dig(workload, "status.admission.clusterQueue", ""))) is not None:
                        admitting.take(usage_of(workload))
                        admitting.admitted.append(workload)
                else:
                    self._suspend(job_kind, managed, job, True)
                    waiting.append((job, managed, job_kind, workload))
        waiting.sort(
            key=lambda each: (-int(dig(each[3], "spec.priority", 0)), each[3]["metadata"]["creationTimestamp"])
        )
        for job, managed, job_kind, workload in waiting:
            self._try(kind, queues, job, managed, job_kind, workload)
        self._tell(queues)

    def _objects(self, plural: str) -> list[Json]:
        return list(self.store.objects_of((GROUP, plural)).values())

    # Workloads

    def _workload(self, kind: ResourceType, managed: Managed, job: Json) -> Json:
        meta = job["metadata"]
        digest = hashlib.sha256(meta["uid"].encode()).hexdigest()[:5]
        name = f"{managed.kind.lower()}-{meta['name'][:200]}-{digest}"
        if (held := self.store.get(kind, meta["namespace"], name)) is not None:
            return held
        class_name = meta["labels"].get(PRIORITY, "")
        classes = {obj["metadata"]["name"]: obj for obj in self._objects("workloadpriorityclasses")}
        body: Json = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": "Workload",
            "metadata": {
                "name": name,
                "labels": {f"{GROUP}/job-uid": meta["uid"]},
                "ownerReferences": [owner_reference(job)],
            },
            "spec": {
                "active": True,
                "queueName": meta["labels"][QUEUE],
                "priority": int(classes.get(class_name, {}).get("value", 0)),
                "podSets": [
                    {"name": set_name, "count": count, "template": clone(template)}
                    for set_name, count, template in managed.pod_sets(job)
                ],
            },
        }
        if class_name:
            body["spec"] |= {
                "priorityClassName": class_name,
                "priorityClassSource": f"{GROUP}/workloadpriorityclass",
            }
        made = self.registry.create(kind, meta["namespace"], body)
        self.registry.event(
            job, "CreatedWorkload", f"Created Workload: {meta['namespace']}/{name}", component=COMPONENT
        )
        return made

    def _finish(self, kind: ResourceType, workload: Json) -> None:
        if not is_true(workload, "Finished"):
            status, now = clone(workload.get("status") or {}), self.registry.timestamp()
            set_condition(status, "Finished", "True", "JobFinished", "Job finished", now)
            self.status(kind, workload, status)

    def _try(
        self,
        kind: ResourceType,
        queues: dict[str, Quota],
        job: Json,
        managed: Managed,
        job_kind: ResourceType,
        workload: Json,
    ) -> None:
        """Admit a workload, or say why it waits."""
        local = self.store.get(
            self.store.type_of((GROUP, "localqueues")), workload["metadata"]["namespace"], workload["spec"]["queueName"]
        )
        if local is None:
            self._wait(kind, workload, "Inadmissible", f"LocalQueue {workload['spec']['queueName']} doesn't exist")
            return
        name = dig(local, "spec.clusterQueue", "")
        quota = queues.get(name)
        if quota is None:
            self._wait(kind, workload, "Inadmissible", f"ClusterQueue {name} doesn't exist")
            return
        if dig(quota.obj, "spec.stopPolicy", "None") != "None":
            self._wait(kind, workload, "Inadmissible", f"ClusterQueue {name} is stopped")
            return
        problem, usage = quota.fits(queues, workload)
        if problem and (victims := quota.victims(queues, workload)):
            for victim in victims:
                self._evict(kind, quota, victim, workload)
            problem, usage = quota.fits(queues, workload)
        if problem:
            quota.pending += 1
            self._wait(kind, workload, "Pending", problem)
            return
        quota.take(usage)
        self._admit(kind, quota, workload, usage)
        quota.admitted.append(workload)
        self._suspend(job_kind, managed, job, False)

    def _deactivate(self, kind: ResourceType, workload: Json) -> None:
        """Somebody has taken a workload out of its queue: ``spec.active: false``."""
        why, now = "The workload is deactivated", self.registry.timestamp()
        status = clone(workload.get("status") or {})
        if is_true(workload, "QuotaReserved"):
            status.pop("admission", None)
            set_condition(status, "Admitted", "False", "NoReservation", why, now)
            set_condition(status, "Evicted", "True", "Deactivated", why, now)
        set_condition(status, "QuotaReserved", "False", "Inadmissible", why, now)
        self.status(kind, workload, status)

    def _evict(self, kind: ResourceType, quota: Quota, victim: Json, workload: Json) -> None:
        quota.take(usage_of(victim), -1)
        quota.admitted.remove(victim)
        status, now = clone(victim.get("status") or {}), self.registry.timestamp()
        uid = workload["metadata"]["uid"]
        job = dig(workload, "metadata.labels", {}).get(f"{GROUP}/job-uid", "")
        why = (
            f"Preempted to accommodate a workload (UID: {uid}, JobUID: {job}) due to prioritization in the ClusterQueue"
        )
        status.pop("admission", None)
        for condition in ("QuotaReserved", "Admitted"):
            set_condition(
                status, condition, "False", "Pending" if condition == "QuotaReserved" else "NoReservation", why, now
            )
        set_condition(status, "Evicted", "True", "Preempted", why, now)
        set_condition(status, "Preempted", "True", "InClusterQueue", why, now)
        self.status(kind, victim, status)
        self.registry.event(victim, "EvictedDueToPreempted", why, component=COMPONENT)
        for storage_key, managed in MANAGED.items():
            for held in list(self.store.objects_of(storage_key).values()):
                if held["metadata"]["uid"] == dig(victim, "metadata.labels", {}).get(f"{GROUP}/job-uid"):
                    self._suspend(self.store.type_of(storage_key), managed, held, True)

    def _wait(self, kind: ResourceType, workload: Json, reason: str, message: str) -> None:
        status, now = clone(workload.get("status") or {}), self.registry.timestamp()
        set_condition(status, "QuotaReserved", "False", reason, message, now)
        if status != workload.get("status"):
            self.status(kind, workload, status)
            self.registry.event(workload, reason, message, True, COMPONENT)

    def _admit(self, kind: ResourceType, quota: Quota, workload: Json, usage: Flavors) -> None:
        status, now = clone(workload.get("status") or {}), self.registry.timestamp()
        flavors = {resource: flavor for flavor, resource in usage}
        assignments = []
        for pods in workload["spec"]["podSets"]:
            asked = requests(pods)
            mine = {name: amount * int(pods["count"]) for name, amount in asked.items() if name in flavors}
            assignments.append(
                {
                    "name": pods["name"],
                    "count": pods["count"],
                    "flavors": {name: flavors[name] for name in mine},
                    "resourceUsage": {name: format_quantity(amount) for name, amount in mine.items()},
                }
            )
        status["admission"] = {"clusterQueue": quota.name, "podSetAssignments": assignments}
        reserved = f"Quota reserved in ClusterQueue {quota.name}"
        set_condition(status, "QuotaReserved", "True", "QuotaReserved", reserved, now)
        set_condition(status, "Admitted", "True", "Admitted", "The workload is admitted", now)
        if is_true({"status": status}, "Evicted"):
            set_condition(status, "Evicted", "False", "QuotaReserved", "Previously: evicted", now)
        self.status(kind, workload, status)
        self.registry.event(workload, "Admitted", f"Admitted by ClusterQueue {quota.name}", component=COMPONENT)

    # Jobs

    def _suspend(self, kind: ResourceType, managed: Managed, job: Json, suspended: bool) -> None:
        if bool(dig(job, f"spec.{managed.suspend}")) == suspended:
            return

        def mutate(obj: Json) -> None:
            *parents, last = managed.suspend.split(".")
            spec = obj["spec"]
            for parent in parents:
                spec = spec.setdefault(parent, {})
            spec[last] = suspended

        namespace, name = object_key(job)
        self.registry.modify(kind, namespace, name, mutate)
        if not suspended:
            queue = job["metadata"]["labels"][QUEUE]
            self.registry.event(job, "Started", f"Admitted by clusterQueue of {queue}", component=COMPONENT)

    def _tell(self, queues: dict[str, Quota]) -> None:
        """Statuses of the queues."""
        now = self.registry.timestamp()
        for quota in queues.values():
            status = clone(quota.obj.get("status") or {})
            flavors: dict[str, list[Json]] = {}
            for (flavor, resource), nominal in quota.nominal.items():
                used = quota.used.get((flavor, resource), Decimal(0))
                borrowed = max(used - nominal, Decimal(0))
                entry = {"name": resource, "total": format_quantity(used), "borrowed": format_quantity(borrowed)}
                flavors.setdefault(flavor, []).append(entry)
            usage = [{"name": flavor, "resources": resources} for flavor, resources in flavors.items()]
            status.update(
                pendingWorkloads=quota.pending,
                reservingWorkloads=len(quota.admitted),
                admittedWorkloads=len(quota.admitted),
                flavorsReservation=usage,
                flavorsUsage=clone(usage),
            )
            stopped = dig(quota.obj, "spec.stopPolicy", "None") != "None"
            reason, message = ("Stopped", "is stopped") if stopped else ("Ready", "Can admit new workloads")
            set_condition(status, "Active", "False" if stopped else "True", reason, message, now)
            self.status(self.store.type_of((GROUP, "clusterqueues")), quota.obj, status)
        for local in self._objects("localqueues"):
            self._tell_local(queues, local, now)

    def _tell_local(self, queues: dict[str, Quota], local: Json, now: str) -> None:
        status, name = clone(local.get("status") or {}), dig(local, "spec.clusterQueue", "")
        mine = [
            workload
            for workload in self._objects("workloads")
            if workload["metadata"]["namespace"] == local["metadata"]["namespace"]
            and workload["spec"]["queueName"] == local["metadata"]["name"]
            and not is_true(workload, "Finished")
        ]
        admitted = sum(is_true(workload, "Admitted") for workload in mine)
        status.update(pendingWorkloads=len(mine) - admitted, reservingWorkloads=admitted, admittedWorkloads=admitted)
        known = name in queues
        reason = "Ready" if known else "ClusterQueueDoesNotExist"
        message = "Can submit new workloads to localQueue" if known else "Can't submit new workloads to clusterQueue"
        set_condition(status, "Active", "True" if known else "False", reason, message, now)
        self.status(self.store.type_of((GROUP, "localqueues")), local, status)
