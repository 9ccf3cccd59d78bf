"""Capacity: what a cluster has, and what is sent for what was entered."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded, silent

GROUPS = [
    {
        "name": "workers",
        "instance_type": "ml.g5.8xlarge",
        "current": 2,
        "target": 3,
        "status": "InService",
        "subnet_ids": ["subnet-b"],
        "labels": {"team": "vision"},
    },
    {
        "name": "spotty",
        "instance_type": "ml.g6.12xlarge",
        "current": 2,
        "target": 2,
        "status": "InService",
        "capacity": "spot",
    },
]
HYPERPOD = {"name": "hp", "arn": "arn:hp", "status": "InService", "groups": GROUPS}
PLANE = {"name": "eks", "arn": "arn:aws:eks:us-west-2:1:cluster/eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
NODE_GROUP = {
    "name": "cpu",
    "status": "ACTIVE",
    "instance_types": ["m6i.2xlarge"],
    "desired": 2,
    "maximum": 4,
    "ready": 2,
    "problem": "AccessDenied: <b>",
}
POOL = {"name": "gpus", "instance_groups": ["spotty"], "ready": True, "nodes": 1, "accelerators": 4}
PARTS: dict[str, Any] = {
    "hyperpod": HYPERPOD,
    "control_plane": PLANE,
    "node_groups": [NODE_GROUP],
    "node_pools": [POOL],
}


def capacity(console: Console, tab: str | None = None, **query: str) -> tuple[AppTest, str]:
    """The page of a cluster with two instance groups, an EKS node group and a node pool; and the cluster's tag."""
    tag = console.cluster(**PARTS)
    return console.page("capacity", cluster=tag, **({"tab": tab} if tab else {}), **query).run(), tag


def planned(page: AppTest, form: str) -> AppTest:
    page.button(f"{form}/plan").click().run()
    assert not page.exception
    return page


def rows(page: AppTest, column: str) -> list[Any]:
    return next(list(each.value[column]) for each in page.dataframe if column in each.value)


def test_a_cluster_without_nodes_says_what_to_do(console: Console) -> None:
    page = console.page("capacity", cluster=console.cluster()).run()

    assert "There are no nodes yet" in texts(page)
    assert not page.exception


def test_a_cluster_that_is_not_there_is_told(console: Console) -> None:
    page = console.page("capacity", cluster="nowhere").run()

    assert any("there is no cluster" in each.value for each in page.error)


def test_groups_are_shown_with_what_they_are_and_who_scales_them(console: Console) -> None:
    page, _ = capacity(console)

    assert rows(page, "Group") == ["workers", "spotty"]
    assert rows(page, "Nodes") == ["2 / 3", "2 / 2"]
    assert rows(page, "Scaled by") == ["hand", "Karpenter (gpus)"]
    assert "this is what the cluster's record last had" in texts(page)


