"""EKS add-ons.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
SERVICE_NAMESPACE = "kube-system"


class AddonActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._poll = aws, settings.poll_seconds

    @activity.defn(name=ENSURE_ADDON.name)
    def ensure_addon(self, request: EnsureAddon) -> Addon:
        """The add-on in the version that EKS has for the cluster by default; does not wait until it is ACTIVE.

        One whose creation failed is deleted and made again once. Raises UNSUPPORTED when EKS has none for the cluster's
        Kubernetes version.
        """
        scope, version = request.scope, self._version(request)
        where: Any = {"clusterName": request.eks_cluster, "addonName": request.name}
        act, found = self._aws.act.eks(scope.region), self._describe(scope.region, request.eks_cluster, request.name)
        if found is not None and found["status"] == "DELETING":
            detail = f"Add-on {request.name} is being deleted"
            fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=self._poll)
        if found is not None and found["status"] == "CREATE_FAILED":
            act.delete_addon(**where)
            detail = f"Add-on {request.name} failed and is made again: {_issues(found)}"
            fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=min(self._poll, 5))
        if found is None:
            made = act.create_addon(
                **where,
                **self._role(request),
                addonVersion=version,
                # What EKS installed by itself at creation (self-managed) is taken over.
                resolveConflicts="OVERWRITE",
                tags=tags_of(scope, f"addon-{request.name}"),
                # Per attempt: one that replaces what was deleted is another request. The look-up prevents a second one.
                clientRequestToken=token(f"addon/{request.name}/{attempt()}"),
            )["addon"]
            return _as_addon(made, changed=True)
        if found["addonVersion"] == version or found["status"] in ("CREATING", "UPDATING"):
            return _as_addon(found, changed=False)
        if _number(found["addonVersion"]) > _number(version):
            # Somebody chose a newer one; going back is not ours to decide.
            return _as_addon(found, changed=False)
        act.update_addon(
            **where,
            addonVersion=version,
            resolveConflicts="OVERWRITE",
            clientRequestToken=token(f"addon/{request.name}/{version}"),
        )
        return Addon(name=request.name, version=version, status="UPDATING")

    def _version(self, request: EnsureAddon) -> str:
        read, newest = self._aws.read.eks(request.scope.region), ""
        described = pages(
            read,
            "describe_addon_versions",
            "addons",
            addonName=request.name,
            kubernetesVersion=request.kubernetes_version,
        )
        for addon in described:
            for version in addon.get("addonVersions", []):
                newest = newest or version["addonVersion"]
                if any(each.get("defaultVersion") for each in version.get("compatibilities", [])):
                    return str(version["addonVersion"])
        if not newest:
            fail(
                ProblemCode.UNSUPPORTED,
                f"EKS has no add-on {request.name} for Kubernetes {request.kubernetes_version}",
                "Choose another Kubernetes version.",
            )
        return newest

    def _role(self, request: EnsureAddon) -> Any:
        """The add-on's Pod Identity, unless its service account has one already (dependencies.ensure_storage_role)."""
        if not (request.role_arn and request.service_account):
            return {}
        found = self._aws.read.eks(request.scope.region).list_pod_identity_associations(
            clusterName=request.eks_cluster, namespace=SERVICE_NAMESPACE, serviceAccount=request.service_account
        )["associations"]
        if found:
            return {}
        return {"podIdentityAssociations": [{"serviceAccount": request.service_account, "roleArn": request.role_arn}]}

    def _describe(self, region: str, cluster: str, name: str) -> AddonTypeDef | None:
        try:
            return self._aws.read.eks(region).describe_addon(clusterName=cluster, addonName=name)["addon"]
        except Exception as error:
            if is_absent(error, "ResourceNotFoundException"):
                return None
            raise

    @activity.defn(name=WAIT_FOR_ADDON.name)
    async def wait_for_addon(self, request: WaitForAddon) -> ComponentStatus:
        """Until the add-on is ACTIVE or, if that is accepted, until only nodes are missing.

        Raises NOT_READY for one that failed, with EKS's issues.
        """

        def look(memory: Memory) -> Seen[ComponentStatus]:
            found = self._describe(request.scope.region, request.eks_cluster, request.name)
            if found is None:
                memory.notes["absent"] = memory.notes.get("absent", 0) + 1
                if memory.notes["absent"] > 3:
                    remedy = "Retry the stage that installs it."
                    fail(ProblemCode.NOT_FOUND, f"There is no add-on {request.name}", remedy)
                return Seen(f"{request.name} not visible yet")
            status, version = found["status"], found["addonVersion"]
            detail = f"{request.name} {version} {status}" + (f": {issues}" if (issues := _issues(found)) else "")
            if status == "ACTIVE":
                return Seen(detail, _status(request.name, ComponentState.READY, version, detail))
            if status in ("CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED", "DELETING"):
                fail(ProblemCode.NOT_READY, detail, "Mend what EKS names, then retry.", retryable=True)
            if request.accept_waiting_for_nodes and _waits_for_nodes(found, request.name):
                return Seen(detail, _status(request.name, ComponentState.WAITING_FOR_NODES, version, detail))
            return Seen(detail)

        what = f"add-on {request.name} ACTIVE"
        return await wait_until(look, what=what, limit=WAIT_FOR_ADDON.limit, poll_seconds=self._poll)


def _codes(addon: AddonTypeDef) -> set[str]:
    return {str(issue.get("code")) for issue in addon.get("health", {}).get("issues", [])}


def _issues(addon: AddonTypeDef) -> str:
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


def _number(version: str) -> tuple[int, ...]:
    """``v1.18.3-eksbuild.2`` as numbers that compare."""
    digits = "".join(c if c.isdigit() else " " for c in version)
    return tuple(int(part) for part in digits.split())


def _status(name: str, state: ComponentState, version: str, detail: str) -> ComponentStatus:
    return ComponentStatus(name=name, state=state, version=version, detail=detail)


def _as_addon(found: AddonTypeDef, changed: bool) -> Addon:
    return Addon(name=found["addonName"], version=found["addonVersion"], status=found["status"], changed=changed)
