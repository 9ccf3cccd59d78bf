"""Nodes come, are cordoned, drained and deleted; disruption budgets say what may be evicted meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone, deployment, wait_for

_numbers = itertools.count(1)


@pytest.fixture
def add_node(core: client.CoreV1Api) -> Iterator[Callable[[], str]]:
    """Make nodes with a label of the test's own, so that other tests' pods do not matter."""
    made: list[str] = []

    def add(label: str = "") -> str:
        name = f"spare-{next(_numbers)}"
        taint = {"key": "spare", "value": "yes", "effect": "NoSchedule"}
        core.create_node({"metadata": {"name": name, "labels": {"spare": label or "yes"}}, "spec": {"taints": [taint]}})
        made.append(name)
        return name

    yield add
    for name in {n.metadata.name for n in core.list_node().items} & set(made):
        core.delete_node(name)


def web(replicas: int) -> dict[str, Any]:
    toleration = {"key": "spare", "operator": "Exists"}
    return deployment("web", replicas, nodeSelector={"spare": "yes"}, tolerations=[toleration])


def evict(core: client.CoreV1Api, name: str, namespace: str) -> Any:
    return core.create_namespaced_pod_eviction(name, namespace, {"metadata": {"name": name, "namespace": namespace}})


def running(core: client.CoreV1Api, namespace: str) -> list[Any]:
    pods = core.list_namespaced_pod(namespace, label_selector="app=web").items
    standing = [p for p in pods if p.metadata.deletion_timestamp is None]
    return [p for p in standing if any(c.type == "Ready" and c.status == "True" for c in p.status.conditions or [])]


def test_budget_lets_one_pod_go_at_a_time(
    api: client.ApiClient, core: client.CoreV1Api, namespace: str, add_node: Callable[[], str]
) -> None:
    node = add_node()
    client.AppsV1Api(api).create_namespaced_deployment(namespace, web(3))
    wait_for(lambda: len(running(core, namespace)) == 3)
    policy = client.PolicyV1Api(api)
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    policy.create_namespaced_pod_disruption_budget(namespace, {"metadata": {"name": "web"}, "spec": spec})

    def status() -> tuple[int, ...]:
        found = policy.read_namespaced_pod_disruption_budget("web", namespace).status
        return (found.current_healthy, found.desired_healthy, found.disruptions_allowed, found.expected_pods)

    wait_for(lambda: status() == (3, 2, 1, 3))
    # No node takes the pod's successor: what was evicted stays missing.
    core.patch_node(node, {"spec": {"unschedulable": True}})
    first, second, _ = running(core, namespace)
    evict(core, first.metadata.name, namespace)
    with pytest.raises(ApiException) as error:
        evict(core, second.metadata.name, namespace)
    assert error.value.status == 429
    assert error.value.headers["retry-after"] == "10"
    assert "disruption budget web needs 2 healthy pods and has 2 currently" in error.value.body
    wait_for(lambda: status() == (2, 2, 0, 3))
    found = core.read_node(node)
    assert [(t.key, t.effect) for t in found.spec.taints if t.key != "spare"] == [
        ("node.kubernetes.io/unschedulable", "NoSchedule")
    ]
    core.patch_node(node, {"spec": {"unschedulable": None}})
    wait_for(lambda: len(running(core, namespace)) == 3)
    evict(core, second.metadata.name, namespace)
    wait_for(lambda: second.metadata.name not in {p.metadata.name for p in running(core, namespace)})


def test_budget_of_a_share_and_of_a_minimum(
    api: client.ApiClient, core: client.CoreV1Api, namespace: str, add_node: Callable[[], str]
) -> None:
    add_node()
    client.AppsV1Api(api).create_namespaced_deployment(namespace, web(2))
    wait_for(lambda: len(running(core, namespace)) == 2)
    policy = client.PolicyV1Api(api)
    for minimum, allowed in ((2, 0), (1, 1), ("100%", 0), ("50%", 1)):
        spec = {"minAvailable": minimum, "selector": {}}
        policy.create_namespaced_pod_disruption_budget(namespace, {"metadata": {"name": "web"}, "spec": spec})
        wait_for(
            lambda allowed=allowed: (
                (s := policy.read_namespaced_pod_disruption_budget("web", namespace).status).observed_generation == 1
                and s.disruptions_allowed == allowed
            )
        )
        policy.delete_namespaced_pod_disruption_budget("web", namespace)


def test_cordoned_node_is_emptied_and_a_deleted_one_takes_its_pods(
    api: client.ApiClient, core: client.CoreV1Api, namespace: str, add_node: Callable[[], str]
) -> None:
    old = add_node()
    client.AppsV1Api(api).create_namespaced_deployment(namespace, web(2))
    wait_for(lambda: len(running(core, namespace)) == 2)
    core.patch_node(old, {"spec": {"unschedulable": True}})
    new = add_node()
    for pod in running(core, namespace):
        evict(core, pod.metadata.name, namespace)
    wait_for(lambda: [p.spec.node_name for p in running(core, namespace)] == [new, new])
    core.delete_node(new)
    wait_for(lambda: not [p for p in core.list_namespaced_pod(namespace).items if p.spec.node_name == new])
    core.patch_node(old, {"spec": {"unschedulable": None}})
    wait_for(lambda: [p.spec.node_name for p in running(core, namespace)] == [old, old])


def test_daemon_set_follows_nodes(
    standalone: Standalone,
    api: client.ApiClient,
    core: client.CoreV1Api,
    namespace: str,
    add_node: Callable[[str], str],
) -> None:
    apps = client.AppsV1Api(api)
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "nodeSelector": {"spare": "agents"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "agent:1"}],
        },
    }
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    apps.create_namespaced_daemon_set(namespace, {"metadata": {"name": "agent"}, "spec": spec})

    def ready() -> int:
        status = apps.read_namespaced_daemon_set("agent", namespace).status
        return status.number_ready if status.observed_generation and status.desired_number_scheduled else 0

    first = add_node("agents")
    wait_for(lambda: ready() == 1)
    add_node("agents")
    wait_for(lambda: ready() == 2)
    core.patch_node(first, {"spec": {"unschedulable": True}})
    core.delete_node(first)
    wait_for(lambda: ready() == 1)