def test_scaling_sends_the_new_count_and_the_plan_that_was_shown(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, tag = capacity(console, group="workers")
    sent = recorded(monkeypatch)
    form = f"{tag}/workers/scale"

    page.number_input(f"{form}/3/count").set_value(5).run()
    planned(page, form)
    page.button(f"{form}/start").click().run()

    path = f"/clusters/{tag}/instance-groups/workers/scale"
    assert sent[0] == Sent("POST", path, {"validate_only": "true"}, {"count": 5})
    assert [(each.method, each.path, each.body) for each in sent[1:]] == [("POST", path, {"count": 5})]
    assert sent[1].query["plan"]
    assert console.operation(f"scale-instance-group/{tag}/workers")["phase"] == "running"


def test_a_plan_is_not_started_after_the_input_has_changed(console: Console) -> None:
    page, tag = capacity(console, group="workers")
    form = f"{tag}/workers/scale"
    planned(page, form)

    page.number_input(f"{form}/3/count").set_value(6).run()

    assert "Something was changed since the plan was made" in texts(page)
    assert f"{form}/start" not in [each.key for each in page.button]


def test_a_refused_count_is_told_at_its_field_and_stays_entered(console: Console) -> None:
    page, tag = capacity(console, group="workers")
    form = f"{tag}/workers/scale"

    page.number_input(f"{form}/3/count").set_value(-1).run()
    planned(page, form)

    assert "greater than or equal to 0" in texts(page)
    assert page.number_input(f"{form}/3/count").value == -1


def test_what_was_entered_outlasts_a_gateway_that_does_not_answer(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, tag = capacity(console, group="workers")
    form = f"{tag}/workers/scale"
    page.number_input(f"{form}/3/count").set_value(5).run()
    planned(page, form)

    with monkeypatch.context() as away:
        silent(away)
        page.button(f"{form}/start").click().run()

        assert not page.exception
        assert "did not answer" in page.error[0].value
        assert "Not up to date" in texts(page)
        assert page.number_input(f"{form}/3/count").value == 5

    planned(page, form)
    page.button(f"{form}/start").click().run()
    assert console.operation(f"scale-instance-group/{tag}/workers")["phase"] == "running"
    assert not [each.value for each in page.caption if "Not up to date" in each.value]


def test_changing_a_group_sends_what_was_touched(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, group="workers")
    sent = recorded(monkeypatch)
    form = f"{tag}/workers/change"

    page.segmented_control("capacity/action").set_value("Change").run()
    page.number_input(f"{form}/volume_gib").set_value(800)
    page.text_area(f"{form}/taints").set_value("dedicated=train:NoSchedule").run()
    planned(page, form)

    body = {"volume_gib": 800, "taints": [{"key": "dedicated", "value": "train", "effect": "NoSchedule"}]}
    assert sent == [Sent("PATCH", f"/clusters/{tag}/instance-groups/workers", {"validate_only": "true"}, body)]


def test_labels_that_are_all_removed_are_sent_as_none(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, group="workers")
    sent = recorded(monkeypatch)

    page.segmented_control("capacity/action").set_value("Change").run()
    page.text_area(f"{tag}/workers/change/labels").set_value("").run()
    planned(page, f"{tag}/workers/change")

    assert [each.body for each in sent] == [{"labels": {}}]


def test_deleting_a_group_needs_its_name(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, group="workers")
    sent = recorded(monkeypatch)
    form = f"{tag}/workers/delete"

    page.segmented_control("capacity/action").set_value("Delete").run()
    page.toggle(f"{form}/drain").set_value(False).run()
    page.button(f"{form}/ask").click().run()
    page.text_input(f"{form}/typed").set_value("worker").run()
    assert page.button(f"{form}/confirmed").disabled

    page.text_input(f"{form}/typed").set_value("workers").run()
    page.button(f"{form}/confirmed").click().run()

    path = f"/clusters/{tag}/instance-groups/workers"
    assert [(each.method, each.path, each.query["drain"]) for each in sent] == [("DELETE", path, "false")] * 2
    assert [each.planned for each in sent] == [True, False]


def test_adding_a_group_sends_what_was_entered(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, "Add a group")
    sent = recorded(monkeypatch)
    form = f"{tag}/add-group"

    assert "belong to the instances" in texts(page)
    page.text_input(f"{form}/name").set_value("big")
    page.selectbox(f"{form}/instance_type").set_value("ml.g5.8xlarge").run()
    assert page.selectbox(f"{form}/availability_zone").options == ["us-west-2a", "us-west-2b"]
    assert "Quota of the account: 4" in texts(page)
    page.selectbox(f"{form}/availability_zone").set_value("us-west-2b")
    page.number_input(f"{form}/count").set_value(2)
    page.selectbox(f"{form}/capacity").set_value("spot")
    page.text_area(f"{form}/labels").set_value("team=vision").run()
    planned(page, form)

    body = {
        "name": "big",
        "instance_type": "ml.g5.8xlarge",
        "availability_zone": "us-west-2b",
        "count": 2,
        "capacity": {"kind": "spot"},
        "labels": {"team": "vision"},
    }
    assert sent == [Sent("POST", f"/clusters/{tag}/instance-groups", {"validate_only": "true"}, body)]


def test_a_training_plan_is_offered_with_what_is_free(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, "Add a group")
    sent = recorded(monkeypatch)
    form = f"{tag}/add-group"

    page.selectbox(f"{form}/capacity").set_value("training-plan").run()
    page.selectbox(f"{form}/training_plan").set_value("june").run()
    assert "6 of 8 × ml.p5.48xlarge free in us-west-2c" in texts(page)
    planned(page, form)

    assert sent[0].body["capacity"] == {"kind": "training-plan", "training_plan": "june"}


def test_a_group_that_is_refused_is_marked_and_keeps_what_was_entered(console: Console) -> None:
    page, tag = capacity(console, "Add a group")
    form = f"{tag}/add-group"

    page.text_input(f"{form}/name").set_value("no_name")
    page.selectbox(f"{form}/instance_type").set_value("ml.g5.8xlarge")
    page.number_input(f"{form}/count").set_value(1)
    page.number_input(f"{form}/min_count").set_value(3).run()
    planned(page, form)

    assert "instance group names match" in texts(page).replace("\\", "")
    assert page.text_input(f"{form}/name").value == "no_name"
    assert page.number_input(f"{form}/min_count").value == 3


def test_node_groups_are_shown_and_scaled_by_what_was_entered(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, tag = capacity(console, "EKS node groups")
    sent = recorded(monkeypatch)

    assert rows(page, "Ready") == ["2 / 2"]
    page.segmented_control(f"{tag}/node-groups/action").set_value("Scale").run()
    page.number_input(f"{tag}/node-groups/cpu/scale/2/desired").set_value(3).run()
    planned(page, f"{tag}/node-groups/cpu/scale")

    assert sent == [Sent("POST", f"/clusters/{tag}/node-groups/cpu/scale", {"validate_only": "true"}, {"desired": 3})]


def test_creating_a_node_group_sends_what_was_entered(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, "EKS node groups")
    sent = recorded(monkeypatch)
    form = f"{tag}/create-node-group"

    page.text_input(f"{form}/name").set_value("more")
    page.multiselect(f"{form}/instance_types").set_value(["m6i.2xlarge"])
    page.number_input(f"{form}/desired").set_value(1)
    page.toggle(f"{form}/efa").set_value(True).run()
    planned(page, form)

    body = {"name": "more", "instance_types": ["m6i.2xlarge"], "scaling": {"desired": 1}, "efa": True}
    assert sent == [Sent("POST", f"/clusters/{tag}/node-groups", {"validate_only": "true"}, body)]


def test_creating_a_node_pool_sends_what_was_entered(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, "Node pools")
    sent = recorded(monkeypatch)
    form = f"{tag}/create-node-pool"

    assert rows(page, "Instance groups") == ["spotty"]
    page.text_input(f"{form}/name").set_value("more")
    page.multiselect(f"{form}/instance_groups").set_value(["workers"])
    page.toggle(f"{form}/accept_scale_down").set_value(True).run()
    planned(page, form)

    body = {"name": "more", "instance_groups": ["workers"], "accept_scale_down": True}
    assert sent == [Sent("POST", f"/clusters/{tag}/node-pools", {"validate_only": "true"}, body)]


@pytest.mark.parametrize(
    ("tab", "list_key", "name", "path"),
    [
        ("EKS node groups", "node-groups", "cpu", "node-groups/cpu"),
        ("Node pools", "node-pools", "gpus", "node-pools/gpus"),
    ],
)
def test_deleting_node_groups_and_pools_needs_their_names(
    console: Console, monkeypatch: pytest.MonkeyPatch, tab: str, list_key: str, name: str, path: str
) -> None:
    page, tag = capacity(console, tab)
    sent = recorded(monkeypatch)
    form = f"{tag}/{list_key}/{name}/delete"

    page.segmented_control(f"{tag}/{list_key}/action").set_value("Delete").run()
    page.button(f"{form}/ask").click().run()
    assert page.button(f"{form}/confirmed").disabled
    page.text_input(f"{form}/typed").set_value(name).run()
    page.button(f"{form}/confirmed").click().run()

    assert [(each.method, each.path, each.planned) for each in sent] == [
        ("DELETE", f"/clusters/{tag}/{path}", True),
        ("DELETE", f"/clusters/{tag}/{path}", False),
    ]


def test_software_is_shown_and_updated_as_entered(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = capacity(console, "Software")
    sent = recorded(monkeypatch)
    form = f"{tag}/update-software"

    assert rows(page, "Release") == ["1.0.3"]
    assert rows(page, "Nodes on it") == ["1 / 3"]
    page.multiselect(f"{form}/groups").set_value(["workers"])
    page.text_input(f"{form}/release_version").set_value("1.0.4")
    page.toggle(f"{form}/rolling").set_value(True).run()
    page.number_input(f"{form}/maximum_batch/value").set_value(25).run()
    page.button(f"{form}/ask").click().run()

    body = {"groups": ["workers"], "release_version": "1.0.4", "rolling": {"maximum_batch": {"value": 25}}}
    assert sent == [Sent("POST", f"/clusters/{tag}/software", {"validate_only": "true"}, body)]


def test_a_cluster_without_hyperpod_has_no_software(console: Console) -> None:
    page = console.page("capacity", cluster=console.cluster(), tab="Software").run()

    assert any("has no HyperPod cluster yet" in each.value for each in page.error)


@pytest.mark.parametrize("tab", ["Instance groups", "Add a group", "EKS node groups", "Node pools", "Software"])
def test_a_viewer_sees_everything_and_can_act_on_nothing(console: Console, tab: str) -> None:
    console.role = "viewer"
    page, _ = capacity(console, tab)

    acting = [each for each in page.button if each.key and each.key.endswith(("/plan", "/ask", "/start"))]
    assert [each.disabled for each in acting] == [True]
    assert not page.exception
