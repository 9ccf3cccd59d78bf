"""What a record keeps of a large cluster's nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from contracts.cluster import ClusterRecord, ClusterSummary
from contracts.hyperpod import MOST_NODES_KEPT, HyperPodCluster, InstanceGroup, Node, NodeCount, Nodes, counted

CLUSTER = HyperPodCluster(name="hp", arn="arn:hp", status="InService")
LARGEST_GROUP = 6758
TEMPORAL_WARNS = 512 * 1024
"""Bytes of a payload from which on Temporal warns; it refuses 2 MB."""


def node(
    group: str, number: int, ready: bool = True, accelerators: int = 1, instance_type: str = "ml.g5.8xlarge"
) -> Node:
    return Node(
        name=f"hyperpod-i-{number:017x}",
        instance_id=f"i-{number:017x}",
        instance_group=group,
        instance_type=instance_type,
        zone="us-west-2a",
        capacity_type="on-demand",
        ready=ready,
        accelerators=accelerators,
    )


def test_a_small_cluster_keeps_every_node() -> None:
    nodes = [node("a", 1), node("b", 2, ready=False)]
    found = Nodes(cluster=CLUSTER, **counted(nodes))
    assert found.nodes == nodes
    assert found.counts == [NodeCount(group="a", nodes=1, ready=1), NodeCount(group="b", nodes=1, ready=0)]


def test_a_large_cluster_keeps_all_as_numbers_and_shows_what_is_not_ready_and_some_of_every_group() -> None:
    broken = node("large", LARGEST_GROUP, ready=False)
    small = node("small", LARGEST_GROUP + 1)
    nodes = [*(node("large", number) for number in range(LARGEST_GROUP)), broken, small]
    found = Nodes(cluster=CLUSTER, **counted(nodes))
    assert found.total == LARGEST_GROUP + 2
    assert len(found.nodes) == MOST_NODES_KEPT
    assert broken in found.nodes
    assert small in found.nodes
    assert len(found.model_dump_json()) < TEMPORAL_WARNS


def test_nodes_without_counts_are_all_there_are() -> None:
    assert Nodes(cluster=CLUSTER, nodes=[node("a", 1), node("a", 2, ready=False)]).total == 2


def record(nodes: list[Node], groups: list[InstanceGroup] | None = None, **more: Any) -> ClusterRecord:
    hyperpod = CLUSTER.model_copy(update={"groups": groups or []})
    now = datetime(2026, 1, 1, tzinfo=UTC)
    about = {"tag": "demo", "region": "us-west-2", "created_by": "test", "created_at": now, "updated_at": now}
    return ClusterRecord.model_validate({**about, "hyperpod": hyperpod, "nodes": nodes, **more})


def test_a_record_tells_all_accelerators_of_nodes_that_it_only_counts() -> None:
    whole = [node("large", number, ready=number > 3) for number in range(500)]
    eights = [node("eights", 1000 + number, accelerators=8, instance_type="ml.p5.48xlarge") for number in range(250)]
    found = record(**counted([*whole, *eights]))
    assert (found.node_total, found.nodes_ready, found.accelerator_total) == (750, 746, 500 + 8 * 250)


def test_a_node_that_shows_no_accelerators_has_as_many_as_others_of_its_type() -> None:
    broken = node("a", 1, ready=False, accelerators=0)
    assert record([broken]).accelerator_total == 0
    assert record([broken, node("b", 2, accelerators=4)]).accelerator_total == 8


def test_a_group_none_of_whose_nodes_is_kept_counts_by_its_type() -> None:
    others = InstanceGroup(name="b", instance_type="ml.g5.8xlarge", current=7, target=7, status="InService")
    counts = [NodeCount(group="a", nodes=1, ready=1), NodeCount(group="b", nodes=7, ready=7)]
    assert record([node("a", 1, accelerators=4)], [others], node_counts=counts).accelerator_total == 32
    unknown = others.model_copy(update={"instance_type": "ml.p5.48xlarge"})
    assert record([node("a", 1, accelerators=4)], [unknown], node_counts=counts).accelerator_total == 4


def test_a_summary_from_before_there_were_accelerators_in_it_can_be_read() -> None:
    written = {"tag": "demo", "region": "us-west-2", "nodes": 3, "created_by": "test"}
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    found = ClusterSummary.model_validate(written | times)
    assert (found.nodes, found.nodes_ready, found.accelerators) == (3, 0, 0)
