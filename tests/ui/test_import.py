"""Importing a cluster: what is sent for what was entered."""

from __future__ import annotations

import pytest

from tests.ui.conftest import Console, texts
from tests.ui.sent import recorded


def test_what_was_entered_is_planned_and_then_started(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = recorded(monkeypatch)
    page = console.page("import_cluster").run()
    page.text_input("import/tag").set_value("taken-over")
    page.text_input("import/eks_cluster").set_value("theirs")
    page.toggle("import/grant_access").set_value(True)

    page.button("import/plan").click().run()
    page.button("import/start").click().run()

    assert not page.exception
    planned, started = sent
    assert planned.path == started.path == "/clusters/import"
    assert planned.body == started.body == {"tag": "taken-over", "eks_cluster": "theirs", "grant_access": True}
    assert planned.planned
    assert not started.planned
    assert page.query_params["id"] == "import-cluster/taken-over"


def test_a_refused_input_shows_its_fault_and_is_kept(console: Console) -> None:
    plane = {"name": "held", "arn": "arn:held", "status": "ACTIVE", "kubernetes_version": "1.34"}
    console.cluster("holder", control_plane=plane)
    page = console.page("import_cluster").run()
    page.text_input("import/tag").set_value("another")
    page.text_input("import/eks_cluster").set_value("held")

    page.button("import/plan").click().run()

    assert any("is managed already" in each.value for each in page.markdown)
    assert page.text_input("import/tag").value == "another"
    assert page.text_input("import/eks_cluster").value == "held"


def test_without_a_tag_the_gateway_says_what_is_missing(console: Console) -> None:
    page = console.page("import_cluster").run()

    page.button("import/plan").click().run()

    assert any("tag" in each.value for each in page.markdown if each.value.startswith(":red["))


def test_a_viewer_imports_nothing(console: Console) -> None:
    console.role = "viewer"

    page = console.page("import_cluster").run()

    assert page.button("import/plan").disabled
    assert "Your token only reads" in texts(page)
