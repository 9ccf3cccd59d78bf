"""Workspaces of Amazon Managed Prometheus.

API: https://docs.aws.amazon.com/prometheus/latest/APIReference/API_CreateWorkspace.html
"""

from __future__ import annotations

from typing import Any

from activities.aws import is_ours, pages, tags_of, token
from activities.dependencies.addons import configuration_of
from activities.errors import fail, is_absent
from activities.features.ground import Ground
from activities.features.kinds import PartHandler
from contracts.features import FeatureOptions, PartDone, PartKind, PartSight, PartState
from contracts.problem import ProblemCode

ADDON = "amazon-sagemaker-hyperpod-observability"


class WorkspacePart(PartHandler):
    """The cluster's own workspace, or the one that was given: that is used, and never taken away."""

    kind = PartKind.WORKSPACE

    def look(self) -> PartSight:
        given = configured_workspace(self.ground, self.options)
        found = workspace_of(self.ground, self.options)
        if found is None:
            if given is None:
                return self.seen(PartState.ABSENT)
            return self.seen(PartState.WRONG, f"Prometheus workspace {given} does not exist", ours=False)
        status, arn = found["status"]["statusCode"], found["arn"]
        ours = is_ours(found.get("tags", {}), self.ground.scope.cluster)
        settings = {"prometheus_workspace_arn": arn}
        if status in ("ACTIVE", "UPDATING", "UPDATE_FAILED"):
            return self.seen(PartState.PRESENT, ours=ours, settings=settings)
        state = PartState.WRONG if status.endswith("FAILED") else PartState.CHANGING
        return self.seen(state, f"Prometheus workspace {arn} {status}", ours=ours, settings=settings)

    def ensure(self) -> PartDone:
        given, found = configured_workspace(self.ground, self.options), workspace_of(self.ground, self.options)
        if found is None and given is not None:
            fail(
                ProblemCode.NOT_FOUND,
                f"Prometheus workspace {given} does not exist in {self.ground.region}",
                "Give one that exists, or none: then one is made.",
                field="/observability/prometheus_workspace_arn",
            )
        if found is not None:
            if found["status"]["statusCode"] == "DELETING":
                fail(ProblemCode.BUSY, f"{found['arn']} is being deleted", "The platform tries again.", retry=True)
            return self.done(False)
        amp = self.ground.aws.act.amp(self.ground.region)
        amp.create_workspace(
            alias=alias(self.ground),
            clientToken=token("workspace"),
            tags=tags_of(self.ground.scope, "workspace-observability"),
        )
        return self.done(True)

    def remove(self) -> PartDone:
        changed = False
        amp = self.ground.aws.act.amp(self.ground.region)
        for each in own_workspaces(self.ground):
            if each["status"]["statusCode"] != "DELETING":
                try:
                    amp.delete_workspace(
                        workspaceId=each["workspaceId"], clientToken=token(f"delete-workspace/{each['workspaceId']}")
                    )
                except Exception as error:
                    if not is_absent(error, "ResourceNotFoundException"):
                        raise
            changed = True
        given = configured_workspace(self.ground, self.options)
        return self.kept(f"{given} was given") if given and not changed else self.done(changed)


def alias(ground: Ground) -> str:
    return f"instantstart-{ground.scope.cluster}"


def own_workspaces(ground: Ground) -> list[Any]:
    """Those that we made for the cluster."""
    amp = ground.aws.read.amp(ground.region)
    found = pages(amp, "list_workspaces", "workspaces", alias=alias(ground))
    return [each for each in found if is_ours(each.get("tags", {}), ground.scope.cluster)]


def configured_workspace(ground: Ground, options: FeatureOptions) -> str | None:
    """The ARN of a workspace that somebody gave: now, or when the add-on was installed. None: the cluster's own."""
    if options.prometheus_workspace_arn is not None:
        return options.prometheus_workspace_arn
    addon = ground.addon(ADDON)
    arn = ((configuration_of(addon).get("ampWorkspace") or {}) if addon is not None else {}).get("arn")
    return arn if arn and arn not in {each["arn"] for each in own_workspaces(ground)} else None


def workspace_of(ground: Ground, options: FeatureOptions) -> Any | None:
    """The workspace that metrics go to, described; None if there is none."""
    arn = configured_workspace(ground, options)
    if arn is None:
        own = [each for each in own_workspaces(ground) if each["status"]["statusCode"] != "DELETING"]
        own = own or own_workspaces(ground)
        if not own:
            return None
        arn = own[0]["arn"]
    amp = ground.aws.read.amp(ground.region)
    try:
        return amp.describe_workspace(workspaceId=arn.rpartition("/")[2])["workspace"]
    except Exception as error:
        if is_absent(error, "ResourceNotFoundException"):
            return None
        raise
