"""What is seen of a cluster through its Kubernetes API."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from temporalio import activity

from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients
from activities.storage.volumes import storage_claims
from contracts.dependencies import ComponentState, ComponentStatus
from contracts.imports import DETECT_WORKLOADS, DetectedWorkloads, DetectWorkloads, Gap

RELEASE = "hyperpod-dependencies"
HEALTH_AGENT = "health-monitoring-agent"
"""The DaemonSet by which the HyperPod chart is recognised, whatever its release is called."""


class ImportWorkloadActivities:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=DETECT_WORKLOADS.name)
    def detect_workloads(self, request: DetectWorkloads) -> DetectedWorkloads:
        """The cluster's claims on S3 and FSx, and HyperPod's own components. Changes nothing."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            version: Any = client.VersionApi(api).get_code(_request_timeout=REQUEST_TIMEOUT)
            claims = storage_claims(client.CoreV1Api(api), request.scope.cluster)
            sets: Any = client.AppsV1Api(api).list_daemon_set_for_all_namespaces(_request_timeout=REQUEST_TIMEOUT)
        agent = next((each for each in sets.items if HEALTH_AGENT in each.metadata.name), None)
        gaps = []
        if agent is None:
            detail = "HyperPod's own components (health monitoring, device plugins) are not installed"
            gaps.append(Gap(what="component", detail=detail, remedy="install-dependencies installs them."))
        return DetectedWorkloads(
            kubernetes_version=version.git_version,
            storage=[each for each in claims if each.bucket or each.file_system],
            dependencies=[_release(agent)] if agent is not None else [],
            gaps=gaps,
        )


def _release(agent: Any) -> ComponentStatus:
    annotations = agent.metadata.annotations or {}
    release = annotations.get("meta.helm.sh/release-name")
    return ComponentStatus(
        name=RELEASE,
        state=ComponentState.READY,
        version=(agent.metadata.labels or {}).get("helm.sh/chart"),
        detail=f"Helm release {release}" if release else "installed without Helm",
    )
