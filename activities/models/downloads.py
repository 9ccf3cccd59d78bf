"""A download: what there is to take, the Job that takes it, and whether it arrived."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.aws import AwsClients
from activities.credentials.secrets import check_namespace, read_token
from activities.errors import fail
from activities.jobs.view import as_pod
from activities.kubernetes import APPLY, REQUEST_TIMEOUT, KubernetesClients, read_or_none
from activities.models import job as made
from activities.models.hub import Hub, HubError, Refusal, explain, look_up
from activities.models.manifests import is_denied, listed_files, read_manifest, stored_files
from activities.models.progress import ending_of, live_line, manifest_of
from activities.models.progress import explain as explain_ending
from activities.nodes.sight import Raw, items
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from activities.storage.volumes import storage_claims
from contracts.models import (
    DELETE_DOWNLOAD,
    ENSURE_DOWNLOAD,
    FILE_LIST,
    FIND_DOWNLOADED,
    MANIFEST,
    RESOLVE_REPOSITORY,
    VERIFY_DOWNLOAD,
    WAIT_FOR_DOWNLOAD,
    DeleteDownload,
    Downloaded,
    DownloadGone,
    DownloadJob,
    DownloadResult,
    DownloadSpec,
    EnsureDownload,
    FindDownloaded,
    Manifest,
    RepositoryFound,
    ResolveRepository,
    VerifyDownload,
    WaitForDownload,
)
from contracts.names import ANNOTATION_RUN
from contracts.problem import ProblemCode
from contracts.storage import Claim, StorageType

LOG_LINES = 20
STUCK = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"})


class DownloadActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=RESOLVE_REPOSITORY.name)
    def resolve_repository(self, request: ResolveRepository) -> RepositoryFound:
        """Commit, files and bytes as the Hub has them now; no commit where the platform has no way to the Hub.

        Raises the problem of a refusal, NOT_FOUND for a credential that is not stored.
        """
        spec = request.spec
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            token = token_of(api, spec)
        try:
            with Hub(self._settings.hugging_face_endpoint, token) as hub:
                return look_up(hub, spec)
        except HubError as error:
            if error.refusal is Refusal.UNREACHABLE:
                return RepositoryFound()
            found = explain(error, spec, self._settings.hugging_face_endpoint)
            retry = error.refusal is Refusal.THROTTLED
            delay = 4 * self._settings.poll_seconds
            fail(found.code, found.detail, found.remedy or "", field=found.field, retry=retry, delay=delay)

    @activity.defn(name=FIND_DOWNLOADED.name)
    def find_downloaded(self, request: FindDownloaded) -> Downloaded:
        """The manifest of what is there, if it is just what is asked and every file is in the bucket."""
        spec, scope = request.spec, request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            claim = claim_for(client.CoreV1Api(api), spec, scope.cluster)
        if claim is None or request.found.commit is None:
            return Downloaded()
        return Downloaded(manifest=downloaded(self._aws, scope.region, claim, spec, request.found.commit))

    @activity.defn(name=ENSURE_DOWNLOAD.name)
    def ensure_download(self, request: EnsureDownload) -> DownloadJob:
        """The script's ConfigMap and the Job. A Job that runs, has succeeded, or has failed for this very run, stays;
        one that failed for an earlier run is replaced (BUSY, retried, while it goes)."""
        scope, spec = request.scope, request.spec
        name = made.job_name(request)
        script = made.script_manifest(scope.cluster, spec.namespace)
        script_name = script["metadata"]["name"]
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            core, batch = client.CoreV1Api(api), client.BatchV1Api(api)
            check_namespace(core, spec.namespace)
            there: Any = read_or_none(batch.read_namespaced_job, name, spec.namespace)
            if there is not None and (why := self._in_the_way(there, request)):
                if there.metadata.deletion_timestamp is None:
                    _delete(batch, there)
                fail(
                    ProblemCode.BUSY,
                    f"Job {spec.namespace}/{name} {why}",
                    "The platform makes a new one when it is gone.",
                    retry=True,
                    delay=self._settings.poll_seconds,
                )
            if there is None:
                if read_or_none(core.read_namespaced_config_map, script_name, spec.namespace) is None:
                    core.patch_namespaced_config_map(script_name, spec.namespace, script, **APPLY)
                manifest = made.job_manifest(request, self._settings, script_name)
                batch.patch_namespaced_job(name, spec.namespace, manifest, **APPLY)
        return DownloadJob(job=name, namespace=spec.namespace, commit=request.found.commit, changed=there is None)

    @staticmethod
    def _in_the_way(there: Any, request: EnsureDownload) -> str | None:
        """Why a Job that is there cannot be the one that is asked; None where it can."""
        if there.metadata.deletion_timestamp is not None:
            return "is being deleted"
        run = (there.metadata.annotations or {}).get(ANNOTATION_RUN)
        ended = {each.type for each in (there.status.conditions or ()) if each.status == "True"}
        if "Failed" in ended and run != request.run:
            return "has failed before, and is replaced"
        if "Complete" in ended and run != request.run:
            # What it has left is not there any more, or its end would not have to be looked at again.
            return "has ended before, and is replaced"
        return None

    @activity.defn(name=WAIT_FOR_DOWNLOAD.name)
    async def wait_for_download(self, request: WaitForDownload) -> Manifest:
        """Until the Job has succeeded; its manifest. Raises the problem that it failed with, NOT_FOUND where somebody
        has deleted it, CAPACITY or NOT_READY where its pod does not start for ``shortfall_patience``."""

        def look(memory: Memory) -> Seen[Manifest]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                return self._look(api, request, memory)

        pace = self._settings.poll_seconds
        return await wait_until(look, what="the end of the download", limit=WAIT_FOR_DOWNLOAD.limit, poll_seconds=pace)

    def _look(self, api: client.ApiClient, request: WaitForDownload, memory: Memory) -> Seen[Manifest]:
        name, namespace = request.job, request.namespace
        there: Any = read_or_none(client.BatchV1Api(api).read_namespaced_job, name, namespace)
        if there is None:
            detail = f"there is no Job {namespace}/{name} any more"
            fail(ProblemCode.NOT_FOUND, detail, "Retry: a new one goes on with what is missing.", retryable=True)
        core = client.CoreV1Api(api)
        listing = partial(core.list_namespaced_pod, namespace)
        pods = [
            pod for pod in items(listing, label_selector=f"batch.kubernetes.io/job-name={name}") if _owned(pod, there)
        ]
        pods.sort(key=lambda pod: pod["metadata"]["creationTimestamp"])
        conditions = {each.type: each for each in (there.status.conditions or ()) if each.status == "True"}
        if "Complete" in conditions:
            return Seen("downloaded", _told(pods))
        if (failed := conditions.get("Failed")) is not None:
            _failed(pods, request.spec, f"{failed.reason}: {failed.message}")
        if not pods:
            return Seen("the Job has no pod yet")
        return Seen(self._pod_line(core, pods, memory))

    def _pod_line(self, core: client.CoreV1Api, pods: list[Raw], memory: Memory) -> str:
        """The stage's live line; raises where the pod has not started for too long."""
        newest, view = pods[-1], as_pod(pods[-1])
        again = f" (attempt {len(pods)})" if len(pods) > 1 else ""
        if view.phase == "Running":
            memory.notes.pop("waiting_since", None)
            line = live_line(_log(core, newest))
            return f"{line or 'the script starts'}{again}"
        why = ": ".join(filter(None, (view.reason, view.message)))
        if view.phase == "Pending":
            since = memory.notes.setdefault("waiting_since", time.time())
            too_long = time.time() - since >= self._settings.shortfall_patience
            if too_long and view.reason == "Unschedulable":
                remedy = (
                    "Add or choose nodes with room (instance_types), or ask for less cpu and memory_gib; retry then."
                )
                fail(ProblemCode.CAPACITY, f"no node has room for the download: {why}", remedy, retryable=True)
            if too_long and view.reason in STUCK:
                remedy = "Retry with an image that the nodes can pull."
                fail(ProblemCode.NOT_READY, f"the pod cannot start: {why}", remedy, field="/image", retryable=True)
        return f"the pod is {view.phase}{f': {why}' if why else ''}{again}"

    @activity.defn(name=VERIFY_DOWNLOAD.name)
    def verify_download(self, request: VerifyDownload) -> DownloadResult:
        """Look at what has arrived. On S3 every file is in the bucket with its size; what is on a file system only pods
        can see, and the Job has verified. Raises CONFLICT where something is missing or differs."""
        scope, spec, told = request.scope, request.spec, request.told
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            claim = claim_for(client.CoreV1Api(api), spec, scope.cluster)
        if claim is None:
            detail, remedy = f"claim {spec.namespace}/{spec.claim} is gone", "Make it again, then retry."
            fail(ProblemCode.NOT_FOUND, detail, remedy)
        by_storage = claim.type is StorageType.S3
        if by_storage:
            wrong = self._wrong(scope.region, claim, spec, told)
            if wrong is not None:
                remedy = "Look who else writes there; abort, and download again: what is right is not downloaded twice."
                fail(ProblemCode.CONFLICT, f"what is in {claim.source} is not what was downloaded: {wrong}", remedy)
        return DownloadResult(
            repository=spec.repository,
            repository_type=spec.repository_type,
            commit=told.commit,
            claim=spec.claim,
            namespace=spec.namespace,
            path=spec.folder,
            files=told.files,
            size=told.size,
            seconds=told.seconds,
            verified_by="storage" if by_storage else "job",
        )

    def _wrong(self, region: str, claim: Claim, spec: DownloadSpec, told: Manifest) -> str | None:
        try:
            manifest = read_manifest(self._aws, region, claim, spec.folder)
            if manifest is None or manifest.commit != told.commit:
                return "its manifest is missing, or another one"
            return missing(self._aws, region, claim, spec.folder)
        except Exception as error:
            if is_denied(error):
                remedy = f"Allow s3:ListBucket and s3:GetObject on {claim.bucket} to the platform's role, then retry."
                fail(ProblemCode.DENIED, f"The platform may not read bucket {claim.bucket}", remedy)
            raise

    @activity.defn(name=DELETE_DOWNLOAD.name)
    def delete_download(self, request: DeleteDownload) -> DownloadGone:
        """Delete the Job and its pods. Absent is done; files that have arrived stay."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            batch = client.BatchV1Api(api)
            there: Any = read_or_none(batch.read_namespaced_job, request.job, request.namespace)
            if there is None:
                return DownloadGone(job=request.job, changed=False)
            _delete(batch, there)
        return DownloadGone(job=request.job)


def token_of(api: client.ApiClient, spec: DownloadSpec) -> str | None:
    """The token that the spec's credential holds; None where it names none. Raises NOT_FOUND where there is none."""
    if spec.credential is None:
        return None
    token = read_token(api, spec.namespace, spec.credential)
    if token is None:
        detail = f"there is no credential {spec.credential} in namespace {spec.namespace}"
        fail(ProblemCode.NOT_FOUND, detail, "Store it first (PUT …/credentials/NAME).", field="/credential")
    return token


