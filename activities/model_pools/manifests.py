"""From a pool's spec and wish to the objects of Kubernetes."""

from __future__ import annotations

from typing import Any

from activities.deployments import manifests
from activities.deployments.manifests import Manifest
from contracts.deployment_parts import StorageMount
from contracts.inference import LABEL_SERVES, Serves
from contracts.model_pools import ModelPoolSpec, Wish
from contracts.names import (
    ANNOTATION_OPERATION,
    LABEL_BUSINESS,
    LABEL_DEPLOYMENT,
    LABEL_MODEL_POOL,
    public_service,
)
from contracts.pool_moves import UNASSIGNED


def pool(
    cluster: str,
    spec: ModelPoolSpec,
    mounts: list[StorageMount],
    *,
    operation: str,
    run: str,
    startup_minutes: int | None,
    replicas: int,
) -> Manifest:
    """The pool's Deployment: a model server's, under the pool's label. Its selector leaves out whom a pod serves, so
    that a pod stays the pool's wherever it goes."""
    made = manifests.deployment(
        cluster,
        spec,
        mounts,
        operation=operation,
        run=run,
        startup_minutes=startup_minutes,
        replicas=replicas,
    )
    template = made["spec"]["template"]["metadata"]
    made["metadata"]["labels"] = _of_pool(made["metadata"]["labels"])
    made["spec"]["selector"]["matchLabels"] = selector_of(spec.name)
    template["labels"] = {**_of_pool(template["labels"]), LABEL_BUSINESS: UNASSIGNED}
    return made


def services(cluster: str, spec: ModelPoolSpec, wish: Wish, operation: str) -> list[Manifest]:
    """The Services of a wish: one inside the cluster for each service, and one with a load balancer where asked."""
    found = []
    for service in sorted(wish.assignments):
        found.append(_service(cluster, spec, service, service, operation, {"type": "ClusterIP"}, spec.port, {}))
        if (scheme := wish.public.get(service)) is not None:
            annotations = manifests.balanced_by(scheme, manifests.health_path(spec))
            name, body = public_service(service), {"type": "LoadBalancer"}
            port = manifests.PUBLIC_PORT
            found.append(_service(cluster, spec, service, name, operation, body, port, annotations))
    return found


def selector_of(name: str) -> dict[str, str]:
    return {LABEL_MODEL_POOL: name}


def _of_pool(labels: dict[str, str]) -> dict[str, str]:
    return {(LABEL_MODEL_POOL if key == LABEL_DEPLOYMENT else key): value for key, value in labels.items()}


def _service(
    cluster: str,
    spec: ModelPoolSpec,
    service: str,
    name: str,
    operation: str,
    body: dict[str, Any],
    port: int,
    annotations: dict[str, str],
) -> Manifest:
    labels = {**_of_pool(manifests.labels_of(cluster, spec)), "app.kubernetes.io/instance": service}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": spec.namespace,
            "labels": {**labels, LABEL_SERVES: Serves.POOL_SERVICE.value, LABEL_BUSINESS: service},
            "annotations": {ANNOTATION_OPERATION: operation, **annotations},
        },
        "spec": {
            **body,
            "selector": {**selector_of(spec.name), LABEL_BUSINESS: service},
            "ports": [
                {"name": manifests.PORT_NAME, "port": port, "protocol": "TCP", "targetPort": manifests.PORT_NAME}
            ],
        },
    }
