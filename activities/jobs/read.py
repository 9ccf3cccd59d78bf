"""Jobs, read page by page, and one with its pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import partial
from typing import Any, NoReturn

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.errors import fail
from activities.jobs.view import as_job, as_pod, by_need
from activities.kubernetes import KubernetesClients, read_or_none, time_of
from activities.nodes.sight import PAGE, Raw, items, page_of
from contracts.jobs import LIST_JOBS, MOST_PODS, READ_JOB, JobDetail, JobPod, JobsRead, JobView, ListJobs, ReadJob
from contracts.problem import ProblemCode

NAMED = 5
"""So many others are named where a Job is not there."""


class JobActivities:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=LIST_JOBS.name)
    def list_jobs(self, request: ListJobs) -> JobsRead:
        """A page of the cluster's Jobs. Raises STALE where Kubernetes does not go on from the position any more."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            listing = _listing(api, request.namespace)
            if request.state is None:
                found, position = _next(listing, request)
                jobs = [as_job(each) for each in found]
            else:
                jobs, position = _in_state(listing, request)
        return JobsRead(jobs=jobs, position=position, read_at=time_of(api))

    @activity.defn(name=READ_JOB.name)
    def read_job(self, request: ReadJob) -> JobDetail:
        """A Job and its pods. Raises NOT_FOUND, with the most similar names of the namespace."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            job = _job(api, request)
            if job is None:
                _missing(api, request)
            pods = sorted(_pods(api, job), key=by_need)
        shown = pods[:MOST_PODS]
        return JobDetail(job=as_job(job), pods=shown, more_pods=len(pods) - len(shown), read_at=time_of(api))


def _listing(api: client.ApiClient, namespace: str | None) -> Callable[..., Any]:
    batch = client.BatchV1Api(api)
    if namespace is None:
        found: Callable[..., Any] = batch.list_job_for_all_namespaces
        return found
    return partial(batch.list_namespaced_job, namespace)


def _next(listing: Callable[..., Any], request: ListJobs) -> tuple[list[Raw], str | None]:
    """The page as Kubernetes cuts it."""
    try:
        return page_of(listing, request.size, request.position)
    except ApiException as error:
        # Kubernetes keeps what its tokens rest on for some five minutes.
        if error.status == 410 and request.position is not None:
            fail(ProblemCode.STALE, "the list is too old to go on with", "Begin anew, without a page token.")
        raise


def _in_state(listing: Callable[..., Any], request: ListJobs) -> tuple[list[JobView], str | None]:
    """The page of those in one state: Kubernetes does not select by it, so all are read."""
    matching = sorted((job for job in map(as_job, items(listing)) if job.state is request.state), key=_key)
    rest = [job for job in matching if request.position is None or _key(job) > request.position]
    page = rest[: request.size]
    return page, _key(page[-1]) if len(rest) > len(page) else None


def _key(job: JobView) -> str:
    return f"{job.namespace}/{job.name}"


def _job(api: client.ApiClient, request: ReadJob) -> Raw | None:
    read = partial(client.BatchV1Api(api).read_namespaced_job, _preload_content=False)
    answer = read_or_none(read, request.name, request.namespace)
    return json.loads(answer.data) if answer is not None else None


def _missing(api: client.ApiClient, request: ReadJob) -> NoReturn:
    found, more = page_of(_listing(api, request.namespace), PAGE, None)
    names = [each["metadata"]["name"] for each in found]
    names.sort(key=lambda name: SequenceMatcher(None, name, request.name).ratio(), reverse=True)
    there = ", ".join(names[:NAMED]) + (" and others" if more or len(names) > NAMED else "")
    fail(
        ProblemCode.NOT_FOUND,
        f"namespace {request.namespace} of cluster {request.cluster} has no Job {request.name}"
        + (f"; it has {there}" if names else ", nor any other"),
        "List the Jobs of all namespaces: it may have been deleted, or be in another one.",
    )


def _pods(api: client.ApiClient, job: Raw) -> list[JobPod]:
    """Pods that the Job made: its selector may fit others', too."""
    metadata = job["metadata"]
    selector = ((job.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    listing = partial(client.CoreV1Api(api).list_namespaced_pod, metadata["namespace"])
    found = items(listing, label_selector=",".join(f"{key}={value}" for key, value in selector.items()))
    return [as_pod(pod) for pod in found if _belongs(pod, metadata["uid"])]


def _belongs(pod: Raw, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())
