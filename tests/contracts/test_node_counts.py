"""What a record keeps of a large cluster's nodes."""

from __future__ import annotations

from contracts.hyperpod import MOST_NODES_KEPT, HyperPodCluster, Node, NodeCount, Nodes, counted

CLUSTER = HyperPodCluster(name="hp", arn="arn:hp", status="InService")
LARGEST_GROUP = 6758
TEMPORAL_WARNS = 512 * 1024
"""Bytes of a payload from which on Temporal warns; it refuses 2 MB."""


def node(group: str, number: int, ready: bool = True) -> Node:
    return Node(
        name=f"hyperpod-i-{number:017x}",
        instance_id=f"i-{number:017x}",
        instance_group=group,
        instance_type="ml.g5.8xlarge",
        zone="us-west-2a",
        capacity_type="on-demand",
        ready=ready,
        accelerators=1,
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
