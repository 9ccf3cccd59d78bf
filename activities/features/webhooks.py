"""Admission webhooks that nobody answers: every request that they are asked about would fail or hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubernetes import client

from activities.features.ground import Ground
from activities.kubernetes import listed


def silent_webhooks(ground: Ground, concerns: Callable[[Any, Any], bool]) -> list[str]:
    """Services, ``namespace/name``, of the webhooks at hand behind which no pod is ready.

    ``concerns`` is asked with each webhook configuration and the service that one of its webhooks names.
    """
    admission = client.AdmissionregistrationV1Api(ground.api)
    found = [
        *listed(admission.list_validating_webhook_configuration),
        *listed(admission.list_mutating_webhook_configuration),
    ]
    services = {
        (hook.client_config.service.namespace, hook.client_config.service.name)
        for each in found
        for hook in each.webhooks or ()
        if hook.client_config.service is not None and concerns(each, hook.client_config.service)
    }
    return [f"{namespace}/{name}" for namespace, name in sorted(services) if not _answered(ground, namespace, name)]


def _answered(ground: Ground, namespace: str, service: str) -> bool:
    slices = listed(
        client.DiscoveryV1Api(ground.api).list_namespaced_endpoint_slice,
        namespace=namespace,
        label_selector=f"kubernetes.io/service-name={service}",
    )
    return any(
        endpoint.conditions is None or endpoint.conditions.ready is not False
        for each in slices
        for endpoint in each.endpoints or ()
    )
