"""What people write into a spec: read strictly, and corrected as they name it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from contracts.capacity import CapacityAnswer
from contracts.cluster import ClusterSpec
from contracts.corrections import apply_corrections
from contracts.problem import LONGEST_FAULT, field_errors, invalid


def faults(**spec: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        ClusterSpec.model_validate({"tag": "demo", **spec})
    return {error.field: error.detail for error in field_errors(caught.value)}


@pytest.mark.parametrize(
    "given",
    [
        {"labels": {"Bad Prefix/x": "y"}},
        {"labels": {"/x": "y"}},
        {"labels": {"x": "y z"}},
        {"labels": {"sagemaker.amazonaws.com/node-lifecycle": "spot"}},
        {"taints": [{"key": "a b", "effect": "NoSchedule"}]},
        {"taints": [{"key": "a", "value": "b c", "effect": "NoSchedule"}]},
    ],
)
def test_labels_and_taints_that_kubernetes_would_refuse(given: dict[str, Any]) -> None:
    (field,) = faults(instance_groups=[{"instance_type": "ml.g5.8xlarge", "count": 1, **given}])
    assert field.startswith(f"/instance_groups/0/{next(iter(given))}")


def test_a_kubernetes_version_that_yaml_took_for_a_number() -> None:
    assert "in quotes" in faults(kubernetes_version=1.3)["/kubernetes_version"]


def test_a_fault_of_a_capacity_answer_points_to_the_answers_own_field() -> None:
    with pytest.raises(ValidationError) as caught:
        CapacityAnswer.model_validate({"instance_type": "ml.g5.8xlarge", "group": "a_b"})
    assert [error.field for error in field_errors(caught.value, "/answer")] == ["/answer/group"]


def test_a_fault_is_told_shortly_however_long_what_was_sent_is() -> None:
    spec = {"tag": "demo", "x" * 5000: 1, **{f"unknown_{number}": 1 for number in range(3000)}}
    with pytest.raises(ValidationError) as caught:
        ClusterSpec.model_validate(spec)
    told = invalid(field_errors(caught.value))
    assert told.detail.startswith("3001 fields are wrong")
    assert len(told.model_dump_json()) < 20_000

    with pytest.raises(ValidationError) as caught:
        ClusterSpec.model_validate({"tag": "demo", "instance_groups": [{"labels": {"a" * 5000: "b"}}]})
    first = next(each for each in field_errors(caught.value) if "/labels" in each.field)
    assert len(first.field) < 200
    assert len(first.detail) <= LONGEST_FAULT


def test_an_item_of_a_list_is_corrected_by_its_position() -> None:
    spec = {"instance_groups": [{"name": "a", "count": 1}, {"name": "b", "count": 2}]}
    merged = apply_corrections(spec, {"instance_groups": {"1": {"count": 3}}})
    assert merged == {"instance_groups": [{"name": "a", "count": 1}, {"name": "b", "count": 3}]}
