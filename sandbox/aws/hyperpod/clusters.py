"""HyperPod's operations on clusters.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html and its neighbours.
"""

from __future__ import annotations

from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.base import aware
from sandbox.aws.hyperpod.checks import invalid
from sandbox.aws.hyperpod.minimum import Minimum
from sandbox.aws.hyperpod.shapes import Shapes
from sandbox.aws.hyperpod.software import Software
from sandbox.aws.hyperpod.state import Cluster, Group, Image
from sandbox.aws.world import alphanumeric, paginate

EVENTS = ("autoscaling", "labelled")
KEPT = (
    "VpcConfig",
    "Orchestrator",
    "NodeRecovery",
    "NodeProvisioningMode",
    "ClusterRole",
    "TieredStorageConfig",
    "AutoScaling",
    "RestrictedInstanceGroupsConfig",
)


class Clusters(Software, Minimum, Shapes):
    """Handlers of the operations on clusters."""

    def listen(self) -> None:
        super().listen()
        self.listen_to(EVENTS)

    def CreateCluster(self, call: Call) -> Any:
        p = call.params
        clusters = self.state.clusters.setdefault(call.place, {})
        if p["ClusterName"] in clusters:
            raise AwsError("ResourceInUse", f"Cluster with name {p['ClusterName']} already exists.")
        groups, restricted = p.get("InstanceGroups") or [], p.get("RestrictedInstanceGroups") or []
        if not groups and not restricted and not (p.get("Orchestrator") or {}).get("Eks"):
            invalid("At least one instance group is required.")
        continuous = p.get("NodeProvisioningMode") == "Continuous"
        if p.get("VpcConfig"):
            self.check_vpc(call, p["VpcConfig"])
        self.check_orchestrator(call)
        self.check_autoscaling(p)
        if p.get("ClusterRole"):
            self.check_cluster_role(p["ClusterRole"])
        self.check_groups(call, [*groups, *restricted], continuous)
        self.check_quota(call, {g["InstanceGroupName"]: g for g in [*groups, *restricted]})
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
        clusters[cluster.name] = cluster
        for spec in groups:
            self.add_group(cluster, spec)
        for spec in restricted:
            self.add_group(cluster, spec, restricted=True)
        if cluster.autoscaling:
            self.set_autoscaling(cluster, cluster.settings["AutoScaling"])
        self.begin_scaling(cluster, {})
        self.admit_roles(cluster)
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
            and (not p.get("CreationTimeAfter") or c.created > aware(p["CreationTimeAfter"]))
            and (not p.get("CreationTimeBefore") or c.created < aware(p["CreationTimeBefore"]))
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

    def DeleteCluster(self, call: Call) -> Any:
        cluster = self.cluster(call)
        if cluster.status in ("Creating", "Updating", "Deleting", "SystemUpdating", "RollingBack"):
            raise AwsError(
                "ConflictException",
                f"Cluster {cluster.name} is currently in {cluster.status} state and cannot be deleted.",
            )
        if cluster.settings.get("AutoScaling"):
            self.set_autoscaling(cluster, {"Mode": "Disable"})
        cluster.status = "Deleting"
        self.event(cluster, f"Cluster {cluster.name} is being deleted", metadata={"Cluster": {}})
        for node in list(cluster.nodes.values()):
            self.stop(cluster, node)
        self.after(timings.HYPERPOD_DELETE, "deleted", cluster)
        return {"ClusterArn": cluster.arn}

    def add_group(self, cluster: Cluster, spec: dict[str, Any], restricted: bool = False) -> Group:
        group = Group(spec, spec["InstanceCount"], restricted, image=self.image_of(spec))
        group.current_image = group.image
        cluster.groups[group.name] = group
        self.expect_minimum(cluster, group, None)
        self.after(timings.KUBERNETES_CONFIG, "labelled", cluster, group=group.name)
        return group

    def image_of(self, spec: dict[str, Any]) -> Image:
        """What a group's specification asks its nodes to run."""
        return self.image(spec.get("ImageId"), spec.get("ImageReleaseVersion"))

    def set_autoscaling(self, cluster: Cluster, wish: dict[str, Any]) -> None:
        """Set up HyperPod's Karpenter, or take it away; either takes a while."""
        enable = wish["Mode"] == "Enable"
        if enable and cluster.autoscaling and cluster.settings["AutoScaling"].get("Status") == "InService":
            return
        if not enable and not cluster.settings.get("AutoScaling"):
            return
        status = "Creating" if enable else "Deleting"
        cluster.settings["AutoScaling"] = {"AutoScalerType": "Karpenter", **wish, "Status": status}
        self.after(timings.AUTOSCALING, "autoscaling", cluster, status=status)

    def _on_autoscaling(self, cluster: str, status: str) -> None:
        held = self.find(cluster)
        scaling = held.settings.get("AutoScaling") if held is not None else None
        if held is None or scaling is None or scaling["Status"] != status:
            return
        if status == "Creating":
            held.settings["AutoScaling"] = {**scaling, "Status": "InService"}
        else:
            del held.settings["AutoScaling"]

    def _on_labelled(self, cluster: str, group: str) -> None:
        held = self.find(cluster)
        if held is not None and (found := held.groups.get(group)) is not None:
            self.apply_labels(held, found)

    def admit_roles(self, cluster: Cluster) -> None:
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
