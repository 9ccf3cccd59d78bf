"""HyperPod's operations on clusters.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html and its neighbours.
"""

from __future__ import annotations

from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.checks import Checks, invalid
from sandbox.aws.hyperpod.lifecycle import Lifecycle
from sandbox.aws.hyperpod.shapes import Shapes
from sandbox.aws.hyperpod.state import Cluster, Group
from sandbox.aws.world import alphanumeric, paginate

KEPT = (
    "VpcConfig",
    "Orchestrator",
    "NodeRecovery",
    "NodeProvisioningMode",
    "ClusterRole",
    "TieredStorageConfig",
    "AutoScaling",
)
UPDATABLE = ("NodeRecovery", "TieredStorageConfig", "ClusterRole", "AutoScaling", "NodeProvisioningMode")


class Clusters(Checks, Shapes, Lifecycle):
    """Handlers of the operations on clusters."""

    def CreateCluster(self, call: Call) -> Any:
        p = call.params
        clusters = self.state.clusters.setdefault(call.place, {})
        if p["ClusterName"] in clusters:
            raise AwsError("ResourceInUse", f"Cluster with name {p['ClusterName']} already exists.")
        if p.get("RestrictedInstanceGroups"):
            raise AwsError("SandboxNotImplemented", "Restricted instance groups are not available in the sandbox.", 400)
        groups = p.get("InstanceGroups") or []
        if not groups and not (p.get("Orchestrator") or {}).get("Eks"):
            invalid("At least one instance group is required.")
        continuous = p.get("NodeProvisioningMode") == "Continuous"
        if p.get("VpcConfig"):
            self.check_vpc(call, p["VpcConfig"])
        self.check_orchestrator(call)
        self._check_autoscaling(p, continuous)
        self.check_groups(call, groups, p.get("VpcConfig"), continuous)
        self.check_quota(call, {g["InstanceGroupName"]: g for g in groups})
        identifier = alphanumeric(12)
        cluster = Cluster(
            name=p["ClusterName"],
            id=identifier,
            arn=call.arn("sagemaker", f"cluster/{identifier}"),
            account=call.account,
            region=call.region,
            created=self.world.now(),
            settings={k: p[k] for k in KEPT if k in p},
            tags={t["Key"]: t["Value"] for t in p.get("Tags") or []},
        )
        cluster.settings.setdefault("NodeRecovery", "Automatic")
        self._note_autoscaling(cluster)
        for spec in groups:
            cluster.groups[spec["InstanceGroupName"]] = Group(spec, spec["InstanceCount"])
        clusters[cluster.name] = cluster
        self.begin_scaling(cluster, {})
        self._admit_roles(cluster)
        self.after(timings.HYPERPOD_CREATE, "created", cluster)
        return {"ClusterArn": cluster.arn}

    def DescribeCluster(self, call: Call) -> Any:
        return self.describe(self.cluster(call))

    def ListClusters(self, call: Call) -> Any:
        p = call.params
        found = [
            c
            for c in self.state.clusters.get(call.place, {}).values()
            if p.get("NameContains", "") in c.name
            and (not p.get("CreationTimeAfter") or c.created > _aware(p["CreationTimeAfter"]))
            and (not p.get("CreationTimeBefore") or c.created < _aware(p["CreationTimeBefore"]))
            and (
                not p.get("TrainingPlanArn")
                or any(g.spec.get("TrainingPlanArn") == p["TrainingPlanArn"] for g in c.groups.values())
            )
        ]
        by_name = p.get("SortBy") == "NAME"
        found.sort(key=lambda c: c.name if by_name else str(c.created), reverse=p.get("SortOrder") == "Descending")
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or 100)
        summaries = [
            {
                "ClusterArn": c.arn,
                "ClusterName": c.name,
                "CreationTime": c.created,
                "ClusterStatus": c.status,
                "TrainingPlanArns": sorted(
                    {g.spec["TrainingPlanArn"] for g in c.groups.values() if g.spec.get("TrainingPlanArn")}
                ),
            }
            for c in page
        ]
        return {"ClusterSummaries": summaries, "NextToken": token}

    def UpdateCluster(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        self._require_idle(cluster, "updated")
        groups, gone = p.get("InstanceGroups") or [], p.get("InstanceGroupsToDelete") or []
        eks = (p.get("Orchestrator") or {}).get("Eks")
        if eks and eks != (cluster.settings.get("Orchestrator") or {}).get("Eks"):
            invalid("Orchestrator.Eks of a cluster cannot be updated.")
        if any(n.status == "DeepHealthCheckInProgress" for n in cluster.nodes.values()):
            # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-update-cluster.html
            raise AwsError(
                "ConflictException", "Deep health checks are in progress on the cluster. Retry after they finish."
            )
        if unknown := [g for g in gone if g not in cluster.groups]:
            invalid(f"Instance group {unknown[0]} does not exist in cluster {cluster.name}.")
        if both := [g["InstanceGroupName"] for g in groups if g["InstanceGroupName"] in gone]:
            invalid(f"Instance group {both[0]} cannot be both updated and deleted.")
        self._check_autoscaling(p, cluster.continuous)
        self.check_groups(call, groups, cluster.settings.get("VpcConfig"), cluster.continuous)
        self.check_unchanged(cluster, groups)
        wanted: dict[str, Any] = {n: g for n, g in cluster.groups.items() if n not in gone}
        wanted |= {g["InstanceGroupName"]: g for g in groups}
        self.check_quota(call, wanted, cluster)
        self._apply_update(cluster, groups, gone, p)
        return {"ClusterArn": cluster.arn}

    def DeleteCluster(self, call: Call) -> Any:
        cluster = self.cluster(call)
        if cluster.status in ("Creating", "Updating", "Deleting", "SystemUpdating", "RollingBack"):
            raise AwsError(
                "ConflictException",
                f"Cluster {cluster.name} is currently in {cluster.status} state and cannot be deleted.",
            )
        cluster.status = "Deleting"
        self.event(cluster, f"Cluster {cluster.name} is being deleted", metadata={"Cluster": {}})
        for node in list(cluster.nodes.values()):
            self.stop(cluster, node)
        self.after(timings.HYPERPOD_DELETE, "deleted", cluster)
        return {"ClusterArn": cluster.arn}

    def UpdateClusterSoftware(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        self._require_idle(cluster, "updated")
        chosen = {g["InstanceGroupName"]: g for g in p.get("InstanceGroups") or []}
        if unknown := [g for g in chosen if g not in cluster.groups]:
            invalid(f"Instance group {unknown[0]} does not exist in cluster {cluster.name}.")
        names = list(chosen) or list(cluster.groups)
        for name in names:
            group = cluster.groups[name]
            group.software_status = "InProgress"
            group.desired_image = chosen.get(name, {}).get("ImageReleaseVersion") or group.desired_image
            for node in cluster.members(name):
                if node.status == "Running":
                    node.status = "SystemUpdating"
        cluster.status = "SystemUpdating"
        self.after(timings.NODE_SOFTWARE_UPDATE, "software-updated", cluster, groups=names)
        return {"ClusterArn": cluster.arn}

    def _apply_update(self, cluster: Cluster, groups: list[dict[str, Any]], gone: list[str], p: dict[str, Any]) -> None:
        before = self.targets(cluster)
        for spec in groups:
            # A group's new specification replaces the old one: what it leaves out is reset.
            held = cluster.groups.get(spec["InstanceGroupName"])
            if held is None:
                cluster.groups[spec["InstanceGroupName"]] = Group(spec, spec["InstanceCount"])
                continue
            held.spec, held.target, held.deleting = spec, spec["InstanceCount"], False
            for node in cluster.members(held.name):
                if node.joined:
                    self.join(cluster, node)
        for name in gone:
            cluster.groups[name].deleting = True
        cluster.settings |= {k: p[k] for k in UPDATABLE if k in p}
        self._note_autoscaling(cluster)
        cluster.failure = ""
        self.begin_scaling(cluster, before)
        self._admit_roles(cluster)
        for name in gone:
            for node in cluster.members(name):
                self.stop(cluster, node)
        if not cluster.continuous:
            cluster.status = "Updating"
        for group in list(cluster.groups.values()):
            self.reconcile(cluster, group)
        self.after(1, "settle", cluster)

    def _require_idle(self, cluster: Cluster, verb: str) -> None:
        if cluster.status != "InService":
            raise AwsError(
                "ConflictException",
                f"Cluster {cluster.name} is currently in {cluster.status} state and cannot be {verb}.",
            )

    @staticmethod
    def _check_autoscaling(p: dict[str, Any], continuous: bool) -> None:
        """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html"""
        if (p.get("AutoScaling") or {}).get("Mode") == "Enable" and not continuous:
            invalid("AutoScaling requires NodeProvisioningMode Continuous.")

    @staticmethod
    def _note_autoscaling(cluster: Cluster) -> None:
        if scaling := cluster.settings.get("AutoScaling"):
            scaling = cluster.settings["AutoScaling"] = dict(scaling)
            scaling.setdefault("Status", "Creating" if cluster.status == "Creating" else "InService")

    def _admit_roles(self, cluster: Cluster) -> None:
        """HyperPod lets its nodes into the EKS cluster: an access entry for each execution role (type and moment
        UNVERIFIED; EventMetadata.Cluster.EksRoleAccessEntries tells of them)."""
        eks = self.eks.by_arn(cluster.eks_arn) if cluster.eks_arn else None
        if eks is None:
            return
        roles = {g.spec["ExecutionRole"] for g in cluster.groups.values() if not g.deleting}
        added = [r for r in sorted(roles) if self.eks.admit(eks, r, "HYPERPOD_LINUX")]
        if added:
            self.event(
                cluster,
                "Access entries of the execution roles were created in the EKS cluster",
                metadata={"Cluster": {"EksRoleAccessEntries": added}},
            )


def _aware(value: Any) -> Any:
    from datetime import UTC

    return value if value.tzinfo else value.replace(tzinfo=UTC)
