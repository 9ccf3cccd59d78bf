"""EKS add-ons: installed in time, ACTIVE when their workloads run, DEGRADED when those do not.

https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.base import Base
from sandbox.aws.eks.catalog import ADDONS, AddonKind, describe_kind
from sandbox.aws.eks.state import Addon, Cluster
from sandbox.aws.world import World, paginate


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
        schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": True}
        return {
            "addonName": kind.name,
            "addonVersion": call.params["addonVersion"],
            "configurationSchema": json.dumps(schema),
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
        _check_configuration(p.get("configurationValues"))
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
        for wanted in p.get("podIdentityAssociations") or []:
            arn = self.associate_addon(cluster, addon, wanted["serviceAccount"], wanted["roleArn"])
            addon.associations.append(arn)
        self.world.dataplane.install_addon(cluster.arn, addon.name, addon.version)
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
        changes: dict[str, str] = {}
        if p.get("addonVersion"):
            addon.version = changes["AddonVersion"] = _version(_kind(addon.name), p["addonVersion"], cluster.version)
        if p.get("configurationValues") is not None:
            _check_configuration(p["configurationValues"])
            addon.configuration = changes["ConfigurationValues"] = p["configurationValues"]
        if p.get("serviceAccountRoleArn"):
            addon.service_account_role = changes["ServiceAccountRoleArn"] = p["serviceAccountRoleArn"]
        if p.get("resolveConflicts"):
            addon.resolve_conflicts = changes["ResolveConflicts"] = p["resolveConflicts"]
        update = self.new_update(cluster, "AddonUpdate", changes, addon.name)
        addon.status, addon.update, addon.modified = "UPDATING", update.id, self.world.now()
        addon.started = self.world.clock.timestamp()
        self.world.dataplane.install_addon(cluster.arn, addon.name, addon.version)
        self._check_in(timings.ADDON_UPDATE, cluster, addon)
        return {"update": update.shape()}

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
        addon.issues = [{"code": code, "message": message, "resourceIds": []} for code, message in health.issues]
        if health.ready:
            addon.issues = []
            if addon.status != "ACTIVE":
                addon.status, addon.modified = "ACTIVE", self.world.now()
        else:
            waited = self.world.clock.timestamp() - addon.started
            if addon.status == "ACTIVE" or waited >= timings.ADDON_GIVE_UP:
                addon.status = "DEGRADED"
            self._check_in(timings.ADDON_RECHECK, cluster, addon)
        if addon.update and addon.status in ("ACTIVE", "DEGRADED"):
            cluster.updates[addon.update].status = "Successful" if addon.status == "ACTIVE" else "Failed"
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
        for key in [k for k, a in cluster.associations.items() if a.owner == held.arn]:
            del cluster.associations[key]
        prefix = f"CreateAddon/{name}/{addon}"
        for token in [k for k in self.state.tokens if k[0] == cluster.place and k[1] == prefix]:
            del self.state.tokens[token]
        if not preserve:
            self.world.dataplane.remove_addon(cluster.arn, addon)

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


def _check_configuration(values: str | None) -> None:
    """Configuration may be JSON or YAML; what is not an object of either is refused."""
    if not values:
        return
    import yaml

    try:
        valid = isinstance(yaml.safe_load(values), dict)
    except yaml.YAMLError:
        valid = False
    if not valid:
        raise AwsError("InvalidParameterException", "ConfigurationValue provided in request is not supported")
