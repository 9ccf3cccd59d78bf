"""The HyperPod training operator: a HyperPodPyTorchJob becomes pods that train together, and start again together.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html . Fields of the status as in the
mirror of https://github.com/aws/sagemaker-hyperpod-cli (``hyperpod_pytorch_job_unified_config.py``), reasons as in the
elastic agent, https://pypi.org/project/hyperpod-elastic-agent/ . UNVERIFIED, because neither the definition nor the
operator is public: conditions and their reasons, events, names and labels of pods, when a budget counts what, that
``ttlSecondsAfterFinished: 0`` keeps a job, how an elastic job grows. Without the operator's deployment nothing happens,
as on a real cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes import nodefaults
from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, condition, dig, is_true, parse_time, set_condition
from sandbox.kubernetes.programs.crashes import CRASHES
from sandbox.kubernetes.programs.training_lines import Place, last_checkpoint
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import DELETED, Change
from sandbox.kubernetes.training.attempts import CRASHED, DONE, JUDGED, LOST, STOPPED, Attempt, Run
from sandbox.kubernetes.training.reader import words

from . import elasticity, restarts
from .base import PODS, Controller, Key, controller_of, is_deleted, is_ready, object_key
from .deployments import DEPLOYMENTS

GROUP, PLURAL, KIND = "sagemaker.amazonaws.com", "hyperpodpytorchjobs", "HyperPodPyTorchJob"
TRAINING_JOBS = (GROUP, PLURAL)
OPERATOR = "hp-training-operator"
JOB_LABEL, REPLICA_LABEL = "training.sagemaker.amazonaws.com/job-name", "training.sagemaker.amazonaws.com/replica-type"
INDEX_LABEL = "training.sagemaker.amazonaws.com/replica-index"
RESTART_SECONDS = 8.0
"""Until the processes start again within their pods."""
MASTER_PORT = "29500"


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
        elif change.type == DELETED:
            self.cluster.training.forget(change.new["metadata"]["uid"])
        else:
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
            self._finished(kind, job, key)
            return
        status, now = clone(job.get("status") or {}), self.registry.timestamp()
        set_condition(status, "Created", "True", "JobCreated", f"{key[1]} is created", now)
        status.setdefault("restartCount", 0)
        if dig(job, "spec.runPolicy.suspend"):
            self._suspend(job, status, now)
        else:
            if condition({"status": status}, "Suspended") is not None:
                set_condition(status, "Suspended", "False", "JobResumed", f"{key[1]} is resumed", now)
            status.setdefault("startTime", now)
            if not self._too_long(job, status, now):
                self._run(job, status, now)
        self._list(job, status)
        self.status(kind, job, status)

    # One after the other: suspended, running, finished

    def _suspend(self, job: Json, status: Json, now: str) -> None:
        """No pod is left, and what was done since the last checkpoint is lost."""
        self.cluster.training.end(job["metadata"]["uid"], STOPPED)
        self._delete(pod for pod in self.owned(job, "Pod"))
        name = job["metadata"]["name"]
        if condition({"status": status}, "Running") is not None:
            set_condition(status, "Running", "False", "JobSuspended", f"{name} is suspended", now)
        set_condition(status, "Suspended", "True", "JobSuspended", f"{name} is suspended", now)
        status.pop("startTime", None)

    def _run(self, job: Json, status: Json, now: str) -> None:
        uid = job["metadata"]["uid"]
        run = self.cluster.training.get(uid)
        attempt = run.current if run is not None else None
        if run is not None and attempt is not None:
            self._watch(job, status, now, run, attempt)
            if is_true({"status": status}, "Failed") or is_true({"status": status}, "Completed"):
                return
        wanted = elasticity.replicas(job, len(self._placed(job)))
        total = self._fill(job, elasticity.most(job) + sum(int(r.get("spares") or 0) for r in _replicas(job)))
        run = self.cluster.training.get(uid)
        if run is None and self._unknown(job, status, now, total):
            return
        if total and (run is None or run.current is None):
            self._start(job, status, now, run, wanted)
        elif run is not None and run.current is not None and run.current.nodes < wanted:
            self._grow(job, run, wanted)

    def _start(self, job: Json, status: Json, now: str, run: Run | None, wanted: int) -> None:
        """All pods are there: their processes start."""
        pods = self._ranked(job)
        ready = [pod for pod in pods if is_ready(pod)]
        if len(ready) < wanted:
            self._expect_start(job, status, now)
            return
        last = run.last if run is not None else None
        if last is not None and last.ended is not None:
            left = last.ended + RESTART_SECONDS - self.registry.now()
            if left > 0:
                self.later(left, object_key(job))
                return
        known = last.members if last is not None else {}
        # Those that trained before go on; a spare goes before a pod that was made in the place of a lost one.
        first = sorted(
            ready, key=lambda pod: (pod["metadata"]["uid"] not in known, pod["metadata"]["creationTimestamp"])
        )
        chosen = {pod["metadata"]["uid"] for pod in first[:wanted]}
        members = [pod for pod in ready if pod["metadata"]["uid"] in chosen]
        trainer = self.cluster.training.trainer(members[0])
        name = job["metadata"]["name"]
        set_condition(status, "Running", "True", "JobRunning", f"{name} is running", now)
        status["masterAddr"], status["masterPort"] = dig(members[0], "status.podIP", ""), MASTER_PORT
        if trainer is None:
            return
        done = 0
        if run is not None and last is not None:
            done = last_checkpoint(run.trainer, last.steps_at(run.trainer, min(last.stop, self.registry.now())))
        self.cluster.training.begin(job["metadata"]["uid"], trainer, members, min(done, trainer.steps))
        for pod in members:
            self.cluster.controllers.enqueue("kubelet", object_key(pod))
        self.later(0, object_key(job))

    def _unknown(self, job: Json, status: Json, now: str, total: int) -> bool:
        """Whether the pods run a program of which nothing is known but how they end, as their annotations say."""
        pods = [pod for pod in self.owned(job, "Pod") if not is_deleted(pod)]
        phases = [dig(pod, "status.phase") for pod in pods]
        if total and phases.count("Succeeded") >= total:
            self._complete(job, status, now)
            return True
        if "Failed" in phases:
            restarts.restart(self, job, status, "PodFault", f"{phases.count('Failed')} of {total} pods have failed")
            return True
        return False

    def _watch(self, job: Json, status: Json, now: str, run: Run, attempt: Attempt) -> None:
        """Look at an attempt that goes on: whether it is done, or over, and when to look again."""
        moment, uid = self.registry.now(), job["metadata"]["uid"]
        members = [self.store.by_uid(member) for member in attempt.members]
        done = attempt.done_at(run.trainer)
        verdict = self.cluster.training.verdict(uid, dig(job, "spec.runPolicy.logMonitoringConfiguration", []))
        fall = attempt.fall
        if all(pod is not None and dig(pod, "status.phase") == "Succeeded" for pod in members):
            self.cluster.training.end(uid, DONE)
            self._complete(job, status, now)
        elif fall is not None and fall.at <= min(moment, done):
            crash = CRASHES[fall.cause]
            place = Place(fall.rank, attempt.nodes, attempt.number, attempt.first_step, job["metadata"]["name"])
            said = words(run.trainer, attempt, place, fall) or [crash.reason]
            told = f"Local Rank {run.trainer.processes - 1} exited with code {crash.exit_code} due to: {said[-1]}"
            self.cluster.training.end(uid, CRASHED, told)
            if crash.node:
                self._strike(attempt, fall.rank, crash.node)
            restarts.restart(self, job, status, "WorkerCrash", f"A training worker process has crashed:\n    {told}")
        elif verdict is not None and verdict.at <= min(moment, done):
            self.cluster.training.end(uid, JUDGED, verdict.message)
            restarts.restart(self, job, status, verdict.reason, verdict.message)
        elif lost := [pod for pod in members if pod is None or is_deleted(pod) or dig(pod, "status.phase") == "Failed"]:
            if any(pod is not None and dig(pod, "status.phase") == "Failed" for pod in lost) or moment < done:
                self.cluster.training.end(uid, LOST)
                why = f"{len(lost)} of {attempt.nodes} pods of the job are gone or have failed"
                restarts.restart(self, job, status, "PodFault", why)
        else:
            times = (fall.at if fall else None, verdict.at if verdict else None)
            ahead = [at for at in times if at is not None and moment < at < done]
            if ahead:
                self.later(min(ahead) - moment + 0.001, object_key(job))

    def _strike(self, attempt: Attempt, rank: int, fault: str) -> None:
        """What made a process fail befalls its node, too."""
        for uid, member in attempt.members.items():
            pod = self.store.by_uid(uid) if member == rank else None
            if pod is not None and (node := dig(pod, "spec.nodeName")):
                nodefaults.strike(self.cluster, node, fault)

    def _complete(self, job: Json, status: Json, now: str) -> None:
        name = job["metadata"]["name"]
        set_condition(status, "Running", "False", "JobCompleted", f"{name} has completed", now)
        set_condition(status, "Completed", "True", "JobCompleted", f"{name} has completed", now)
        status["completionTime"] = now
        self.registry.event(job, "JobCompleted", f"{name} has completed", component=OPERATOR)

    def fail(self, job: Json, status: Json, reason: str, message: str) -> None:
        """The job is given up."""
        now = self.registry.timestamp()
        self.cluster.training.end(job["metadata"]["uid"], STOPPED)
        if condition({"status": status}, "Running") is not None:
            set_condition(status, "Running", "False", reason, message, now)
        set_condition(status, "Failed", "True", reason, message, now)
        status["completionTime"] = now
        self.registry.event(job, reason, message, True, OPERATOR)

    def _finished(self, kind: ResourceType, job: Json, key: Key) -> None:
        """Clean up as the policy says."""
        policy = dig(job, "spec.runPolicy.cleanPodPolicy", "All")
        pods = self.owned(job, "Pod")
        if policy == "All":
            self._delete(pods)
        elif policy == "OnlyComplete":
            self._delete(pod for pod in pods if dig(pod, "status.phase") == "Succeeded")
        status = clone(job["status"])
        self._list(job, status)
        self.status(kind, job, status)
        keep = int(dig(job, "spec.runPolicy.ttlSecondsAfterFinished", 0))
        if keep > 0:
            left = parse_time(dig(job, "status.completionTime", self.registry.timestamp())) + keep - self.registry.now()
            if left > 0:
                self.later(left, key)
            else:
                self.registry.delete(kind, job)

    # Deadlines

    def _too_long(self, job: Json, status: Json, now: str) -> bool:
        limit = dig(job, "spec.runPolicy.activeDeadlineSeconds")
        if limit is None:
            return False
        left = parse_time(status["startTime"]) + limit - self.registry.now()
        if left <= 0:
            self.fail(job, status, "DeadlineExceeded", f"{job['metadata']['name']} was active longer than {limit} s")
            return True
        if dig(job, "status.startTime") is None:
            self.later(left, object_key(job))
        return False

    def _expect_start(self, job: Json, status: Json, now: str) -> None:
        limit = dig(job, "spec.runPolicy.startupDeadlineSeconds")
        run = self.cluster.training.get(job["metadata"]["uid"])
        if limit is None or run is not None:
            return
        left = parse_time(status["startTime"]) + limit - self.registry.now()
        if left <= 0:
            why = f"{job['metadata']['name']} did not start within {limit} s"
            self.fail(job, status, "StartupDeadlineExceeded", why)
        elif dig(job, "status.startTime") is None:
            self.later(left, object_key(job))

    # Pods

    def _delete(self, pods: Iterable[Json]) -> None:
        for pod in list(pods):
            if not is_deleted(pod):
                self.registry.delete(self.kind("pods"), pod)

    def stop_all(self, job: Json) -> None:
        """All pods go, and are made anew."""
        self._delete(self.owned(job, "Pod"))

    def stop_failed(self, job: Json) -> None:
        """The pods that cannot go on go, and are made anew."""
        self._delete(pod for pod in self.owned(job, "Pod") if dig(pod, "status.phase") in ("Failed", "Succeeded"))

    def _ranked(self, job: Json) -> list[Json]:
        """The job's pods in the order of their indexes."""
        pods = self.owned(job, "Pod")
        return sorted(pods, key=lambda pod: int(dig(pod, "metadata.labels", {}).get(INDEX_LABEL, 0)))

    def _placed(self, job: Json) -> list[Json]:
        return [pod for pod in self.owned(job, "Pod") if dig(pod, "spec.nodeName") and not is_deleted(pod)]

    def _grow(self, job: Json, run: Run, wanted: int) -> None:
        """More pods are ready than train: an elastic job starts anew with all of them, from its last checkpoint."""
        ready = [pod for pod in self._ranked(job) if is_ready(pod)]
        if len(ready) >= wanted and dig(job, "spec.elasticPolicy"):
            self.cluster.training.end(run.key, STOPPED, "ScaleUp")
            self.registry.event(job, "ScaleUp", f"The job goes on with {wanted} replicas", component=OPERATOR)
            self.later(RESTART_SECONDS, object_key(job))

    def _fill(self, job: Json, count: int) -> int:
        """Make the pods that are missing; how many there are to be."""
        meta, index = job["metadata"], 0
        names = {pod["metadata"]["name"] for pod in self.owned(job, "Pod")}
        replicas = _replicas(job)
        for replica in replicas:
            share = count if len(replicas) == 1 else int(replica.get("replicas") or 0) + int(replica.get("spares") or 0)
            for number in range(share):
                name = f"{meta['name']}-{replica['name']}-{number}"
                labels = {JOB_LABEL: meta["name"], REPLICA_LABEL: replica["name"], INDEX_LABEL: str(index)}
                index += 1
                if name not in names and not self._make(job, replica, name, labels):
                    return count
        return index

    def _make(self, job: Json, replica: Json, name: str, labels: dict[str, str]) -> bool:
        template = clone(replica["template"])
        template["spec"].setdefault("restartPolicy", "Never")
        template["spec"].setdefault("hostname", name)
        info: Json = next(iter(dig(job, "status.podSetInfos", [])), {})
        if selector := info.get("nodeSelector"):
            template["spec"]["nodeSelector"] = {**(template["spec"].get("nodeSelector") or {}), **selector}
        namespace = job["metadata"]["namespace"]
        try:
            self.registry.create(self.kind("pods"), namespace, self.make_pod(job, template, name, labels))
        except ApiError as error:
            self.registry.event(job, "FailedCreate", f"Error creating: {error.message}", True, OPERATOR)
            self.later(10, object_key(job))
            return False
        return True

    def _list(self, job: Json, status: Json) -> None:
        status["jobPods"] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "namespace": pod["metadata"]["namespace"],
                "uid": pod["metadata"]["uid"],
            }
            for pod in self._ranked(job)
            if not is_deleted(pod)
        ]


def _replicas(job: Json) -> list[Json]:
    return list(dig(job, "spec.replicaSpecs", []))
