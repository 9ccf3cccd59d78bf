"""Which answers an agent may give by itself."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from contracts.decision import is_harmless


@pytest.mark.parametrize(
    "answer",
    [{"choice": "wait"}, {"choice": "stop"}, {"remedy": "keep"}, {"remedy": {"kind": "fewer", "count": 1}}],
)
def test_waiting_stopping_and_being_content_with_less_is_harmless(answer: dict[str, JsonValue]) -> None:
    assert is_harmless(answer)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"instance_type": "ml.g5.48xlarge", "count": 4},
        {"choice": "go-on"},
        {"remedy": {"kind": "zone", "availability_zone": "us-west-2b"}},
        {"remedy": {"kind": "capacity", "capacity": {"kind": "on-demand"}}},
        {"remedy": ["wait"]},
    ],
)
def test_whatever_else_is_answered_takes_a_person(answer: dict[str, JsonValue]) -> None:
    assert not is_harmless(answer)
