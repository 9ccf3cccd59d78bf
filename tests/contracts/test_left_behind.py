"""What is said of an operation that was ended early."""

from __future__ import annotations

from contracts.left_behind import remains_lines, remains_of

TITLES = {"deployment": "Replicas", "services": "Services"}


def test_what_exists_is_told_by_stage_and_what_was_cut_short_as_unknown() -> None:
    result = {
        "exists": {"deployment/deployments.apply": "chat", "deployment/deployments.wait_for_rollout": "chat"},
        "unknown": ["services/deployments.apply_services/default"],
    }
    found = remains_of(result, TITLES)
    assert found is not None
    assert remains_lines(found) == [
        "What exists:",
        "  Replicas: chat",
        "Not known, because it was cut short (look before you start it again):",
        "  Services: deployments.apply_services default",
    ]


def test_a_deletion_tells_what_was_deleted_and_nothing_is_said_to_be_nothing() -> None:
    found = remains_of({"deleted": {"gone/x.delete": ""}, "unknown": []}, {})
    assert found is not None
    assert remains_lines(found) == ["What was deleted:", "  gone: x.delete"]
    nothing = remains_of({"exists": {}, "unknown": []}, {})
    assert nothing is not None
    assert remains_lines(nothing) == ["It has made nothing."]


def test_results_of_operations_that_went_to_their_end_tell_nothing_of_it() -> None:
    assert remains_of(None, {}) is None
    assert remains_of({"deployment": "default/chat"}, {}) is None
    assert remains_of({"level": "network", "deleted": [{"kind": "VPC"}]}, {}) is None
