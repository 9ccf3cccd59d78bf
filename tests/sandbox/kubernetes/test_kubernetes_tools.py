"""Unmodified kubectl and helm, and what they ask of a server: protobuf, tables, discovery, OpenAPI."""

from __future__ import annotations

import json

import pytest
from kubernetes import client
from kubernetes_support import Standalone, Tools, deployment, wait_for

from sandbox.kubernetes import protobuf
from sandbox.kubernetes.errors import ApiError


def test_protobuf_creates(tools: Tools, core: client.CoreV1Api, api: client.ApiClient, namespace: str) -> None:
    tools.kubectl("create", "namespace", f"{namespace}-b")
    assert core.read_namespace(f"{namespace}-b").status.phase == "Active"
    for arguments in (
        ("serviceaccount", "bot"),
        ("configmap", "cm", "--from-literal=a=b"),
        ("secret", "generic", "s", "--from-literal=p=secret"),
        ("job", "j", "--image=busybox", "--", "echo", "hi"),
        ("deployment", "web", "--image=nginx", "--replicas=2", "--port=80"),
        ("quota", "q", "--hard=pods=5"),
        ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "rb", "--role=r", "--serviceaccount=default:bot"),
        ("cronjob", "cj", "--image=busybox", "--schedule=0 0 1 1 *"),
        ("service", "clusterip", "svc", "--tcp=80:8080"),
        ("poddisruptionbudget", "pdb", "--selector=app=web", "--min-available=1"),
        ("ingress", "i", "--rule=a.b/=svc:80"),
    ):
        tools.kubectl("create", "-n", namespace, *arguments)
    assert core.read_namespaced_config_map("cm", namespace).data == {"a": "b"}
    assert core.read_namespaced_secret("s", namespace).data == {"p": "c2VjcmV0"}
    pod = client.BatchV1Api(api).read_namespaced_job("j", namespace).spec.template.spec
    assert (pod.containers[0].command, pod.restart_policy) == (["echo", "hi"], "Never")
    made = client.AppsV1Api(api).read_namespaced_deployment("web", namespace)
    assert (made.spec.replicas, made.spec.template.spec.containers[0].ports[0].container_port) == (2, 80)
    rule = client.NetworkingV1Api(api).read_namespaced_ingress("i", namespace).spec.rules[0]
    assert rule.http.paths[0].backend.service.port.number == 80
    assert tools.kubectl("create", "token", "bot", "-n", namespace).count(".") == 2
    assert tools.kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"
    assert "sandbox-admin" in tools.kubectl("auth", "whoami")


def test_protobuf_is_decoded_by_its_field_numbers() -> None:
    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    kind = message(1, b"v1") + message(2, b"Namespace")
    meta = message(1, b"team") + message(3, b"") + message(11, message(1, b"k") + message(2, b"v"))
    body = b"k8s\x00" + message(1, kind) + message(2, message(1, meta))
    assert protobuf.decode(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"k": "v"}},
    }
    with pytest.raises(ApiError):
        protobuf.decode(body[:-3])


def test_reading(tools: Tools, standalone: Standalone, namespace: str) -> None:
    standalone.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 2))
    tools.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=20s")
    for arguments in (
        ("version",),
        ("api-resources",),
        ("api-versions",),
        ("get", "all"),
        ("get", "pods", "-o", "wide"),
        ("get", "deployment", "web", "-o", "yaml"),
        ("get", "pods", "-A"),
        ("get", "nodes", "-o", "wide"),
        ("get", "deploy", "-o", "custom-columns=N:.metadata.name"),
        ("get", "events"),
        ("events",),
        ("describe", "deployment", "web"),
        ("describe", "node", "node-1"),
        ("rollout", "history", "deployment/web"),
        ("explain", "pod.spec.containers"),
        ("logs", "deployment/web"),
        ("exec", "deployment/web", "--", "hostname"),
        ("get", "pods", "--field-selector=status.phase=Running", "-o", "name"),
    ):
        assert tools.kubectl(
            *arguments[:1],
            *([] if arguments[0] in ("version", "api-resources", "api-versions", "explain") else ["-n", namespace]),
            *arguments[1:],
        )
    assert "web" in tools.kubectl("get", "deploy", "-n", namespace)
    assert tools.kubectl("get", "deploy", "web", "-n", namespace, "-o", "jsonpath={.status.readyReplicas}") == "2"
    error = tools.kubectl("get", "pod", "none", "-n", namespace, ok=False)
    assert 'Error from server (NotFound): pods "none" not found' in error


