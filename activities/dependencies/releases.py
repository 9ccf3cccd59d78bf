"""Helm releases: installed, and seen to work."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from temporalio import activity

from activities import charts
from activities.dependencies.addons import MISSING_REMEDY
from activities.errors import fail
from activities.helm import Helm, Revision, helm_for
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients
from activities.lost import lost_of, words
from activities.settings import Settings
from contracts.dependencies import (
    ENSURE_RELEASE,
    VERIFY_RELEASE,
    ComponentState,
    ComponentStatus,
    EnsureRelease,
    HelmChart,
    Release,
    VerifyRelease,
)
from contracts.problem import ProblemCode
from contracts.words import number_of


class ReleaseActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    def _chart(self, name: str, region: str) -> HelmChart:
        if name != "hyperpod-dependencies":
            remedy = "Choose a component that is a Helm release."
            fail(ProblemCode.INVALID, f"There is no chart for component {name!r}", remedy)
        return charts.hyperpod_dependencies(self._settings, region)

    @activity.defn(name=ENSURE_RELEASE.name)
    def ensure_release(self, request: EnsureRelease) -> Release:
        """The component's release in our chart version with our values. Does not wait for pods (``verify_release``
        looks).

        Chart and values are compared by a hash in the release's description. A release that a dead helm left pending is
        freed first, and one of which something was deleted is applied again. Raises what helm's error means (see
        ``activities/helm.py``).
        """
        scope = request.scope
        chart = self._chart(request.name, scope.region)
        with (
            helm_for(self._settings, self._kubernetes.connection(scope.region, request.eks_cluster)) as helm,
            self._kubernetes.connect(scope.region, request.eks_cluster) as api,
        ):
            revision, changed = helm.ensure(
                chart, lambda found: bool(lost_of(helm, api, chart.release, chart.namespace, found))
            )
        return Release(
            name=chart.release,
            revision=revision.number,
            status=revision.status,
            chart=revision.chart,
            changed=changed,
        )

    @activity.defn(name=VERIFY_RELEASE.name)
    def verify_release(self, request: VerifyRelease) -> ComponentStatus:
        """Whether the release is deployed, and its DaemonSets run on every node they want to run on.

        Raises NOT_READY for a release that is not deployed or has lost something, BUSY (retried) while pods of its
        DaemonSets start.
        """
        scope, name = request.scope, request.name
        chart = self._chart(name, scope.region)
        connection = self._kubernetes.connection(scope.region, request.eks_cluster)
        with (
            helm_for(self._settings, connection) as helm,
            self._kubernetes.connect(scope.region, request.eks_cluster) as api,
        ):
            revision = _deployed(helm, chart)
            lost = lost_of(helm, api, chart.release, chart.namespace, revision)
            sets = _daemon_sets(api, chart.release)
        if lost:
            fail(
                ProblemCode.NOT_READY,
                f"Helm release {chart.release} has lost {words(lost)}",
                MISSING_REMEDY,
                retryable=True,
            )
        wanted = sum(each.status.desired_number_scheduled or 0 for each in sets)
        ready = sum(each.status.number_ready or 0 for each in sets)
        pods = f"{number_of(len(sets), 'DaemonSet')}, {ready} of {wanted} pods ready"
        detail = f"{revision.chart} revision {revision.number} deployed; {pods}"
        if not wanted:
            state = ComponentState.WAITING_FOR_NODES if sets else ComponentState.READY
            return ComponentStatus(name=name, state=state, version=revision.chart, detail=detail)
        if ready < wanted:
            late = ", ".join(
                each.metadata.name
                for each in sets
                if (each.status.number_ready or 0) < (each.status.desired_number_scheduled or 0)
            )
            remedy = f"The platform looks again; if it lasts, see the pods of {late}."
            fail(ProblemCode.BUSY, f"{detail} (missing: {late})", remedy, retry=True, delay=self._settings.poll_seconds)
        return ComponentStatus(name=name, state=ComponentState.READY, version=revision.chart, detail=detail)


def _deployed(helm: Helm, chart: HelmChart) -> Revision:
    history = helm.history(chart.release, chart.namespace)
    if not history or history[-1].status != "deployed":
        status = history[-1].status if history else "absent"
        fail(
            ProblemCode.NOT_READY,
            f"Helm release {chart.release} is {status}",
            "Retry the stage that installs it.",
            retryable=True,
        )
    return history[-1]


def _daemon_sets(api: client.ApiClient, release: str) -> list[Any]:
    """Those that helm says belong to the release, in any namespace."""
    found: Any = client.AppsV1Api(api).list_daemon_set_for_all_namespaces(_request_timeout=REQUEST_TIMEOUT).items
    return [each for each in found if (each.metadata.annotations or {}).get("meta.helm.sh/release-name") == release]
