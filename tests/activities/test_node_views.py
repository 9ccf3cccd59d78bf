"""What lists make of many nodes, and how waits tell a successor: without a sandbox."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from activities.instance_types import InstanceFacts
from activities.nodes.back import assess, summary
from activities.nodes.pods import owner_of, requested
from activities.nodes.sight import Sight, by_instance
from activities.nodes.view import Use, summarize, use_of, views
from contracts.network import Scope
from contracts.node_views import NodeKind
from contracts.nodes import NodeIdentity, WaitForNodesBack

GPU = "nvidia.com/gpu"
FACTS = {"p5.48xlarge": InstanceFacts("p5.48xlarge", 192, 2048.0, "NVIDIA H100", 8, GPU, 32, 81)}
SCOPE = Scope(cluster="demo", region="us-west-2", created_by="tests", request_id="r")


def instance(number: int) -> str:
    return f"i-{number:017x}"


def member(number: int, status: str = "Running", logical: str | None = None, **more: Any) -> dict[str, Any]:
    given = {"InstanceGroupName": "workers", "InstanceId": instance(number), "InstanceType": "ml.p5.48xlarge"}
    logical_id = {"NodeLogicalId": logical} if logical else {}
    return given | logical_id | {"InstanceStatus": {"Status": status}, "LaunchTime": datetime.now(UTC), **more}


def node(number: int, gpus: int = 8, ready: str = "True", boot: str = "1", **labels: Any) -> dict[str, Any]:
    resources = {GPU: str(gpus), "cpu": "190", "vpc.amazonaws.com/efa": "32"}
    return {
        "metadata": {"name": f"hyperpod-{instance(number)}", "labels": labels},
        "spec": {},
        "status": {
            "capacity": resources | {GPU: "8"},
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "False"}],
            "nodeInfo": {"bootID": boot},
        },
    }


def sight(members: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> Sight:
    cluster = {"ClusterName": "hp", "ClusterStatus": "InService", "InstanceGroups": []}
    return Sight(cluster, members, by_instance(nodes))


def before(number: int, logical: str | None = None) -> NodeIdentity:
    return NodeIdentity(
        asked=instance(number),
        instance_group="workers",
        instance_id=instance(number),
        logical_id=logical,
        kubernetes_name=f"hyperpod-{instance(number)}",
        status="Running",
        boot_id="1",
    )


def waiting(action: str, nodes: list[NodeIdentity], *others: int) -> WaitForNodesBack:
    given = {"scope": SCOPE, "name": "hp", "eks_cluster": "eks", "action": action, "nodes": nodes}
    return WaitForNodesBack.model_validate(given | {"others": [instance(number) for number in others]})


def test_a_thousand_nodes_are_totalled_and_fit_into_pages() -> None:
    nodes = [node(number, gpus=7 if number == 13 else 8) for number in range(1000)]
    found = views(None, [member(number) for number in range(1000)], nodes, Use(), FACTS)
    total = summarize(found, Use())
    assert (total.nodes, total.ready, total.unhealthy, total.statuses) == (1000, 1000, 1, {"Running": 1000})
    gpus = next(each for each in total.resources if each.name == GPU)
    assert (gpus.capacity, gpus.allocatable) == (8000, 7999)
    (sick,) = [view for view in found if not view.healthy]
    assert sick.problems == [f"lacks {GPU} 7 of 8"]
    page = sum(len(view.model_dump_json()) for view in found[:200])
    assert page < 500_000, "Temporal takes results of at most 2 MB"


def test_a_member_without_an_instance_is_listed_by_its_logical_id() -> None:
    pending = {"InstanceGroupName": "workers", "NodeLogicalId": "workers-ab12", "InstanceStatus": {"Status": "Pending"}}
    (view,) = views(None, [pending], [], Use(), FACTS)
    assert (view.name, view.instance_id, view.kubernetes_name) == ("workers-ab12", None, None)
    assert view.problems == ["SageMaker: Pending", "not in Kubernetes"]


def test_faults_and_health_labels_make_a_node_unhealthy() -> None:
    prefix = "sagemaker.amazonaws.com/"
    labels: dict[str, Any] = {
        f"{prefix}node-health-status": "UnschedulablePendingReplacement",
        f"{prefix}fault-types": "NvidiaErrorReboot",
        f"{prefix}deep-health-check-status": "Failed",
    }
    (view,) = views(None, [member(1)], [node(1, **labels)], Use(), FACTS)
    assert view.problems == [
        "health: UnschedulablePendingReplacement",
        "fault-types: NvidiaErrorReboot",
        "its deep health check failed",
    ]
    assert view.labels == labels


def test_a_karpenter_node_of_hyperpod_is_hyperpods_and_names_its_pool() -> None:
    labels: dict[str, Any] = {"karpenter.sh/nodepool": "gpus"}
    ours, theirs = views(None, [member(1)], [node(1, **labels), node(2, **labels)], Use(), FACTS)[::-1]
    assert (ours.kind, ours.group, ours.node_pool) == (NodeKind.HYPERPOD, "workers", "gpus")
    assert (theirs.kind, theirs.group) == (NodeKind.KARPENTER, "gpus")


def test_a_node_that_sagemaker_does_not_list_any_more_is_unhealthy() -> None:
    labels: dict[str, Any] = {"sagemaker.amazonaws.com/instance-group-name": "workers"}
    left = node(1, **labels)
    (view,) = views({"ClusterName": "hp"}, [], [left], Use(), FACTS)
    assert (view.kind, view.problems) == (NodeKind.HYPERPOD, ["not among SageMaker's nodes"])


def test_requests_are_those_of_containers_together_or_of_one_init_container() -> None:
    def container(gpus: int, **more: Any) -> dict[str, Any]:
        return {"resources": {"limits": {GPU: str(gpus), "cpu": "1"}}, **more}

    spec = {"containers": [container(2), container(1)], "initContainers": [container(4)]}
    pod = {"metadata": {"name": "p"}, "spec": spec}
    assert requested(pod) == Counter({GPU: 4})
    pod["spec"]["initContainers"] = [container(1, restartPolicy="Always")]  # type: ignore[index]
    assert requested(pod) == Counter({GPU: 4})
    assert use_of([pod]).pending == Counter({GPU: 4}), "it has no node"


def test_a_pod_belongs_to_its_deployment_rather_than_to_a_replica_set() -> None:
    owner = {"kind": "ReplicaSet", "name": "web-5d9c", "controller": True}
    metadata = {"name": "web-5d9c-x", "labels": {"pod-template-hash": "5d9c"}, "ownerReferences": [owner]}
    assert owner_of({"metadata": metadata}) == ("Deployment", "web")
    assert owner_of({"metadata": {"name": "alone"}}) == ("Pod", "alone")


def test_a_reboot_is_over_when_the_boot_id_is_another() -> None:
    request = waiting("reboot", [before(1), before(2)])
    seen = sight([member(1), member(2)], [node(1), node(2, boot="2")])
    states = assess(seen, request, FACTS)
    assert [state.lack for state in states] == ["Running, not booted anew yet", ""]
    assert summary(states) == f"1 of 2 back; hyperpod-{instance(1)} Running, not booted anew yet"


def test_a_successor_is_known_by_its_logical_id_or_as_a_new_instance_of_the_group() -> None:
    request = waiting("replace", [before(1, "w-1"), before(2), before(3)], 9)
    members = [member(9), member(11, logical="w-1"), member(12)]
    states = assess(sight(members, [node(9), node(11), node(12)]), request, FACTS)
    assert [state.member and state.member["InstanceId"] for state in states] == [instance(11), instance(12), None]
    assert [state.lack for state in states] == ["", "", "no successor yet"]


def test_a_successor_counts_only_with_all_its_accelerators() -> None:
    request = waiting("replace", [before(1, "w-1")])
    states = assess(sight([member(5, logical="w-1")], [node(5, gpus=0)]), request, FACTS)
    assert [state.lack for state in states] == [f"{GPU} 0 of 8"]
