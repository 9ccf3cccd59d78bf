"""What operations end with, and plans, as people see them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.plans import Plan
from contracts.sizes import size_text
from tests.ui.conftest import PATIENCE, texts


def shown(kind: str, result: dict[str, Any], titles: dict[str, str] | None = None) -> str:
    """All that is drawn of a result. ``titles``: of the operation's stages."""

    def draw(kind: str, document: str, titles: dict[str, str] | None) -> None:
        import json

        from ui.results import result_shown

        result_shown(kind, json.loads(document), titles)

    given = {"kind": kind, "document": json.dumps(result), "titles": titles}
    page = AppTest.from_function(draw, kwargs=given, default_timeout=PATIENCE).run()
    assert not page.exception
    tables = [each.value.to_string() for each in page.dataframe]
    facts = [f"{each.label}: {each.value}" for each in page.metric]
    return "\n".join([texts(page), *tables, *facts, *(each.value for each in page.success)])


RESOURCE = {"part": "vpc", "kind": "VPC", "id": "vpc-1", "name": "demo-vpc"}


def test_a_deletion_reports_what_went_and_what_was_kept_and_why() -> None:
    kept = {"kind": "S3 bucket", "id": "sagemaker-demo", "why": "delete_bucket was not asked for"}

    said = shown("delete-cluster", {"level": "network", "deleted": [RESOURCE], "kept": [kept]})

    for expected in ("1 deleted", "1 kept on purpose", "0 still there", "demo-vpc", "delete_bucket was not asked for"):
        assert expected in said


def test_a_deletion_reports_what_is_still_there_and_what_to_do() -> None:
    leftover = {"kind": "network interface", "id": "eni-1", "detail": "held by <i>lambda</i>", "remedy": "Delete it."}

    said = shown("delete-cluster", {"level": "eks", "remaining": [RESOURCE], "leftovers": [leftover]})

    assert "2 still there" in said
    assert "held by \\<i\\>lambda\\</i\\>" in said
    assert "Delete it." in said


def test_a_deletion_that_was_ended_early_shows_what_it_had_done() -> None:
    done = {"control_plane/teardown.delete_part/control-plane": "EKS cluster eks-1"}

    said = shown("delete-cluster", {"deleted": done, "unknown": []})

    assert "What was deleted" in said
    assert "control\\_plane\\: EKS cluster eks\\-1" in said


def test_what_an_aborted_operation_has_left_is_told_by_stage_and_what_is_not_known_apart() -> None:
    left = {"exists": {"deployment/deployments.apply": "chat"}, "unknown": ["services/deployments.apply_services"]}

    said = shown("create-deployment", left, {"deployment": "Replicas", "services": "Services"})

    assert "- Replicas\\: chat" in said
    assert "Not known, because it was cut short" in said
    assert "- Services\\: deployments.apply\\_services" in said


def test_names_are_a_line_and_an_answer_is_told_in_words() -> None:
    answer = {"verified": "a completion", "model": "m", "latency_ms": 41.0, "sample": "Hello"}

    said = shown("create-deployment", {"nodes": ["n-1", "n-2"], "services": [], "answer": answer})

    assert "**Nodes**: n\\-1, n\\-2" in said
    assert "Services" not in said
    assert "It answered within: **41** ms" in said
    assert "latency" not in said


def test_a_created_cluster_shows_its_nodes_and_storage() -> None:
    node = {"name": "hyperpod-i-1", "instance_type": "ml.g5.8xlarge", "ready": True}
    result = {"eks_cluster": "eks-1", "hyperpod_cluster": None, "nodes": [node], "storage": ["default/s3-claim"]}

    said = shown("create-cluster", result)

    for expected in ("EKS cluster: eks-1", "HyperPod cluster: —", "hyperpod-i-1", "yes", "default/s3-claim"):
        assert expected in said


def test_an_import_shows_what_the_cluster_lacks() -> None:
    gap = {"what": "egress", "detail": "no NAT *gateway*", "remedy": "Make one."}

    said = shown("import-cluster", {"eks_cluster": "theirs", "nodes": 3, "origin": "imported", "gaps": [gap]})

    assert "no NAT \\*gateway\\*" in said
    assert "Make one." in said
    assert "Nodes: 3" in said


