"""EKS add-ons.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml
from temporalio import activity

from activities.aws import AwsClients, pages, tags_of, token
from activities.context import attempt
from activities.errors import fail, is_absent
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.dependencies import (
    ENSURE_ADDON,
    WAIT_FOR_ADDON,
    Addon,
    ComponentState,
    ComponentStatus,
    EnsureAddon,
    WaitForAddon,
    component,
)
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import AddonTypeDef

NEEDS_NODES = "InsufficientNumberOfReplicas"
"""The one health issue of an add-on that more nodes mend."""
LOST = "K8sResourceNotFound"
"""The health issue of an add-on of which somebody has deleted something; EKS makes that again with an update alone."""
MISSING_REMEDY = "Install it again (install-dependencies; a creation does so itself), then retry."


class AddonActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._poll = aws, settings.poll_seconds

    @activity.defn(name=ENSURE_ADDON.name)
    def ensure_addon(self, request: EnsureAddon) -> Addon:
        """The add-on in the version that EKS has for the cluster by default, with the role and the configuration that
        are asked; does not wait until it is ACTIVE.

        One whose creation failed is deleted and made again once, one that has lost objects is applied again. Raises
        UNSUPPORTED when EKS has none for the cluster's Kubernetes version.
        """
        scope = request.scope
        version = default_version(self._aws, scope.region, request.name, request.kubernetes_version)
        where: Any = {"clusterName": request.eks_cluster, "addonName": request.name}
        act = self._aws.act.eks(scope.region)
        found = describe_addon(self._aws, scope.region, request.eks_cluster, request.name)
        if found is not None and found["status"] == "DELETING":
            detail = f"Add-on {request.name} is being deleted"
            fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=self._poll)
        if found is not None and found["status"] == "CREATE_FAILED":
            act.delete_addon(**where)
            detail = f"Add-on {request.name} failed and is made again: {issues_of(found)}"
            fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=min(self._poll, 5))
        if found is None:
            made = act.create_addon(
                **where,
                **self._role(request),
                **_configuration(request),
                addonVersion=version,
                # What EKS installed by itself at creation (self-managed) is taken over; nothing else is.
                resolveConflicts="OVERWRITE" if request.overwrite else "NONE",
                tags=tags_of(scope, f"addon-{request.name}"),
                # Per attempt: one that replaces what was deleted is another request. The look-up prevents a second one.
                clientRequestToken=token(f"addon/{request.name}/{attempt()}"),
            )["addon"]
            return _as_addon(made, changed=True)
        if numbers(found["addonVersion"]) > numbers(version):
            # Somebody chose a newer one; going back is not ours to decide.
            version = found["addonVersion"]
        as_asked = request.configuration is None or configuration_of(found) == request.configuration
        same, lost = found["addonVersion"] == version and as_asked, LOST in _codes(found)
        if (same and not lost) or found["status"] in ("CREATING", "UPDATING"):
            return _as_addon(found, changed=False)
        # Of one that is applied again and again, each time is another request.
        state = f"{version}/{found['modifiedAt'].isoformat()}" if same else version
        act.update_addon(
            **where,
            **_configuration(request),
            addonVersion=version,
            resolveConflicts="OVERWRITE" if request.overwrite else "PRESERVE",
            clientRequestToken=token(f"addon/{request.name}/{state}/{attempt()}"),
        )
        return Addon(name=request.name, version=version, status="UPDATING")

    def _role(self, request: EnsureAddon) -> Any:
        """The add-on's Pod Identity, unless its service account has one already (dependencies.ensure_storage_role)."""
        if not (request.role_arn and request.service_account):
            return {}
        found = self._aws.read.eks(request.scope.region).list_pod_identity_associations(
            clusterName=request.eks_cluster, namespace=request.namespace, serviceAccount=request.service_account
        )["associations"]
        if found:
            return {}
        return {"podIdentityAssociations": [{"serviceAccount": request.service_account, "roleArn": request.role_arn}]}

    @activity.defn(name=WAIT_FOR_ADDON.name)
    async def wait_for_addon(self, request: WaitForAddon) -> ComponentStatus:
        """Until the add-on is ACTIVE or, if that is accepted, until only nodes are missing.

        Raises NOT_READY for one that failed, with EKS's issues.
        """

        def look(memory: Memory) -> Seen[ComponentStatus]:
            found = describe_addon(self._aws, request.scope.region, request.eks_cluster, request.name)
            if found is None:
                memory.notes["absent"] = memory.notes.get("absent", 0) + 1
                if memory.notes["absent"] > 3:
                    fail(ProblemCode.NOT_FOUND, f"There is no add-on {request.name}", MISSING_REMEDY)
                return Seen(f"{request.name} not visible yet")
            status, version = found["status"], found["addonVersion"]
            detail = f"{request.name} {version} {status}" + (f": {issues}" if (issues := issues_of(found)) else "")
            if status == "ACTIVE":
                return Seen(detail, _status(request.name, ComponentState.READY, version, detail))
            if status in ("CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED", "DELETING"):
                fail(ProblemCode.NOT_READY, detail, "Mend what EKS names, then retry.", retryable=True)
            if request.accept_waiting_for_nodes and _waits_for_nodes(found, request.name):
                return Seen(detail, _status(request.name, ComponentState.WAITING_FOR_NODES, version, detail))
            return Seen(detail)

        what = f"add-on {request.name} ACTIVE"
        return await wait_until(look, what=what, limit=WAIT_FOR_ADDON.limit, poll_seconds=self._poll)


