"""EKS add-ons as parts of features.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
"""

from __future__ import annotations

from typing import Any

from activities.aws import is_ours
from activities.dependencies.addons import AddonActivities, configuration_of, issues_of, only_nodes_missing
from activities.errors import fail, is_absent
from activities.features.kinds import PartHandler
from activities.features.objects import mark_definitions
from activities.features.policies import arn_of
from activities.features.webhooks import silent_webhooks
from activities.features.workspace import configured_workspace, workspace_of
from activities.hyperpod.cluster import describe
from contracts.dependencies import EnsureAddon
from contracts.feature_catalogue import DEFINITIONS
from contracts.features import PartDone, PartKind, PartSight, PartState
from contracts.names import ClusterNames
from contracts.problem import ProblemCode

FAILED = ("CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED")
OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"
INFERENCE = "amazon-sagemaker-hyperpod-inference"


class AddonPart(PartHandler):
    kind = PartKind.ADDON

    def look(self) -> PartSight:
        found = self.ground.addon(self.part.name)
        if found is None:
            return self.seen(PartState.ABSENT)
        status, issues = found["status"], issues_of(found)
        ours = is_ours(found.get("tags", {}), self.ground.scope.cluster)
        detail = f"EKS add-on {self.part.name} {status}" + (f": {issues}" if issues else "")
        version = found["addonVersion"]
        if status == "ACTIVE" and (silent := self._silent()):
            detail = f"{self.part.name} is ACTIVE, but webhook {', '.join(silent)} has no endpoint"
            return self.seen(PartState.CHANGING, detail, ours=ours, version=version)
        if status == "ACTIVE":
            return self.seen(PartState.PRESENT, ours=ours, version=version)
        if status in ("CREATING", "UPDATING", "DEGRADED") and self._lacks_nodes(found):
            detail = f"{self.part.name} is installed; its pods need a node to run on"
            return self.seen(PartState.WAITING_FOR_NODES, detail, ours=ours, version=version)
        state = PartState.CHANGING if status in ("CREATING", "UPDATING", "DELETING") else PartState.WRONG
        return self.seen(state, detail, ours=ours, version=version)

    def _silent(self) -> list[str]:
        """Webhooks of the add-on without a ready pod; those of a shared namespace cannot be told apart."""
        if self.part.namespace in (None, "kube-system"):
            return []
        return silent_webhooks(self.ground, lambda _, service: service.namespace == self.part.namespace)

    def _lacks_nodes(self, found: Any) -> bool:
        """EKS reports that only after a while; until then, a cluster without nodes tells it."""
        if only_nodes_missing(found):
            return True
        return self.part.runs_on_nodes and found["status"] == "CREATING" and not self.ground.nodes

    def ensure(self) -> PartDone:
        site = self.ground.site
        found = self.ground.addon(self.part.name)
        if found is not None and not is_ours(found.get("tags", {}), self.ground.scope.cluster):
            return self.kept("others installed it; it is used as it is")
        made = AddonActivities(self.ground.aws, self.ground.settings).ensure_addon(
            EnsureAddon(
                scope=site.scope,
                eks_cluster=site.eks_cluster,
                name=self.part.name,
                kubernetes_version=site.kubernetes_version,
                role_arn=self._role_arn(),
                service_account=self.part.service_account,
                namespace=self.part.namespace or "kube-system",
                configuration=self._configuration(),
                overwrite=False,
            )
        )
        return self.done(made.changed)

    def remove(self) -> PartDone:
        found = self.ground.addon(self.part.name)
        if found is None:
            return self.done(False)
        if not is_ours(found.get("tags", {}), self.ground.scope.cluster):
            return self.kept("others installed it")
        if found["status"] != "DELETING":
            mark_definitions(self.ground, DEFINITIONS[self.feature].parts)
            act = self.ground.aws.act.eks(self.ground.region)
            try:
                act.delete_addon(clusterName=self.ground.site.eks_cluster, addonName=self.part.name)
            except Exception as error:
                if not is_absent(error, "ResourceNotFoundException"):
                    raise
        return self.done(True)

    def _role_arn(self) -> str | None:
        if self.part.service_account is None:
            return None
        return arn_of(self.ground, self.feature)

    def _configuration(self) -> dict[str, Any] | None:
        if self.part.name == OBSERVABILITY:
            return self._observability()
        if self.part.name == INFERENCE:
            return self._inference()
        return None

    def _observability(self) -> dict[str, Any]:
        """(EKS: DescribeAddonConfiguration of the add-on; aws/sagemaker-hyperpod-cluster-setup)"""
        found = self.ground.addon(self.part.name)
        now = configuration_of(found) if found is not None else {}
        workspace = workspace_of(self.ground, self.options)
        if workspace is None:
            fail(
                ProblemCode.NOT_FOUND,
                f"There is no Prometheus workspace {configured_workspace(self.ground, self.options) or 'yet'}",
                "Give one that exists, or none: then one is made.",
                field="/observability/prometheus_workspace_arn",
            )
        wanted: dict[str, Any] = {
            **now,
            "ampWorkspace": {"arn": workspace["arn"], "prometheusEndpoint": workspace["prometheusEndpoint"]},
        }
        if self.options.grafana_workspace_arn is not None:
            wanted["amgWorkspace"] = {"arn": self.options.grafana_workspace_arn}
        return wanted

    def _inference(self) -> dict[str, Any]:
        """Load balancer controller and KEDA are features of their own. (SageMaker Developer Guide: setting up HyperPod
        clusters for model deployment)"""
        names, site = ClusterNames(self.ground.scope.cluster), self.ground.site
        cluster = (
            describe(self.ground.aws, self.ground.region, site.hyperpod_cluster) if site.hyperpod_cluster else None
        )
        return {
            "executionRoleArn": arn_of(self.ground, self.feature),
            "tlsCertificateS3Bucket": names.tls_bucket(site.account, self.ground.region),
            **({"hyperpodClusterArn": cluster["ClusterArn"]} if cluster is not None else {}),
            "alb": {"enabled": False},
            "keda": {"enabled": False},
        }