def test_writing(tools: Tools, core: client.CoreV1Api, namespace: str) -> None:
    manifest = json.dumps(deployment("web", 1))
    assert "created" in tools.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    assert "unchanged" in tools.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    tools.kubectl("apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-", stdin=manifest)
    tools.kubectl("diff", "-n", namespace, "-f", "-", stdin=manifest)
    for arguments in (
        ("scale", "deployment", "web", "--replicas=2"),
        ("set", "image", "deployment/web", "main=nginx:2"),
        ("label", "deployment", "web", "x=y"),
        ("annotate", "deployment", "web", "x=y"),
        ("patch", "deployment", "web", "-p", '{"spec":{"replicas":1}}'),
        ("rollout", "undo", "deployment/web"),
        ("wait", "--for=condition=Available", "deployment/web", "--timeout=20s"),
        ("expose", "deployment", "web", "--port=80"),
        ("run", "one", "--image=busybox"),
        ("wait", "--for=condition=Ready", "pod/one", "--timeout=20s"),
        ("delete", "pod", "one", "--now"),
        ("delete", "deployment", "web", "--cascade=foreground", "--timeout=20s"),
    ):
        tools.kubectl(*arguments[:1], "-n", namespace, *arguments[1:])
    tools.kubectl("delete", "namespace", namespace, "--timeout=20s")
    wait_for(lambda: namespace not in [n.metadata.name for n in core.list_namespace().items])


def test_helm_installs_upgrades_rolls_back_and_uninstalls(tools: Tools, core: client.CoreV1Api, namespace: str) -> None:
    chart = str(Tools.CHART)
    tools.helm("lint", chart)
    options = [
        "--namespace",
        namespace,
        "--set",
        f"healthMonitoringAgent.namespace={namespace}",
        "--set",
        f"nvidiaDevicePlugin.namespace={namespace}",
        "--set",
        f"efaDevicePlugin.namespace={namespace}",
    ]
    tools.helm("upgrade", "--install", "deps", chart, *options, "--wait", "--timeout", "40s")
    assert '"status":"deployed"' in tools.helm("list", "--namespace", namespace, "--output", "json")
    assert len(core.list_namespaced_pod(namespace).items) == 3
    tools.helm(
        "upgrade", "deps", chart, *options, "--set", "efaDevicePlugin.enabled=false", "--wait", "--timeout", "40s"
    )
    wait_for(lambda: len(core.list_namespaced_pod(namespace).items) == 2)
    tools.helm("rollback", "deps", "1", "--namespace", namespace, "--wait", "--timeout", "40s")
    assert "deployed" in tools.helm("status", "deps", "--namespace", namespace)
    assert len(tools.helm("history", "deps", "--namespace", namespace).splitlines()) == 4
    tools.helm("uninstall", "deps", "--namespace", namespace, "--wait", "--timeout", "40s")
    wait_for(lambda: not core.list_namespaced_pod(namespace).items)


def test_discovery_in_both_forms(standalone: Standalone) -> None:
    _, classic = standalone.request("GET", "/apis/apps/v1")
    assert {"deployments", "deployments/scale", "daemonsets/status"} <= {r["name"] for r in classic["resources"]}
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, core_group = standalone.request("GET", "/api", accept=accept)
    resources = {r["resource"]: r for r in core_group["items"][0]["versions"][0]["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert {s["subresource"] for s in resources["pods"]["subresources"]} >= {"log", "exec", "status", "eviction"}
    _, index = standalone.request("GET", "/openapi/v3")
    _, document = standalone.request("GET", index["paths"]["apis/apps/v1"]["serverRelativeURL"])
    assert "io.k8s.api.apps.v1.Deployment" in document["components"]["schemas"]
    assert standalone.request("GET", "/openapi/v2")[1]["swagger"] == "2.0"
    for path in ("/healthz", "/livez", "/readyz"):
        assert standalone.request("GET", path) == (200, "ok")


def test_tables_and_metadata_only(standalone: Standalone) -> None:
    _, table = standalone.request("GET", "/api/v1/nodes", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [c["name"] for c in table["columnDefinitions"]][:3] == ["Name", "Status", "Roles"]
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, partial = standalone.request("GET", "/api/v1/nodes", accept=accept)
    assert set(partial["items"][0]) == {"kind", "apiVersion", "metadata"}
