"""What is done to the job of a run: submitted, stopped, suspended, resumed, and written down at its end."""

from __future__ import annotations

import json
from typing import Any

from kubernetes import client
from temporalio import activity

from activities.aws import AwsClients
from activities.buckets import account_of
from activities.context import operation_id
from activities.credentials.secrets import check_namespace
from activities.errors import fail
from activities.kubernetes import APPLY, KubernetesClients, read_or_none
from activities.settings import Settings
from activities.training.kept import last_words
from activities.training.manifests import MOST_CONFIG_BYTES, Manifest, config_map
from activities.training.paths import Job, Site
from activities.training.registry import PATHS, find
from activities.training.sight import ANNOTATION_SUSPENDED_BY
from contracts.names import LABEL_CLUSTER, LABEL_TRAINING, ClusterNames, training_run_prefix
from contracts.problem import ProblemCode
from contracts.training import TrainingSpec, without_secrets
from contracts.training_activities import (
    DELETE_TRAINING_JOB,
    RECORD_TRAINING,
    SET_SUSPENDED,
    SUBMIT_TRAINING,
    RecordTraining,
    SetSuspended,
    StopTraining,
    SubmittedTraining,
    SubmitTraining,
    TrainingRecorded,
    TrainingStopped,
)
from contracts.training_parts import TrainingState

RECORD = "run.json"


class TrainingActs:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=SUBMIT_TRAINING.name)
    def submit(self, request: SubmitTraining) -> SubmittedTraining:
        """The recipe's files and the job, as they are asked for.

        A job of this run that is there already stays; one that ended for another, or that this operation made from
        what has been corrected since, is replaced (BUSY, retried, while it goes). One of this operation that has done
        well meanwhile is what was wanted: it is not run again unless something else is asked for. Raises CONFLICT with
        the differences where a job runs that was made from something else, FOREIGN where it is not ours.
        """
        spec, scope = request.spec, request.scope
        path = PATHS[spec.path]
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            site = Site(api, self._aws, scope.region, scope.cluster)
            core = client.CoreV1Api(api)
            check_namespace(core, spec.namespace)
            before = find(site, spec.namespace, spec.name)
            if before is not None:
                self._refuse_foreign(before, scope.cluster)
                if _done_already(before, request):
                    return _submitted(before, changed=False)
                self._make_way(site, before, request)
            config = ""
            if path.api_version:
                files = config_map(scope.cluster, spec, path.launch(request))
                self._ensure_files(core, files)
                config = files["metadata"]["name"]
            after = path.apply(site, request, config, operation_id())
        return _submitted(after, changed=before is None or before.uid != after.uid)

    def _make_way(self, site: Site, there: Job, request: SubmitTraining) -> None:
        """Return where the job that is there can be the one that is asked for; else have it go, or raise."""
        name = f"{there.namespace}/{there.name}"
        if there.deleting:
            self._wait_for_it(f"the job {name} is being deleted")
        if there.run == request.run:
            return
        different = differences(there.spec, request.spec)
        ours = _execution(there.run) == _execution(request.run)
        if there.state.ended and there.stays:
            return
        if there.state.ended or (ours and different):
            PATHS[there.submission].delete(site, there)
            self._wait_for_it(f"the job {name} of a former attempt goes")
        if different:
            remedy = "Stop it first (stop-training), choose another name, or ask for what runs."
            detail = f"a job {name} runs that differs: {'; '.join(different)}"
            fail(ProblemCode.CONFLICT, detail, remedy, field="/name")

    def _wait_for_it(self, detail: str) -> None:
        remedy = "The platform submits the new one when it is gone."
        fail(ProblemCode.BUSY, detail, remedy, retry=True, delay=self._settings.poll_seconds)

    @staticmethod
    def _ensure_files(core: client.CoreV1Api, files: Manifest) -> None:
        name, namespace = files["metadata"]["name"], files["metadata"]["namespace"]
        size = sum(len(text.encode()) for text in files["data"].values())
        if size > MOST_CONFIG_BYTES:
            detail = f"the recipe's files have {size:,} bytes, and Kubernetes keeps {MOST_CONFIG_BYTES:,} at most"
            fail(ProblemCode.INVALID, detail, "Put them onto shared storage and name their path.", field="/recipe")
        if read_or_none(core.read_namespaced_config_map, name, namespace) is None:
            core.patch_namespaced_config_map(name, namespace, files, **APPLY)

    @staticmethod
    def _refuse_foreign(found: Job, cluster: str) -> None:
        if found.labels.get(LABEL_CLUSTER) == ClusterNames(cluster).label and LABEL_TRAINING in found.labels:
            return
        detail = f"a job {found.namespace}/{found.name} exists that is no run of {cluster}"
        fail(ProblemCode.FOREIGN, detail, "Choose another name, or delete that one.", field="/name")

    @activity.defn(name=DELETE_TRAINING_JOB.name)
    def stop(self, request: StopTraining) -> TrainingStopped:
        """Begin the deletion of the job, with its pods. Nothing where there is none. Raises FOREIGN."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            site = Site(api, self._aws, request.scope.region, request.scope.cluster)
            found = find(site, request.namespace, request.name)
            if found is None:
                return TrainingStopped(name=request.name, namespace=request.namespace, changed=False)
            self._refuse_foreign(found, request.scope.cluster)
            if not found.deleting:
                PATHS[found.submission].delete(site, found)
        return _stopped(found, changed=not found.deleting)

    @activity.defn(name=SET_SUSPENDED.name)
    def set_suspended(self, request: SetSuspended) -> TrainingStopped:
        """Suspend the job, or let it go on. Raises NOT_FOUND, FOREIGN, and CONFLICT for one that has ended."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            site = Site(api, self._aws, request.scope.region, request.scope.cluster)
            found = find(site, request.namespace, request.name)
            if found is None:
                remedy = "Submit the run anew: it goes on from its last checkpoint, if its recipe says so."
                detail = f"there is no job {request.namespace}/{request.name}"
                fail(ProblemCode.NOT_FOUND, detail, remedy, field="/name")
            self._refuse_foreign(found, request.scope.cluster)
            if found.state.ended or found.deleting:
                state = "is being deleted" if found.deleting else f"has {found.state.value}"
                detail = f"the job {request.namespace}/{request.name} {state}"
                fail(ProblemCode.CONFLICT, detail, "Submit the run anew.", field="/name")
            by = f"{request.by}: {request.reason}" if request.reason else request.by
            by_us = found.annotations.get(ANNOTATION_SUSPENDED_BY) is not None
            # A queue suspends jobs, too, until it admits them.
            changed = (found.suspended if found.queue is None else by_us) is not request.suspended
            if changed:
                notes = {ANNOTATION_SUSPENDED_BY: by if request.suspended else None}
                PATHS[found.submission].suspend(site, found, request.suspended, notes)
        return _stopped(found, changed=changed)

    @activity.defn(name=RECORD_TRAINING.name)
    def record(self, request: RecordTraining) -> TrainingRecorded:
        """Write ``run.json`` below the run's prefix in the cluster's bucket: what was asked (without secrets: it names
        credentials), how it went, and how it ended. Written anew it is the same or says more. Of the last attempt it
        has what its kept log says at last."""
        region = request.scope.region
        attempts, heard = request.attempts, last_words(self._aws, request)
        if heard is not None:
            attempts = [*attempts[:-1], attempts[-1].model_copy(update={"reported": heard})]
        document = {
            "version": 1,
            "cluster": request.scope.cluster,
            "operation": request.operation,
            "run": request.run,
            "namespace": request.namespace,
            "name": request.name,
            "state": request.state.value,
            "detail": request.detail,
            "started_by": request.scope.created_by,
            "started_at": request.started_at.isoformat(),
            "spec": without_secrets(request.spec),
            "attempts": [each.model_dump(mode="json", exclude_none=True) for each in attempts],
            "told": [each.model_dump(mode="json", exclude_none=True) for each in request.told],
            "logs": request.logs,
        }
        key = record_key(request.namespace, request.name, request.run)
        self._aws.act.s3(region).put_object(
            Bucket=request.bucket,
            Key=key,
            Body=json.dumps(document, indent=1, ensure_ascii=False).encode(),
            ContentType="application/json",
            ExpectedBucketOwner=account_of(self._aws, region),
        )
        return TrainingRecorded(key=key, reported=heard)


