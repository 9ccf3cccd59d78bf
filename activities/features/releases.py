"""Helm releases as parts of features, and which values ours are installed with."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from activities import charts
from activities.features.ground import RELEASE_NAME, RELEASE_NAMESPACE, Ground
from activities.features.kinds import PartHandler
from activities.features.objects import mark_definitions
from activities.features.webhooks import silent_webhooks
from activities.helm import PENDING, Helm, Revision, Workload, helm_for
from activities.lost import lost_of, words
from contracts.dependencies import HelmChart
from contracts.feature_catalogue import DEFINITIONS
from contracts.features import Part, PartDone, PartKind, PartSight, PartState

LOAD_BALANCER_CONTROLLER = "aws-load-balancer-controller"


class ReleasePart(PartHandler):
    kind = PartKind.RELEASE

    @property
    def _key(self) -> tuple[str, str]:
        return (self.part.namespace or "", self.part.name)

    def look(self) -> PartSight:
        found = self.ground.releases.get(self._key)
        if found is None:
            return self.seen(PartState.ABSENT)
        what = f"Helm release {self.part.name} ({found.chart}) {found.status}"
        if found.status in PENDING:
            return self.seen(PartState.CHANGING, what, version=found.chart)
        if found.status != "deployed":
            return self.seen(PartState.WRONG, what, version=found.chart)
        with helm_for(self.ground.settings, self.ground.connection) as helm:
            lost = self._lost(helm, found, self.ground.deployments)
        if lost:
            return self.seen(PartState.WRONG, f"{what}, and without {words(lost)}", version=found.chart)
        late = [each for each in self.ground.deployments if self._owns(each) and not _available(each)]
        if late:
            names = ", ".join(each.metadata.name for each in late)
            if not self.ground.nodes:
                detail = f"{self.part.name} is installed; its pods need a node to run on"
                return self.seen(PartState.WAITING_FOR_NODES, detail, version=found.chart)
            return self.seen(PartState.CHANGING, f"Deployment {names} is not available yet", version=found.chart)
        if silent := silent_webhooks(self.ground, lambda configuration, _: self._owns(configuration)):
            return self.seen(PartState.CHANGING, f"webhook {', '.join(silent)} has no endpoint", version=found.chart)
        return self.seen(PartState.PRESENT, version=found.chart)

    def _lost(self, helm: Helm, revision: Revision, deployments: list[Any] | None = None) -> list[Workload]:
        """What others have deleted of it."""
        namespace = self.part.namespace or "default"
        return lost_of(helm, self.ground.api, self.part.name, namespace, revision, deployments)

    def _owns(self, found: Any) -> bool:
        notes = found.metadata.annotations or {}
        return (notes.get(RELEASE_NAMESPACE), notes.get(RELEASE_NAME)) == self._key

    def ensure(self) -> PartDone:
        with helm_for(self.ground.settings, self.ground.connection) as helm:
            _, changed = helm.ensure(chart_of(self.ground, self.part), lambda found: bool(self._lost(helm, found)))
        return self.done(changed)

    def remove(self) -> PartDone:
        chart = chart_of(self.ground, self.part)
        with helm_for(self.ground.settings, self.ground.connection) as helm:
            if self._key not in self.ground.releases:
                there = bool(helm.history(chart.release, chart.namespace))
                return self.kept("others installed it") if there else self.done(False)
            mark_definitions(self.ground, DEFINITIONS[self.feature].parts)
            return self.done(helm.remove(chart))


def chart_of(ground: Ground, part: Part) -> HelmChart:
    """The chart of a release, pinned by the settings, with our values."""
    settings, site = ground.settings, ground.site
    references = {
        "kuberay-operator": settings.kuberay_chart,
        "keda": settings.keda_chart,
        LOAD_BALANCER_CONTROLLER: settings.load_balancer_controller_chart,
    }
    values: dict[str, JsonValue] = {}
    if part.name == LOAD_BALANCER_CONTROLLER:
        values = {
            "clusterName": site.eks_cluster,
            "region": ground.region,
            "serviceAccount": {"create": True, "name": LOAD_BALANCER_CONTROLLER},
            **({"vpcId": site.vpc_id} if site.vpc_id else {}),
        }
    return charts.pinned(part.name, part.namespace or "default", references[part.name], values)


def _available(deployment: Any) -> bool:
    wanted = deployment.spec.replicas if deployment.spec.replicas is not None else 1
    status = deployment.status
    current = (status.observed_generation or 0) >= (deployment.metadata.generation or 0)
    return bool(current and (status.available_replicas or 0) >= wanted)
