"""Kubernetes Jobs of a cluster, read only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api import pages
from api.auth import Reader
from api.managed import NAMESPACE, Tag, known, with_control_plane
from api.operations import PageToken, page_reply
from api.services import Parts, reply
from contracts.catalogue import LIST_JOBS_WORKFLOW, READ_JOB_WORKFLOW
from contracts.jobs import MOST_ON_A_PAGE, JobDetail, JobList, JobsRead, JobState, ListJobs, ReadJob

router = APIRouter(prefix="/api/v1/clusters/{tag}/jobs", tags=["jobs"])

Namespace = Annotated[str, Path(description="The Job's namespace.", examples=["default"], **NAMESPACE)]
OneNamespace = Annotated[
    str | None, Query(description="Only Jobs of this namespace; of all namespaces without it.", **NAMESPACE)
]
Name = Annotated[
    str,
    Path(
        description="The Job's name.",
        examples=["finetune"],
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    ),
]
InState = Annotated[JobState | None, Query(description="Only Jobs in this state.")]
JobsPageSize = Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)]


@router.get("", operation_id="list_jobs", response_model=JobList, summary="List Jobs")
async def list_jobs(
    services: Parts,
    _: Reader,
    tag: Tag,
    namespace: OneNamespace = None,
    state: InState = None,
    page_size: JobsPageSize = 50,
    page_token: PageToken = None,
) -> Response:
    """Jobs (batch/v1) as Kubernetes has them now, by namespace and name: what each does and why, how many of its pods
    run and ended. None where the cluster has no control plane yet."""
    record = await known(services, tag)
    listing = f"jobs/{tag}/{namespace or ''}/{state or ''}"
    position = pages.unseal(listing, page_token)
    if record.control_plane is None:
        return page_reply(JobList(read_at=datetime.now(UTC)))
    question = ListJobs(
        cluster=tag,
        region=record.region,
        eks_cluster=record.control_plane.name,
        namespace=namespace,
        state=state,
        position=position.decode() if position is not None else None,
        size=page_size,
    )
    found = await services.lookups.read(LIST_JOBS_WORKFLOW, tag, question, JobsRead)
    following = pages.seal(listing, found.position.encode()) if found.position is not None else None
    return page_reply(JobList(jobs=found.jobs, next_page_token=following, read_at=found.read_at))


@router.get("/{namespace}/{name}", operation_id="get_job", response_model=JobDetail, summary="Get a Job")
async def get_job(services: Parts, _: Reader, tag: Tag, namespace: Namespace, name: Name) -> Response:
    """One Job with its pods, those in trouble first: where each is, what holds it up or ended it."""
    record, control_plane = await with_control_plane(services, tag, "Jobs")
    question = ReadJob(
        cluster=tag, region=record.region, eks_cluster=control_plane.name, namespace=namespace, name=name
    )
    return reply(await services.lookups.read(READ_JOB_WORKFLOW, tag, question, JobDetail))
