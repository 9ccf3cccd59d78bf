"""What EKS and HyperPod tell the data plane becomes clusters that real clients reach with EKS tokens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes_support import Plane, Tools, cluster_arn, eks_token, node, wait_for

from sandbox import credentials
from sandbox.dataplane import AccessEntry
from sandbox.kubernetes import ekstokens
from sandbox.kubernetes.dataplane import sandbox_credentials

BASIC = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent")


@pytest.fixture(scope="module")
def demo(plane: Plane) -> str:
    return plane.create("demo")


def test_token_of_the_sandbox_is_accepted(plane: Plane, demo: str) -> None:
    api = plane.client(demo, eks_token("demo"))
    names = [item.metadata.name for item in client.CoreV1Api(api).list_namespace().items]
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(names)
    assert client.VersionApi(api).get_code().git_version.startswith("v1.34")
    who = client.AuthenticationV1Api(api).create_self_subject_review({}).status.user_info
    assert who.username == credentials.ROLE_ARN


@pytest.mark.parametrize(
    "token",
    [
        eks_token("another"),
        eks_token("demo", secret="wrong"),
        eks_token("demo", key="UNKNOWN"),
        eks_token("demo")[:-4] + "AAAA",
        "nonsense",
    ],
    ids=["other-cluster", "wrong-secret", "unknown-key", "tampered", "nonsense"],
)
def test_other_tokens_are_not(plane: Plane, demo: str, token: str) -> None:
    with pytest.raises(ApiException) as error:
        client.CoreV1Api(plane.client(demo, token)).list_namespace()
    assert error.value.status == 401


@pytest.mark.parametrize("host", ["127.0.0.1:5566", "localhost:5566", "sandbox:5566"])
def test_token_may_name_a_sandbox_as_sts_by_whatever_name_it_has_in_its_network(host: str) -> None:
    assert ekstokens.verify(eks_token("demo", host=host), "demo", sandbox_credentials())


@pytest.mark.parametrize("host", ["sts.example.com", "sandbox.example.com:5566", "127.0.0.1.example.com", "10.0.0.1"])
def test_token_of_another_host_than_sts_is_not_one(host: str) -> None:
    with pytest.raises(ekstokens.InvalidToken, match="not a URL of STS"):
        ekstokens.verify(eks_token("demo", host=host), "demo", sandbox_credentials())


def test_token_lasts_fifteen_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    token, now = eks_token("demo"), time.time()
    monkeypatch.setattr(ekstokens.time, "time", lambda: now + 14 * 60)
    assert ekstokens.verify(token, "demo", sandbox_credentials())
    monkeypatch.setattr(ekstokens.time, "time", lambda: now + 15 * 60 + 1)
    with pytest.raises(ekstokens.InvalidToken):
        ekstokens.verify(token, "demo", sandbox_credentials())


def test_access_entries_decide(plane: Plane) -> None:
    arn = plane.create("access")
    api = plane.client(arn, eks_token("access"))
    core = client.CoreV1Api(api)
    plane.plane.set_access(arn, [AccessEntry(credentials.ROLE_ARN, "viewer", ("readers",))])
    with pytest.raises(ApiException) as error:
        core.list_namespace()
    assert error.value.status == 403
    assert client.AuthenticationV1Api(api).create_self_subject_review({}).status.user_info.username == "viewer"
    plane.plane.set_access(arn, [])
    with pytest.raises(ApiException) as error:
        core.list_namespace()
    assert error.value.status == 401
    plane.plane.set_access(arn, [AccessEntry(credentials.ROLE_ARN, "boss", admin=True)])
    assert core.list_namespace().items


def test_servers_in_pods_are_reached_by_who_may_use_the_cluster(plane: Plane) -> None:
    arn = plane.create("proxied")
    core = client.CoreV1Api(plane.client(arn, eks_token("proxied")))
    with pytest.raises(ApiException) as error:
        core.connect_get_namespaced_service_proxy_with_path("kubernetes:https", "default", "health")
    assert error.value.status == 503
    assert 'no endpoints available for service \\"kubernetes:https\\"' in error.value.body
    plane.plane.set_access(arn, [AccessEntry(credentials.ROLE_ARN, "viewer", ("readers",))])
    with pytest.raises(ApiException) as error:
        core.connect_get_namespaced_service_proxy_with_path("kubernetes:https", "default", "health")
    assert error.value.status == 403
    assert 'cannot get resource \\"services/proxy\\"' in error.value.body


def test_creating_and_deleting_may_be_repeated(plane: Plane) -> None:
    arn = plane.create("twice")
    assert plane.create("twice") == arn
    plane.plane.delete_cluster(arn)
    plane.plane.delete_cluster(arn)
    with pytest.raises(ApiException) as error:
        client.CoreV1Api(plane.client(arn, eks_token("twice"))).list_namespace()
    assert error.value.status == 401


def test_node_is_ready_when_its_network_is_and_accelerators_when_their_plugins_are(
    plane: Plane, tmp_path: Path
) -> None:
    arn = plane.create("gpus")
    core = client.CoreV1Api(plane.client(arn, eks_token("gpus")))
    plane.plane.add_node(arn, node("hyperpod-i-1", labels={"sagemaker.amazonaws.com/compute-type": "hyperpod"}))
    plane.plane.add_node(arn, node("hyperpod-i-1", labels={"sagemaker.amazonaws.com/compute-type": "hyperpod"}))

    def ready() -> bool:
        return any(
            c.type == "Ready" and c.status == "True" for c in core.read_node("hyperpod-i-1").status.conditions or []
        )

    wait_for(lambda: core.read_node("hyperpod-i-1").spec.taints)
    assert not ready()
    plane.plane.install_addon(arn, "coredns", "v1.12.4-eksbuild.1")
    assert not plane.plane.addon_health(arn, "coredns").ready
    for name in BASIC:
        plane.plane.install_addon(arn, name, "v1.0.0-eksbuild.1")
    wait_for(ready)
    wait_for(lambda: all(plane.plane.addon_health(arn, name).ready for name in BASIC))
    found = core.read_node("hyperpod-i-1")
    assert not found.spec.taints
    assert found.spec.provider_id == "aws:///us-west-2a/sagemaker/cluster/hyperpod-i-hyperpod-i-1"
    assert found.metadata.labels["node.kubernetes.io/instance-type"] == "ml.p5.48xlarge"
    assert "nvidia.com/gpu" not in found.status.allocatable

    endpoint = plane.endpoints[arn]
    tools = Tools(endpoint.url, tmp_path, eks_token("gpus"), endpoint.certificate_authority)
    tools.helm(
        "upgrade", "--install", "deps", str(Tools.CHART), "--namespace", "kube-system", "--wait", "--timeout", "40s"
    )
    wait_for(lambda: core.read_node("hyperpod-i-1").status.allocatable.get("nvidia.com/gpu") == "8")
    allocatable = core.read_node("hyperpod-i-1").status.allocatable
    assert (allocatable["vpc.amazonaws.com/efa"], allocatable["nvidia.com/gpu"]) == ("32", "8")
    tools.helm("uninstall", "deps", "--namespace", "kube-system", "--wait")
    wait_for(lambda: core.read_node("hyperpod-i-1").status.allocatable["nvidia.com/gpu"] == "0")

    plane.plane.remove_node(arn, "hyperpod-i-1")
    wait_for(lambda: not plane.plane.addon_health(arn, "coredns").ready)
    assert core.list_node().items == []


def test_training_job_needs_its_operator(plane: Plane) -> None:
    arn = plane.create("training")
    api = plane.client(arn, eks_token("training"))
    plane.plane.add_node(arn, node("n1", labels={"sagemaker.amazonaws.com/compute-type": "hyperpod"}))
    for name in ("vpc-cni", "eks-pod-identity-agent", "cert-manager"):
        plane.plane.install_addon(arn, name, "v1.20.0")
    wait_for(lambda: plane.plane.addon_health(arn, "cert-manager").ready)
    plane.plane.install_addon(arn, "amazon-sagemaker-hyperpod-training-operator", "v1.0.0")
    custom = client.CustomObjectsApi(api)
    template = {"spec": {"containers": [{"name": "trainer", "image": "train:1"}]}}
    body = {
        "apiVersion": "sagemaker.amazonaws.com/v1",
        "kind": "HyperPodPyTorchJob",
        "metadata": {"name": "train"},
        "spec": {
            "nprocPerNode": "8",
            "replicaSpecs": [{"name": "workers", "replicas": 2, "template": template}],
            "runPolicy": {"cleanPodPolicy": "None"},
        },
    }
    custom.create_namespaced_custom_object("sagemaker.amazonaws.com", "v1", "default", "hyperpodpytorchjobs", body)

    def states() -> dict[str, str]:
        found = custom.get_namespaced_custom_object(
            "sagemaker.amazonaws.com", "v1", "default", "hyperpodpytorchjobs", "train"
        )
        return {c["type"]: c["status"] for c in found.get("status", {}).get("conditions", [])}

    wait_for(lambda: states().get("Completed") == "True")
    assert len(client.CoreV1Api(api).list_namespaced_pod("default").items) == 2


@pytest.mark.parametrize(
    "name", ["cert-manager", "aws-mountpoint-s3-csi-driver", "aws-fsx-csi-driver", "something-else"]
)
def test_addons_become_healthy_and_go(plane: Plane, demo: str, name: str) -> None:
    plane.plane.add_node(demo, node("demo-node"))
    plane.plane.install_addon(demo, "vpc-cni", "v1.20.0")
    plane.plane.install_addon(demo, name, "v1.0.0")
    wait_for(lambda: plane.plane.addon_health(demo, name).ready, name)
    plane.plane.install_addon(demo, name, "v1.1.0")
    assert not plane.plane.addon_health(demo, name).ready
    wait_for(lambda: plane.plane.addon_health(demo, name).ready, name)
    plane.plane.remove_addon(demo, name)
    assert plane.plane.addon_health(demo, name).issues


def test_snapshot_brings_everything_back(plane: Plane) -> None:
    arn = plane.create("kept")
    token = eks_token("kept")
    core = client.CoreV1Api(plane.client(arn, token))
    core.create_namespaced_config_map("default", {"metadata": {"name": "mine"}, "data": {"a": "1"}})
    plane.plane.add_node(arn, node("kept-node"))
    plane.plane.install_addon(arn, "vpc-cni", "v1.20.0")
    assert plane.state.save()
    core.delete_namespaced_config_map("mine", "default")
    assert plane.state.restore()
    assert core.read_namespaced_config_map("mine", "default").data == {"a": "1"}
    wait_for(lambda: plane.plane.addon_health(arn, "vpc-cni").ready)


def test_ledger_and_clusters_are_told_apart(plane: Plane, demo: str) -> None:
    core = client.CoreV1Api(plane.client(demo, eks_token("demo")))
    core.create_namespaced_config_map("default", {"metadata": {"name": "counted"}}, field_manager="tester")
    entries = plane.ledger.query(
        service="demo", operation="POST /api/v1/namespaces/default/configmaps", effects_only=True
    )
    assert entries[-1]["parameters"]["fieldManager"] == "tester"
    assert cluster_arn("demo") == demo


def test_kubectl_with_a_token_over_tls(plane: Plane, demo: str, tmp_path: Path) -> None:
    endpoint: Any = plane.endpoints[demo]
    tools = Tools(endpoint.url, tmp_path, eks_token("demo"), endpoint.certificate_authority)
    assert "kube-system" in tools.kubectl("get", "namespaces")
    assert credentials.ROLE_ARN in tools.kubectl("auth", "whoami")
    assert tools.kubectl("auth", "can-i", "create", "pods").strip() == "yes"
