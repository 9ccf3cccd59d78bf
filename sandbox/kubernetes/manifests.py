"""Building blocks of add-ons: workloads, accounts and definitions as they are commonly written."""

from __future__ import annotations

from .resources import Json

MANAGED_BY = "eks.amazonaws.com/component"


def labels(name: str, component: str, version: str = "") -> dict[str, str]:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/"""
    common = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "EKS",
    }
    if version:
        common["app.kubernetes.io/version"] = version.split("-")[0].lstrip("v")
    return common


def _template(name: str, component: str, image: str, spec: Json) -> Json:
    container: Json = {"name": component, "image": image, "resources": {"requests": {"cpu": "25m", "memory": "64Mi"}}}
    pod = {
        "serviceAccountName": name,
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        **spec,
    }
    return {"metadata": {"labels": labels(name, component)}, "spec": pod}


def _selector(name: str, component: str) -> Json:
    return {"matchLabels": {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}}


def daemon_set(
    namespace: str,
    name: str,
    image: str,
    version: str,
    *,
    account: str,
    component: str = "node",
    host_network: bool = True,
) -> Json:
    spec: Json = {"hostNetwork": True} if host_network else {}
    template = _template(account, component, image, spec)
    # The name tells the add-on's workloads apart, which may share a component.
    template["metadata"]["labels"]["k8s-app"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels(account, component, version), "k8s-app": name},
        },
        "spec": {
            "selector": {"matchLabels": {"k8s-app": name}},
            "template": template,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        },
    }


def deployment(
    namespace: str,
    name: str,
    image: str,
    version: str,
    *,
    account: str,
    component: str = "controller",
    replicas: int = 1,
) -> Json:
    spec: Json = {
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
    }
    template = _template(account, component, image, spec)
    template["metadata"]["labels"]["app"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels(account, component, version), "app": name},
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def service_account(namespace: str, name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": name}},
    }


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def csi_driver(name: str, attach: bool = False) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"attachRequired": attach, "podInfoOnMount": True, "volumeLifecycleModes": ["Persistent"]},
    }


def open_definition(
    group: str,
    kind: str,
    plural: str,
    versions: tuple[str, ...],
    *,
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    schema: Json | None = None,
    columns: tuple[Json, ...] = (),
) -> Json:
    """A definition that accepts any spec, where the real one is not public. The first version is stored."""
    content = schema or {
        "type": "object",
        "properties": {
            name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for name in ("spec", "status")
        },
    }
    names: Json = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": index == 0,
                    "schema": {"openAPIV3Schema": content},
                    "subresources": {"status": {}},
                    **({"additionalPrinterColumns": list(columns)} if columns else {}),
                }
                for index, version in enumerate(versions)
            ],
        },
    }
