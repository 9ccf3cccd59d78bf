"""EKS add-ons: installed in time, ACTIVE when their workloads run, DEGRADED when those do not.

https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks import addon_schemas
from sandbox.aws.eks.base import Base
from sandbox.aws.eks.catalog import ADDONS, AddonKind, describe_kind
from sandbox.aws.eks.state import Addon, Cluster
from sandbox.aws.world import World, paginate
from sandbox.dataplane import AddonHealth, AddonSettings


class Addons(Base):
    """Handlers of the operations on add-ons."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.on("eks.addon-check", self._check)
        world.on("eks.addon-deleted", self._addon_deleted)

    def CreateAddon(self, call: Call) -> Any:
        cluster = self.active_cluster(call)
        return self.once(call, f"{cluster.name}/{call.params['addonName']}", lambda: self._create_addon(call, cluster))

    def DescribeAddon(self, call: Call) -> Any:
        cluster = self.cluster(call)
        addon = self._addon(call, cluster)
        self._observe(cluster, addon)
        return {"addon": addon.shape(cluster.name)}

    def ListAddons(self, call: Call) -> Any:
        names = sorted(self.cluster(call).addons)
        page, token = paginate(names, call.params.get("nextToken"), call.params.get("maxResults") or 100)
        return {"addons": page, "nextToken": token}

    def UpdateAddon(self, call: Call) -> Any:
        cluster = self.active_cluster(call)
        return self.once(call, f"{cluster.name}/{call.params['addonName']}", lambda: self._update_addon(call, cluster))

    def DeleteAddon(self, call: Call) -> Any:
        cluster = self.cluster(call)
        addon = self._addon(call, cluster)
        if addon.status != "DELETING":
            addon.status, addon.modified = "DELETING", self.world.now()
            preserve = bool(call.params.get("preserve"))
            addon.issues = []
            self._later(timings.ADDON_DELETE, "eks.addon-deleted", cluster, addon, preserve=preserve)
        return {"addon": addon.shape(cluster.name)}

    def DescribeAddonVersions(self, call: Call) -> Any:
        p = call.params
        kinds = [
            k
            for k in ADDONS.values()
            if p.get("addonName") in (None, k.name) and (not p.get("types") or k.type in p["types"])
        ]
        if p.get("addonName") and not kinds:
            raise AwsError("ResourceNotFoundException", f"Addon {p['addonName']} not found")
        described = [describe_kind(k, p.get("kubernetesVersion")) for k in kinds]
        page, token = paginate(
            [d for d in described if d["addonVersions"]], p.get("nextToken"), p.get("maxResults") or 100
        )
        return {"addons": page, "nextToken": token}

    def DescribeAddonConfiguration(self, call: Call) -> Any:
        kind = _kind(call.params["addonName"])
        identity = []
        if kind.iam:
            identity = [
                {
                    "serviceAccount": kind.service_account,
                    "recommendedManagedPolicies": [kind.policy] if kind.policy else [],
                }
            ]
        return {
            "addonName": kind.name,
            "addonVersion": call.params["addonVersion"],
            "configurationSchema": json.dumps(addon_schemas.schema_of(kind.name)),
            "podIdentityConfiguration": identity,
        }

    def _create_addon(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        p = call.params
        kind = _kind(p["addonName"])
        if kind.name in cluster.addons:
            raise AwsError(
                "ResourceInUseException", "Addon already exists.", clusterName=cluster.name, addonName=kind.name
            )
        version = _version(kind, p.get("addonVersion"), cluster.version)
        addon_schemas.parse(kind.name, p.get("configurationValues"))
        associations = p.get("podIdentityAssociations") or []
        self._check_roles(associations)
        now = self.world.now()
        addon = Addon(
            name=kind.name,
            version=version,
            arn=f"arn:aws:eks:{cluster.region}:{cluster.account}:addon/{cluster.name}/{kind.name}/{uuid.uuid4()}",
            created=now,
            modified=now,
            started=self.world.clock.timestamp(),
            tags=p.get("tags") or {},
            configuration=p.get("configurationValues") or "",
            resolve_conflicts=p.get("resolveConflicts") or "",
            service_account_role=p.get("serviceAccountRoleArn") or "",
            namespace=(p.get("namespaceConfig") or {}).get("namespace", kind.namespace),
        )
        cluster.addons[kind.name] = addon
        self._associate(cluster, addon, associations)
        self._install(cluster, addon)
        self._check_in(timings.ADDON_CREATE, cluster, addon)
        return {"addon": addon.shape(cluster.name)}

    def _update_addon(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        p = call.params
        addon = self._addon(call, cluster)
        if addon.status in ("CREATING", "UPDATING", "DELETING"):
            raise AwsError(
                "ResourceInUseException",
                f"Addon {addon.name} is in {addon.status} status and cannot be updated.",
                clusterName=cluster.name,
                addonName=addon.name,
            )
        if addon.status == "CREATE_FAILED":
            raise AwsError(
                "InvalidRequestException",
                f"Addon {addon.name} cannot be updated as it is currently in CREATE_FAILED status",
                clusterName=cluster.name,
                addonName=addon.name,
            )
        changes: dict[str, str] = {}
        configuration = p.get("configurationValues")
        addon_schemas.parse(addon.name, addon.configuration if configuration is None else configuration)
        self._check_roles(p.get("podIdentityAssociations") or [])
        if p.get("addonVersion"):
            addon.version = changes["AddonVersion"] = _version(_kind(addon.name), p["addonVersion"], cluster.version)
        if configuration is not None:
            addon.configuration = changes["ConfigurationValues"] = configuration
        if p.get("serviceAccountRoleArn"):
            addon.service_account_role = changes["ServiceAccountRoleArn"] = p["serviceAccountRoleArn"]
        if p.get("resolveConflicts"):
            addon.resolve_conflicts = changes["ResolveConflicts"] = p["resolveConflicts"]
        if p.get("podIdentityAssociations") is not None:
            changes["PodIdentityAssociations"] = json.dumps(p["podIdentityAssociations"])
            self._dissociate(cluster, addon)
            self._associate(cluster, addon, p["podIdentityAssociations"])
        update = self.new_update(cluster, "AddonUpdate", changes, addon.name)
        addon.status, addon.update, addon.modified = "UPDATING", update.id, self.world.now()
        # A look that is still to come belongs to what was before.
        addon.started, addon.checking = self.world.clock.timestamp(), False
        self._install(cluster, addon)
        self._check_in(timings.ADDON_UPDATE, cluster, addon)
        return {"update": update.shape()}

    def _install(self, cluster: Cluster, addon: Addon) -> None:
        configuration = addon_schemas.parse(addon.name, addon.configuration)
        account = _kind(addon.name).service_account
        roles = {account: addon.service_account_role} if account and addon.service_account_role else {}
        settings = AddonSettings(configuration, roles, overwrite=addon.resolve_conflicts == "OVERWRITE")
        found = self.world.dataplane.install_addon(cluster.arn, addon.name, addon.version, settings)
        addon.conflicts = list(found)

    def _check_roles(self, associations: list[dict[str, str]]) -> None:
        for wanted in associations:
            if problem := self.world.role_problem(wanted["roleArn"], "pods.eks.amazonaws.com", propagation=0):
                raise AwsError(
                    "InvalidParameterException", f"Role {wanted['roleArn']} cannot be used for pods: {problem}"
                )

    def _associate(self, cluster: Cluster, addon: Addon, associations: list[dict[str, str]]) -> None:
        for wanted in associations:
            arn = self.associate_addon(cluster, addon, wanted["serviceAccount"], wanted["roleArn"])
            addon.associations.append(arn)

    @staticmethod
    def _dissociate(cluster: Cluster, addon: Addon) -> None:
        for key in [k for k, a in cluster.associations.items() if a.owner == addon.arn]:
            del cluster.associations[key]
        addon.associations = []

    def _addon(self, call: Call, cluster: Cluster) -> Addon:
        name = call.params["addonName"]
        if name not in cluster.addons:
            raise AwsError(
                "ResourceNotFoundException",
                f"No addon: {name} found in cluster: {cluster.name}",
                clusterName=cluster.name,
                addonName=name,
            )
        return cluster.addons[name]

    def _check(self, account: str, region: str, name: str, addon: str, started: float) -> None:
        """Whether an add-on's workloads run by now; if not, look again later."""
        cluster = self.find((account, region), name)
        held = cluster.addons.get(addon) if cluster is not None else None
        if cluster is None or held is None or held.started != started or held.status == "DELETING":
            return
        held.checking = False
        if held.status in ("CREATING", "UPDATING") and self.world.dataplane.addon_health(cluster.arn, addon).missing:
            # What it needs may have come in the meantime. DEGRADED, it waits for an update.
            self._install(cluster, held)
        if held.conflicts:
            self._fail(cluster, held)
            return
        self._observe(cluster, held, finishing=True)
        if held.status != "ACTIVE":
            self._check_in(timings.ADDON_RECHECK, cluster, held)

    def _observe(self, cluster: Cluster, addon: Addon, finishing: bool = False) -> None:
        """Take over what the data plane says of an add-on's health."""
        if addon.status not in ("CREATING", "UPDATING", "ACTIVE", "DEGRADED"):
            return
        if addon.status in ("CREATING", "UPDATING") and not finishing:
            return
        health = self.world.dataplane.addon_health(cluster.arn, addon.name)
        if broken := self.world.knobs.broken_addons.get(addon.name):
            health = AddonHealth(False, ((broken, f"The add-on {addon.name} was made to fail"),), missing=True)
        addon.issues = [{"code": code, "message": message, "resourceIds": []} for code, message in health.issues]
        if health.ready:
            addon.issues = []
            if addon.status != "ACTIVE":
                addon.status, addon.modified = "ACTIVE", self.world.now()
        else:
            waited = self.world.clock.timestamp() - addon.started
            if addon.status == "ACTIVE" or health.missing or waited >= timings.ADDON_GIVE_UP:
                addon.status = "DEGRADED"
            self._check_in(timings.ADDON_RECHECK, cluster, addon)
        if addon.update and addon.status in ("ACTIVE", "DEGRADED"):
            update = cluster.updates[addon.update]
            update.status = "Successful" if addon.status == "ACTIVE" else "Failed"
            update.errors = [{"errorCode": i["code"], "errorMessage": i["message"]} for i in addon.issues]
            addon.update = ""

    def _fail(self, cluster: Cluster, addon: Addon) -> None:
        """Others' objects are in the way: https://docs.aws.amazon.com/eks/latest/userguide/creating-an-add-on.html"""
        creating = addon.status == "CREATING"
        addon.status, addon.modified = "CREATE_FAILED" if creating else "UPDATE_FAILED", self.world.now()
        message = (
            "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode. Conflicts: "
            + "; ".join(addon.conflicts)
        )
        addon.issues = [{"code": "ConfigurationConflict", "message": message, "resourceIds": []}]
        if addon.update:
            cluster.updates[addon.update].status = "Failed"
            cluster.updates[addon.update].errors = [{"errorCode": "ConfigurationConflict", "errorMessage": message}]
            addon.update = ""

    def _check_in(self, seconds: float, cluster: Cluster, addon: Addon) -> None:
        if not addon.checking:
            addon.checking = True
            self._later(seconds, "eks.addon-check", cluster, addon, started=addon.started)

    def _addon_deleted(self, account: str, region: str, name: str, addon: str, preserve: bool) -> None:
        cluster = self.find((account, region), name)
        held = cluster.addons.get(addon) if cluster is not None else None
        if cluster is None or held is None or held.status != "DELETING":
            return
        del cluster.addons[addon]
        self._dissociate(cluster, held)
        prefix = f"CreateAddon/{name}/{addon}"
        for token in [k for k in self.state.tokens if k[0] == cluster.place and k[1] == prefix]:
            del self.state.tokens[token]
        self.world.dataplane.remove_addon(cluster.arn, addon, preserve)

    def _later(self, seconds: float, event: str, cluster: Cluster, addon: Addon, **payload: Any) -> None:
        place = {"account": cluster.account, "region": cluster.region, "name": cluster.name}
        self.world.clock.schedule(seconds, event, **place, addon=addon.name, **payload)


def _kind(name: str) -> AddonKind:
    if name not in ADDONS:
        raise AwsError("InvalidParameterException", f"Addon specified is not supported: {name}", addonName=name)
    return ADDONS[name]


def _version(kind: AddonKind, wanted: str | None, kubernetes: str) -> str:
    """The wanted version if it fits, or the newest. ``v1.2.3`` alone means its newest build."""
    available = kind.available(kubernetes)
    if not wanted or wanted == "latest":
        return available[0]
    for version in available:
        if version == wanted or version.rsplit("-eksbuild", 1)[0] == wanted:
            return version
    raise AwsError(
        "InvalidParameterException",
        f"Addon version specified is not supported: {wanted} of {kind.name} for Kubernetes {kubernetes}",
        addonName=kind.name,
    )