def record_key(namespace: str, name: str, run: str) -> str:
    """Where the record of one execution of a run is."""
    return f"{training_run_prefix(namespace, name, run)}/{RECORD}"


def differences(before: TrainingSpec | None, after: TrainingSpec) -> list[str]:
    """Members of a specification that differ, in words."""
    if before is None:
        return ["what it was made from is not known any more"]
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [f"{key} is {_short(old.get(key))}, asked is {_short(new[key])}" for key in new if old.get(key) != new[key]]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _execution(run: str | None) -> str | None:
    """The Temporal run of an attempt: ``<run>/<attempt>``."""
    return run.partition("/")[0] if run else None


def _done_already(there: Job, request: SubmitTraining) -> bool:
    """Whether a former attempt of this very operation has succeeded at just what is asked for."""
    ours = _execution(there.run) == _execution(request.run)
    well = there.state is TrainingState.SUCCEEDED and not there.deleting
    return well and ours and not differences(there.spec, request.spec)


def _submitted(job: Job, *, changed: bool) -> SubmittedTraining:
    path = PATHS[job.submission]
    return SubmittedTraining(
        name=job.name,
        namespace=job.namespace,
        submission=job.submission,
        uid=job.uid,
        api_version=path.api_version,
        plural=path.plural,
        changed=changed,
    )


def _stopped(found: Job, *, changed: bool) -> TrainingStopped:
    return TrainingStopped(
        name=found.name,
        namespace=found.namespace,
        submission=found.submission,
        uid=found.uid,
        was=found.state.value,
        changed=changed,
    )
