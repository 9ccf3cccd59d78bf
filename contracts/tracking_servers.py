"""Tracking servers of managed MLflow on SageMaker AI: what one is made with, how it stands, and what may be asked of
it.

API: CreateMlflowTrackingServer, DescribeMlflowTrackingServer, ListMlflowApps
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateMlflowTrackingServer.html)
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from contracts.activity import Act, Wait
from contracts.model import Ensured, Model
from contracts.names import MLFLOW_NAME
from contracts.network import Scope

_ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:(mlflow-tracking-server/[A-Za-z0-9][A-Za-z0-9-]{0,255}"
    r"|mlflow-app/[A-Za-z0-9-]{1,100})"
)

CREATION_LIMIT = timedelta(minutes=90)
"""AWS says up to 25 minutes. (SageMaker Developer Guide: create a tracking server)"""
DELETION_LIMIT = timedelta(minutes=60)


def _server_name(name: str) -> str:
    if violation := MLFLOW_NAME.violation(name):
        raise ValueError(violation)
    return name


def _server_reference(text: str) -> str:
    if text.startswith("arn:"):
        if not _ARN.fullmatch(text):
            raise ValueError("an ARN here is that of an MLflow tracking server or MLflow app of SageMaker")
        return text
    return _server_name(text)


TrackingServerName = Annotated[str, AfterValidator(_server_name), Field(examples=["research"])]
ServerReference = Annotated[str, AfterValidator(_server_reference), Field(examples=["research"])]
"""A tracking server of the cluster's account and region by name, or any tracking server or MLflow app by ARN."""


class ServerSize(StrEnum):
    SMALL = "Small"
    MEDIUM = "Medium"
    LARGE = "Large"


class ServerKind(StrEnum):
    TRACKING_SERVER = "tracking-server"
    APP = "app"
    """A serverless MLflow app of SageMaker; it is used, and neither made nor deleted here."""


class ServerState(StrEnum):
    """What a tracking server's many statuses come to."""

    CREATING = "creating"
    READY = "ready"
    """It answers."""
    CHANGING = "changing"
    """Updated, started, stopped or maintained."""
    STOPPED = "stopped"
    FAILED = "failed"
    DELETING = "deleting"
    UNKNOWN = "unknown"


_STATES = {
    "Creating": ServerState.CREATING,
    "Created": ServerState.READY,
    "CreateFailed": ServerState.FAILED,
    "Updating": ServerState.CHANGING,
    "Updated": ServerState.READY,
    "UpdateFailed": ServerState.READY,
    "Deleting": ServerState.DELETING,
    "Deleted": ServerState.DELETING,
    "DeleteFailed": ServerState.FAILED,
    "Stopping": ServerState.CHANGING,
    "Stopped": ServerState.STOPPED,
    "StopFailed": ServerState.READY,
    "Starting": ServerState.CHANGING,
    "Started": ServerState.READY,
    "StartFailed": ServerState.STOPPED,
    "MaintenanceInProgress": ServerState.CHANGING,
    "MaintenanceComplete": ServerState.READY,
    "MaintenanceFailed": ServerState.READY,
}


def state_of(status: str) -> ServerState:
    """From ``TrackingServerStatus`` or an app's ``Status``. One that is not known here is said to be unknown."""
    return _STATES.get(status, ServerState.UNKNOWN)


class TrackingServerSpec(Model):
    """A tracking server for experiments. Its artifacts go below ``mlflow/NAME`` of the cluster's bucket."""

    name: TrackingServerName
    """Unique in the account and region."""
    size: ServerSize = ServerSize.SMALL
    """Small serves teams of up to 25, Medium of up to 50, Large of up to 100. (SageMaker API: TrackingServerSize)"""
    mlflow_version: str | None = Field(None, pattern=r"^\d{1,3}\.\d{1,3}(\.\d{1,3})?$", examples=["3.0"])
    """Null: what SageMaker takes by itself."""
    register_models: bool = False
    """Whether models that are registered with MLflow are registered with SageMaker's Model Registry, too."""
    maintenance_window: str | None = Field(
        None, pattern=r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun):([01]\d|2[0-3]):[0-5]\d$", examples=["Tue:03:30"]
    )
    """Day and time (UTC) of the weekly maintenance; null: SageMaker's choice."""


