"""Workspaces of Amazon Managed Service for Prometheus and of Amazon Managed Grafana: their life, tokens and tags.

APIs: https://docs.aws.amazon.com/prometheus/latest/APIReference/API_Operations_Amazon_Managed_Prometheus.html and
https://docs.aws.amazon.com/grafana/latest/APIReference/API_Operations.html . Nothing is stored or drawn in them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.world import Place, World, hex_id, paginate, token_digest

GRAFANA_VERSION = "10.4"
PAGE = 100


@dataclass
class Workspace:
    id: str
    arn: str
    name: str
    created: datetime
    status: str = "CREATING"
    tags: dict[str, str] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    """What it was asked for with."""
    digest: str = ""


@dataclass
class WorkspaceState:
    held: dict[tuple[str, Place], dict[str, Workspace]] = field(default_factory=dict)
    """(service, place) -> workspaces by id."""


class _Workspaces:
    """What the two services have in common."""

    service: ClassVar[str]
    create_seconds: ClassVar[float]

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = WorkspaceState()
        world.on(f"{self.service}.active", self._active)
        world.on(f"{self.service}.deleted", self._deleted)

    def held(self, place: Place) -> dict[str, Workspace]:
        return self.state.held.setdefault((self.service, place), {})

    def _find(self, call: Call) -> Workspace:
        identifier = call.params["workspaceId"]
        found = self.held(call.place).get(identifier)
        if found is None:
            raise self._missing(identifier)
        return found

    @staticmethod
    def _missing(identifier: str) -> AwsError:
        return AwsError(
            "ResourceNotFoundException",
            f"Workspace not found: {identifier}",
            resourceId=identifier,
            resourceType="workspace",
        )

    def _create(self, call: Call, new: Workspace) -> Workspace:
        """The new workspace, or the one that was made with the same client token."""
        p = call.params
        new.digest, new.request, new.tags = token_digest(p, "clientToken"), dict(p), dict(p.get("tags") or {})
        for known in self.held(call.place).values():
            if p.get("clientToken") and known.request.get("clientToken") == p["clientToken"]:
                if known.digest != new.digest:
                    raise AwsError(
                        "ConflictException",
                        "The client token was used before with other parameters.",
                        resourceId=known.id,
                        resourceType="workspace",
                    )
                return known
        self.held(call.place)[new.id] = new
        self._schedule(self.create_seconds, "active", call, new)
        return new

    def _delete(self, call: Call) -> Workspace:
        workspace = self._find(call)
        if workspace.status == "CREATING":
            raise AwsError(
                "ConflictException",
                f"Workspace {workspace.id} is in status CREATING.",
                resourceId=workspace.id,
                resourceType="workspace",
            )
        if workspace.status != "DELETING":
            workspace.status = "DELETING"
            self._schedule(timings.WORKSPACE_DELETE, "deleted", call, workspace)
        return workspace

    def _schedule(self, seconds: float, event: str, call: Call, workspace: Workspace) -> None:
        self.world.clock.schedule(
            seconds, f"{self.service}.{event}", account=call.account, region=call.region, workspace=workspace.id
        )

    def _active(self, account: str, region: str, workspace: str) -> None:
        found = self.held((account, region)).get(workspace)
        if found is not None and found.status == "CREATING":
            found.status = "ACTIVE"

    def _deleted(self, account: str, region: str, workspace: str) -> None:
        self.held((account, region)).pop(workspace, None)

    # Tags

    def TagResource(self, call: Call) -> Any:
        if (found := self._tagged(call)) is None:
            return call.forward()
        found.tags.update(call.params["tags"])
        return {}

    def UntagResource(self, call: Call) -> Any:
        if (found := self._tagged(call)) is None:
            return call.forward()
        for key in call.params["tagKeys"]:
            found.tags.pop(key, None)
        return {}

    def ListTagsForResource(self, call: Call) -> Any:
        found = self._tagged(call)
        return call.forward() if found is None else {"tags": found.tags}

    def _tagged(self, call: Call) -> Workspace | None:
        """The workspace that a request is about; None for what is moto's."""
        arn = call.params["resourceArn"]
        found = next((w for w in self.held(call.place).values() if w.arn == arn), None)
        if found is None and "workspace" in arn.split(":", 5)[-1].partition("/")[0]:
            raise self._missing(arn.rsplit("/", 1)[-1])
        return found


