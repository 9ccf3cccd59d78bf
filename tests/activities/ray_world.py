"""A cluster of the sandbox with GPUs, and KubeRay on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from tests.activities.conftest import PROJECT, Sandbox
from tests.activities.serving import Servers, furnished
from tests.activities.serving_world import deployment
from tests.activities.world import OnCluster, until

DEFINITIONS = PROJECT / "sandbox" / "charts" / "kuberay-operator" / "crds"
OPERATOR, NAMESPACE = "kuberay-operator", "kuberay-system"


def with_kuberay(sandbox: Sandbox) -> Servers:
    """Two nodes of four GPUs, and the operator that runs."""
    servers = furnished(sandbox)
    install(servers)
    return servers


def install(site: OnCluster) -> None:
    """The operator as its chart makes it, as far as the sandbox looks at it."""
    with site.api() as api:
        definitions: Any = client.ApiextensionsV1Api(api)
        for path in sorted(Path(DEFINITIONS).glob("*.yaml")):
            definitions.create_custom_resource_definition(yaml.safe_load(path.read_text()))
        client.CoreV1Api(api).create_namespace({"metadata": {"name": NAMESPACE}})
        apps = client.AppsV1Api(api)
        apps.create_namespaced_deployment(NAMESPACE, deployment(OPERATOR, image="quay.io/kuberay/operator:v1.6.2"))
        until(lambda: apps.read_namespaced_deployment(OPERATOR, NAMESPACE).status.available_replicas)
