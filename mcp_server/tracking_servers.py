"""Tracking servers of managed MLflow."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.model import Model
from contracts.tracking_servers import TrackingServerDetail, TrackingServerView
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.extracts import LeftOut, that_fit
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.EXPERIMENTS)

OwnServer = Annotated[SkipValidation[str], Field(description="Name of the tracking server, e.g. research.")]
AnyServer = Annotated[
    SkipValidation[str],
    Field(description="A tracking server by its name, or any tracking server or MLflow app by its ARN."),
]

_NAMED = {"/name": "/tracking_server"}


class ServersFound(Model):
    """Tracking servers and MLflow apps, the cluster's own first."""

    servers: list[TrackingServerView]
    left_out: LeftOut = 0
    unreadable: list[str] = Field(default_factory=list)
    """What could not be read, each with why."""
    read_at: datetime


@tools.tool("List tracking servers", endpoints.LIST_TRACKING_SERVERS)
async def tracking_server_list(who: Who, cluster: ClusterTag = None) -> ServersFound:
    """Tracking servers and MLflow apps of the account in the cluster's region: state, size, version, whose they are.

    Use it to find where experiments are, and before a run that should report (`experiment` of training_submit).
    """
    found = await who.get(endpoints.LIST_TRACKING_SERVERS, tag=await who.cluster(cluster))
    shown, left_out = that_fit(found.servers)
    return ServersFound(servers=shown, left_out=left_out, unreadable=found.unreadable, read_at=found.read_at)


@tools.tool("Get a tracking server", endpoints.GET_TRACKING_SERVER)
async def tracking_server_get(who: Who, tracking_server: AnyServer, cluster: ClusterTag = None) -> TrackingServerDetail:
    """How a tracking server stands, and which service accounts of the cluster report to it.

    Use it before connecting or deleting. A link into its own pages is for people: the console, or `instantstart
    tracking-server open`.
    """
    return await who.get(
        endpoints.GET_TRACKING_SERVER, tag=await who.cluster(cluster), name=tracking_server, places=_NAMED
    )


@tools.tool("Create a tracking server", endpoints.CREATE_TRACKING_SERVER)
async def tracking_server_create(
    who: Who,
    tracking_server: OwnServer,
    cluster: ClusterTag = None,
    size: Annotated[
        SkipValidation[Literal["Small", "Medium", "Large"] | None],
        Field(description="For teams of up to 25, 50 and 100; absent: Small."),
    ] = None,
    mlflow_version: Annotated[SkipValidation[str | None], Field(description="Absent: SageMaker's choice.")] = None,
    register_models: Annotated[
        SkipValidation[bool | None], Field(description="true: registered models go to SageMaker's registry, too.")
    ] = None,
    maintenance_window: Annotated[
        SkipValidation[str | None], Field(description="Weekly, UTC, e.g. Tue:03:30; absent: SageMaker's choice.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Make a managed MLflow tracking server with a role of its own; artifacts go to the cluster's bucket. It takes up
    to 25 minutes, and is paid for while it exists.

    Use it only where tracking_server_list has none that serves. operation_wait decides completion.
    """
    body = given(
        name=tracking_server,
        size=size,
        mlflow_version=mlflow_version,
        register_models=register_models,
        maintenance_window=maintenance_window,
    )
    return await who.start(
        endpoints.CREATE_TRACKING_SERVER, body, tag=await who.cluster(cluster), plan=plan, places=_NAMED
    )


@tools.tool("Delete a tracking server", endpoints.DELETE_TRACKING_SERVER, destroys=True)
async def tracking_server_delete(
    who: Who, sure: Sure, tracking_server: OwnServer, cluster: ClusterTag = None, plan: PlanId = None
) -> Started:
    """Delete a tracking server with all its experiments and runs. Artifacts stay in the cluster's bucket.

    Use it only when the user has named the server. operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": tracking_server}
    return await who.start(endpoints.DELETE_TRACKING_SERVER, plan=plan, places=_NAMED, **target)
