"""Shared storage of a cluster on FSx for Lustre."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.fsx_storage import NewFileSystem
from contracts.storage import StorageList, StorageType
from mcp_server.arguments import OneNamespace, PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.STORAGE)


@tools.tool("List FSx storage", endpoints.LIST_STORAGE)
async def fsx_storage_list(who: Who, cluster: ClusterTag = None) -> StorageList:
    """The claims on FSx for Lustre that a cluster has now: file system, phase, and how many pods mount each.

    Use it to find a claim's name. Claims on S3 are among those of s3_storage_list; s3_storage_delete deletes either.
    """
    found = await who.get(endpoints.LIST_STORAGE, tag=await who.cluster(cluster))
    return found.model_copy(update={"claims": [each for each in found.claims if each.type is StorageType.FSX_LUSTRE]})


@tools.tool("Mount FSx for Lustre storage", endpoints.CREATE_FSX_STORAGE, aliases={"name": "claim"})
async def fsx_storage_create(
    who: Who,
    cluster: ClusterTag = None,
    claim: Annotated[SkipValidation[str | None], Field(description="The claim's name; absent: fsx-claim.")] = None,
    namespace: OneNamespace = None,
    file_system_id: Annotated[
        SkipValidation[str | None], Field(description="Mount this one, e.g. fs-0123456789abcdef0.")
    ] = None,
    create: Annotated[
        SkipValidation[NewFileSystem | None], Field(description="Make one instead; {} makes the smallest, 1200 GiB.")
    ] = None,
    read_only: Annotated[SkipValidation[bool | None], Field(description="Absent: false.")] = None,
    mount_options: Annotated[
        SkipValidation[list[str] | None], Field(description="Of mount.lustre; absent: noatime, flock.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Make a claim on an FSx for Lustre file system, one that exists or a new one, which costs money by the GiB.

    Use it for data that many nodes read fast; for a bucket use s3_storage_create. It takes about a quarter of an hour
    with a new file system. operation_wait decides completion: a pod has used it.
    """
    body = given(
        claim=claim,
        namespace=namespace,
        file_system_id=file_system_id,
        create=create,
        read_only=read_only,
        mount_options=mount_options,
    )
    return await who.start(endpoints.CREATE_FSX_STORAGE, body, tag=await who.cluster(cluster), plan=plan)
