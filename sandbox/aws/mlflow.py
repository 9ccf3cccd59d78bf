"""Managed MLflow of SageMaker: tracking servers and apps with their life and tags.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateMlflowTrackingServer.html and its neighbours.
UNVERIFIED: how a second server of one name is refused.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox import timings
from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod import HyperPod
from sandbox.aws.sts import principal
from sandbox.aws.world import Place, World, alphanumeric, paginate
from sandbox.mlflow.store import Tracking

SERVER, APP = "mlflow-tracking-server", "mlflow-app"
VERSION = "3.0"
APP_VERSION = "3.4"
PAGE = 100
RUNNING = ("Created", "Updated", "Started", "UpdateFailed", "StopFailed", "MaintenanceComplete", "MaintenanceFailed")


@dataclass
class Server:
    """A tracking server, or an app (which is always on)."""

    name: str
    arn: str
    created: datetime
    changed: datetime
    by: str
    request: dict[str, Any]
    status: str = "Creating"
    tags: dict[str, str] = field(default_factory=dict)
    host: str = ""


@dataclass
class MlflowState:
    servers: dict[Place, dict[str, Server]] = field(default_factory=dict)
    """By name; apps by ARN."""
    apps: dict[Place, dict[str, Server]] = field(default_factory=dict)
    tracking: dict[str, Tracking] = field(default_factory=dict)
    """What each holds, by ARN."""


class Mlflow:
    """Handlers of SageMaker's operations on MLflow; tags of other things are left to ``others``."""

    def __init__(self, world: World, others: HyperPod) -> None:
        self.world, self._others = world, others
        self.state = MlflowState()
        self._pickled: dict[str, bytes] = {}
        """What servers held when it was last asked, by ARN: they may hold very much."""
        world.on("mlflow.settled", self._settled)

    def changed(self, arn: str) -> None:
        """What a server holds is another now."""
        self._pickled.pop(arn, None)

    def dump(self) -> bytes:
        held = self.state.tracking
        self._pickled = {arn: self._pickled.get(arn) or _pickled(each) for arn, each in held.items()}
        return _pickled((self.state.servers, self.state.apps, self._pickled))

    def load(self, dumped: bytes) -> None:
        servers, apps, self._pickled = pickle.loads(dumped)
        tracking = {arn: pickle.loads(each) for arn, each in self._pickled.items()}
        self.state = MlflowState(servers, apps, tracking)

    def reset(self) -> None:
        self.state, self._pickled = MlflowState(), {}

    def servers(self, place: Place) -> dict[str, Server]:
        return self.state.servers.setdefault(place, {})

    def apps(self, place: Place) -> dict[str, Server]:
        return self.state.apps.setdefault(place, {})

    def by_arn(self, arn: str) -> Server | None:
        parts = arn.split(":")
        place = (parts[4], parts[3]) if len(parts) > 5 else ("", "")
        kind, _, name = parts[-1].partition("/")
        return self.servers(place).get(name) if kind == SERVER else self.apps(place).get(arn) if kind == APP else None

    # Tracking servers

    def CreateMlflowTrackingServer(self, call: Call) -> Any:
        name = call.params["TrackingServerName"]
        if name in self.servers(call.place):
            raise AwsError("ValidationException", f"A tracking server with the name {name} already exists.")
        arn = call.arn("sagemaker", f"{SERVER}/{name}")
        self.servers(call.place)[name] = self._make(call, name, arn)
        self._schedule(timings.MLFLOW_CREATE, call.place, arn, "Created")
        return {"TrackingServerArn": arn}

    def DescribeMlflowTrackingServer(self, call: Call) -> Any:
        server = self._server(call)
        request = server.request
        return {
            "TrackingServerArn": server.arn,
            "TrackingServerName": server.name,
            "ArtifactStoreUri": request["ArtifactStoreUri"],
            "TrackingServerSize": request.get("TrackingServerSize") or "Small",
            "MlflowVersion": request.get("MlflowVersion") or VERSION,
            "RoleArn": request["RoleArn"],
            "TrackingServerStatus": server.status,
            "IsActive": "Active" if server.status in RUNNING else "Inactive",
            "TrackingServerUrl": f"https://{server.host}",
            "WeeklyMaintenanceWindowStart": request.get("WeeklyMaintenanceWindowStart") or "Tue:03:30",
            "AutomaticModelRegistration": bool(request.get("AutomaticModelRegistration")),
            "CreationTime": server.created,
            "CreatedBy": {"IamIdentity": {"Arn": server.by}},
            "LastModifiedTime": server.changed,
        }

    def ListMlflowTrackingServers(self, call: Call) -> Any:
        summaries = [
            {
                "TrackingServerArn": each.arn,
                "TrackingServerName": each.name,
                "CreationTime": each.created,
                "LastModifiedTime": each.changed,
                "TrackingServerStatus": each.status,
                "IsActive": "Active" if each.status in RUNNING else "Inactive",
                "MlflowVersion": each.request.get("MlflowVersion") or VERSION,
            }
            for each in _listed(call, self.servers(call.place).values(), "TrackingServerStatus")
        ]
        page, token = paginate(summaries, call.params.get("NextToken"), call.params.get("MaxResults") or PAGE)
        return {"TrackingServerSummaries": page, "NextToken": token}

    def DeleteMlflowTrackingServer(self, call: Call) -> Any:
        server = self._server(call)
        if server.status in ("Creating", "Starting", "Stopping", "Updating"):
            raise AwsError("ConflictException", f"Tracking server {server.name} is in status {server.status}.")
        if server.status != "Deleting":
            self._move(server, "Deleting")
            self._schedule(timings.MLFLOW_DELETE, call.place, server.arn, "Deleted")
        return {"TrackingServerArn": server.arn}

    def StartMlflowTrackingServer(self, call: Call) -> Any:
        server = self._server(call)
        if server.status not in ("Stopped", "StartFailed"):
            raise AwsError("ConflictException", f"Tracking server {server.name} is in status {server.status}.")
        self._move(server, "Starting")
        self._schedule(timings.MLFLOW_START, call.place, server.arn, "Started")
        return {"TrackingServerArn": server.arn}

    def StopMlflowTrackingServer(self, call: Call) -> Any:
        server = self._server(call)
        if server.status not in RUNNING:
            raise AwsError("ConflictException", f"Tracking server {server.name} is in status {server.status}.")
        self._move(server, "Stopping")
        self._schedule(timings.MLFLOW_STOP, call.place, server.arn, "Stopped")
        return {"TrackingServerArn": server.arn}

    def CreatePresignedMlflowTrackingServerUrl(self, call: Call) -> Any:
        server = self._server(call)
        if server.status not in RUNNING:
            raise AwsError("ValidationException", f"Tracking server {server.name} is not active.")
        return {"AuthorizedUrl": f"https://{server.host}/auth?authToken={secrets.token_urlsafe(48)}"}

    def _server(self, call: Call) -> Server:
        name = call.params["TrackingServerName"]
        found = self.servers(call.place).get(name)
        if found is None:
            raise AwsError("ResourceNotFound", f"Tracking server {name} does not exist.")
        return found

    # Apps

    def CreateMlflowApp(self, call: Call) -> Any:
        arn = call.arn("sagemaker", f"{APP}/app-{alphanumeric(12).upper()}")
        self.apps(call.place)[arn] = self._make(call, call.params["Name"], arn)
        self._schedule(timings.MLFLOW_APP_CREATE, call.place, arn, "Created")
        return {"Arn": arn}

    def DescribeMlflowApp(self, call: Call) -> Any:
        app = self._app(call)
        return {
            **self._summary(app),
            "ArtifactStoreUri": app.request["ArtifactStoreUri"],
            "RoleArn": app.request["RoleArn"],
            "ModelRegistrationMode": app.request.get("ModelRegistrationMode") or "AutoModelRegistrationDisabled",
            "AccountDefaultStatus": app.request.get("AccountDefaultStatus") or "DISABLED",
            "CreatedBy": {"IamIdentity": {"Arn": app.by}},
        }

    def ListMlflowApps(self, call: Call) -> Any:
        summaries = [self._summary(each) for each in _listed(call, self.apps(call.place).values(), "Status")]
        page, token = paginate(summaries, call.params.get("NextToken"), call.params.get("MaxResults") or PAGE)
        return {"Summaries": page, "NextToken": token}

    def DeleteMlflowApp(self, call: Call) -> Any:
        app = self._app(call)
        if app.status != "Deleting":
            self._move(app, "Deleting")
            self._schedule(timings.MLFLOW_APP_DELETE, call.place, app.arn, "Deleted")
        return {"Arn": app.arn}

    def CreatePresignedMlflowAppUrl(self, call: Call) -> Any:
        return {"AuthorizedUrl": f"https://{self._app(call).host}/auth?authToken={secrets.token_urlsafe(48)}"}

    def _app(self, call: Call) -> Server:
        found = self.apps(call.place).get(call.params["Arn"])
        if found is None:
            raise AwsError("ResourceNotFound", f"MLflow app {call.params['Arn']} does not exist.")
        return found

    @staticmethod
    def _summary(app: Server) -> dict[str, Any]:
        return {
            "Arn": app.arn,
            "Name": app.name,
            "Status": app.status,
            "CreationTime": app.created,
            "LastModifiedTime": app.changed,
            "MlflowVersion": APP_VERSION,
        }

    # Both

    def _make(self, call: Call, name: str, arn: str) -> Server:
        p, now = call.params, self.world.now()
        if problem := self.world.role_problem(p["RoleArn"], "sagemaker.amazonaws.com"):
            raise AwsError("ValidationException", f"SageMaker cannot assume the role {p['RoleArn']}: {problem}.")
        bucket = p["ArtifactStoreUri"].removeprefix("s3://").partition("/")[0]
        if bucket not in backends.s3(call.account).buckets:
            raise AwsError("ValidationException", f"The artifact store {p['ArtifactStoreUri']} does not exist.")
        host = f"t-{alphanumeric(12)}.{call.region}.experiments.sagemaker.aws"
        tags = {each["Key"]: each["Value"] for each in p.get("Tags") or []}
        self.state.tracking[arn] = Tracking(p["ArtifactStoreUri"].rstrip("/"), int(now.timestamp() * 1000))
        return Server(name, arn, now, now, principal(call), dict(p), tags=tags, host=host)

    def _schedule(self, seconds: float, place: Place, arn: str, status: str) -> None:
        self.world.clock.schedule(seconds, "mlflow.settled", account=place[0], region=place[1], arn=arn, status=status)

    def _settled(self, account: str, region: str, arn: str, status: str) -> None:
        found = self.by_arn(arn)
        if found is None:
            return
        if status == "Deleted":
            place = (account, region)
            if f":{SERVER}/" in arn:
                self.servers(place).pop(found.name, None)
            else:
                self.apps(place).pop(arn, None)
            self.state.tracking.pop(arn, None)
        else:
            self._move(found, status)

    def _move(self, server: Server, status: str) -> None:
        server.status, server.changed = status, self.world.now()

    def AddTags(self, call: Call) -> Any:
        if (held := self._tagged(call)) is None:
            return self._others.AddTags(call)
        held.tags.update({each["Key"]: each["Value"] for each in call.params["Tags"]})
        return {"Tags": _tag_list(held.tags)}

    def ListTags(self, call: Call) -> Any:
        held = self._tagged(call)
        return self._others.ListTags(call) if held is None else {"Tags": _tag_list(held.tags)}

    def DeleteTags(self, call: Call) -> Any:
        if (held := self._tagged(call)) is None:
            return self._others.DeleteTags(call)
        for key in call.params["TagKeys"]:
            held.tags.pop(key, None)
        return {}

    def _tagged(self, call: Call) -> Server | None:
        """None for a request that is not about MLflow."""
        arn = call.params["ResourceArn"]
        if arn.split(":", 5)[-1].partition("/")[0] not in (SERVER, APP):
            return None
        if (found := self.by_arn(arn)) is None:
            raise AwsError("ResourceNotFound", f"Resource {arn} not found.")
        return found


def _pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _listed(call: Call, held: Iterable[Server], status: str) -> list[Server]:
    p = call.params
    found = [each for each in held if p.get(status) in (None, each.status)]
    key = {"Name": lambda s: s.name, "Status": lambda s: s.status}.get(p.get("SortBy", ""), lambda s: s.created)
    return sorted(found, key=key, reverse=p.get("SortOrder", "Descending") == "Descending")


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
