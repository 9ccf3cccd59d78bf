"""Features: what is really on, and switches that send only what was touched."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.features import Feature
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded

PLANE = {"name": "eks", "arn": "arn:aws:eks:us-west-2:1:cluster/eks", "status": "ACTIVE", "kubernetes_version": "1.34"}


def features(console: Console, first: str = "known") -> tuple[AppTest, str]:
    tag = console.cluster(first, control_plane=PLANE)
    return console.page("features", cluster=tag).run(), tag


def planned(page: AppTest, tag: str) -> AppTest:
    page.button(f"{tag}/features/plan").click().run()
    assert not page.exception
    return page


def test_every_feature_is_shown_as_it_really_is_and_why(console: Console) -> None:
    page, _ = features(console)
    said = texts(page).replace("\\", "")

    switches = [str(each.key) for kind in (page.toggle, page.segmented_control) for each in kind]
    assert {key.split("/")[2] for key in switches} == set(Feature)
    for words in ("others' own", "partly there", "could not be read", "changing"):
        assert words in said
    for why in ("Helm release keda of team-b", "Helm release kuberay is missing", "eks:DescribeAddon was denied"):
        assert why in said
    assert "memory percentage 40" in said
    assert "needs AWS Load Balancer Controller" in said


def test_features_that_cannot_be_read_are_a_problem(console: Console) -> None:
    page, _ = features(console, "mute")

    assert any("does not answer" in each.value for each in page.error)


def test_a_cluster_without_a_control_plane_has_no_features(console: Console) -> None:
    page = console.page("features", cluster=console.cluster()).run()

    assert any("no control plane yet" in each.value for each in page.error)
    assert not page.toggle


def test_nothing_is_offered_while_nothing_is_touched(console: Console) -> None:
    page, tag = features(console)

    page.toggle(f"{tag}/features/training_operator/off").set_value(True).run()
    page.toggle(f"{tag}/features/training_operator/off").set_value(False).run()

    assert "Nothing was touched" in texts(page)
    assert f"{tag}/features/plan" not in [each.key for each in page.button]


@pytest.mark.parametrize(
    ("key", "value", "body"),
    [
        ("training_operator/off", True, {"training_operator": {"enabled": True}}),
        ("tiered_checkpointing/on", False, {"tiered_checkpointing": {"enabled": False}}),
        ("kuberay/degraded", "On", {"kuberay": {"enabled": True}}),
        ("kuberay/degraded", "Off", {"kuberay": {"enabled": False}}),
        ("fsx_csi/unknown", "On", {"fsx_csi": {"enabled": True}}),
        ("keda/foreign", "Off", {"keda": {"enabled": False}}),
    ],
)
def test_a_switch_sends_just_its_feature(
    console: Console, monkeypatch: pytest.MonkeyPatch, key: str, value: Any, body: dict[str, Any]
) -> None:
    page, tag = features(console)
    sent = recorded(monkeypatch)
    switch = page.toggle if isinstance(value, bool) else page.segmented_control

    switch(f"{tag}/features/{key}").set_value(value).run()
    planned(page, tag)

    assert sent == [Sent("PATCH", f"/clusters/{tag}/features", {"validate_only": "true"}, body)]


def test_settings_are_sent_for_a_feature_that_stays_on(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = features(console)
    sent = recorded(monkeypatch)

    page.number_input(f"{tag}/features/tiered_checkpointing/memory_percentage").set_value(60).run()
    planned(page, tag)

    assert [each.body for each in sent] == [{"tiered_checkpointing": {"enabled": True, "memory_percentage": 60}}]


def test_what_is_needed_comes_along_where_that_was_asked_for(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = features(console)
    sent = recorded(monkeypatch)

    page.toggle(f"{tag}/features/inference_operator/off").set_value(True).run()
    page.checkbox(f"{tag}/features/prerequisites").set_value(True).run()
    planned(page, tag)

    assert [each.body for each in sent] == [{"inference_operator": {"enabled": True}, "enable_prerequisites": True}]


def test_a_refused_setting_is_told_at_its_field_and_stays_entered(console: Console) -> None:
    page, tag = features(console)
    key = f"{tag}/features/tiered_checkpointing/memory_percentage"

    page.number_input(key).set_value(10).run()
    planned(page, tag)

    assert "greater than or equal to 20" in texts(page)
    assert page.number_input(key).value == 10


def test_what_was_started_is_shown_stage_by_stage(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = features(console)
    sent = recorded(monkeypatch)

    page.toggle(f"{tag}/features/training_operator/off").set_value(True).run()
    planned(page, tag)
    page.button(f"{tag}/features/start").click().run()
    operation = f"update-features/{tag}/training_operator"
    console.until(lambda: console.get(f"/clusters/{tag}/operations")["operations"])
    page.run()

    assert [(each.method, each.planned) for each in sent] == [("PATCH", True), ("PATCH", False)]
    assert console.operation(operation)["phase"] == "running"
    said = texts(page).replace("\\", "")
    assert "Switching training operator" in said
    assert "Network" in said
    assert "Nodes" in said


def test_a_viewer_sees_features_and_switches_none(console: Console) -> None:
    console.role = "viewer"
    page, _ = features(console)

    assert page.toggle
    assert all(each.disabled for each in page.toggle)
    assert "switch nothing" in texts(page)
