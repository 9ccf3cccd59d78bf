"""Access: who I am, whether operations can run, and for administrators tokens and the audit trail."""

from __future__ import annotations

import uuid

import httpx
import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import Console, texts


@pytest.fixture
def admin(console: Console) -> Console:
    console.role = "admin"
    return console


def token_names(console: Console) -> list[str]:
    with console.http("admin") as http:
        return [each["name"] for each in http.get("/tokens").json()["tokens"]]


def make(page: AppTest, name: str, role: str | None) -> AppTest:
    page.text_input(key="access/token/name").set_value(name)
    if role is not None:
        page.selectbox(key="access/token/role").set_value(role)
    return page.button(key="access/make").click().run()


def test_who_is_no_administrator_sees_itself_and_no_tokens(console: Console) -> None:
    page = console.page("access").run()
    assert not page.exception
    assert "**operator\\-1**, with the role **operator**" in texts(page)
    assert "/signout" in texts(page)
    assert "are for administrators" in texts(page)
    assert not [each for each in page.button if each.key and each.key.startswith("access/")]


def test_it_says_which_queues_no_worker_asks(console: Console) -> None:
    with httpx.Client(base_url=console.gateway.url) as http:
        readiness = http.get("/ready").json()
    page = console.page("access").run()
    assert readiness["missing"]
    assert [f"`{queue}`" in texts(page) for queue in readiness["missing"]] == [True] * len(readiness["missing"])


def test_a_new_token_is_shown_once_and_works(admin: Console) -> None:
    name = f"alice-{uuid.uuid4().hex[:8]}"
    page = make(admin.page("access").run(), name, "viewer")
    assert not page.exception
    (token,) = [each.value for each in page.code]
    with httpx.Client(base_url=admin.gateway.url, headers={"Authorization": f"Bearer {token}"}) as http:
        caller = http.get("/api/v1/me").json()
    assert (caller["name"], caller["role"]) == (name, "viewer")
    page.button(key="access/copied").click().run()
    assert not page.code
    assert token not in texts(page)
    assert token not in [str(each.value) for each in admin.page("access").run().code]


def test_a_revoked_token_is_worthless_and_gone(admin: Console) -> None:
    name = f"bob-{uuid.uuid4().hex[:8]}"
    page = make(admin.page("access").run(), name, "agent")
    page.button(key=f"access/revoke/{name}").click().run()
    assert name not in token_names(admin)
    assert f"access/revoke/{name}" not in [each.key for each in page.button]


def test_what_the_gateway_refuses_stands_at_its_field_and_nothing_is_made(admin: Console) -> None:
    before = token_names(admin)
    page = make(admin.page("access").run(), "a b", "viewer")
    assert "Write it like alice" in texts(page)
    page = make(page, "operator-1", "viewer")
    assert "has a token already" in texts(page).replace("\\", "")
    page = make(admin.page("access").run(), "carol", None)
    assert "Send role" in texts(page)
    assert token_names(admin) == before
    assert not page.code


def test_the_last_administrator_cannot_be_revoked_and_is_told_why(admin: Console) -> None:
    page = admin.page("access").run()
    page.button(key="access/revoke/admin-1").click().run()
    assert "last administrator" in texts(page)
    assert "admin-1" in token_names(admin)


def test_the_trail_says_who_did_what_and_is_narrowed_by_a_word(admin: Console) -> None:
    operation = admin.start("run")
    page = admin.page("access").run()
    page.text_input(key="audit/with").set_value(operation).run()
    (table,) = [each.value for each in page.dataframe]
    assert list(table["Who"]) == ["operator-1"]
    assert list(table["Did"]) == ["POST /api/v1/clusters"]
    page.text_input(key="audit/with").set_value("nothing is like this").run()
    assert "No entry of this page is like that" in page.info[0].value


def test_older_entries_are_a_page_further(admin: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.audit_trail._ON_A_PAGE", 1)
    older = admin.start("run")
    newer = admin.start("run")
    page = admin.page("access").run()
    assert newer in page.dataframe[0].value["Operation"][0].replace("%2F", "/")
    page.button(key="audit/older").click().run()
    assert older in page.dataframe[0].value["Operation"][0].replace("%2F", "/")
    page.button(key="audit/newer").click().run()
    assert newer in page.dataframe[0].value["Operation"][0].replace("%2F", "/")
