"""The Serving page of a cluster, and what people do on it."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.ui.conftest import Console
from tests.ui.sent import Sent

PLANE = {"name": "eks", "arn": "arn:aws:eks:us-west-2:1:cluster/eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
COMMAND = "vllm serve Qwen/Qwen3-0.6B --port 8000"


def serving(console: Console, tab: str = "Deployments", **query: str) -> tuple[AppTest, str]:
    """The page of a cluster at a tab, and the cluster's tag."""
    tag = console.cluster(control_plane=PLANE)
    page = console.page("serving", cluster=tag, tab=tab, **query).run()
    assert not page.exception
    return page, tag


def cells(page: AppTest) -> str:
    """Everything in tables."""
    return "\n".join(each.value.to_string() for each in page.dataframe)


def started(page: AppTest, form: str, sent: list[Sent]) -> Sent:
    """Show the plan and start it: the start, once the plan was asked for just the same."""
    page.button(f"{form}/plan").click().run()
    page.button(f"{form}/start").click().run()
    assert not page.exception
    planned, asked = [each for each in sent if not each.path.endswith("/parse")]
    assert planned.planned
    assert not asked.planned
    assert asked.query["plan"]
    assert planned.body == asked.body
    return asked


def deleted(page: AppTest, form: str, name: str, sent: list[Sent]) -> Sent:
    """Ask for the end of something, type its name, and be sure."""
    page.button(f"{form}/ask").click().run()
    assert page.button(f"{form}/confirmed").disabled
    page.text_input(f"{form}/typed").set_value(name).run()
    page.button(f"{form}/confirmed").click().run()
    assert not page.exception
    assert sent[-1].query["plan"]
    return sent[-1]


def acted(page: AppTest, what: str, action: str) -> AppTest:
    page.segmented_control(f"{what}/action").set_value(action).run()
    assert not page.exception
    return page
