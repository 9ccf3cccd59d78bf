"""EKS managed node groups: creation, updates and deletion, with nodes that join the cluster.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
"""

from __future__ import annotations

import json
from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.autoscaling import AutoScaling
from sandbox.aws.eks.nodegroup_requests import MAX_PER_CLUSTER, Request, invalid, release_of
from sandbox.aws.eks.nodegroup_state import Instance, Nodegroup
from sandbox.aws.eks.state import Cluster
from sandbox.aws.world import World, paginate

PARAMETERS = {"minSize": "MinSize", "maxSize": "MaxSize", "desiredSize": "DesiredSize"}
CHANGES = ("labels", "taints", "scalingConfig", "updateConfig", "nodeRepairConfig", "warmPoolConfig")


class Nodegroups(AutoScaling):
    """Handlers of the operations on node groups."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.on("eks.nodegroup-updated", self._nodegroup_updated)
        world.on("eks.nodegroup-deleted", self._nodegroup_deleted)

    def CreateNodegroup(self, call: Call) -> Any:
        cluster = self.active_cluster(call)
        name = call.params["nodegroupName"]
        answer = self.once(call, f"{cluster.name}/{name}", lambda: self._create_nodegroup(call, cluster))
        held = cluster.nodegroups.get(name)
        return {"nodegroup": held.shape()} if held is not None else answer

    def DescribeNodegroup(self, call: Call) -> Any:
        cluster = self.cluster(call)
        group = self._nodegroup(call, cluster)
        if self.lost(cluster, group):
            self.check_in(cluster, group)
        return {"nodegroup": group.shape()}

    def ListNodegroups(self, call: Call) -> Any:
        names = sorted(self.cluster(call).nodegroups)
        page, token = paginate(names, call.params.get("nextToken"), call.params.get("maxResults") or 100)
        return {"nodegroups": page, "nextToken": token}

    def UpdateNodegroupConfig(self, call: Call) -> Any:
        cluster = self.active_cluster(call)
        group = self._nodegroup(call, cluster)
        return self.once(call, f"{cluster.name}/{group.name}", lambda: self._configure(call, cluster, group))

    def UpdateNodegroupVersion(self, call: Call) -> Any:
        cluster = self.active_cluster(call)
        group = self._nodegroup(call, cluster)
        return self.once(call, f"{cluster.name}/{group.name}", lambda: self._upgrade(call, cluster, group))

    def DeleteNodegroup(self, call: Call) -> Any:
        cluster = self.cluster(call)
        group = self._nodegroup(call, cluster)
        if group.status != "DELETING":
            if group.update:
                raise self._in_use(cluster, group, "has an update in progress")
            group.status, group.modified = "DELETING", self.world.now()
            group.issues = []
            self.reconcile(cluster, group)
            self.check_in(cluster, group)
        return {"nodegroup": group.shape()}

    def after_check(self, cluster: Cluster, group: Nodegroup) -> None:
        if group.status == "DELETING":
            if group.instances:
                self.check_in(cluster, group)
            else:
                self._at(timings.NODEGROUP_DELETE, "eks.nodegroup-deleted", cluster, group)
            return
        settled = self.settled(cluster, group)
        late = self.world.clock.timestamp() - group.started >= timings.NODEGROUP_GIVE_UP
        if group.status == "CREATING" and settled:
            group.status = "ACTIVE"
        elif group.status == "CREATING" and late:
            group.status = "CREATE_FAILED"
            if not group.issues:
                group.issues = [self._not_joined(group)]
        elif group.status in ("ACTIVE", "DEGRADED"):
            group.status = "DEGRADED" if group.issues else "ACTIVE"
        if group.update and self._rolling(group):
            self._roll(cluster, group, settled)
        if group.status != "CREATE_FAILED" and not settled:
            self.check_in(cluster, group)

    def _create_nodegroup(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        name = call.params["nodegroupName"]
        if name in cluster.nodegroups:
            raise AwsError(
                "ResourceInUseException",
                f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
                clusterName=cluster.name,
                nodegroupName=name,
            )
        if len(cluster.nodegroups) >= MAX_PER_CLUSTER:
            raise AwsError("ResourceLimitExceededException", f"A cluster has up to {MAX_PER_CLUSTER} node groups.")
        group = Request(self.world, call, cluster).nodegroup()
        cluster.nodegroups[name] = group
        if cluster.authentication != "CONFIG_MAP":
            self.admit(cluster, group.role, "EC2_LINUX")
        self.check_in(cluster, group, timings.NODEGROUP_LAUNCH)
        return {"nodegroup": group.shape()}

    def _configure(self, call: Call, cluster: Cluster, group: Nodegroup) -> dict[str, Any]:
        p = call.params
        self._require_unoccupied(cluster, group)
        wanted = {k: p[k] for k in CHANGES if p.get(k) is not None}
        if not wanted:
            raise invalid("No changes to the node group were given", cluster.name, group.name)
        request = Request(self.world, call, cluster)
        parameters: dict[str, str] = {}
        if "scalingConfig" in wanted:
            request.scaling(group.scaling, wanted["scalingConfig"])
            parameters |= {PARAMETERS[k]: str(v) for k, v in wanted["scalingConfig"].items()}
        for kind, title in (("labels", "Labels"), ("taints", "Taints")):
            change = wanted.get(kind) or {}
            if added := change.get(f"addOrUpdate{title}"):
                parameters[f"{title}ToAdd"] = json.dumps(added)
            if removed := change.get(f"remove{title}"):
                parameters[f"{title}ToRemove"] = json.dumps(removed)
        request.labels((wanted.get("labels") or {}).get("addOrUpdateLabels") or {})
        for member, title in (("maxUnavailable", "MaxUnavailable"), ("updateStrategy", "UpdateStrategy")):
            if (value := (wanted.get("updateConfig") or {}).get(member)) is not None:
                parameters[title] = str(value)
        update = self.new_update(cluster, "ConfigUpdate", parameters, nodegroup=group.name)
        group.status, group.update, group.wanted, group.modified = "UPDATING", update.id, wanted, self.world.now()
        self._at(timings.NODEGROUP_UPDATE, "eks.nodegroup-updated", cluster, group, update=update.id)
        return {"update": update.shape()}

    def _nodegroup_updated(self, account: str, region: str, name: str, nodegroup: str, update: str) -> None:
        """Settings take effect: nodes get labels and taints, instances come or go from now on.

        UNVERIFIED: the update is over when the Auto Scaling group is changed, before its instances are.
        """
        cluster, group = self._held(account, region, name, nodegroup)
        if cluster is None or group is None or group.update != update:
            return
        wanted, group.wanted, group.update = group.wanted, {}, ""
        group.scaling = {**group.scaling, **(wanted.get("scalingConfig") or {})}
        labels, taints = wanted.get("labels") or {}, wanted.get("taints") or {}
        group.labels = {**group.labels, **(labels.get("addOrUpdateLabels") or {})}
        for key in labels.get("removeLabels") or []:
            group.labels.pop(key, None)
        gone = {(t["key"], t["effect"]) for t in taints.get("removeTaints") or []}
        added = taints.get("addOrUpdateTaints") or []
        gone |= {(t["key"], t["effect"]) for t in added}
        group.taints = [t for t in group.taints if (t["key"], t["effect"]) not in gone] + added
        group.update_config = wanted.get("updateConfig") or group.update_config
        for member in ("nodeRepairConfig", "warmPoolConfig"):
            if member in wanted:
                group.extras[member] = wanted[member]
        for instance in group.live:
            if instance.state == "joined" and (labels or taints):
                self.show(cluster, group, instance)
        cluster.updates[update].status = "Successful"
        group.status = "ACTIVE"
        self.reconcile(cluster, group)
        self.after_check(cluster, group)

    def _upgrade(self, call: Call, cluster: Cluster, group: Nodegroup) -> dict[str, Any]:
        """https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html"""
        p = call.params
        self._require_unoccupied(cluster, group)
        version = p.get("version") or (group.version if p.get("releaseVersion") else cluster.version)
        if version > cluster.version or version < group.version:
            raise invalid(f"Node group version {version} is not between its own and the cluster's", *_names(group))
        release = p.get("releaseVersion") or release_of(version)
        parameters = {"Version": version, "ReleaseVersion": release}
        update = self.new_update(cluster, "VersionUpdate", parameters, nodegroup=group.name)
        group.status, group.update, group.modified = "UPDATING", update.id, self.world.now()
        group.wanted = {"release": release, "force": bool(p.get("force")), "before": (group.version, group.release)}
        group.version, group.release = version, release
        self.check_in(cluster, group)
        return {"update": update.shape()}

    def pods_stay(self, cluster: Cluster, group: Nodegroup, instance: Instance) -> None:
        message = f"Reached max retries while trying to evict pods from nodes in node group {group.name}"
        update = cluster.updates[group.update]
        update.status = "Failed"
        update.errors = [{"errorCode": "PodEvictionFailure", "errorMessage": message, "resourceIds": [instance.node]}]
        group.version, group.release = group.wanted["before"]
        group.update, group.wanted, group.status = "", {}, "ACTIVE"

    @staticmethod
    def _rolling(group: Nodegroup) -> bool:
        return "release" in group.wanted

    def _roll(self, cluster: Cluster, group: Nodegroup, settled: bool) -> None:
        """Replace the instances of an older release, no more at a time than the update configuration lets."""
        old = [i for i in group.live if i.release != group.release]
        if not old and settled:
            cluster.updates[group.update].status = "Successful"
            group.update, group.wanted, group.status = "", {}, "ACTIVE"
        elif settled:
            for instance in old[: _at_once(group, len(group.live))]:
                self.drain(cluster, group, instance)
            self.reconcile(cluster, group)
            self.check_in(cluster, group)

    def _nodegroup_deleted(self, account: str, region: str, name: str, nodegroup: str) -> None:
        cluster, group = self._held(account, region, name, nodegroup)
        if cluster is None or group is None or group.status != "DELETING":
            return
        del cluster.nodegroups[nodegroup]
        for identifier in [u.id for u in cluster.updates.values() if u.nodegroup == nodegroup]:
            del cluster.updates[identifier]
        for operation in ("CreateNodegroup", "UpdateNodegroupConfig", "UpdateNodegroupVersion"):
            prefix = f"{operation}/{name}/{nodegroup}"
            for key in [k for k in self.state.tokens if k[0] == cluster.place and k[1] == prefix]:
                del self.state.tokens[key]
        entry = cluster.entries.get(group.role)
        if entry and entry.type == "EC2_LINUX" and all(g.role != group.role for g in cluster.nodegroups.values()):
            del cluster.entries[group.role]
            self.publish_access(cluster)

    def _nodegroup(self, call: Call, cluster: Cluster) -> Nodegroup:
        name = call.params["nodegroupName"]
        if name not in cluster.nodegroups:
            raise AwsError(
                "ResourceNotFoundException",
                f"No node group found for name: {name}.",
                clusterName=cluster.name,
                nodegroupName=name,
            )
        return cluster.nodegroups[name]

    def _require_unoccupied(self, cluster: Cluster, group: Nodegroup) -> None:
        if group.update:
            raise self._in_use(cluster, group, "currently has an update in progress")
        if group.status in ("CREATING", "UPDATING", "DELETING"):
            raise self._in_use(cluster, group, f"is in {group.status} status")
        if group.status not in ("ACTIVE", "DEGRADED"):
            raise AwsError(
                "InvalidRequestException",
                f"Nodegroup {group.name} cannot be updated: its status is {group.status}",
                clusterName=cluster.name,
                nodegroupName=group.name,
            )

    @staticmethod
    def _in_use(cluster: Cluster, group: Nodegroup, why: str) -> AwsError:
        message = f"Nodegroup cannot be updated as it {why}: {group.name}"
        return AwsError("ResourceInUseException", message, clusterName=cluster.name, nodegroupName=group.name)

    @staticmethod
    def _not_joined(group: Nodegroup) -> dict[str, Any]:
        message = "Instances failed to join the kubernetes cluster"
        if group.instances:
            message = "Unhealthy nodes in the kubernetes cluster"
        return {"code": "NodeCreationFailure", "message": message, "resourceIds": sorted(group.instances)}


def _names(group: Nodegroup) -> tuple[str, str]:
    return group.cluster, group.name


def _at_once(group: Nodegroup, nodes: int) -> int:
    if percentage := group.update_config.get("maxUnavailablePercentage"):
        return max(1, nodes * int(percentage) // 100)
    return int(group.update_config.get("maxUnavailable") or 1)
