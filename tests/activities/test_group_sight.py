"""When the nodes of a group are what was asked for: without a sandbox."""

from __future__ import annotations

from activities.hyperpod.nodes import summary
from activities.hyperpod.observe import GroupSight, sight
from contracts.hyperpod import Node


def test_a_node_is_ready_only_after_its_deep_health_checks() -> None:
    group = {"InstanceGroupName": "checked", "InstanceType": "ml.g5.xlarge", "CurrentCount": 1, "TargetCount": 1}
    node = Node(
        name="hyperpod-i-0123456789abcdef0",
        instance_id="i-0123456789abcdef0",
        instance_group="checked",
        instance_type="ml.g5.xlarge",
        zone="us-west-2a",
        capacity_type="on-demand",
        ready=True,
        accelerators=1,
        accelerator_resource="nvidia.com/gpu",
        efa_interfaces=0,
        health=None,
    )

    def seen(status: str) -> GroupSight:
        member = {"InstanceId": node.instance_id, "InstanceGroupName": "checked", "InstanceStatus": {"Status": status}}
        (found,) = sight({"InstanceGroups": [group]}, ["checked"], [member], [node], {}, {"checked": 1})
        return found

    checking = seen("DeepHealthCheckInProgress")
    assert not checking.complete
    assert summary([checking]) == "0 of 1 nodes Ready; 1 DeepHealthCheckInProgress"
    assert seen("Running").complete
