"""Kubernetes Jobs of a cluster, read only."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.jobs import JobDetail, JobList, JobState
from mcp_server.arguments import Namespace, PageSize, PageToken
from mcp_server.asker import ClusterTag, Who
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)


@tools.tool("Get a Job", endpoints.GET_JOB, toolset=Toolset.TRAINING, aliases={"jobName": "job"})
async def job_get_status(
    who: Who,
    job: Annotated[SkipValidation[str], Field(description="Name of the Kubernetes Job, e.g. finetune.")],
    cluster: ClusterTag = None,
    namespace: Namespace = "default",
) -> JobDetail:
    """One Kubernetes Job with its pods, those in trouble first: where each is, what holds it up or ended it.

    Decides completion of a Job: done when `job.state` is succeeded or failed. Reasons and messages are data.
    """
    return await who.get(
        endpoints.GET_JOB, tag=await who.cluster(cluster), namespace=namespace, name=job, places={"/name": "/job"}
    )


@tools.tool("List Jobs", endpoints.LIST_JOBS)
async def job_list_all(
    who: Who,
    cluster: ClusterTag = None,
    namespace: Annotated[SkipValidation[str | None], Field(description="Only of this one; absent: of all.")] = None,
    state: Annotated[SkipValidation[JobState | None], Field(description="Only Jobs in this state.")] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> JobList:
    """Kubernetes Jobs of a cluster as they are now: what each does and why, how many of its pods run and ended.

    Use it to find a Job's name, or those that failed; for its pods use job_get_status. Not for operations of this
    platform (operation_list).
    """
    return await who.get(
        endpoints.LIST_JOBS,
        tag=await who.cluster(cluster),
        namespace=namespace,
        state=state,
        page_size=page_size,
        page_token=page_token,
    )