def claim_for(core: client.CoreV1Api, spec: DownloadSpec, cluster: str) -> Claim | None:
    """The claim that a download goes to."""
    claims = storage_claims(core, cluster)
    return next((each for each in claims if (each.namespace, each.claim) == (spec.namespace, spec.claim)), None)


def downloaded(aws: AwsClients, region: str, claim: Claim, spec: DownloadSpec, commit: str) -> Manifest | None:
    """The manifest of what is on the claim, if that is just what is asked and complete; None where it is not, or cannot
    be seen."""
    found = folder_manifest(aws, region, claim, spec.folder)
    wanted = (spec.repository, spec.repository_type, commit, spec.selection)
    if found is None or (found.repository, found.repository_type, found.commit, found.selection) != wanted:
        return None
    try:
        return found if missing(aws, region, claim, spec.folder) is None else None
    except Exception as error:
        if is_denied(error):
            return None
        raise


def folder_manifest(aws: AwsClients, region: str, claim: Claim, path: str) -> Manifest | None:
    """What a finished download says of a folder; None where none does, or nobody can see it: file systems, and buckets
    that the platform may not read."""
    if claim.type is not StorageType.S3 or not claim.bucket:
        return None
    try:
        return read_manifest(aws, region, claim, path)
    except Exception as error:
        if is_denied(error):
            return None
        raise


