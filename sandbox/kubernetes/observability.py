"""The add-ons that measure: HyperPod observability, and CloudWatch's Container Insights.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-observability-addon-setup.html and
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/install-CloudWatch-Observability-EKS-addon.html
"""

from __future__ import annotations

from functools import partial
from typing import Any

from . import manifests
from .addonparts import POD_IDENTITY_AGENT, Wanted, controller, service, webhooks
from .resources import Json

NAMESPACE = "hyperpod-observability"
COLLECTOR_ACCOUNT = "hyperpod-observability-operator-otel-collector"
GROUP = "observability.sagemaker.amazonaws.com"
"""UNVERIFIED: the definition is not public; its kind, name and ``spec.amp.remoteWriteUrl`` are known."""
REQUIRES = (POD_IDENTITY_AGENT,)

CLOUDWATCH_NAMESPACE = "amazon-cloudwatch"
CLOUDWATCH_MANAGER = "amazon-cloudwatch-observability-controller-manager"
CLOUDWATCH_GROUP = "cloudwatch.aws.amazon.com"


def hyperpod(wanted: Wanted) -> list[Json]:
    version, image = wanted.version, "amazon/hyperpod-observability"
    manager = controller(NAMESPACE, "hyperpod-observability-controller-manager", image, version)
    manager[-1]["spec"]["template"]["metadata"]["labels"]["control-plane"] = manager[-1]["metadata"]["name"]
    collect = partial(controller, NAMESPACE, version=version, image=image, account=COLLECTOR_ACCOUNT)
    agent = partial(
        manifests.daemon_set, NAMESPACE, image=f"{image}:{version}", version=version, account=COLLECTOR_ACCOUNT
    )
    return [
        *manager,
        manifests.service_account(NAMESPACE, COLLECTOR_ACCOUNT),
        collect("hyperpod-observability-central-collector")[-1],
        collect("hyperpod-observability-kube-state-metrics")[-1],
        _agent(agent("hyperpod-observability-node-collector")),
        _agent(agent("hyperpod-observability-node-exporter")),
        manifests.open_definition(GROUP, "ObservabilityConfig", "observabilityconfigs", ("v1",)),
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ObservabilityConfig",
            "metadata": {"name": "hyperpod-observability", "namespace": NAMESPACE},
            "spec": _configuration(wanted),
        },
    ]


def cloudwatch(wanted: Wanted) -> list[Json]:
    version, image = wanted.version, "amazon/cloudwatch-agent-operator"
    definition = partial(manifests.open_definition, CLOUDWATCH_GROUP, versions=("v1alpha1",))
    agents = [
        manifests.daemon_set(
            CLOUDWATCH_NAMESPACE,
            "cloudwatch-agent",
            f"amazon/cloudwatch-agent:{version}",
            version,
            account="cloudwatch-agent",
        )
    ]
    if wanted.setting("containerLogs.enabled", True):
        agents.append(
            manifests.daemon_set(
                CLOUDWATCH_NAMESPACE,
                "fluent-bit",
                f"amazon/aws-for-fluent-bit:{version}",
                version,
                account="cloudwatch-agent",
            )
        )
    hook = partial(
        webhooks,
        namespace=CLOUDWATCH_NAMESPACE,
        service_name="amazon-cloudwatch-observability-webhook-service",
        rules={"mpod.kb.io": ("", "pods")},
    )
    return [
        *controller(CLOUDWATCH_NAMESPACE, CLOUDWATCH_MANAGER, image, version),
        manifests.service_account(CLOUDWATCH_NAMESPACE, "cloudwatch-agent"),
        *(_agent(agent) for agent in agents),
        definition("AmazonCloudWatchAgent", "amazoncloudwatchagents", short_names=("otelcol", "otelcols")),
        definition("DcgmExporter", "dcgmexporters"),
        definition("NeuronMonitor", "neuronmonitors"),
        definition("Instrumentation", "instrumentations"),
        service(CLOUDWATCH_NAMESPACE, "amazon-cloudwatch-observability-webhook-service", {"app": CLOUDWATCH_MANAGER}),
        hook("Mutating", "amazon-cloudwatch-observability-mutating-webhook-configuration"),
        {
            "apiVersion": f"{CLOUDWATCH_GROUP}/v1alpha1",
            "kind": "AmazonCloudWatchAgent",
            "metadata": {"name": "cloudwatch-agent", "namespace": CLOUDWATCH_NAMESPACE},
            "spec": {"serviceAccount": "cloudwatch-agent", "mode": "daemonset"},
        },
    ]


def _agent(daemon_set: Json) -> Json:
    """Agents that measure do not need the node's network."""
    daemon_set["spec"]["template"]["spec"].pop("hostNetwork", None)
    daemon_set["spec"]["template"]["metadata"]["labels"]["app"] = daemon_set["metadata"]["name"]
    return daemon_set


def _configuration(wanted: Wanted) -> Json:
    endpoint = str(wanted.setting("ampWorkspace.prometheusEndpoint", "")).rstrip("/")
    spec: dict[str, Any] = {"amp": {"remoteWriteUrl": f"{endpoint}/api/v1/remote_write" if endpoint else ""}}
    for key in ("metricsProvider", "logging"):
        if wanted.setting(key) is not None:
            spec[key] = wanted.setting(key)
    return spec
