"""Tracking servers are made, watched, opened and deleted.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateMlflowTrackingServer.html
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, partition, tag_list, tags_of
from activities.errors import clean, code_of, fail, is_absent
from activities.experiments import servers
from activities.experiments.connections import connections
from activities.experiments.policies import server_policy, server_trust
from activities.experiments.servers import ABSENT, describe_server
from activities.identity.roles import ensure_role, remove_role
from activities.polling import Memory, Seen, wait_until
from activities.sealing import seal_key
from activities.settings import Settings
from contracts.names import mlflow_artifacts, server_role_purpose
from contracts.network import Scope
from contracts.problem import ProblemCode
from contracts.sealing import seal
from contracts.tracking_servers import (
    DELETE_SERVER_ROLE,
    DELETE_TRACKING_SERVER,
    ENSURE_SERVER_ROLE,
    ENSURE_TRACKING_SERVER,
    LINK_SECONDS,
    LIST_TRACKING_SERVERS,
    OPEN_TRACKING_SERVER,
    READ_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER_GONE,
    DeleteTrackingServer,
    EnsureTrackingServer,
    ListTrackingServers,
    OpenTrackingServer,
    ReadTrackingServer,
    SealedLink,
    ServerKind,
    ServerRole,
    ServerState,
    TrackingServerDetail,
    TrackingServerGone,
    TrackingServerList,
    TrackingServerMade,
    TrackingServerReady,
    TrackingServerRequest,
    TrackingServerSpec,
    TrackingServerView,
    WaitForTrackingServer,
    link_context,
    state_of,
)


class TrackingServerActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._settings = aws, settings

    @activity.defn(name=ENSURE_SERVER_ROLE.name)
    def ensure_role(self, request: TrackingServerRequest) -> ServerRole:
        """The role that the server takes to its artifacts."""
        scope, spec, account = request.scope, request.spec, request.account
        at = partition(scope.region)
        role = ensure_role(
            self._aws,
            scope,
            purpose=server_role_purpose(spec.name),
            trust=server_trust(at, scope.region, account, spec.name),
            managed=[],
            inline=server_policy(at, scope.region, account, request.bucket, spec.name, spec.register_models),
        )
        return ServerRole(name=role.name, arn=role.arn, changed=role.changed)

    @activity.defn(name=ENSURE_TRACKING_SERVER.name)
    def ensure(self, request: EnsureTrackingServer) -> TrackingServerMade:
        """The server as specified. Raises FOREIGN for one of the name that is not the cluster's, CONFLICT for one of
        the cluster that is made otherwise, NOT_READY for one that failed to be made."""
        asked, scope = request.request, request.request.scope
        wanted = _wanted(asked, request.role_arn)
        found = describe_server(self._aws, scope.region, asked.spec.name)
        if found is None:
            act = self._aws.act.sagemaker(scope.region)
            try:
                made: Any = act.create_mlflow_tracking_server(
                    **wanted, Tags=tag_list(tags_of(scope, f"mlflow-{asked.spec.name}"))
                )
                return TrackingServerMade(name=asked.spec.name, arn=made["TrackingServerArn"])
            except Exception as error:
                if code_of(error) == "ValidationException" and "assume" in str(error).lower():
                    detail = f"SageMaker cannot take the role yet: {error}"
                    fail(ProblemCode.PROPAGATION, detail, "The platform tries again.", retry=True, delay=5)
                found = describe_server(self._aws, scope.region, asked.spec.name)
                if found is None:
                    raise
        self._check(scope, asked.spec, wanted, found)
        return TrackingServerMade(name=asked.spec.name, arn=found["TrackingServerArn"], changed=False)

    def _check(self, scope: Scope, spec: TrackingServerSpec, wanted: dict[str, Any], found: Any) -> None:
        view = servers.find(self._aws, scope.region, spec.name)
        if view.cluster != scope.cluster:
            owner = f"cluster {view.cluster}'s" if view.cluster else "not made by the platform"
            detail = f"tracking server {spec.name} exists in {scope.region} and is {owner}"
            fail(ProblemCode.FOREIGN, detail, "Choose another name, or connect to that one.", field="/name")
        if view.state is ServerState.FAILED:
            detail = f"tracking server {spec.name} is {view.status}"
            fail(ProblemCode.NOT_READY, detail, "Delete it (delete-tracking-server), then create it anew.")
        if different := differences(wanted, found):
            detail = f"tracking server {spec.name} exists and differs: {', '.join(different)}"
            remedy = "Ask for it as it is, delete it first, or choose another name."
            fail(ProblemCode.CONFLICT, detail, remedy, field="/name")

    @activity.defn(name=WAIT_FOR_TRACKING_SERVER.name)
    async def wait(self, request: WaitForTrackingServer) -> TrackingServerReady:
        """Until it answers. Raises NOT_READY where it cannot any more."""
        name, region = request.name, request.scope.region

        def look(memory: Memory) -> Seen[TrackingServerReady]:
            found = describe_server(self._aws, region, name)
            if found is None:
                detail = f"tracking server {name} has been deleted by somebody"
                fail(ProblemCode.NOT_FOUND, detail, "Retry to make it again, or abort.")
            status, state = found["TrackingServerStatus"], state_of(found["TrackingServerStatus"])
            if state in (ServerState.FAILED, ServerState.DELETING, ServerState.STOPPED):
                remedy = "Look at the server in the SageMaker console; delete it and retry, or abort."
                fail(ProblemCode.NOT_READY, f"tracking server {name} is {status}", remedy)
            if state is not ServerState.READY:
                return Seen(f"{name} {status} (up to 25 minutes)")
            ready = TrackingServerReady(
                name=name,
                arn=found["TrackingServerArn"],
                url=found.get("TrackingServerUrl"),
                mlflow_version=found.get("MlflowVersion"),
                size=found.get("TrackingServerSize"),
            )
            return Seen(f"{name} {status}", ready)

        limit, pace = WAIT_FOR_TRACKING_SERVER.limit, self._settings.poll_seconds
        return await wait_until(look, what=f"tracking server {name}", limit=limit, poll_seconds=pace)

    @activity.defn(name=DELETE_TRACKING_SERVER.name)
    def delete(self, request: DeleteTrackingServer) -> TrackingServerGone:
        """Begin its deletion. Raises FOREIGN for one that is not the cluster's, BUSY (retried) while it changes."""
        return TrackingServerGone(name=request.name, changed=begin_deletion(self._aws, request.scope, request.name))

    @activity.defn(name=WAIT_FOR_TRACKING_SERVER_GONE.name)
    async def wait_gone(self, request: WaitForTrackingServer) -> TrackingServerGone:
        """Until SageMaker does not know it any more."""
        name, region = request.name, request.scope.region

        def look(memory: Memory) -> Seen[TrackingServerGone]:
            found = describe_server(self._aws, region, name)
            if found is None:
                return Seen(f"{name} is gone", TrackingServerGone(name=name))
            status = found["TrackingServerStatus"]
            if status == "DeleteFailed":
                remedy = "Look at the server in the SageMaker console, then retry."
                fail(ProblemCode.NOT_READY, f"tracking server {name} is {status}", remedy, retryable=True)
            return Seen(f"{name} {status}")

        limit, pace = WAIT_FOR_TRACKING_SERVER_GONE.limit, self._settings.poll_seconds
        return await wait_until(look, what=f"the end of tracking server {name}", limit=limit, poll_seconds=pace)

    @activity.defn(name=DELETE_SERVER_ROLE.name)
    def delete_role(self, request: DeleteTrackingServer) -> TrackingServerGone:
        removed = remove_role(self._aws, request.scope, server_role_purpose(request.name))
        return TrackingServerGone(name=request.name, changed=bool(removed))

    @activity.defn(name=LIST_TRACKING_SERVERS.name)
    def list_servers(self, request: ListTrackingServers) -> TrackingServerList:
        """All of the account in the cluster's region; what may not be read is said."""
        region, found = request.scope.region, list[TrackingServerView]()
        unreadable = []
        for what, read in (("tracking servers", servers.listed), ("MLflow apps", servers.listed_apps)):
            try:
                found += read(self._aws, region)
            except Exception as error:
                # A region without MLflow apps must not hide its tracking servers.
                if not code_of(error):
                    raise
                unreadable.append(clean(f"{what}: {error}", 300))
        found.sort(key=lambda each: (each.cluster != request.scope.cluster, each.name))
        return TrackingServerList(servers=found, unreadable=unreadable, read_at=datetime.now(UTC))

    @activity.defn(name=READ_TRACKING_SERVER.name)
    def read(self, request: ReadTrackingServer) -> TrackingServerDetail:
        """Raises NOT_FOUND."""
        view = servers.find(self._aws, request.scope.region, request.server)
        known = [] if request.eks_cluster is None else connections(self._aws, request.scope, request.eks_cluster)
        reporting = [each for each in known if view.arn in each.servers]
        return TrackingServerDetail(server=view, connections=reporting, read_at=datetime.now(UTC))

    @activity.defn(name=OPEN_TRACKING_SERVER.name)
    def open(self, request: OpenTrackingServer) -> SealedLink:
        """A presigned URL, sealed: it lets in whoever has it. (CreatePresignedMlflowTrackingServerUrl)"""
        view = servers.find(self._aws, request.scope.region, request.server)
        key = seal_key(self._settings)
        sagemaker: Any = self._aws.act.sagemaker(view.arn.split(":")[3])
        if view.kind is ServerKind.APP:
            made = sagemaker.create_presigned_mlflow_app_url(Arn=view.arn, ExpiresInSeconds=LINK_SECONDS)
        else:
            made = sagemaker.create_presigned_mlflow_tracking_server_url(
                TrackingServerName=view.name, ExpiresInSeconds=LINK_SECONDS
            )
        context = link_context(request.scope.cluster, request.server)
        return SealedLink(arn=view.arn, sealed=seal(key, made["AuthorizedUrl"], context))


