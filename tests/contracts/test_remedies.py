"""Each fault of an input says what to do about it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from contracts.access import CreateTokenRequest
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterSpec
from contracts.features import FeatureChanges
from contracts.problem import FieldError, field_errors
from contracts.requests import RetryRequest

GROUP = {"instance_type": "ml.g5.8xlarge", "count": 1}


def _faults(model: type[BaseModel], sent: dict[str, Any], known: bool = True) -> list[FieldError]:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(sent)
    return field_errors(refused.value, model=model if known else None)


@pytest.mark.parametrize(
    ("model", "sent", "field", "remedy"),
    [
        (ClusterSpec, {}, "/tag", "Send tag."),
        (ClusterSpec, {"tag": "a", "instance_groups": [{"count": 1}]}, "/instance_groups/0/instance_type",
         "Send instance_type, e.g. ml.g5.8xlarge."),
        (ClusterSpec, {"tag": "a", "regoin": "x"}, "/regoin", "Did you mean region?"),
        (RetryRequest, {"force": True}, "/force", "Remove it; the members are attempt, corrections, stage."),
        (InstanceGroupSpec, {**GROUP, "zzz": 1}, "/zzz", "Remove it: there is no such member."),
        (InstanceGroupSpec, {**GROUP, "capacity": {"kind": "training-plan", "training_plan": "a", "x": 1}},
         "/capacity/x", "Remove it; the members are kind, training_plan."),
        (InstanceGroupSpec, {**GROUP, "capacity": {"kind": "cheap"}}, "/capacity",
         "Use one of on-demand, spot, training-plan."),
        (InstanceGroupSpec, {**GROUP, "capacity": {}}, "/capacity", "Send kind."),
        (InstanceGroupSpec, {**GROUP, "count": -1}, "/count", "Use at least 0."),
        (InstanceGroupSpec, {**GROUP, "count": 10**6}, "/count", "Use at most 6758."),
        (InstanceGroupSpec, {**GROUP, "count": "abc"}, "/count", "Send a whole number, without quotes."),
        (InstanceGroupSpec, {**GROUP, "subnet_placement": "near"}, "/subnet_placement",
         "Use one of shared, dedicated."),
        (InstanceGroupSpec, {**GROUP, "availability_zone": "west"}, "/availability_zone", "Write it like us-west-2b."),
        (InstanceGroupSpec, {**GROUP, "taints": [{"key": "a b", "effect": "NoSchedule"}]}, "/taints/0/key",
         "Write it like example.com/reserved."),
        (InstanceGroupSpec, {**GROUP, "labels": []}, "/labels", "Send an object."),
        (FeatureChanges, {"tiered_checkpointing": {"enabled": "on and off"}}, "/tiered_checkpointing/enabled",
         "Send true or false."),
        (CreateTokenRequest, {"name": "alice", "role": "god"}, "/role", "Use one of viewer, agent, operator, admin."),
    ],
)  # fmt: skip
def test_a_fault_says_what_to_do(model: type[BaseModel], sent: dict[str, Any], field: str, remedy: str) -> None:
    assert {fault.field: fault.remedy for fault in _faults(model, sent)} == {field: remedy}


def test_each_of_several_faults_has_its_own_remedy() -> None:
    faults = _faults(InstanceGroupSpec, {**GROUP, "count": -1, "volume_gib": 0})
    assert [(fault.field, fault.remedy) for fault in faults] == [
        ("/count", "Use at least 0."),
        ("/volume_gib", "Use at least 1."),
    ]


def test_without_the_model_remedies_follow_from_the_rule_alone() -> None:
    faults = _faults(InstanceGroupSpec, {"instance_type": "ml.g5.8xlarge", "subnet_id": "x", "colour": 1}, known=False)
    assert {fault.field: fault.remedy for fault in faults} == {
        "/count": "Send count.",
        "/subnet_id": None,
        "/colour": "Remove it: there is no such member.",
    }