class DeleteTrackingServerSpec(Model):
    """All runs of the server are lost with it; its artifacts stay in the cluster's bucket."""

    name: TrackingServerName


class TrackingServerRequest(Model):
    """The tracking server of an operation, and where it belongs."""

    scope: Scope
    spec: TrackingServerSpec
    account: str
    bucket: str


class ServerRole(Ensured):
    """The role that the server takes to its artifacts."""

    name: str
    arn: str


class EnsureTrackingServer(Model):
    request: TrackingServerRequest
    role_arn: str


class TrackingServerMade(Ensured):
    name: str
    arn: str


class WaitForTrackingServer(Model):
    scope: Scope
    name: str


class TrackingServerReady(Model):
    name: str
    arn: str
    url: str | None = None
    mlflow_version: str | None = None
    size: str | None = None


class DeleteTrackingServer(Model):
    scope: Scope
    name: str


class TrackingServerGone(Ensured):
    name: str


class TrackingServerView(Model):
    """A tracking server or MLflow app as SageMaker has it now."""

    name: str
    arn: str
    kind: ServerKind
    state: ServerState
    status: str
    """In SageMaker's word."""
    cluster: str | None = None
    """The cluster that it was made for, by its tag; null: nobody's here."""
    size: str | None = None
    mlflow_version: str | None = None
    artifacts: str | None = None
    """``s3://…``"""
    role_arn: str | None = None
    url: str | None = None
    created_at: datetime | None = None
    detail: str | None = None


class ListTrackingServers(Model):
    scope: Scope


class TrackingServerList(Model):
    """Tracking servers and MLflow apps of the cluster's account and region: the cluster's own first, then by name."""

    servers: list[TrackingServerView] = Field(default_factory=list)
    unreadable: list[str] = Field(default_factory=list)
    """What could not be read, each with why."""
    read_at: datetime


class ReadTrackingServer(Model):
    scope: Scope
    eks_cluster: str | None = None
    server: str
    """Name or ARN."""


class Connection(Model):
    """A service account of the cluster whose pods may report to tracking servers."""

    namespace: str
    service_account: str
    role_arn: str
    servers: list[str] = Field(default_factory=list)
    """ARNs of tracking servers and apps."""


class TrackingServerDetail(Model):
    """A tracking server, and who of the cluster reports to it."""

    server: TrackingServerView
    connections: list[Connection] = Field(default_factory=list)
    read_at: datetime


class OpenTrackingServer(Model):
    """A link into the server's own pages."""

    scope: Scope
    server: str


class SealedLink(Model):
    """The link, sealed by the worker for the gateway alone: it lets in whoever has it."""

    arn: str
    sealed: str


class TrackingServerLink(Model):
    """A link into the server's own pages, for once and for a short time. It lets in whoever has it."""

    url: str
    expires_in_seconds: int


LINK_SECONDS = 300
"""As long as SageMaker lets a presigned URL live. (CreatePresignedMlflowTrackingServerUrl ExpiresInSeconds)"""


def link_context(cluster: str, server: str) -> str:
    """What a sealed link is for: it opens as no other's."""
    return f"tracking-server-link/{cluster}/{server}"


ENSURE_SERVER_ROLE = Act("tracking_servers.ensure_role", TrackingServerRequest, ServerRole)
ENSURE_TRACKING_SERVER = Act("tracking_servers.ensure", EnsureTrackingServer, TrackingServerMade)
WAIT_FOR_TRACKING_SERVER = Wait(
    "tracking_servers.wait", WaitForTrackingServer, TrackingServerReady, limit=CREATION_LIMIT
)
DELETE_TRACKING_SERVER = Act("tracking_servers.delete", DeleteTrackingServer, TrackingServerGone)
WAIT_FOR_TRACKING_SERVER_GONE = Wait(
    "tracking_servers.wait_gone", WaitForTrackingServer, TrackingServerGone, limit=DELETION_LIMIT
)
DELETE_SERVER_ROLE = Act("tracking_servers.delete_role", DeleteTrackingServer, TrackingServerGone)
LIST_TRACKING_SERVERS = Act("tracking_servers.list", ListTrackingServers, TrackingServerList)
READ_TRACKING_SERVER = Act("tracking_servers.read", ReadTrackingServer, TrackingServerDetail)
OPEN_TRACKING_SERVER = Act("tracking_servers.open", OpenTrackingServer, SealedLink)
