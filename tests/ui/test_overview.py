"""The overview: what waits for somebody comes first, a slow or silent cluster delays nothing."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from client.sync import Gateway, GatewayProblem
from contracts import endpoints
from contracts.answers import ClusterPage, ClusterUsage, OperationPage
from contracts.operation import Phase
from contracts.problem import ProblemCode, problem
from tests.ui.conftest import Console, texts
from ui import usage
from ui.pages import overview


def metric(page: AppTest, label: str) -> str:
    return str(next(each for each in page.metric if each.label == label).value)


def test_who_is_not_signed_in_is_led_to_signing_in(console: Console) -> None:
    console.role = "nobody"

    page = console.main().run()

    assert "You are not signed in" in texts(page)


def test_a_new_installation_says_what_to_do_first(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {endpoints.LIST_CLUSTERS: ClusterPage(), endpoints.LIST_OPERATIONS: OperationPage()}
    call = Gateway.call
    monkeypatch.setattr(
        Gateway,
        "call",
        lambda self, endpoint, *body, **rest: empty.get(endpoint) or call(self, endpoint, *body, **rest),
    )

    page = console.page("overview").run()

    assert not page.exception
    assert "Nothing is managed here yet" in texts(page)
    assert [each.label for each in page.get("page_link")] == ["Create a cluster", "Import a cluster"]


def test_what_waits_for_somebody_stands_there_with_its_question_and_leads_to_its_page(console: Console) -> None:
    asks, blocked = console.start("choose"), console.start("odd")
    agent = console.start("agent", role="agent")
    ids = {asks, blocked, agent}
    console.until(
        lambda: console.get("/operations", needs_attention=True, page_size=20)["operations"],
        lambda seen: ids <= {each["id"] for each in seen},
    )

    page = console.page("overview").run()

    assert not page.exception
    shown = texts(page)
    assert "Which capacity?" in shown
    assert r"\<b\>taken\</b\>" in shown
    assert int(metric(page, "Waits for somebody").rstrip("+")) >= 3
    led = {each.proto.query_string: each.label for each in page.get("page_link")}
    assert {led[f"id={id.replace('/', '%2F')}"] for id in ids} == {"Decide", "Resolve", "Look and approve"}


def test_what_goes_on_shows_how_far_it_is(console: Console) -> None:
    id = console.start("run")
    console.until(
        lambda: console.get("/operations", phase="running", page_size=20)["operations"],
        lambda seen: any(each["id"] == id and each["stages"] for each in seen),
    )

    page = console.page("overview").run()

    assert any("1 of 2 stages" in each.text for each in page.get("progress"))
    assert int(metric(page, "Goes on").rstrip("+")) >= 1


def test_a_cluster_shows_its_state_and_how_its_accelerators_are_used(console: Console) -> None:
    parts = {"eks_status": "ACTIVE", "hyperpod_status": "InService", "nodes": 5, "nodes_ready": 5, "accelerators": 40}
    tag = console.cluster("used", summary=parts)

    page = console.page("overview", search=tag).run()
    console.until(lambda: page.run(), lambda seen: "4 / 5" in texts(seen))

    cells = [each.value for each in page.markdown]
    assert cells[cells.index("4 / 5") :][:5] == ["4 / 5", "40", "24", "8", "16"]
    assert page.get("vega_lite_chart")


def test_a_cluster_that_does_not_answer_shows_what_is_known_and_why_the_rest_is_not(console: Console) -> None:
    tag = console.cluster("mute", summary={"nodes": 3, "nodes_ready": 2, "accelerators": 24})

    page = console.page("overview", search=tag).run()
    console.until(lambda: page.run(), lambda seen: any("does not answer" in (e.help or "") for e in seen.markdown))

    cells = [each.value for each in page.markdown]
    assert cells[cells.index("2 / 3") :][:5] == ["2 / 3", "24", "–", "–", "–"]


def test_a_slow_cluster_is_not_waited_for(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    tag = console.cluster("slow", summary={"nodes": 3, "nodes_ready": 2})
    read = usage._read

    def slow(asked: Gateway, tag: str) -> ClusterUsage:
        assert answers.wait(30)
        return read(asked, tag)

    monkeypatch.setattr(usage, "_read", slow)
    page = console.page("overview", search=tag).run()

    assert "2 / 3" in texts(page), "the page was drawn before the cluster has answered"
    assert texts(page).count("reading…") == 3
    answers.set()
    console.until(lambda: page.run(), lambda seen: "4 / 5" in texts(seen))


def test_many_clusters_are_searched_and_turned_over_page_by_page(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_ON_A_PAGE", 2)
    first = f"page{uuid.uuid4().hex[:6]}"
    tags = {console.cluster(first) for _ in range(3)}

    page = console.page("overview", search=first).run()
    shown = {tag for tag in tags if any(tag in each.proto.query_string for each in page.get("page_link"))}
    assert len(shown) == 2
    page.pagination[0].set_value(2).run()
    rest = {tag for tag in tags if any(tag in each.proto.query_string for each in page.get("page_link"))}
    assert shown | rest == tags

    page.text_input(key="search").set_value("no-such-cluster").run()
    assert "No cluster has" in page.info[-1].value


def test_where_the_gateway_refuses_the_page_says_why(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Gateway.call

    def refusing(self: Gateway, endpoint: Any, *body: Any, **rest: Any) -> Any:
        if endpoint is endpoints.LIST_OPERATIONS:
            raise GatewayProblem(problem(ProblemCode.UNAVAILABLE, "Temporal does not answer"))
        return call(self, endpoint, *body, **rest)

    monkeypatch.setattr(Gateway, "call", refusing)
    page = console.page("overview").run()

    assert not page.exception
    assert any("Temporal does not answer" in each.value for each in page.error)


def test_what_ended_before_it_was_done_is_named(console: Console) -> None:
    id = console.start("crash")
    console.operation(id, Phase.FAILED)
    console.until(lambda: console.get("/operations", phase=["failed"], cluster=id.partition("/")[2])["operations"])

    page = console.page("overview").run()

    assert any(id.replace("/", "%2F") in each.proto.query_string for each in page.get("page_link"))
