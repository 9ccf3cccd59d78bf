"""Whether a queue could ever give what a run requests: of ClusterQueues as Kueue has them."""

from __future__ import annotations

from typing import Any

import pytest

from activities.plans.training_needs import too_much

GPU = "nvidia.com/gpu"


def queue(*quotas: dict[str, Any], cohort: str | None = None) -> dict[str, Any]:
    flavors = [{"name": f"f{number}", "resources": [{"name": GPU, **quota}]} for number, quota in enumerate(quotas)]
    spec = {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}]} | (
        {"cohort": cohort} if cohort else {}
    )
    return {"metadata": {"name": "team"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "never"),
    [
        (queue({"nominalQuota": 4}), True),
        (queue({"nominalQuota": "8"}), False),
        (queue({"nominalQuota": 4}, {"nominalQuota": 8}), False),
        (queue({"nominalQuota": 4, "borrowingLimit": 3}, cohort="all"), True),
        (queue({"nominalQuota": 4, "borrowingLimit": 4}, cohort="all"), False),
        (queue({"nominalQuota": 0}, cohort="all"), False),
        (queue({"nominalQuota": 4, "borrowingLimit": 4}), True),
        ({"metadata": {"name": "team"}, "spec": {}}, False),
    ],
)
def test_a_run_that_its_queue_could_never_admit_is_warned_of_and_no_other(given: dict[str, Any], never: bool) -> None:
    told = too_much(given, {GPU: "4", "memory": "100Gi"}, 2)
    assert bool(told) is never
    if never:
        assert "never be admitted" in told[0]
