"""Storage of a cluster: claims on S3 and FSx for Lustre that pods mount, and what is in the buckets."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query
from starlette.responses import Response

from api import pages
from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.operations import page_reply
from api.problems import refuse
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.catalogue import LIST_STORAGE_CONTENTS_WORKFLOW, LIST_STORAGE_WORKFLOW, READ_STORAGE_DEFAULTS_WORKFLOW
from contracts.cluster import ClusterRecord
from contracts.objects import DEFAULT_NAMESPACE
from contracts.problem import ProblemCode
from contracts.storage import (
    ContentsRead,
    DeleteStorageSpec,
    ListContents,
    ListStorage,
    ReadStorageDefaults,
    StorageClaims,
    StorageContents,
    StorageDefaults,
    StorageList,
    StorageSpec,
)

router = APIRouter(prefix="/api/v1/clusters/{tag}/storage", tags=["storage"])

ClaimName = Annotated[str, Path(description="The claim's name.", examples=["s3-claim"], max_length=253)]
Namespace = Annotated[str, Query(description="The claim's namespace.", max_length=63)]
DeleteFileSystem = Annotated[
    bool, Query(description="Delete its FSx file system, with all data: one that the platform made.")
]
Foreign = Annotated[bool, Query(description="The claim goes although others made it.")]
Prefix = Annotated[
    str, Query(description="Only keys that begin so, below the claim's own prefix.", examples=["train/"])
]
ContentsPageSize = Annotated[int, Query(ge=1, le=pages.MAXIMUM_PAGE_SIZE)]
ContentsPageToken = Annotated[
    str | None,
    # It holds S3's own token, which grows with the keys.
    Query(description="next_page_token of the page before.", max_length=8000),
]


@router.get("", operation_id="list_storage", response_model=StorageList, summary="List storage")
async def list_storage(services: Parts, principal: Reader, tag: Tag) -> Response:
    """The claims on S3 buckets and file systems as they are now, others' too; as the record last had them where nobody
    answers in time."""
    record = await known(services, tag)
    found = await _look(services, record, principal.name)
    if found is None:
        return reply(StorageList(claims=record.storage, live=False))
    return reply(StorageList(claims=found.claims, live=True))


async def _look(services: Services, record: ClusterRecord, by: str) -> StorageClaims | None:
    if record.control_plane is None:
        return StorageClaims()
    question = ListStorage(scope=asking(record, by, LIST_STORAGE_WORKFLOW), eks_cluster=record.control_plane.name)
    return await services.lookups.read_if_answered(LIST_STORAGE_WORKFLOW, record.tag, question, StorageClaims)


@router.post("", operation_id="create_storage", summary="Mount S3 storage", **STARTS)
async def create_storage(
    start: Start,
    tag: Tag,
    body: Annotated[StorageSpec | None, Body()] = None,
) -> Response:
    """A claim on an S3 bucket, which a pod has used when the operation ends."""
    return await start.on(catalogue.CREATE_STORAGE, tag, body or StorageSpec())


@router.delete("/{claim}", operation_id="delete_storage", summary="Delete storage", **STARTS)
async def delete_storage(
    start: Start,
    tag: Tag,
    claim: ClaimName,
    namespace: Namespace = DEFAULT_NAMESPACE,
    delete_file_system: DeleteFileSystem = False,
    foreign: Foreign = False,
) -> Response:
    """Delete a claim and its volume, on S3 or on FSx. What it holds stays in its bucket or file system, unless
    ``delete_file_system`` says otherwise."""
    spec = DeleteStorageSpec(claim=claim, namespace=namespace, delete_file_system=delete_file_system, foreign=foreign)
    return await start.on(catalogue.DELETE_STORAGE, tag, spec)


@router.get(
    "/defaults", operation_id="get_storage_defaults", response_model=StorageDefaults, summary="Get storage defaults"
)
async def get_storage_defaults(services: Parts, principal: Reader, tag: Tag) -> Response:
    """What ``create_storage`` without a body would use now: the claim, the cluster's own bucket, and whether they exist
    already."""
    record = await known(services, tag)
    question = ReadStorageDefaults(
        scope=asking(record, principal.name, READ_STORAGE_DEFAULTS_WORKFLOW),
        eks_cluster=record.control_plane.name if record.control_plane is not None else None,
        bucket=record.identity.bucket if record.identity is not None else None,
    )
    return reply(await services.lookups.read(READ_STORAGE_DEFAULTS_WORKFLOW, tag, question, StorageDefaults))


@router.get(
    "/{claim}/contents",
    operation_id="list_storage_contents",
    response_model=StorageContents,
    summary="List what a claim's bucket holds",
)
async def list_storage_contents(
    services: Parts,
    principal: Reader,
    tag: Tag,
    claim: ClaimName,
    namespace: Namespace = "default",
    prefix: Prefix = "",
    page_size: ContentsPageSize = 100,
    page_token: ContentsPageToken = None,
) -> Response:
    """Objects and deeper prefixes under a prefix, one level at a time, as S3 lists them: nothing outside of the claim's
    own prefix, and nothing that is still being uploaded."""
    record = await known(services, tag)
    listing = json.dumps(["storage", tag, namespace, claim, prefix])
    after = pages.unseal(listing, page_token)
    if record.control_plane is None:
        raise refuse(
            ProblemCode.NOT_FOUND,
            f"cluster {tag!r} has no control plane, so there is no claim {namespace}/{claim}",
            remedy="Create the control plane first (create-control-plane).",
        )
    question = ListContents(
        scope=asking(record, principal.name, LIST_STORAGE_CONTENTS_WORKFLOW),
        eks_cluster=record.control_plane.name,
        claim=claim,
        namespace=namespace,
        prefix=prefix,
        size=page_size,
        after=after.decode(errors="replace") if after is not None else None,
    )
    found = await services.lookups.read(LIST_STORAGE_CONTENTS_WORKFLOW, tag, question, ContentsRead)
    return page_reply(
        StorageContents(
            claim=found.claim,
            prefix=prefix,
            objects=found.objects,
            common_prefixes=found.common_prefixes,
            next_page_token=pages.seal(listing, found.last.encode()) if found.last is not None else None,
        )
    )
