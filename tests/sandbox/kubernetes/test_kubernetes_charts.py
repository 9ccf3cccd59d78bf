"""The charts that stand in for the originals: helm installs them, and what they bring is called as it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from kubernetes import client
from kubernetes_support import CHART, Standalone, Tools, wait_for

CHARTS = CHART.parent


@dataclass(frozen=True)
class Chart:
    name: str
    release_namespace: str
    deployments: tuple[str, ...]
    """namespace/name"""
    accounts: tuple[str, ...]
    kinds: tuple[str, ...]
    values: tuple[str, ...] = ()
    sample: dict[str, Any] = field(default_factory=dict)
    kept: bool = True
    """Whether helm leaves the definitions, as it does with those in ``crds/``."""


ROLE = "arn:aws:iam::123456789012:role/operator"
ALL = (
    Chart(
        "kuberay-operator",
        "kuberay-operator",
        ("kuberay-operator/kuberay-operator",),
        ("kuberay-operator/kuberay-operator",),
        ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io"),
        sample={"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"headGroupSpec": {"template": {}}}},
    ),
    Chart(
        "keda",
        "keda",
        ("keda/keda-operator", "keda/keda-operator-metrics-apiserver", "keda/keda-admission-webhooks"),
        ("keda/keda-operator", "keda/keda-metrics-server", "keda/keda-webhook"),
        (
            "scaledobjects.keda.sh",
            "scaledjobs.keda.sh",
            "triggerauthentications.keda.sh",
            "clustertriggerauthentications.keda.sh",
        ),
        ("podIdentity.aws.irsa.enabled=true", f"podIdentity.aws.irsa.roleArn={ROLE}"),
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "spec": {"scaleTargetRef": {"name": "web"}, "triggers": [{"type": "cpu", "metadata": {}}]},
        },
        kept=False,
    ),
    Chart(
        "aws-load-balancer-controller",
        "kube-system",
        ("kube-system/aws-load-balancer-controller",),
        (),
        ("ingressclassparams.elbv2.k8s.aws", "targetgroupbindings.elbv2.k8s.aws"),
        (
            "clusterName=demo",
            "region=us-west-2",
            "vpcId=vpc-1",
            "replicaCount=1",
            "serviceAccount.create=false",
            "serviceAccount.name=aws-load-balancer-controller",
        ),
        {"apiVersion": "elbv2.k8s.aws/v1beta1", "kind": "TargetGroupBinding", "spec": {"serviceRef": {"name": "web"}}},
    ),
)


@pytest.mark.parametrize("chart", ALL, ids=lambda c: c.name)
def test_chart_installs_and_goes(chart: Chart, tools: Tools, standalone: Standalone, api: client.ApiClient) -> None:
    where = ["--namespace", chart.release_namespace]
    values = [part for value in chart.values for part in ("--set", value)]
    options = [*where, "--create-namespace", *values, "--wait", "--timeout", "60s"]
    if "serviceAccount.create=false" in chart.values:
        tools.kubectl("create", "serviceaccount", chart.name, *where)
    tools.helm("upgrade", "--install", chart.name, str(CHARTS / chart.name), *options)
    apps, core, definitions = client.AppsV1Api(api), client.CoreV1Api(api), client.ApiextensionsV1Api(api)
    for deployment in chart.deployments:
        namespace, name = deployment.split("/")
        status = apps.read_namespaced_deployment(name, namespace).status
        assert status.available_replicas == status.replicas == 1
    for account in chart.accounts:
        namespace, name = account.split("/")
        core.read_namespaced_service_account(name, namespace)
    assert set(chart.kinds) <= {d.metadata.name for d in definitions.list_custom_resource_definition().items}
    group, _, version = chart.sample["apiVersion"].rpartition("/")
    plural = next(k.partition(".")[0] for k in chart.kinds if k.startswith(chart.sample["kind"].lower()))
    path = f"/apis/{group}/{version}/namespaces/default/{plural}"
    assert standalone.request("POST", path, {**chart.sample, "metadata": {"name": "sample"}})[0] == 201
    # An empty spec is refused only where the original refuses it: every sample's kind asks for something.
    broken = {**chart.sample, "metadata": {"name": "broken"}, "spec": {}}
    assert standalone.request("POST", path, broken)[0] == 422
    tools.helm("upgrade", chart.name, str(CHARTS / chart.name), *options)
    tools.helm("uninstall", chart.name, *where, "--wait", "--timeout", "60s")
    names = {d.metadata.name for d in definitions.list_custom_resource_definition().items}
    assert (set(chart.kinds) <= names) is chart.kept
    wait_for(lambda: all(d.split("/")[1] not in _deployments(apps) for d in chart.deployments))


def _deployments(apps: client.AppsV1Api) -> set[str]:
    return {d.metadata.name for d in apps.list_deployment_for_all_namespaces().items}


def test_load_balancer_controller_brings_its_class_and_inert_webhooks(tools: Tools, api: client.ApiClient) -> None:
    chart = str(CHARTS / "aws-load-balancer-controller")
    where = ["--namespace", "kube-system"]
    assert "clusterName" in tools.helm("install", "alb", chart, *where, ok=False)
    tools.helm("install", "alb", chart, *where, "--set", "clusterName=demo")
    assert client.NetworkingV1Api(api).read_ingress_class("alb").spec.controller == "ingress.k8s.aws/alb"
    account = client.CoreV1Api(api).read_namespaced_service_account("alb-aws-load-balancer-controller", "kube-system")
    assert account.metadata.labels["app.kubernetes.io/managed-by"] == "Helm"
    hooks = client.AdmissionregistrationV1Api(api)
    found = hooks.read_mutating_webhook_configuration("aws-load-balancer-webhook")
    assert {hook.name for hook in found.webhooks} == {"mpod.elbv2.k8s.aws", "mservice.elbv2.k8s.aws"}
    assert hooks.read_validating_webhook_configuration("aws-load-balancer-webhook").webhooks
    tools.helm("uninstall", "alb", *where, "--wait", "--timeout", "60s")