def missing(aws: AwsClients, region: str, claim: Claim, path: str) -> str | None:
    """What of a folder's list of files is not in the bucket, or has another size; None where all is there."""
    listed = listed_files(aws, region, claim, path)
    if listed is None:
        return f"there is no {FILE_LIST}"
    stored = stored_files(aws, region, claim, path)
    wrong = [name for name, size in listed.items() if stored.get(name) != size]
    if MANIFEST not in stored:
        wrong.append(MANIFEST)
    return f"{len(wrong)} of {len(listed)} files are missing or differ, {wrong[0]} for one" if wrong else None


def _delete(batch: client.BatchV1Api, there: Any) -> None:
    """Delete just this Job, with its pods."""
    body = client.V1DeleteOptions(
        propagation_policy="Background", preconditions=client.V1Preconditions(uid=there.metadata.uid)
    )
    try:
        batch.delete_namespaced_job(
            there.metadata.name, there.metadata.namespace, body=body, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status not in (404, 409):
            raise


def _owned(pod: Raw, job: Any) -> bool:
    return any(owner.get("uid") == job.metadata.uid for owner in pod["metadata"].get("ownerReferences") or ())


def _log(core: client.CoreV1Api, pod: Raw) -> str:
    """The end of the pod's log; nothing where there is none yet."""
    meta = pod["metadata"]
    try:
        found: Any = core.read_namespaced_pod_log(
            meta["name"],
            meta["namespace"],
            container=made.CONTAINER,
            tail_lines=LOG_LINES,
            _request_timeout=REQUEST_TIMEOUT,
        )
    except ApiException as error:
        if error.status in (400, 404):
            return ""
        raise
    return str(found or "")


def _ends(pods: list[Raw]) -> list[tuple[int, str]]:
    """Exit code and message of every container that has ended, the newest last."""
    return [
        (ended["exitCode"], ended.get("message") or "")
        for pod in pods
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
        if (ended := (each.get("state") or {}).get("terminated")) is not None
    ]


def _told(pods: list[Raw]) -> Manifest:
    """What the pod that succeeded has told. Raises NOT_FOUND where it is gone before it was heard."""
    for code, message in reversed(_ends(pods)):
        if code == 0 and (found := manifest_of(message)) is not None:
            return found
    detail = "the Job has succeeded, and its pod is gone before it could tell of what"
    fail(ProblemCode.NOT_FOUND, detail, "Retry: a new Job looks at what is there, and tells.", retryable=True)


def _failed(pods: list[Raw], spec: DownloadSpec, condition: str) -> None:
    """Raise the problem that a failed Job is."""
    if condition.startswith("DeadlineExceeded"):
        remedy = "Retry with a longer deadline_hours; files that are finished are not downloaded again."
        fail(ProblemCode.TIMEOUT, "the deadline of the download is over", remedy, field="/deadline_hours")
    ended = [each for each in _ends(pods) if each[0] != 0]
    if not ended:
        fail(ProblemCode.NOT_READY, f"the Job has failed: {condition}", "Look at its pods, then retry.", retryable=True)
    code, detail, remedy, field = explain_ending(ending_of(*ended[-1]), spec)
    fail(code, detail, remedy, field=field, retryable=True)
