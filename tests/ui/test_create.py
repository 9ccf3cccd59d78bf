"""Creating a cluster: what is sent for what was entered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.api.conftest import start_cluster
from tests.api.fake_workflows import OCCUPIED
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from ui import choices


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    return recorded(monkeypatch)


def test_a_tag_is_suggested_that_no_cluster_has(console: Console) -> None:
    first = str(console.page("create").run().text_input("create/tag").value)
    assert re.fullmatch(r"hypd-\d{4}[a-z]+", first)
    console.wait(start_cluster(console.temporal, first))
    console.until(lambda: console.get("/clusters", search=first)["clusters"])

    second = str(console.page("create").run().text_input("create/tag").value)

    assert second.startswith("hypd-")
    assert second != first


def test_a_tag_alone_is_a_cluster(console: Console, sent: list[Sent]) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-alone")

    page.button("create/start").click().run()

    assert not page.exception
    assert [(each.method, each.path, each.body) for each in sent] == [("POST", "/clusters", {"tag": "run-alone"})]
    assert page.query_params["id"] == "create-cluster/run-alone"
    assert console.get("/operations/create-cluster/run-alone")["started_by"] == "operator-1"


def test_what_was_entered_is_sent_and_nothing_else(console: Console, sent: list[Sent]) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-much")
    page.text_input("create/region").set_value("us-east-1")
    page.selectbox("create/kubernetes_version").set_value("1.34")
    page.text_input("create/network/vpc_cidr").set_value("10.91.0.0/16")
    page.text_input("create/network/public_subnet_cidrs").set_value("10.91.0.0/24, 10.91.1.0/24")
    page.number_input("create/network/compute_subnet_prefix").set_value(21)
    page.selectbox("create/hyperpod/node_recovery").set_value("None")
    page.text_input("create/storage/prefix").set_value("train/")
    page.toggle("create/storage/read_only").set_value(True)

    page.button("create/check").click().run()

    assert not page.exception
    assert sent[-1].planned
    assert sent[-1].body == {
        "tag": "run-much",
        "region": "us-east-1",
        "kubernetes_version": "1.34",
        "network": {
            "vpc_cidr": "10.91.0.0/16",
            "public_subnet_cidrs": ["10.91.0.0/24", "10.91.1.0/24"],
            "compute_subnet_prefix": 21,
        },
        "hyperpod": {"node_recovery": "None"},
        "storage": {"prefix": "train/", "read_only": True},
    }


def test_creating_what_was_checked_is_held_to_its_plan(console: Console, sent: list[Sent]) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-held")
    page.button("create/check").click().run()
    assert "What would be made" in texts(page)

    page.button("create/start").click().run()

    checked, created = sent
    assert checked.planned
    assert not created.planned
    assert created.body == checked.body
    assert created.query["plan"]
    assert page.query_params["id"] == "create-cluster/run-held"


def test_a_plan_of_something_else_is_not_shown_and_not_started(console: Console, sent: list[Sent]) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-first")
    page.button("create/check").click().run()

    page.text_input("create/tag").set_value("run-second").run()

    assert "What would be made" not in texts(page)
    assert "changed since the plan was made" in texts(page)
    page.button("create/start").click().run()
    assert (sent[-1].body, "plan" in sent[-1].query) == ({"tag": "run-second"}, False)


@pytest.mark.parametrize("button", ["create/check", "create/start"])
def test_a_refused_input_shows_its_fault_and_is_kept(console: Console, button: str) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-refused")
    page.text_input("create/network/vpc_cidr").set_value(OCCUPIED)
    page.text_input("create/storage/claim").set_value("mine")

    page.button(button).click().run()

    assert not page.exception
    fault = next(each.value for each in page.markdown if "overlaps vpc" in each.value)
    assert fault.startswith(":red[")
    assert "see the field marked above" in texts(page)
    assert page.text_input("create/tag").value == "run-refused"
    assert page.text_input("create/network/vpc_cidr").value == OCCUPIED
    assert page.text_input("create/storage/claim").value == "mine"


def test_every_fault_is_shown_at_its_field(console: Console) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("Not A Tag")
    page.text_input("create/storage/namespace").set_value("Not A Namespace")

    page.button("create/check").click().run()

    faults = [each.value for each in page.markdown if each.value.startswith(":red[")]
    assert len(faults) == 2
    assert "see the 2 faults marked above" in texts(page)


def test_instance_groups_can_be_chosen_now(console: Console, sent: list[Sent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "kept", lambda name, seconds, read: _options(read()))
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-groups")
    page.radio("create/groups").set_value("Chosen now").run()
    _group(page, 0, "workers", 2)
    page.button("create/add-group").click().run()
    _group(page, 1, "spare", 4)
    page.selectbox("create/group/1/capacity").set_value("spot")
    page.text_area("create/group/1/taints").set_value("team=vision:NoSchedule")

    page.button("create/check").click().run()

    assert not page.exception
    assert sent[-1].body["instance_groups"] == [
        {"name": "workers", "instance_type": "ml.g5.8xlarge", "count": 2},
        {
            "name": "spare",
            "instance_type": "ml.g5.8xlarge",
            "count": 4,
            "capacity": {"kind": "spot"},
            "taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}],
        },
    ]


def _options(read: Any) -> Any:
    """What the fake account offers, and one instance type."""
    kind = {"instance_type": "ml.g5.8xlarge", "availability_zones": ["us-west-2a"], "vcpus": 32, "memory_gib": 128}
    return read.model_validate({**read.model_dump(), "instance_types": [{**kind, "addresses": 2}]})


def _group(page: AppTest, number: int, name: str, count: int) -> None:
    page.text_input(f"create/group/{number}/name").set_value(name)
    page.selectbox(f"create/group/{number}/instance_type").set_value("ml.g5.8xlarge")
    page.number_input(f"create/group/{number}/count").set_value(count)


def test_a_vpc_that_exists_is_named_instead_of_a_block(console: Console, sent: list[Sent]) -> None:
    page = console.page("create").run()
    page.text_input("create/tag").set_value("run-reuse")
    page.radio("create/network/vpc").set_value("One that exists").run()
    page.text_input("create/network/vpc_id").set_value("vpc-0123456789abcdef0")

    page.button("create/check").click().run()

    assert sent[-1].body == {"tag": "run-reuse", "network": {"vpc_id": "vpc-0123456789abcdef0"}}


def test_a_region_that_is_not_served_is_refused_at_its_field(console: Console) -> None:
    page = console.page("create").run()
    page.text_input("create/region").set_value("eu-west-1").run()
    assert "What can be chosen is not known" in texts(page)

    page.button("create/start").click().run()

    assert any(each.value.startswith(":red[") for each in page.markdown)
    assert page.text_input("create/region").value == "eu-west-1"


def test_a_viewer_looks_at_the_form_and_sends_nothing(console: Console) -> None:
    console.role = "viewer"

    page = console.page("create").run()

    assert not page.exception
    assert page.button("create/check").disabled
    assert page.button("create/start").disabled
    assert page.text_input("create/tag").disabled
    assert "Your token only reads" in texts(page)
