"""Clusters: what there is, and what may be started on them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from api import pages, searching
from api.auth import Reader
from api.filters import clause
from api.lookups import judged_by_account
from api.managed import LISTED, STARTS, Start, Tag, blank_record, known, record_of, summary_of
from api.mapping import from_row
from api.operations import PageSize, PageToken, list_page, page_reply
from api.problems import refuse, wrong_field
from api.services import Parts, Services, reply
from api.wish import Wish
from contracts import catalogue, names, queues, visibility
from contracts.answers import ClusterPage, OperationPage
from contracts.catalogue import (
    AccessSpec,
    ControlPlaneSpec,
    DependenciesSpec,
    HyperPodClusterSpec,
    VerificationSpec,
)
from contracts.cluster import (
    ClusterRecord,
    ClusterSpec,
    ClusterView,
    HistoryEntry,
)
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/clusters", tags=["clusters"])

_FALLBACK_HISTORY = 50

Search = Annotated[
    str | None, Query(description="Part of the tag or the region; case does not matter.", max_length=100)
]


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
    start: Start,
    body: ClusterSpec,
) -> Response:
    """Network, control plane, dependencies, HyperPod nodes, storage and verification, from nothing but a tag. What a
    create before has made is kept."""
    region = start.services.served_region(body.region)
    spec = body.model_copy(update={"region": region})
    wish = Wish(catalogue.CREATE_CLUSTER, spec.tag, region, spec, start.wait_for_leases)
    record = await record_of(start.services, spec.tag)
    _one_region(record, region)
    if start.validate_only or start.plan or judged_by_account(spec):
        return await start.planned(wish, record or blank_record(spec.tag, region))
    return await start.carry_out(wish)


@router.get("", operation_id="list_clusters", response_model=ClusterPage, summary="List clusters")
async def list_clusters(
    services: Parts, _: Reader, search: Search = None, page_size: PageSize = 20, page_token: PageToken = None
) -> Response:
    """The managed clusters. A new one shows after a moment. With ``search``, a page may hold fewer than it could, even
    none, and still name the next one: so many clusters were looked at."""
    wanted = (search or "").strip()
    listing = f"{LISTED} {wanted.casefold()}" if wanted else LISTED
    position = pages.unseal(listing, page_token)
    if wanted:
        summaries, after = await searching.search(services.temporal, wanted, page_size, position)
    else:
        found = await services.temporal.list(LISTED, page_size, position)
        listed = [await summary_of(row) for row in found.rows]
        summaries, after = [each for each in listed if each is not None], found.position
    token = pages.seal(listing, after) if after else None
    return page_reply(ClusterPage(clusters=summaries, next_page_token=token))


@router.get("/{tag}", operation_id="get_cluster", response_model=ClusterView, summary="Get a cluster")
async def get_cluster(services: Parts, _: Reader, tag: Tag) -> Response:
    """What the cluster is made of, which operations hold or wait for it, and what was done to it. Without a worker:
    the record as last verified, and the operations that Temporal still keeps."""
    record = await known(services, tag)
    view = await services.temporal.query(names.cluster_id(tag), queues.ENTITIES, "view", ClusterView)
    return reply(_shown(view or ClusterView(record=record, history=await _ended(services, tag))))


def _shown(view: ClusterView) -> ClusterView:
    """The view without what only checks for drift compare with."""
    drift = view.record.drift
    if drift is None:
        return view
    shown = view.record.model_copy(update={"drift": drift.model_copy(update={"known": {}})})
    return view.model_copy(update={"record": shown})


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
    start: Start,
    tag: Tag,
    body: Annotated[ControlPlaneSpec | None, Body()] = None,
    region: Annotated[str | None, Query(description="For a new cluster; absent: the deployment's default.")] = None,
) -> Response:
    """Network, identity and EKS control plane, of a new cluster or one that exists."""
    spec = body or ControlPlaneSpec()
    if violation := names.tag_violation(tag):
        raise wrong_field("/tag", violation, f"Use for example {names.slug(tag)!r}.")
    record = await record_of(start.services, tag)
    chosen = record.region if record and region is None else start.services.served_region(region)
    _one_region(record, chosen)
    wish = Wish(catalogue.CREATE_CONTROL_PLANE, tag, chosen, spec, start.wait_for_leases)
    return await start.planned(wish, record or blank_record(tag, chosen))


@router.post("/{tag}/access", operation_id="verify_access", summary="Verify access to Kubernetes", **STARTS)
async def verify_access(
    start: Start,
    tag: Tag,
    body: Annotated[AccessSpec | None, Body()] = None,
) -> Response:
    """Give the platform administration of the Kubernetes API, and prove it."""
    return await start.on(catalogue.VERIFY_ACCESS, tag, body or AccessSpec())


@router.post("/{tag}/dependencies", operation_id="install_dependencies", summary="Install dependencies", **STARTS)
async def install_dependencies(
    start: Start,
    tag: Tag,
    body: Annotated[DependenciesSpec | None, Body()] = None,
) -> Response:
    """EKS add-ons and HyperPod's own components, each after what it needs."""
    return await start.on(catalogue.INSTALL_DEPENDENCIES, tag, body or DependenciesSpec())


@router.post("/{tag}/hyperpod", operation_id="create_hyperpod", summary="Create the HyperPod cluster", **STARTS)
async def create_hyperpod(
    start: Start,
    tag: Tag,
    body: Annotated[HyperPodClusterSpec | None, Body()] = None,
) -> Response:
    """The HyperPod cluster and its nodes. Without instance groups, the operation asks which capacity to take."""
    return await start.on(catalogue.CREATE_HYPERPOD, tag, body or HyperPodClusterSpec())


@router.post("/{tag}/verification", operation_id="verify_cluster", summary="Verify the cluster", **STARTS)
async def verify_cluster(
    start: Start,
    tag: Tag,
    body: Annotated[VerificationSpec | None, Body()] = None,
) -> Response:
    """Look at the whole cluster and bring its record up to date."""
    return await start.on(catalogue.VERIFY_CLUSTER, tag, body or VerificationSpec())