def describe_addon(aws: AwsClients, region: str, cluster: str, name: str) -> AddonTypeDef | None:
    """The add-on as it is; None only where EKS says that there is none."""
    try:
        return aws.read.eks(region).describe_addon(clusterName=cluster, addonName=name)["addon"]
    except Exception as error:
        if is_absent(error, "ResourceNotFoundException"):
            return None
        raise


def default_version(aws: AwsClients, region: str, name: str, kubernetes_version: str) -> str:
    """The version that EKS installs by default on the Kubernetes version. Raises UNSUPPORTED where it has none."""
    read, newest = aws.read.eks(region), ""
    described = pages(read, "describe_addon_versions", "addons", addonName=name, kubernetesVersion=kubernetes_version)
    for addon in described:
        for version in addon.get("addonVersions", []):
            newest = newest or version["addonVersion"]
            if any(each.get("defaultVersion") for each in version.get("compatibilities", [])):
                return str(version["addonVersion"])
    if not newest:
        fail(
            ProblemCode.UNSUPPORTED,
            f"EKS has no add-on {name} for Kubernetes {kubernetes_version}",
            "Choose another Kubernetes version.",
        )
    return newest


def configuration_of(addon: AddonTypeDef) -> dict[str, Any]:
    """The configuration values that an add-on has; EKS keeps them as they were sent, as JSON or YAML."""
    values = yaml.safe_load(addon.get("configurationValues") or "{}")
    return values if isinstance(values, dict) else {}


def _configuration(request: EnsureAddon) -> Any:
    return {} if request.configuration is None else {"configurationValues": json.dumps(request.configuration)}


def _codes(addon: AddonTypeDef) -> set[str]:
    return {str(issue.get("code")) for issue in addon.get("health", {}).get("issues", [])}


def only_nodes_missing(addon: AddonTypeDef) -> bool:
    """Whether all that EKS finds wrong is that its pods have no node."""
    return _codes(addon) == {NEEDS_NODES}


def issues_of(addon: AddonTypeDef) -> str:
    issues = addon.get("health", {}).get("issues", [])
    return "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues)


def _waits_for_nodes(addon: AddonTypeDef, name: str) -> bool:
    """Whether nothing but nodes is missing. EKS reports that only after a while (CREATING turns DEGRADED); what runs
    as a Deployment can be told before. (terraform-aws-eks issue 3001, eksctl issue 5438)"""
    codes = _codes(addon)
    if codes:
        return codes == {NEEDS_NODES}
    try:
        return addon["status"] == "CREATING" and component(name).runs_on_nodes
    except KeyError:
        return False


def numbers(version: str) -> tuple[int, ...]:
    """``v1.18.3-eksbuild.2`` as numbers that compare."""
    digits = "".join(c if c.isdigit() else " " for c in version)
    return tuple(int(part) for part in digits.split())


def _status(name: str, state: ComponentState, version: str, detail: str) -> ComponentStatus:
    return ComponentStatus(name=name, state=state, version=version, detail=detail)


def _as_addon(found: AddonTypeDef, changed: bool) -> Addon:
    return Addon(name=found["addonName"], version=found["addonVersion"], status=found["status"], changed=changed)
