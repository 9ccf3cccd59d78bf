"""UpdateCluster: groups by name, each specification in place of the old one, and the cluster's own settings.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html
"""

from __future__ import annotations

from typing import Any

from sandbox import timings
from sandbox.aws.call import Call
from sandbox.aws.hyperpod.checks import invalid
from sandbox.aws.hyperpod.clusters import Clusters
from sandbox.aws.hyperpod.state import Cluster

UPDATABLE = ("NodeRecovery", "ClusterRole", "NodeProvisioningMode", "RestrictedInstanceGroupsConfig")
IMAGE_MEMBERS = ("ImageId", "ImageReleaseVersion")


class Updates(Clusters):
    """Handler of UpdateCluster. A setting of the cluster that is not sent stays as it is."""

    def UpdateCluster(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        self.require_idle(cluster, "updated")
        self.require_no_checks(cluster)
        groups, restricted = p.get("InstanceGroups") or [], p.get("RestrictedInstanceGroups") or []
        gone = p.get("InstanceGroupsToDelete") or []
        sent = [*groups, *restricted]
        self._check_settings(cluster, p)
        self._check_names(cluster, groups, restricted, gone)
        continuous = cluster.continuous or p.get("NodeProvisioningMode") == "Continuous"
        self.check_groups(call, sent, continuous)
        self.check_unchanged(cluster, sent)
        wanted: dict[str, Any] = {n: g for n, g in cluster.groups.items() if n not in gone}
        wanted |= {g["InstanceGroupName"]: g for g in sent}
        self.check_quota(call, wanted, cluster)
        self._apply(cluster, p)
        return {"ClusterArn": cluster.arn}

    def _check_settings(self, cluster: Cluster, p: dict[str, Any]) -> None:
        eks = (p.get("Orchestrator") or {}).get("Eks")
        if eks and eks != (cluster.settings.get("Orchestrator") or {}).get("Eks"):
            invalid("Orchestrator.Eks of a cluster cannot be updated.")
        role = p.get("ClusterRole")
        if role and role != cluster.settings.get("ClusterRole"):
            if cluster.autoscaling:
                invalid("ClusterRole cannot be updated while autoscaling is enabled.")
            self.check_cluster_role(role)
        scaling = p.get("AutoScaling") or cluster.settings.get("AutoScaling")
        self.check_autoscaling({**cluster.settings, **{k: p[k] for k in UPDATABLE if k in p}, "AutoScaling": scaling})

    def _check_names(self, cluster: Cluster, groups: list[Any], restricted: list[Any], gone: list[str]) -> None:
        if unknown := [g for g in gone if g not in cluster.groups]:
            invalid(f"Instance group {unknown[0]} does not exist in cluster {cluster.name}.")
        for specs, kind in ((groups, False), (restricted, True)):
            for spec in specs:
                name = spec["InstanceGroupName"]
                held = cluster.groups.get(name)
                if name in gone:
                    invalid(f"Instance group {name} cannot be both updated and deleted.")
                if held is not None and held.restricted != kind:
                    invalid(f"Instance group {name} cannot become or cease to be restricted.")
                if held is not None and held.deleting:
                    invalid(f"Instance group {name} is being deleted.")

    def _apply(self, cluster: Cluster, p: dict[str, Any]) -> None:
        before = self.targets(cluster)
        gone = p.get("InstanceGroupsToDelete") or []
        cluster.settings |= {k: p[k] for k in UPDATABLE if k in p}
        if tiered := p.get("TieredStorageConfig"):
            cluster.settings["TieredStorageConfig"] = {**cluster.settings.get("TieredStorageConfig", {}), **tiered}
        for spec in p.get("InstanceGroups") or []:
            self._upsert(cluster, spec, restricted=False)
        for spec in p.get("RestrictedInstanceGroups") or []:
            self._upsert(cluster, spec, restricted=True)
        for name in gone:
            cluster.groups[name].deleting = True
        if scaling := p.get("AutoScaling"):
            self.set_autoscaling(cluster, scaling)
        cluster.failure = ""
        self.begin_scaling(cluster, before)
        self.admit_roles(cluster)
        if not cluster.continuous:
            cluster.status = "Updating"
        for name in gone:
            for node in cluster.members(name):
                self.stop(cluster, node)
        for group in list(cluster.groups.values()):
            self.reconcile(cluster, group)
        self.after(1, "settle", cluster)

    def _upsert(self, cluster: Cluster, spec: dict[str, Any], restricted: bool) -> None:
        """What a group's new specification leaves out is reset, but for the image, which only a name changes."""
        held = cluster.groups.get(spec["InstanceGroupName"])
        if held is None:
            self.add_group(cluster, spec, restricted)
            return
        old = (held.spec, held.target)
        if any(spec.get(m) != held.spec.get(m) for m in IMAGE_MEMBERS if m in spec):
            held.image = self.image_of(spec)
        kept = {m: held.spec[m] for m in IMAGE_MEMBERS if m in held.spec}
        held.spec, held.target, held.shortages = {**kept, **spec}, spec["InstanceCount"], 0
        self.expect_minimum(cluster, held, old)
        self.after(timings.KUBERNETES_CONFIG, "labelled", cluster, group=held.name)
