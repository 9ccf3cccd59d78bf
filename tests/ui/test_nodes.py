"""Nodes: what is shown of them, and what is sent for those that were chosen."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from ui import node_table

GROUP = {"name": "workers", "instance_type": "ml.g5.8xlarge", "current": 5, "target": 5, "status": "InService"}
HYPERPOD = {"name": "hp", "arn": "arn:hp", "status": "InService", "groups": [GROUP]}


def nodes(console: Console, first: str = "known", **query: str) -> tuple[AppTest, str]:
    tag = console.cluster(first, hyperpod=HYPERPOD)
    return console.page("nodes", cluster=tag, **query).run(), tag


def names(page: AppTest) -> list[Any]:
    return [name for each in page.dataframe if "Node" in each.value for name in each.value["Node"]]


def choose(page: AppTest, *rows: int) -> AppTest:
    table = next(each for each in page.dataframe if "Node" in each.value)
    page.session_state[str(table.key)] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return page.run()


def test_all_nodes_are_shown_with_their_numbers(console: Console) -> None:
    page, _ = nodes(console)

    assert names(page) == ["n-1", "n-2", "n-3", "n-4", "n-5"]
    shown = {each.label: each.value for each in page.metric}
    assert shown["Nodes"] == "5"
    assert shown["Unhealthy"] == "1"
    assert shown["nvidia.com/gpu used / allocatable"] == "24 / 32"


def test_the_address_filters(console: Console) -> None:
    page, tag = nodes(console, unhealthy="true", group="workers")

    assert names(page) == ["n-3"]
    assert page.selectbox("group").value == "workers"

    page.toggle("unhealthy").set_value(False).run()
    assert len(names(page)) == 5
    assert page.query_params["cluster"] == tag


def test_nodes_come_page_by_page(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_table, "PAGE_SIZE", 2)
    page, tag = nodes(console)
    assert names(page) == ["n-1", "n-2"]

    page.button(f"{tag}/nodes//False/next").click().run()
    assert names(page) == ["n-3", "n-4"]
    assert "page 2 of 3" in texts(page)

    page.button(f"{tag}/nodes//False/back").click().run()
    assert names(page) == ["n-1", "n-2"]


def test_a_cluster_that_does_not_answer_is_told(console: Console) -> None:
    page, _ = nodes(console, "mute")

    assert any("does not answer" in each.value for each in page.error)
    assert not page.dataframe


def test_one_node_is_shown_closely(console: Console) -> None:
    page, _ = nodes(console, node="n-3")

    said = texts(page).replace("\\", "")
    assert "n-3" in said
    assert "Not healthy" in said
    assert "Pods" in said


def test_a_node_that_is_not_there_is_told(console: Console) -> None:
    page, _ = nodes(console, node="n-9")

    assert any("no node" in each.value for each in page.error)


def test_rebooting_sends_the_chosen_nodes(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, tag = nodes(console)
    sent = recorded(monkeypatch)

    choose(page, 0, 2)
    page.button(f"{tag}/nodes/reboot/plan").click().run()

    path = f"/clusters/{tag}/nodes/reboot"
    assert sent == [Sent("POST", path, {"validate_only": "true"}, {"nodes": ["n-1", "n-3"]})]


@pytest.mark.parametrize(("action", "path"), [("Replace", "replace"), ("Delete", "delete")])
def test_what_cannot_be_undone_needs_the_name_and_sends_the_plan(
    console: Console, monkeypatch: pytest.MonkeyPatch, action: str, path: str
) -> None:
    page, tag = nodes(console, node="n-3")
    sent = recorded(monkeypatch)
    form = f"{tag}/nodes/{path}"

    page.segmented_control(f"{tag}/nodes/action").set_value(action).run()
    page.toggle(f"{form}/drain").set_value(True).run()
    page.number_input(f"{form}/drain_timeout_minutes").set_value(5).run()
    page.button(f"{form}/ask").click().run()
    assert page.button(f"{form}/confirmed").disabled
    page.text_input(f"{form}/typed").set_value("n-3").run()
    page.button(f"{form}/confirmed").click().run()

    body = {"nodes": ["n-3"], "drain": True, "drain_timeout_minutes": 5}
    assert [(each.path, each.body, each.planned) for each in sent] == [
        (f"/clusters/{tag}/nodes/{path}", body, True),
        (f"/clusters/{tag}/nodes/{path}", body, False),
    ]
    assert sent[1].query["plan"]


def test_several_nodes_are_confirmed_by_their_number(console: Console) -> None:
    page, tag = nodes(console)
    form = f"{tag}/nodes/delete"

    choose(page, 0, 1)
    page.segmented_control(f"{tag}/nodes/action").set_value("Delete").run()
    page.button(f"{form}/ask").click().run()
    page.text_input(f"{form}/typed").set_value("delete 2 nodes").run()

    assert not page.button(f"{form}/confirmed").disabled


def test_a_refused_time_is_told_at_its_field_and_stays_entered(console: Console) -> None:
    page, tag = nodes(console, node="n-3")
    form = f"{tag}/nodes/reboot"

    page.toggle(f"{form}/drain").set_value(True).run()
    page.number_input(f"{form}/drain_timeout_minutes").set_value(0).run()
    page.button(f"{form}/plan").click().run()

    assert "greater than or equal to 1" in texts(page)
    assert page.number_input(f"{form}/drain_timeout_minutes").value == 0


def test_a_viewer_sees_nodes_and_does_nothing_to_them(console: Console) -> None:
    console.role = "viewer"
    page, tag = nodes(console, node="n-3")

    assert page.button(f"{tag}/nodes/reboot/plan").disabled
    page.segmented_control(f"{tag}/nodes/action").set_value("Delete").run()
    assert page.button(f"{tag}/nodes/delete/ask").disabled
