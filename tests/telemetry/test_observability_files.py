"""What Prometheus and Grafana are given. Whether a process shows what it asks for: ``test_live.py``."""

from __future__ import annotations

from cli.stack.folder import ROOT
from contracts import measures
from tests.telemetry.queries import FOLDER, panels, queries, read, rules


def test_every_metric_of_ours_has_a_place_on_the_dashboard_or_in_an_alert() -> None:
    named = " ".join(queries().values())
    assert [measure.name for measure in measures.ALL if measure.name not in named] == ["instantstart_operations_unseen"]


def test_alerts_say_how_grave_they_are_and_what_to_do() -> None:
    for group in read(FOLDER / "alerts.yml")["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning")
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"].endswith(".")


def test_prometheus_is_given_the_rules_and_both_kinds_of_processes() -> None:
    given = read(FOLDER / "prometheus.yml")
    assert [(FOLDER / name).exists() for name in given["rule_files"]] == [True]
    assert [job["job_name"] for job in given["scrape_configs"]] == ["instantstart-worker", "instantstart-gateway"]


def test_the_dashboard_fits_the_source_that_it_is_provisioned_with() -> None:
    (source,) = read(FOLDER / "grafana" / "provisioning" / "datasources" / "prometheus.yml")["datasources"]
    used = {target["datasource"]["uid"] for panel in panels() for target in panel.get("targets", [])}
    assert used == {source["uid"]}
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_documentation_names_every_metric_setting_and_alert() -> None:
    text = (ROOT / "docs" / "observability.md").read_text()
    for measure in measures.ALL:
        name = measure.shown.removesuffix("_bucket")  # type: ignore[attr-defined]
        labels = ", ".join(f"`{label}`" for label in measure.labels)
        row = f"| `{name}` | {labels} | {measure.where} |" if labels else f"| `{name}` | | {measure.where} |"
        assert row in text
    for alert in rules():
        assert f"`{alert}`" in text, alert
    for variable in ("METRICS_ADDRESS", "METRICS_OPEN", "LOG_FORMAT", "LOG_LEVEL"):
        assert f"`INSTANTSTART_{variable}" in text
