"""Clusters: what there is, and what may be started on them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api import pages, starting
from api.auth import Reader, Starter
from api.lookups import judged_by_account
from api.mapping import from_row
from api.operations import OperationPage, PageSize, PageToken, clause, list_page, page_reply
from api.problems import refuse, wrong_field
from api.services import Parts, Services, accepted, reply
from api.starting import Plan, Wish
from contracts import catalogue, names, queues, visibility
from contracts.access import Principal
from contracts.catalogue import (
    AccessSpec,
    ControlPlaneSpec,
    DependenciesSpec,
    HyperPodClusterSpec,
    OperationKind,
    VerificationSpec,
)
from contracts.cluster import (
    MEMO_RECORD,
    MEMO_SUMMARY,
    ClusterRecord,
    ClusterSpec,
    ClusterSummary,
    ClusterView,
    HistoryEntry,
)
from contracts.model import Model
from contracts.operation import Operation
from contracts.problem import ProblemCode
from contracts.storage import StorageSpec

router = APIRouter(prefix="/api/v1/clusters", tags=["clusters"])

ValidateOnly = Annotated[bool, Query(description="Check everything and answer with the plan (200); touch nothing.")]
WaitForLeases = Annotated[
    bool, Query(description="Queue behind operations that hold what is needed; false: fail at once instead.")
]
Tag = Annotated[str, Path(description="The cluster's tag.", examples=["demo"], max_length=63)]
_LISTED = "WorkflowType = 'cluster' AND ExecutionStatus = 'Running'"
_FALLBACK_HISTORY = 50

STARTS: dict[str, Any] = {
    "status_code": 202,
    "response_model": Operation,
    "responses": {200: {"model": Plan, "description": "With validate_only: the plan."}},
}


class ClusterPage(Model):
    """Some clusters, the newest first."""

    clusters: list[ClusterSummary] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""


async def _record(services: Services, tag: str) -> ClusterRecord | None:
    """The record of a cluster that is managed; None if there is none. Needs no worker."""
    found = await services.temporal.find(names.cluster_id(tag))
    if found is None or found.status is None or found.status.name != "RUNNING":
        return None
    memo = await found.memo()
    return ClusterRecord.model_validate(memo[MEMO_RECORD]) if MEMO_RECORD in memo else None


async def _known(services: Services, tag: str) -> ClusterRecord:
    """The cluster's record. Raises ProblemError (404) that names what is making the cluster, if something is."""
    record = await _record(services, tag)
    if record is not None:
        return record
    creating = names.operation_id(catalogue.CREATE_CLUSTER.name, tag)
    found = await services.temporal.find(creating)
    made = found is not None and found.close_time is None
    raise refuse(
        ProblemCode.NOT_FOUND,
        f"there is no cluster {tag!r}" + (f" yet; {creating} is making it" if made else ""),
        operation=creating if made else None,
        remedy="Watch that operation." if made else "GET /api/v1/clusters lists them; POST there creates one.",
    )


async def _begin(
    services: Services, request: Request, principal: Principal, wish: Wish, validate_only: bool, checked: bool = False
) -> Response:
    """Start what is wished, or tell what would be started."""
    if validate_only:
        request.state.audit_detail = "validate_only"
        return reply(starting.plan(wish, principal, checked))
    request.state.operation = wish.workflow_id
    seen = await starting.repeated(services, request, principal, wish)
    if seen is None:
        seen = await starting.start(services, request, principal, wish)
    return accepted(seen, services.linker(request))


def _one_region(record: ClusterRecord | None, region: str) -> None:
    if record is not None and record.region != region:
        raise refuse(
            ProblemCode.CONFLICT,
            f"cluster {record.tag!r} is in {record.region}, not in {region}",
            field="/region",
            remedy=f"Leave region out, send {record.region}, or choose another tag.",
        )


