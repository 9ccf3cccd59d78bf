"""Jobs run pods to completion: https://kubernetes.io/docs/concepts/workloads/controllers/job/"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, dig, is_true, parse_time, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, controller_of, is_active, is_deleted, is_ready, object_key

JOBS = ("batch", "jobs")
COMPONENT = "job-controller"
INDEX = "batch.kubernetes.io/job-completion-index"
BACKOFF_SECONDS = 10.0


class JobController(Controller):
    name = "job"
    watches = (JOBS, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == PODS:
            owner = controller_of(change.new, "Job")
            if owner is not None:
                yield owner
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        job = self.find(self.kind("jobs", "batch"), key)
        if job is None or is_deleted(job):
            return
        if is_true(job, "Complete") or is_true(job, "Failed"):
            self._expire(job, key)
            return
        pods = self.owned(job, "Pod")
        succeeded = [pod for pod in pods if dig(pod, "status.phase") == "Succeeded"]
        failed = [pod for pod in pods if dig(pod, "status.phase") == "Failed"]
        active = [pod for pod in pods if is_active(pod)]
        spec = job["spec"]
        wanted = spec.get("completions") or spec.get("parallelism", 1)
        restarts = sum(
            c.get("restartCount", 0)
            for pod in pods
            if spec["template"]["spec"]["restartPolicy"] == "OnFailure"
            for c in dig(pod, "status.containerStatuses", [])
        )
        status = clone(job.get("status") or {})
        now = self.registry.timestamp()
        if spec.get("suspend"):
            for pod in active:
                self.registry.delete(self.kind("pods"), pod)
            status.pop("startTime", None)
            set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
            active = []
        else:
            status.setdefault("startTime", now)
            if is_true(job, "Suspended"):
                set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now)
            ignored = sum(_matching(job, pod)[0] == "Ignore" for pod in failed)
            reason = _fails_job(job, failed) or self._failure(job, status, len(failed) - ignored + restarts)
            if len(succeeded) >= wanted:
                self._end(
                    job, active, status, "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
                )
                status["completionTime"] = now
                active = []
            elif reason:
                self._end(job, active, status, "Failed", *reason)
                active = []
            else:
                self._start(job, key, wanted, succeeded, failed, active)
                active = [pod for pod in self.owned(job, "Pod") if is_active(pod)]
        self._count(status, active, len(succeeded), len(failed))
        self._index(job, status, succeeded)
        self.status(self.kind("jobs", "batch"), job, status)

    def _failure(self, job: Json, status: Json, failures: int) -> tuple[str, str] | None:
        spec = job["spec"]
        if failures > spec["backoffLimit"]:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None:
            left = parse_time(status["startTime"]) + deadline - self.registry.now()
            if left <= 0:
                return "DeadlineExceeded", "Job was active longer than specified deadline"
            if "startTime" not in (job.get("status") or {}):
                self.later(left, object_key(job))
        return None

    def _end(self, job: Json, active: list[Json], status: Json, kind: str, reason: str, message: str) -> None:
        now = self.registry.timestamp()
        for pod in active:
            self.registry.delete(self.kind("pods"), pod)
        first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        for condition in (first, kind):
            set_condition(status, condition, "True", reason, message, now, lastProbeTime=now)
        self.registry.event(
            job,
            "Completed" if kind == "Complete" else reason,
            message if kind == "Failed" else "Job completed",
            kind == "Failed",
            COMPONENT,
        )

    def _start(
        self, job: Json, key: Key, wanted: int, succeeded: list[Json], failed: list[Json], active: list[Json]
    ) -> None:
        spec = job["spec"]
        missing = min(spec["parallelism"], wanted - len(succeeded)) - len(active)
        if missing < 0:
            for pod in active[missing:]:
                self.registry.delete(self.kind("pods"), pod)
            return
        if missing and failed:
            # A failed pod is replaced after a back-off that doubles.
            ended = max(parse_time(self._ended(pod)) for pod in failed)
            left = ended + min(BACKOFF_SECONDS * 2 ** (len(failed) - 1), 360) - self.registry.now()
            if left > 0:
                self.later(left, key)
                return
        taken = {(p["metadata"].get("annotations") or {}).get(INDEX) for p in [*succeeded, *active]}
        indexes = (str(i) for i in range(wanted) if str(i) not in taken)
        for _ in range(missing):
            template, labels = spec["template"], {}
            name = None
            pod = self.make_pod(job, template)
            if spec["completionMode"] == "Indexed":
                index = next(indexes)
                labels = {INDEX: index}
                name = f"{job['metadata']['name']}-{index}-"
                pod = self.make_pod(job, template, labels=labels)
                pod["metadata"]["generateName"] = name
                pod["metadata"].setdefault("annotations", {})[INDEX] = index
                pod["spec"]["hostname"] = name.rstrip("-")
                for container in pod["spec"]["containers"]:
                    container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": index})
            try:
                made = self.registry.create(self.kind("pods"), key[0], pod)
            except ApiError as error:
                self.registry.event(job, "FailedCreate", f"Error creating: {error.message}", True, COMPONENT)
                self.later(BACKOFF_SECONDS, key)
                return
            self.registry.event(
                job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", component=COMPONENT
            )

    @staticmethod
    def _ended(pod: Json) -> str:
        for container in dig(pod, "status.containerStatuses", []):
            if finished := dig(container, "state.terminated.finishedAt"):
                return str(finished)
        return str(pod["metadata"]["creationTimestamp"])

    @staticmethod
    def _count(status: Json, active: list[Json], succeeded: int, failed: int) -> None:
        counts = {"active": len(active), "succeeded": succeeded, "failed": failed}
        for name, count in counts.items():
            if count:
                status[name] = count
            else:
                status.pop(name, None)
        status.update(ready=sum(is_ready(pod) for pod in active), terminating=0, uncountedTerminatedPods={})

    @staticmethod
    def _index(job: Json, status: Json, succeeded: list[Json]) -> None:
        if job["spec"]["completionMode"] == "Indexed" and succeeded:
            done = {int((p["metadata"].get("annotations") or {})[INDEX]) for p in succeeded}
            status["completedIndexes"] = ",".join(map(str, sorted(done)))

    def _expire(self, job: Json, key: Key) -> None:
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        ended = max(parse_time(c["lastTransitionTime"]) for c in job["status"]["conditions"])
        left = ended + seconds - self.registry.now()
        if left > 0:
            self.later(left, key)
        else:
            self.registry.delete(self.kind("jobs", "batch"), job, {"propagationPolicy": "Foreground"})


def _matching(job: Json, pod: Json) -> tuple[str, str]:
    """What the Job's failure policy says of a failed pod: the action of the first rule that fits it, and why.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy"""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for index, rule in enumerate(dig(job, "spec.podFailurePolicy.rules", [])):
        asked = rule.get("onExitCodes") or {}
        for status in dig(pod, "status.containerStatuses", []):
            code = dig(status, "state.terminated.exitCode", 0)
            named = asked.get("containerName") in (None, status["name"])
            inside = code in asked.get("values", [])
            if asked and code and named and inside == (asked.get("operator") == "In"):
                why = f"Container {status['name']} for pod {name} failed with exit code {code}"
                return rule["action"], f"{why} matching {rule['action']} rule at index {index}"
        for pattern in rule.get("onPodConditions") or []:
            for condition in dig(pod, "status.conditions", []):
                if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                    why = f"Pod {name} has condition {pattern['type']}"
                    return rule["action"], f"{why} matching {rule['action']} rule at index {index}"
    return "", ""


def _fails_job(job: Json, failed: list[Json]) -> tuple[str, str] | None:
    """Why the Job has failed at once, if its policy says so."""
    for pod in failed:
        action, why = _matching(job, pod)
        if action == "FailJob":
            return "PodFailurePolicy", why
    return None