def begin_deletion(aws: AwsClients, scope: Scope, name: str) -> bool:
    """Whether the server was there and was not being deleted yet.

    Raises FOREIGN for one that is not the cluster's, BUSY (retried) while SageMaker changes it.
    """
    found = describe_server(aws, scope.region, name)
    if found is None or found["TrackingServerStatus"] == "Deleting":
        return False
    if servers.find(aws, scope.region, name).cluster != scope.cluster:
        detail = f"tracking server {name} was not made for cluster {scope.cluster}"
        fail(ProblemCode.FOREIGN, detail, "Delete it by the SageMaker console, if nobody uses it.", field="/name")
    try:
        aws.act.sagemaker(scope.region).delete_mlflow_tracking_server(TrackingServerName=name)
    except Exception as error:
        if is_absent(error, *ABSENT):
            return False
        if code_of(error) in ("ConflictException", "ResourceInUse", "ValidationException"):
            detail = f"tracking server {name} is {found['TrackingServerStatus']}: {error}"
            fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=15)
        raise
    return True


def _wanted(asked: TrackingServerRequest, role_arn: str) -> dict[str, Any]:
    spec = asked.spec
    given = {
        "TrackingServerName": spec.name,
        "ArtifactStoreUri": mlflow_artifacts(asked.bucket, spec.name),
        "TrackingServerSize": spec.size.value,
        "RoleArn": role_arn,
        "AutomaticModelRegistration": spec.register_models,
        "MlflowVersion": spec.mlflow_version,
        "WeeklyMaintenanceWindowStart": spec.maintenance_window,
    }
    return {key: value for key, value in given.items() if value is not None}


def differences(wanted: dict[str, Any], found: Any) -> list[str]:
    """In which members an existing server is not as wanted, in words. A version is compared as far as it is given."""
    told = []
    for member, value in wanted.items():
        held = found.get(member)
        same = str(held or "").startswith(str(value)) if member == "MlflowVersion" else held == value
        if not same:
            told.append(f"{member} is {held}, not {value}")
    return told
