"""Managed Karpenter: pods that wait get nodes of HyperPod's instance groups, and idle nodes go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_support import Api
from cluster_support import Kube, condition, pod
from kubernetes.client.rest import ApiException

from sandbox.run import Sandbox

CLASSES = ("karpenter.sagemaker.amazonaws.com", "hyperpodnodeclasses")
POOLS, CLAIMS = ("karpenter.sh", "nodepools"), ("karpenter.sh", "nodeclaims")
JOINED = 600


@pytest.fixture(scope="module")
def shared_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    running = Sandbox(paused=True, data=tmp_path_factory.mktemp("karpenter"), kubernetes_port=0)
    running.start(0)
    assert running.server is not None
    yield Api(running.server.url)
    running.stop()


@pytest.fixture
def kube(api: Api, make_hyperpod: Callable[..., tuple[dict[str, Any], Any]], role: Callable[..., str]) -> Kube:
    """A cluster with an empty group ``workers`` and autoscaling in service."""
    eks = api.client("eks")
    for addon in ("vpc-cni", "kube-proxy"):
        eks.create_addon(clusterName="demo", addonName=addon)
    make_hyperpod(count=0)
    api.advance(120)
    enable(api, role("karpenter", "hyperpod.sagemaker.amazonaws.com"))
    api.advance(400)
    return Kube(api, "demo")


def enable(api: Api, role: str) -> None:
    api.client("sagemaker").update_cluster(
        ClusterName="hp", ClusterRole=role, AutoScaling={"Mode": "Enable", "AutoScalerType": "Karpenter"}
    )


def make_class(kube: Kube, *groups: str, name: str = "gpu") -> None:
    kube.create(*CLASSES, "HyperpodNodeClass", name, {"instanceGroups": list(groups)})


def make_pool(kube: Kube, name: str = "gpu", after: str = "60s", **more: Any) -> None:
    reference = {"group": CLASSES[0], "kind": "HyperpodNodeClass", "name": "gpu"}
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}]
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements, "expireAfter": "Never"}}
    disruption = {"consolidateAfter": after, "consolidationPolicy": "WhenEmpty"}
    kube.create(*POOLS, "NodePool", name, {"template": template, "disruption": disruption, **more})


def target(api: Api) -> tuple[int, int]:
    group = api.client("sagemaker").describe_cluster(ClusterName="hp")["InstanceGroups"][0]
    return group["CurrentCount"], group["TargetCount"]


def test_a_waiting_pod_gets_a_node_which_goes_when_it_is_idle(api: Api, kube: Kube) -> None:
    make_class(kube, "workers")
    make_pool(kube)
    api.advance(20)
    node_class = kube.get(*CLASSES, "gpu")
    assert condition(node_class, "Ready")["status"] == "True"
    (group,) = node_class["status"]["instanceGroups"]
    assert (group["name"], group["instanceTypes"], group["capacities"]) == (
        "workers",
        ["ml.g5.8xlarge"],
        {"OnDemand": {}},
    )
    assert condition(kube.get(*POOLS, "gpu"), "Ready")["status"] == "True"
    kube.core.create_namespaced_pod("default", pod("train", nodeSelector={"karpenter.sh/nodepool": "gpu"}))
    kube.core.create_namespaced_pod("default", pod("second", nodeSelector={"karpenter.sh/nodepool": "gpu"}))
    api.advance(30)
    assert target(api) == (0, 1), "two small pods need one node"
    (claim,) = kube.items(*CLAIMS)
    assert claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "gpu"
    api.advance(JOINED)
    assert target(api) == (1, 1)
    ((node, labels),) = kube.nodes().items()
    assert labels["karpenter.sh/nodepool"] == "gpu"
    assert condition(kube.items(*CLAIMS)[0], "Ready")["status"] == "True"
    assert kube.core.read_namespaced_pod("train", "default").spec.node_name == node
    assert kube.get(*POOLS, "gpu")["status"]["resources"]["nodes"] == "1"
    api.advance(500)
    assert (target(api), kube.items(*CLAIMS), kube.nodes()) == ((0, 0), [], {})


def test_accelerators_count_and_limits_hold(api: Api, kube: Kube) -> None:
    """A node is done when its device plugin has registered what the pods ask for."""
    make_class(kube, "workers")
    make_pool(kube, limits={"nvidia.com/gpu": "1"})
    plugin = {"name": "plugin", "image": "nvidia/k8s-device-plugin:v1"}
    template = {"metadata": {"labels": {"app": "plugin"}}, "spec": {"containers": [plugin]}}
    spec = {"selector": {"matchLabels": {"app": "plugin"}}, "template": template}
    kube.apps.create_namespaced_daemon_set("kube-system", {"metadata": {"name": "plugin"}, "spec": spec})
    api.advance(20)
    for i in range(2):
        kube.core.create_namespaced_pod("default", pod(f"gpu-{i}", limits={"nvidia.com/gpu": "1"}))
    api.advance(JOINED)
    assert target(api) == (1, 1)
    assert condition(kube.items(*CLAIMS)[0], "Initialized")["status"] == "True"
    phases = {p.metadata.name: p.status.phase for p in kube.core.list_namespaced_pod("default").items}
    assert sorted(phases.values()) == ["Pending", "Running"]


def test_pods_that_no_pool_fits_get_no_node(api: Api, kube: Kube) -> None:
    make_class(kube, "workers")
    make_pool(kube)
    api.advance(20)
    kube.core.create_namespaced_pod("default", pod("other", nodeSelector={"karpenter.sh/nodepool": "another"}))
    kube.core.create_namespaced_pod("default", pod("huge", cpu="500"))
    api.advance(120)
    assert (target(api), kube.items(*CLAIMS)) == ((0, 0), [])


def test_a_claim_without_capacity_is_given_up_and_wished_for_again(api: Api, kube: Kube) -> None:
    api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 0}})
    make_class(kube, "workers")
    make_pool(kube)
    api.advance(20)
    kube.core.create_namespaced_pod("default", pod("waits"))
    api.advance(60)
    (first,) = kube.items(*CLAIMS)
    assert condition(first, "Launched")["status"] == "Unknown"
    api.advance(1000)
    (second,) = kube.items(*CLAIMS)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    api.admin("PUT", "capacity", {})
    api.advance(2000)
    assert "waits" not in [p.metadata.name for p in kube.core.list_namespaced_pod("default").items], "it has run"


def test_a_class_with_a_missing_group_is_not_ready(api: Api, kube: Kube) -> None:
    make_class(kube, "workers", "nowhere")
    make_pool(kube)
    api.advance(20)
    found = condition(kube.get(*CLASSES, "gpu"), "InstanceGroupReady")
    assert (found["status"], "nowhere" in found["message"]) == ("False", True)
    assert condition(kube.get(*POOLS, "gpu"), "Ready")["status"] == "False"
    kube.core.create_namespaced_pod("default", pod("waits"))
    api.advance(120)
    assert target(api) == (0, 0)


def test_a_deleted_pool_drains_its_nodes(api: Api, kube: Kube) -> None:
    make_class(kube, "workers")
    make_pool(kube, after="Never")
    api.advance(20)
    kube.core.create_namespaced_pod("default", pod("long", annotations={"sandbox/run-seconds": "100000"}))
    api.advance(JOINED)
    assert target(api) == (1, 1)
    kube.custom.delete_cluster_custom_object(POOLS[0], "v1", POOLS[1], "gpu")
    api.advance(200)
    assert (target(api), kube.items(*CLAIMS), kube.nodes()) == ((0, 0), [], {})
    assert [p.metadata.name for p in kube.core.list_namespaced_pod("default").items] == []


def test_nodes_that_were_there_before_are_scaled_down_once_empty(api: Api, kube: Kube) -> None:
    sagemaker = api.client("sagemaker")
    sagemaker.batch_add_cluster_nodes(
        ClusterName="hp", NodesToAdd=[{"InstanceGroupName": "workers", "IncrementTargetCountBy": 2}]
    )
    api.advance(JOINED)
    kube.core.create_namespaced_pod("default", pod("busy", annotations={"sandbox/run-seconds": "600"}))
    api.advance(5)
    make_class(kube, "workers")
    api.advance(200)
    assert target(api) == (1, 1)
    api.advance(700)
    assert target(api) == (0, 0)


def test_definitions_come_with_autoscaling_and_go_with_it_when_nothing_uses_them(api: Api, kube: Kube) -> None:
    def served() -> set[str]:
        found = kube.extensions.list_custom_resource_definition().items
        return {d.metadata.name for d in found if d.spec.group.startswith("karpenter")}

    assert served() == {f"{plural}.{group}" for group, plural in (CLASSES, POOLS, CLAIMS)}
    with pytest.raises(ApiException) as error:
        make_class(kube, *[f"group-{i}" for i in range(11)])
    assert error.value.status == 422
    make_class(kube, "workers")
    api.client("sagemaker").update_cluster(ClusterName="hp", AutoScaling={"Mode": "Disable"})
    api.advance(60)
    assert served()
    kube.custom.delete_cluster_custom_object(CLASSES[0], "v1", CLASSES[1], "gpu")
    api.advance(600)
    assert served() == set()
