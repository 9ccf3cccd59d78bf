"""From a router's spec to the objects of Kubernetes."""

from __future__ import annotations

import math
from typing import Any

from activities.deployments.manifests import (
    ANNOTATION_SPEC_HASH,
    DRAIN_SECONDS,
    PORT_NAME,
    PUBLIC_PORT,
    Manifest,
    balanced_by,
)
from contracts.inference import LABEL_SERVES, Serves
from contracts.model import fingerprint
from contracts.names import (
    ANNOTATION_OPERATION,
    ANNOTATION_RUN,
    ANNOTATION_SPEC,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_ROUTER,
    ClusterNames,
    public_service,
)
from contracts.routers import RouterSpec

CONTAINER = "router"
METRICS_NAME = "metrics"
GRACE_SECONDS = 60
START_SECONDS = 300
RBAC = "rbac.authorization.k8s.io"


def account(cluster: str, spec: RouterSpec, operation: str) -> list[Manifest]:
    """Its account, and the right to look for pods in its own namespace. Nothing else, and nowhere else.

    (SGLang documentation: SGLang Model Gateway, service discovery: get, list and watch of pods)
    """
    metadata = _metadata(cluster, spec, operation, spec.name)
    subject = {"kind": "ServiceAccount", "name": spec.name, "namespace": spec.namespace}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": spec.name}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    role, binding = {"apiVersion": f"{RBAC}/v1", "kind": "Role"}, {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {**role, "metadata": metadata, "rules": [rule]},
        {**binding, "metadata": metadata, "roleRef": reference, "subjects": [subject]},
    ]


def deployment(cluster: str, spec: RouterSpec, worker_port: int, *, operation: str, run: str) -> Manifest:
    metadata = _metadata(cluster, spec, operation, spec.name)
    metadata["annotations"] |= {
        ANNOTATION_RUN: run,
        ANNOTATION_SPEC: spec.model_dump_json(exclude_defaults=True),
        ANNOTATION_SPEC_HASH: fingerprint(spec),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": spec.replicas,
            "progressDeadlineSeconds": 2 * START_SECONDS,
            "revisionHistoryLimit": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "selector": {"matchLabels": selector_of(spec.name)},
            "template": {
                "metadata": {
                    "labels": labels_of(cluster, spec),
                    # Prometheus finds it by these, without its configuration being touched.
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(spec.metrics_port),
                        "prometheus.io/path": "/metrics",
                    },
                },
                "spec": _pod(spec, worker_port),
            },
        },
    }


def services(cluster: str, spec: RouterSpec, operation: str) -> list[Manifest]:
    inside = _service(cluster, spec, operation, spec.name, {"type": "ClusterIP"}, spec.port, {})
    if spec.service != "public":
        return [inside]
    annotations = balanced_by(spec.public, "/readiness")
    body, name = {"type": "LoadBalancer"}, public_service(spec.name)
    return [inside, _service(cluster, spec, operation, name, body, PUBLIC_PORT, annotations)]


def selector_of(name: str) -> dict[str, str]:
    return {LABEL_ROUTER: name}


def labels_of(cluster: str, spec: RouterSpec) -> dict[str, str]:
    return {
        LABEL_CLUSTER: ClusterNames(cluster).label,
        LABEL_ROUTER: spec.name,
        "app.kubernetes.io/name": "sglang-router",
        "app.kubernetes.io/instance": spec.name,
        "app.kubernetes.io/component": "router",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
    }


def arguments(spec: RouterSpec, worker_port: int) -> list[str]:
    """How it is started. (SGLang documentation: SGLang Model Gateway, service discovery and policy tuning)"""
    words = ["--service-discovery", "--selector", *labelled(spec.target.labels)]
    words += ["--service-discovery-port", str(worker_port), "--service-discovery-namespace", spec.namespace]
    words += ["--policy", spec.policy, "--host", "0.0.0.0", "--port", str(spec.port)]
    words += ["--prometheus-host", "0.0.0.0", "--prometheus-port", str(spec.metrics_port)]
    if spec.policy == "cache_aware":
        words += ["--cache-threshold", f"{spec.cache_threshold:g}"]
        words += ["--balance-abs-threshold", str(spec.balance_abs_threshold)]
        words += ["--balance-rel-threshold", f"{spec.balance_rel_threshold:g}"]
        words += ["--eviction-interval-secs", str(spec.eviction_interval_seconds)]
        words += ["--max-tree-size", str(spec.max_tree_size)]
    return words


def labelled(labels: dict[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(labels.items())]


def _pod(spec: RouterSpec, worker_port: int) -> Manifest:
    return {
        "serviceAccountName": spec.name,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": GRACE_SECONDS + DRAIN_SECONDS,
        "containers": [
            {
                "name": CONTAINER,
                "image": spec.chosen_image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-m", "sglang_router.launch_router"],
                "args": arguments(spec, worker_port),
                "ports": [
                    {"name": PORT_NAME, "containerPort": spec.port, "protocol": "TCP"},
                    {"name": METRICS_NAME, "containerPort": spec.metrics_port, "protocol": "TCP"},
                ],
                "resources": {"requests": _amounts(spec, 1), "limits": _amounts(spec, 2)},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
                **_probes(),
            }
        ],
    }


def _amounts(spec: RouterSpec, times: int) -> dict[str, str]:
    return {
        "cpu": f"{math.ceil(spec.cpu * times * 1000)}m",
        "memory": f"{math.ceil(spec.memory_gib * times * 1024)}Mi",
    }


def _probes() -> dict[str, Any]:
    """``/health`` is well as long as the router itself runs; only ``/readiness`` knows whether it has servers. One
    without any gets no requests."""

    def looked(path: str) -> Manifest:
        return {"httpGet": {"path": path, "port": PORT_NAME}, "timeoutSeconds": 5}

    return {
        "startupProbe": {**looked("/health"), "periodSeconds": 5, "failureThreshold": START_SECONDS // 5},
        "readinessProbe": {**looked("/readiness"), "periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**looked("/health"), "periodSeconds": 10, "failureThreshold": 6},
    }


def _service(
    cluster: str,
    spec: RouterSpec,
    operation: str,
    name: str,
    body: dict[str, Any],
    port: int,
    annotations: dict[str, str],
) -> Manifest:
    metadata = _metadata(cluster, spec, operation, name)
    metadata["labels"] = {**metadata["labels"], LABEL_SERVES: Serves.ROUTER.value}
    metadata["annotations"] |= annotations
    ports = [{"name": PORT_NAME, "port": port, "protocol": "TCP", "targetPort": PORT_NAME}]
    if body["type"] == "ClusterIP":
        # Its numbers are nobody's outside of the cluster.
        ports.append({"name": METRICS_NAME, "port": spec.metrics_port, "protocol": "TCP", "targetPort": METRICS_NAME})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {**body, "selector": selector_of(spec.name), "ports": ports},
    }


def _metadata(cluster: str, spec: RouterSpec, operation: str, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": spec.namespace,
        "labels": labels_of(cluster, spec),
        "annotations": {ANNOTATION_OPERATION: operation},
    }