@router.post("", operation_id="create_cluster", summary="Create a cluster", **STARTS)
async def create_cluster(
    request: Request,
    services: Parts,
    principal: Starter,
    body: ClusterSpec,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """Network, control plane, dependencies, HyperPod nodes, storage and verification, from nothing but a tag. What a
    create before has made is kept."""
    region = services.served_region(body.region)
    spec = body.model_copy(update={"region": region})
    wish = Wish(catalogue.CREATE_CLUSTER, spec.tag, region, spec, wait_for_leases=wait_for_leases)
    if not validate_only:
        request.state.operation = wish.workflow_id
    _one_region(await _record(services, spec.tag), region)
    checked = False
    if validate_only or judged_by_account(spec):
        if not validate_only:
            # What is running already, or was started by this very request, is not checked again: what it has made
            # since would be found in its own way.
            seen = await starting.repeated(services, request, principal, wish) or await starting.running(services, wish)
            if seen is not None:
                return accepted(seen, services.linker(request))
        checked = await services.lookups.check(spec, region)
    return await _begin(services, request, principal, wish, validate_only, checked)


@router.get("", operation_id="list_clusters", response_model=ClusterPage, summary="List clusters")
async def list_clusters(services: Parts, _: Reader, page_size: PageSize = 20, page_token: PageToken = None) -> Response:
    """The managed clusters. A new one shows after a moment."""
    found = await services.temporal.list(_LISTED, page_size, pages.unseal(_LISTED, page_token))
    memos = [await row.memo() for row in found.rows]
    summaries = [ClusterSummary.model_validate(memo[MEMO_SUMMARY]) for memo in memos if MEMO_SUMMARY in memo]
    token = pages.seal(_LISTED, found.position) if found.position else None
    return page_reply(ClusterPage(clusters=summaries, next_page_token=token))


@router.get("/{tag}", operation_id="get_cluster", response_model=ClusterView, summary="Get a cluster")
async def get_cluster(services: Parts, _: Reader, tag: Tag) -> Response:
    """What the cluster is made of, which operations hold or wait for it, and what was done to it. Without a worker:
    the record as last verified, and the operations that Temporal still keeps."""
    record = await _known(services, tag)
    view = await services.temporal.query(names.cluster_id(tag), queues.ENTITIES, "view", ClusterView)
    return reply(view or ClusterView(record=record, history=await _ended(services, tag)))


async def _ended(services: Services, tag: str) -> list[HistoryEntry]:
    kinds = ", ".join(f"'{name}'" for name in catalogue.KINDS)
    query = f"WorkflowType IN ({kinds}) AND {clause(visibility.CLUSTER, tag)} AND ExecutionStatus != 'Running'"
    entries: list[HistoryEntry] = []
    for row in (await services.temporal.list(query, _FALLBACK_HISTORY)).rows:
        seen = await from_row(row)
        if seen is None:
            continue
        operation = seen.operation
        entries.append(
            HistoryEntry(
                operation=operation.id,
                run_id=row.run_id,
                kind=operation.kind,
                by=operation.started_by,
                phase=operation.phase,
                started_at=operation.started_at,
                finished_at=row.close_time or operation.updated_at,
                detail=operation.detail,
            )
        )
    return entries


@router.get(
    "/{tag}/operations",
    operation_id="list_cluster_operations",
    response_model=OperationPage,
    summary="List a cluster's operations",
)
async def list_cluster_operations(
    request: Request, services: Parts, _: Reader, tag: Tag, page_size: PageSize = 20, page_token: PageToken = None
) -> Response:
    """As ``list_operations`` with ``cluster``; empty for a tag that nothing was done to."""
    conditions = [clause(visibility.CLUSTER, tag)]
    return page_reply(await list_page(services, services.linker(request), conditions, page_size, page_token))


@router.post("/{tag}/control-plane", operation_id="create_control_plane", summary="Create the control plane", **STARTS)
async def create_control_plane(
    request: Request,
    services: Parts,
    principal: Starter,
    tag: Tag,
    body: Annotated[ControlPlaneSpec | None, Body()] = None,
    region: Annotated[str | None, Query(description="For a new cluster; absent: the deployment's default.")] = None,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """Network, identity and EKS control plane, of a new cluster or one that exists."""
    spec = body or ControlPlaneSpec()
    if violation := names.tag_violation(tag):
        raise wrong_field("/tag", violation, f"Use for example {names.slug(tag)!r}.")
    record = await _record(services, tag)
    chosen = record.region if record and region is None else services.served_region(region)
    _one_region(record, chosen)
    wish = Wish(catalogue.CREATE_CONTROL_PLANE, tag, chosen, spec, wait_for_leases=wait_for_leases)
    return await _begin(services, request, principal, wish, validate_only)


async def _on_known(
    services: Services,
    request: Request,
    principal: Principal,
    kind: OperationKind[Any],
    tag: str,
    spec: BaseModel,
    validate_only: bool,
    wait_for_leases: bool,
    target: str | None = None,
) -> Response:
    record = await _known(services, tag)
    wish = Wish(kind, tag, record.region, spec, target, wait_for_leases)
    return await _begin(services, request, principal, wish, validate_only)


@router.post("/{tag}/access", operation_id="verify_access", summary="Verify access to Kubernetes", **STARTS)
async def verify_access(
    request: Request,
    services: Parts,
    principal: Starter,
    tag: Tag,
    body: Annotated[AccessSpec | None, Body()] = None,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """Give the platform administration of the Kubernetes API, and prove it."""
    spec, kind = body or AccessSpec(), catalogue.VERIFY_ACCESS
    return await _on_known(services, request, principal, kind, tag, spec, validate_only, wait_for_leases)


@router.post("/{tag}/dependencies", operation_id="install_dependencies", summary="Install dependencies", **STARTS)
async def install_dependencies(
    request: Request,
    services: Parts,
    principal: Starter,
    tag: Tag,
    body: Annotated[DependenciesSpec | None, Body()] = None,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """EKS add-ons and HyperPod's own components, each after what it needs."""
    spec, kind = body or DependenciesSpec(), catalogue.INSTALL_DEPENDENCIES
    return await _on_known(services, request, principal, kind, tag, spec, validate_only, wait_for_leases)


@router.post("/{tag}/hyperpod", operation_id="create_hyperpod", summary="Create the HyperPod cluster", **STARTS)
async def create_hyperpod(
    request: Request,
    services: Parts,
    principal: Starter,
    tag: Tag,
    body: Annotated[HyperPodClusterSpec | None, Body()] = None,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """The HyperPod cluster and its nodes. Without instance groups, the operation asks which capacity to take."""
    spec, kind = body or HyperPodClusterSpec(), catalogue.CREATE_HYPERPOD
    return await _on_known(services, request, principal, kind, tag, spec, validate_only, wait_for_leases)


@router.post("/{tag}/storage", operation_id="create_storage", summary="Mount S3 storage", **STARTS)
async def create_storage(
    request: Request,
    services: Parts,
    principal: Starter,
    tag: Tag,
    body: Annotated[StorageSpec | None, Body()] = None,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """A claim on an S3 bucket that pods can mount."""
    spec, kind = body or StorageSpec(), catalogue.CREATE_STORAGE
    return await _on_known(services, request, principal, kind, tag, spec, validate_only, wait_for_leases, spec.claim)


@router.post("/{tag}/verification", operation_id="verify_cluster", summary="Verify the cluster", **STARTS)
async def verify_cluster(
    request: Request,
    services: Parts,
    principal: Starter,
    tag: Tag,
    body: Annotated[VerificationSpec | None, Body()] = None,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
) -> Response:
    """Look at the whole cluster and bring its record up to date."""
    spec, kind = body or VerificationSpec(), catalogue.VERIFY_CLUSTER
    return await _on_known(services, request, principal, kind, tag, spec, validate_only, wait_for_leases)
