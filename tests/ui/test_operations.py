"""The history: filters are the gateway's own and stand in the address; pages follow its tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from contracts.operation import Phase
from tests.ui.conftest import Console
from ui.pages import operations


def links(page: AppTest) -> list[str]:
    """The operations that are listed, by the address that each leads to."""
    return [each.proto.query_string for each in page.get("page_link")]


def listed(page: AppTest, id: str) -> bool:
    return any(id.replace("/", "%2F") in link for link in links(page))


def test_a_row_leads_to_its_operation_and_says_who_asked_and_what_it_waits_for(console: Console) -> None:
    id = console.start("choose")
    console.operation(id, Phase.WAITING_FOR_DECISION)
    tag = id.partition("/")[2]
    console.until(lambda: console.get("/operations", cluster=tag, needs_attention=True)["operations"])

    page = console.page("operations", cluster=tag).run()

    assert not page.exception
    assert listed(page, id)
    said = [each.value for each in page.caption]
    assert "operator\\-1" in said
    assert any("Which capacity?" in each for each in said)


def test_filters_of_the_address_narrow_the_list_and_what_is_chosen_goes_into_the_address(console: Console) -> None:
    blocked, runs = console.start("block"), console.start("run")
    console.operation(blocked, Phase.BLOCKED)
    console.until(lambda: console.get("/operations", cluster=blocked.partition("/")[2], phase="blocked")["operations"])
    console.until(lambda: console.get("/operations", cluster=runs.partition("/")[2])["operations"])

    page = console.page("operations", phase="blocked", by="operator-1").run()
    assert listed(page, blocked)
    assert not listed(page, runs)

    page = console.page("operations").run()
    page.text_input(key="cluster").set_value(runs.partition("/")[2]).run()
    assert listed(page, runs)
    assert not listed(page, blocked)
    page.multiselect(key="operations/kind").set_value(["verify-cluster"]).run()
    assert page.query_params["kind"] == "verify-cluster"
    assert not links(page)
    assert "No operation is like that" in page.info[0].value


def test_only_what_waits_for_somebody_is_listed_where_that_is_asked(console: Console) -> None:
    waits, runs = console.start("ask"), console.start("run")
    console.until(
        lambda: console.get("/operations", cluster=waits.partition("/")[2], needs_attention=True)["operations"]
    )
    console.until(lambda: console.get("/operations", cluster=runs.partition("/")[2])["operations"])

    page = console.page("operations", waiting="true").run()

    assert listed(page, waits)
    assert not listed(page, runs)


def test_times_bound_the_list(console: Console) -> None:
    id = console.start("run")
    tag = id.partition("/")[2]
    console.until(lambda: console.get("/operations", cluster=tag)["operations"])

    soon = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()

    page = console.page("operations", cluster=tag, since="hour").run()
    assert listed(page, id)
    assert page.query_params["since"] == "hour"
    assert not listed(console.page("operations", cluster=tag, to="2020-01-01").run(), id)
    assert not listed(console.page("operations", cluster=tag, **{"from": soon}).run(), id)


def test_pages_follow_each_other_and_the_address_names_the_page(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_ON_A_PAGE", 1)
    started = [console.start("page") for _ in range(2)]
    console.until(
        lambda: [each["id"] for each in console.get("/operations", page_size=5, kind="create-cluster")["operations"]],
        lambda seen: set(started) <= set(seen),
    )

    page = console.page("operations", kind="create-cluster").run()
    first = links(page)
    page.button(key="operations/older").click().run()

    assert links(page) != first
    token = page.query_params["after"]
    assert links(console.page("operations", kind="create-cluster", after=token).run()) == links(page)
    page.button(key="operations/newer").click().run()
    assert links(page) == first
    assert "after" not in page.query_params


def test_a_page_of_another_list_is_left_for_the_first_page(console: Console) -> None:
    id = console.start("run")
    tag = id.partition("/")[2]
    console.until(lambda: console.get("/operations", cluster=tag)["operations"])

    page = console.page("operations", cluster=tag, after="AAAAAAAAAAAAAAAA").run()

    assert not page.error
    assert listed(page, id)
    assert "after" not in page.query_params


def test_where_the_gateway_does_not_answer_the_page_says_so(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    from ui.settings import settings

    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:9")
    settings.cache_clear()

    page = console.page("operations").run()

    assert not page.exception
    assert "cannot be reached" in page.error[0].value
