"""Experiments: the history of runs, comparisons, tracking servers, connections and copies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.experiment_runs import ComparedMetric, MetricHistory, MetricPoint, RunView
from tests.api.fake_experiments import ARN, RUNS
from tests.ui.conftest import PATIENCE, Console, texts
from tests.ui.sent import Sent, recorded
from tests.ui.serving_page import PLANE, acted, cells, deleted, started

OTHER = "arn:aws:sagemaker:us-west-2:444455556666:mlflow-tracking-server/shared"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    return recorded(monkeypatch)


def history(console: Console, tab: str = "Runs", **query: str) -> tuple[AppTest, str]:
    tag = console.cluster(control_plane=PLANE)
    page = console.page("history", cluster=tag, tab=tab, **query).run()
    assert not page.exception
    return page, tag


def test_runs_are_shown_page_by_page_with_their_metrics(console: Console) -> None:
    page, _ = history(console)

    assert page.query_params["server"] == "research"
    for expected in ("=run-0", "=run-2", "finished", "loss"):
        assert expected in cells(page)
    page.button("history/next").click().run()
    assert not page.exception
    assert "=run-3" in cells(page)
    assert "=run-0" not in cells(page)


def test_a_link_downloads_what_is_shown_with_its_filters(console: Console) -> None:
    page, tag = history(console, filter="metrics.loss < 3")
    (link,) = [each.value for each in page.markdown if "runs.csv" in each.value]
    assert f"/experiments/runs.csv?tag={tag}&amp;tracking_server=research&amp;filter=metrics.loss+%3C+3" in link


def test_a_filter_that_cannot_be_read_is_said_to_be(console: Console) -> None:
    page, _ = history(console, filter="nonsense")
    assert "Invalid clause" in page.error[0].value


def test_the_run_that_the_address_names_is_shown_closely(console: Console) -> None:
    page, _ = history(console, run=RUNS[4])
    assert "=run-4".replace("-", "\\-") in texts(page)
    assert "It has reported no metric." in texts(page)


def test_runs_that_the_address_names_are_compared(console: Console) -> None:
    page, _ = history(console, "Compare", runs=",".join(RUNS[:3]))
    assert "no metric in common" in texts(page)
    assert "Their parameters are the same." in texts(page)


def test_metrics_are_drawn_over_steps_and_runs_of_one_name_are_told_apart() -> None:
    def draw(documents: str) -> None:
        import json

        from contracts.experiment_runs import ComparedMetric, MetricHistory, RunView
        from ui.experiment_charts import comparison_shown, histories_shown

        given: Any = json.loads(documents)
        histories_shown([MetricHistory.model_validate(each) for each in given["histories"]])
        runs = [RunView.model_validate(each) for each in given["runs"]]
        comparison_shown([ComparedMetric.model_validate(each) for each in given["metrics"]], runs)

    points = [MetricPoint(step=step, value=1.0 / (step + 1), at="2026-11-01T00:00:00Z") for step in range(3)]
    odd = MetricPoint(step=3, value="NaN", at="2026-11-01T00:00:00Z")
    given = {
        "histories": [MetricHistory(metric="loss", points=[*points, odd], recorded=900)],
        "runs": [RunView(run_id=each, experiment_id="1", status="FINISHED", name="same") for each in RUNS[:2]],
        "metrics": [ComparedMetric(metric="loss", steps=[0, 1], values={RUNS[0]: [1.0, 0.5], RUNS[1]: [None, "NaN"]})],
    }
    documents = json.dumps({name: [each.model_dump(mode="json") for each in of] for name, of in given.items()})
    page = AppTest.from_function(draw, kwargs={"documents": documents}, default_timeout=PATIENCE).run()
    assert not page.exception
    charts = [json.loads(each.proto.spec) for each in page.get("vega_lite_chart")]
    assert [chart["title"] for chart in charts] == ["loss", "loss"]
    assert charts[1]["encoding"]["color"]["scale"]["domain"] == [f"same ({each[:6]})" for each in RUNS[:2]]
    assert "4 of 900 points" in texts(page)


def test_tracking_servers_are_shown_with_who_reports_to_them_made_and_deleted(
    console: Console, sent: list[Sent]
) -> None:
    page, tag = history(console, "Tracking servers")
    for expected in ("research", "ready", "tracking server", "experiments", "arn:role"):
        assert expected in cells(page)
    assert page.code[0].value == ARN
    form = f"{tag}/create-tracking-server"
    page.text_input(f"{form}/name").set_value("larger")
    page.selectbox(f"{form}/size").set_value("Large")
    asked = started(page, form, sent)
    assert (asked.path, asked.body) == (f"/clusters/{tag}/tracking-servers", {"name": "larger", "size": "Large"})

    page = console.page("history", cluster=tag, tab="Tracking servers").run()
    acted(page, "server", "Delete")
    asked = deleted(page, f"{tag}/research/delete-tracking-server", "research", sent)
    assert (asked.method, asked.path) == ("DELETE", f"/clusters/{tag}/tracking-servers/research")


def test_the_way_to_a_server_is_tested_step_by_step_by_who_may_only_read(console: Console) -> None:
    console.role = "viewer"
    page, tag = history(console, "Connections")
    form = f"{tag}/test-experiments"
    assert page.button(f"{form}/sent").disabled
    page.selectbox(f"{form}/tracking_server").set_value("research").run()
    page.button(f"{form}/sent").click().run()
    assert "**The server is there**" in texts(page)
    assert "can be reached" in texts(page)
    assert page.button(f"{tag}/connect-experiments/plan").disabled


def test_pods_are_let_report_and_no_more(console: Console, sent: list[Sent]) -> None:
    page, tag = history(console, "Connections")
    form = f"{tag}/connect-experiments"
    page.selectbox(f"{form}/tracking_server").set_value("research")
    page.text_input(f"{form}/namespace").set_value("team")
    asked = started(page, form, sent)
    assert asked.path == f"/clusters/{tag}/experiments/connections"
    assert asked.body == {"tracking_server": "research", "namespace": "team"}

    page = console.page("history", cluster=tag, tab="Connections").run()
    form = f"{tag}/disconnect-experiments"
    page.text_input(f"{form}/namespace").set_value("team").run()
    asked = deleted(page, form, "team", sent)
    assert (asked.method, asked.path) == ("DELETE", f"/clusters/{tag}/experiments/connections/team")


def test_an_experiment_is_copied_elsewhere(console: Console, sent: list[Sent]) -> None:
    page, tag = history(console, "Copy")
    form = f"{tag}/sync-experiments"
    page.selectbox(f"{form}/source").set_value("research")
    page.text_input(f"{form}/experiment").set_value("qwen")
    page.text_input(f"{form}/destination").set_value(OTHER)
    asked = started(page, form, sent)
    assert asked.path == f"/clusters/{tag}/experiments/sync"
    assert asked.body == {"source": "research", "experiment": "qwen", "destination": OTHER}