class Prometheus(_Workspaces):
    """Handlers of Managed Prometheus's operations on workspaces."""

    service, create_seconds = "amp", timings.PROMETHEUS_CREATE

    def CreateWorkspace(self, call: Call) -> Any:
        identifier = f"ws-{uuid.uuid4()}"
        arn = call.arn("aps", f"workspace/{identifier}")
        made = self._create(call, Workspace(identifier, arn, call.params.get("alias") or "", self.world.now()))
        return {
            "workspaceId": made.id,
            "arn": made.arn,
            "status": {"statusCode": made.status},
            "tags": made.tags,
            **_given(made, "kmsKeyArn"),
        }

    def DescribeWorkspace(self, call: Call) -> Any:
        workspace = self._find(call)
        endpoint = f"https://aps-workspaces.{call.region}.amazonaws.com/workspaces/{workspace.id}/"
        return {"workspace": {**self._summary(workspace), "prometheusEndpoint": endpoint}}

    def ListWorkspaces(self, call: Call) -> Any:
        p = call.params
        found = [w for w in self.held(call.place).values() if w.name.startswith(p.get("alias") or "")]
        page, token = paginate(found, p.get("nextToken"), p.get("maxResults") or PAGE)
        return {"workspaces": [self._summary(w) for w in page], "nextToken": token}

    def UpdateWorkspaceAlias(self, call: Call) -> Any:
        self._find(call).name = call.params.get("alias") or ""

    def DeleteWorkspace(self, call: Call) -> Any:
        self._delete(call)

    @staticmethod
    def _summary(workspace: Workspace) -> dict[str, Any]:
        return {
            "workspaceId": workspace.id,
            "arn": workspace.arn,
            "status": {"statusCode": workspace.status},
            "createdAt": workspace.created,
            "tags": workspace.tags,
            **({"alias": workspace.name} if workspace.name else {}),
            **_given(workspace, "kmsKeyArn"),
        }


class Grafana(_Workspaces):
    """Handlers of Managed Grafana's operations on workspaces."""

    service, create_seconds = "grafana", timings.GRAFANA_CREATE

    def CreateWorkspace(self, call: Call) -> Any:
        identifier = f"g-{hex_id(10)}"
        arn = call.arn("grafana", f"/workspaces/{identifier}")
        name = call.params.get("workspaceName") or identifier
        return {"workspace": self._describe(self._create(call, Workspace(identifier, arn, name, self.world.now())))}

    def DescribeWorkspace(self, call: Call) -> Any:
        return {"workspace": self._describe(self._find(call))}

    def ListWorkspaces(self, call: Call) -> Any:
        p = call.params
        page, token = paginate(list(self.held(call.place).values()), p.get("nextToken"), p.get("maxResults") or PAGE)
        return {"workspaces": [self._summary(w) for w in page], "nextToken": token}

    def DeleteWorkspace(self, call: Call) -> Any:
        return {"workspace": self._describe(self._delete(call))}

    @staticmethod
    def _summary(workspace: Workspace) -> dict[str, Any]:
        region = workspace.arn.split(":")[3]
        return {
            "id": workspace.id,
            "name": workspace.name,
            "created": workspace.created,
            "modified": workspace.created,
            "endpoint": f"{workspace.id}.grafana-workspace.{region}.amazonaws.com",
            "grafanaVersion": workspace.request.get("grafanaVersion") or GRAFANA_VERSION,
            "status": workspace.status,
            "tags": workspace.tags,
            "authentication": {
                "providers": workspace.request.get("authenticationProviders") or [],
                "samlConfigurationStatus": "NOT_CONFIGURED",
            },
            "notificationDestinations": workspace.request.get("workspaceNotificationDestinations") or [],
        }

    def _describe(self, workspace: Workspace) -> dict[str, Any]:
        request = workspace.request
        return {
            **self._summary(workspace),
            "dataSources": request.get("workspaceDataSources") or [],
            "organizationalUnits": request.get("workspaceOrganizationalUnits") or [],
            **({"description": request["workspaceDescription"]} if request.get("workspaceDescription") else {}),
            **_given(
                workspace,
                "accountAccessType",
                "permissionType",
                "organizationRoleName",
                "stackSetName",
                "workspaceRoleArn",
                "vpcConfiguration",
                "networkAccessControl",
                "ipAddressType",
                "kmsKeyId",
            ),
        }


def _given(workspace: Workspace, *names: str) -> dict[str, Any]:
    """Members of the request that the answer repeats, where they were given."""
    return {name: workspace.request[name] for name in names if workspace.request.get(name) is not None}
