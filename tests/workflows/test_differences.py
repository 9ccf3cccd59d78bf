"""What a redetection says that had changed."""

from __future__ import annotations

from datetime import UTC, datetime

from contracts.cluster import ClusterRecord
from contracts.dependencies import ComponentState, ComponentStatus
from contracts.features import Feature, FeatureState, FeatureStatus
from contracts.hyperpod import HyperPodCluster, InstanceGroup
from workflows.differences import differences

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(
    target: int, features: list[Feature], detail: str | None = None, *, changed: bool = True, more: tuple[str, ...] = ()
) -> ClusterRecord:
    groups = [
        InstanceGroup(name=name, instance_type="ml.m5.xlarge", current=target, target=target, status="InService")
        for name in ("a", *more)
    ]
    return ClusterRecord(
        tag="demo",
        region="us-west-2",
        created_by="tests",
        created_at=NOW,
        updated_at=NOW,
        hyperpod=HyperPodCluster(name="hp", arn="arn", status="InService", groups=groups, changed=changed),
        dependencies=[ComponentStatus(name="vpc-cni", state=ComponentState.READY, detail=detail)],
        features=[FeatureStatus(feature=feature, state=FeatureState.OFF) for feature in features],
    )


def test_what_was_changed_is_said_and_the_rest_is_not() -> None:
    before = record(2, [Feature.KEDA, Feature.KUBERAY])
    after = record(3, [Feature.KEDA, Feature.KUBERAY], more=("b",))
    assert differences(before, after) == [
        "hyperpod.groups.a.current: 2 → 3",
        "hyperpod.groups.a.target: 2 → 3",
        "hyperpod.groups.b: new",
    ]
    assert differences(after, before)[-1] == "hyperpod.groups.b: gone"


def test_order_words_and_who_made_it_are_no_difference() -> None:
    before = record(2, [Feature.KEDA, Feature.KUBERAY], "ACTIVE")
    after = record(2, [Feature.KUBERAY, Feature.KEDA], "vpc-cni ACTIVE", changed=False)
    assert differences(before, after) == []