@pytest.mark.parametrize(
    ("changed", "expected"),
    [([], "The record was right"), (["hyperpod.groups.workers.target: 2 → 3"], "workers.target: 2 → 3")],
)
def test_a_redetection_shows_what_had_changed(changed: list[str], expected: str) -> None:
    assert expected in shown("redetect-cluster", {"eks_cluster": "eks-1", "changed": changed, "gaps": []})


def test_any_other_result_can_be_read() -> None:
    result = {"group_name": "a_b", "count": 2, "settings": {"percentage": 40}, "rows": [{"one": [1, 2]}], "none": None}

    said = shown("scale-instance-group", result)

    for expected in ("Group name: **a\\_b**", "Count: **2**", "percentage", "40", "[1, 2]", "None: **—**"):
        assert expected in said


def plan(**parts: Any) -> Plan:
    names = {"eks_cluster": "e", "hyperpod_cluster": "h", "security_group": "s", "vpc": "v"}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    given = {
        "plan": "1.x",
        "valid": True,
        "operation": "create-cluster/demo",
        "kind": "create-cluster",
        "cluster": "demo",
        "region": "us-west-2",
        "spec": {"tag": "demo"},
        "plan_hash": "h",
        "names": names,
        "checked_against_account": True,
        "computed_at": moment,
        "valid_until": moment,
        **parts,
    }
    return Plan.model_validate(given)


def drawn(**parts: Any) -> AppTest:
    def draw(document: str) -> None:
        from contracts.plans import Plan
        from ui.plan_view import plan_shown

        plan_shown(Plan.model_validate_json(document))

    page = AppTest.from_function(
        draw, kwargs={"document": plan(**parts).model_dump_json()}, default_timeout=PATIENCE
    ).run()
    assert not page.exception
    return page


def test_a_plan_groups_its_changes_by_action_in_order() -> None:
    actions = ["delete", "delete", "keep", "delete"]
    changes = [{"action": each, "kind": "thing", "name": f"n-{number}"} for number, each in enumerate(actions)]

    page = drawn(changes=changes)

    assert [list(each.value["Name"]) for each in page.dataframe] == [["n-0", "n-1"], ["n-2"], ["n-3"]]
    assert [list(each.value["#"]) for each in page.dataframe] == [[1, 2], [3], [4]]
    assert "3 to delete" in texts(page)
    assert "1 kept" in texts(page)


def test_a_plan_shows_cost_quotas_addresses_and_checks() -> None:
    page = drawn(
        cost={
            "per_hour": None,
            "known_per_hour": 1.5,
            "items": [{"item": "ml.g5.8xlarge", "quantity": 2, "per_hour": None}],
            "source": "sample",
        },
        quotas=[{"quota": "ml.g5.8xlarge for cluster usage", "needed": 2, "used": 0, "limit": 8}],
        addresses=[{"subnet": "subnet-1", "needed": 4}],
        checks=[{"name": "access", "passed": False, "detail": "no entry", "remedy": "Grant it."}],
    )

    said = texts(page) + "\n".join(each.value.to_string() for each in page.dataframe)
    for expected in ("+1.50 USD per hour, and what has no known price", "unknown", "cluster usage", "to be made"):
        assert expected in said
    assert "Grant it." in said


def test_a_plan_shows_what_stands_in_its_way_with_the_field() -> None:
    page = drawn(
        valid=False,
        blockers=[{"field": "/count", "detail": "quota is 8", "remedy": "Ask for less."}],
        warnings=["It takes long."],
    )

    assert "`/count` quota is 8" in texts(page)
    assert "It takes long." in texts(page)


def test_a_plan_that_nobody_could_check_says_so() -> None:
    page = drawn(plan=None, checked_against_account=False, needs_approval=True)

    assert "gave no answer in time" in texts(page)
    assert "must approve" in texts(page)
    assert "holds until" not in texts(page)


def test_sizes_are_read_by_people() -> None:
    assert [size_text(size) for size in (0, 1023, 1536, 5 * 1024**3)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
