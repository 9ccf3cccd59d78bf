"""Shared storage of a cluster: S3 buckets that pods mount."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.problem import ProblemCode, problem
from contracts.storage import Claim, StorageContents, StorageDefaults, StorageList, StorageType
from mcp_server.arguments import OneNamespace, PageSize, PageToken, PlanId, given
from mcp_server.asker import Asker, ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.problems import unless
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)


@tools.tool("List storage", endpoints.LIST_STORAGE, toolset=Toolset.STORAGE)
async def s3_storage_list(who: Who, cluster: ClusterTag = None) -> StorageList:
    """The claims on S3 and FSx that a cluster has now, others' among them: bucket and prefix or file system, and phase.

    Use it to find a claim's name. For what is in the bucket use s3_storage_list_contents.
    """
    return await who.get(endpoints.LIST_STORAGE, tag=await who.cluster(cluster))


@tools.tool("Storage defaults", endpoints.GET_STORAGE_DEFAULTS, toolset=Toolset.STORAGE)
async def s3_storage_get_defaults(who: Who, cluster: ClusterTag = None) -> StorageDefaults:
    """What s3_storage_create without arguments would use: claim, the cluster's own bucket, and whether they are there.

    Use it before s3_storage_create; plan_make of create-storage tells it, too.
    """
    return await who.get(endpoints.GET_STORAGE_DEFAULTS, tag=await who.cluster(cluster))


@tools.tool(
    "Mount S3 storage",
    endpoints.CREATE_STORAGE,
    endpoints.GET_STORAGE_DEFAULTS,
    aliases={"name": "claim", "bucketName": "bucket"},
)
async def s3_storage_create(
    who: Who,
    cluster: ClusterTag = None,
    claim: Annotated[SkipValidation[str | None], Field(description="The claim's name; absent: s3-claim.")] = None,
    namespace: OneNamespace = None,
    bucket: Annotated[
        SkipValidation[str | None], Field(description="An existing bucket; absent: the cluster's own.")
    ] = None,
    prefix: Annotated[
        SkipValidation[str | None], Field(description="Mount only keys under it; ends in /, e.g. datasets/.")
    ] = None,
    read_only: Annotated[SkipValidation[bool | None], Field(description="Absent: false.")] = None,
    region: Annotated[
        str | None, Field(description="Not needed. Where it is given, it must be the cluster's region.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Make a claim on an S3 bucket that pods mount, conventionally at /s3. cluster_create makes the first one itself.

    Use it for another bucket or prefix, or to complete a creation. operation_wait decides completion: it is Bound.
    """
    tag = await who.cluster(cluster)
    if region:
        there = (await who.get(endpoints.GET_STORAGE_DEFAULTS, tag=tag)).region
        unless(
            region != there,
            "region",
            f"cluster {tag!r} is in {there}, not in {region}",
            f"Leave it out, or say {there}.",
        )
    body = given(claim=claim, namespace=namespace, bucket=bucket, prefix=prefix, read_only=read_only)
    return await who.start(endpoints.CREATE_STORAGE, body, tag=tag, plan=plan)


@tools.tool(
    "List what storage holds",
    endpoints.LIST_STORAGE,
    endpoints.LIST_STORAGE_CONTENTS,
    aliases={"storage": "claim"},
)
async def s3_storage_list_contents(
    who: Who,
    cluster: ClusterTag = None,
    claim: Annotated[
        SkipValidation[str | None], Field(description="The claim's name; absent: the cluster's first one.")
    ] = None,
    namespace: Annotated[
        SkipValidation[str | None], Field(description="The claim's; absent: default, or the first claim's.")
    ] = None,
    prefix: Annotated[
        SkipValidation[str | None], Field(description="Only keys that begin so, e.g. models/; absent: the top level.")
    ] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> StorageContents:
    """Objects and deeper prefixes in a claim's bucket, one level at a time, as pods see them under the mount.

    Use it to see whether a model or data set is there. Names are data. It reads nothing of the objects themselves.
    """
    tag = await who.cluster(cluster)
    if claim is None:
        first = await _first(who, tag, namespace)
        claim, namespace = first.claim, first.namespace
    return await who.get(
        endpoints.LIST_STORAGE_CONTENTS,
        tag=tag,
        claim=claim,
        namespace=namespace,
        prefix=prefix,
        page_size=page_size,
        page_token=page_token,
    )


@tools.tool(
    "Delete storage", endpoints.DELETE_STORAGE, destroys=True, toolset=Toolset.STORAGE, aliases={"name": "claim"}
)
async def s3_storage_delete(
    who: Who,
    sure: Sure,
    claim: Annotated[SkipValidation[str], Field(description="The claim's name, on S3 or FSx, e.g. s3-claim.")],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    delete_file_system: Annotated[
        SkipValidation[bool | None],
        Field(description="true: its FSx file system goes with all data; only one that the platform made."),
    ] = None,
    foreign: Annotated[
        SkipValidation[bool | None], Field(description="true: it goes although others made it, as the user said.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Delete a claim and its volume. Objects in its bucket stay, and files on FSx unless delete_file_system says so.

    Use it only when the user has named the claim. Refused while pods mount it. operation_wait decides completion.
    """
    return await who.start(
        endpoints.DELETE_STORAGE,
        tag=await who.cluster(cluster),
        claim=claim,
        namespace=namespace,
        delete_file_system=delete_file_system,
        foreign=foreign,
        plan=plan,
    )


async def _first(who: Asker, tag: str, namespace: str | None) -> Claim:
    claims = (await who.get(endpoints.LIST_STORAGE, tag=tag)).claims
    on_s3 = (each for each in claims if each.type is StorageType.S3)
    found = next((each for each in on_s3 if namespace in (None, each.namespace)), None)
    if found is None:
        raise GatewayProblem(
            problem(
                ProblemCode.NOT_FOUND,
                f"cluster {tag!r} has no S3 claim" + (f" in namespace {namespace}" if namespace else ""),
                remedy="Make one with s3_storage_create, or look with s3_storage_list which there are.",
            )
        )
    return found
