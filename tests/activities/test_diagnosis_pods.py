"""What is told of pods that wait, and which pods were a run's: of objects as Kubernetes gives them."""

from __future__ import annotations

from typing import Any

import pytest

from activities.diagnostics.gone import is_of_run
from activities.diagnostics.kubernetes_collectors import _too_large, types_asked
from activities.diagnostics.matching import causes
from activities.diagnostics.subjects import Parts

TYPE = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"


def node(kind: str, gpus: int) -> dict[str, Any]:
    return {"metadata": {"name": f"n-{kind}", "labels": {TYPE: kind}}, "status": {"capacity": {GPU: str(gpus)}}}


def waiting(gpus: int, *types: str) -> dict[str, Any]:
    chosen = [{"key": TYPE, "operator": "In", "values": list(types)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": chosen}]}}
    container = {"name": "c", "resources": {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}}
    affinity = {"affinity": {"nodeAffinity": required}} if types else {}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **affinity}}


@pytest.mark.parametrize(
    ("pod", "nodes", "rule"),
    [
        (waiting(8, "ml.p5.48xlarge"), [node("ml.t3.large", 0), node("ml.g5.8xlarge", 1)], "no-such-node-now"),
        (waiting(8), [node("ml.t3.large", 0)], "no-such-node-now"),
        (waiting(8, "ml.g5.8xlarge"), [node("ml.g5.8xlarge", 1), node("ml.p5.48xlarge", 8)], "request-too-large"),
        (waiting(8), [node("ml.g5.8xlarge", 1)], "request-too-large"),
        (waiting(8, "ml.p5.48xlarge"), [node("ml.p5.48xlarge", 8)], None),
    ],
)
def test_a_pod_is_too_large_only_where_a_node_that_would_do_is_there(
    pod: dict[str, Any], nodes: list[dict[str, Any]], rule: str | None
) -> None:
    found = causes(_too_large(Parts(pods=[pod], every=nodes)))
    assert [cause.rule for cause in found] == ([rule] if rule else [])


def test_a_pod_that_may_run_anywhere_asks_for_no_type() -> None:
    pod = waiting(1, "ml.a.b")
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert types_asked(pod) == {"ml.a.b"}
    terms["nodeSelectorTerms"].append({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})
    assert types_asked(pod) == frozenset()
    assert types_asked({"spec": {"nodeSelector": {TYPE: "ml.c.d"}}}) == {"ml.c.d"}
    assert types_asked({"spec": {}}) == frozenset()


def test_a_runs_pods_are_told_from_those_of_a_run_whose_name_begins_alike() -> None:
    for own in ("a-pods-0", "a-x7kq2", "a-0-x7kq2", "a-x7kq2-head-9vb", "a-x7kq2-group-worker-1"):
        assert is_of_run(own, "a")
    for foreign in ("a-b-pods-0", "a-b-x7kq2", "a", "ab-pods-0", "a-b-x7kq2-head-9vb"):
        assert not is_of_run(foreign, "a")
