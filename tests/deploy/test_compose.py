"""docker-compose.yml holds what the code knows, and shuts in what it runs."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest
import yaml

from activities.settings import Settings as ActivitySettings
from api.__main__ import GRACE_SECONDS
from api.settings import Settings as GatewaySettings
from mcp_server.settings import Settings as McpSettings
from sandbox import credentials
from server.faces import Settings as FaceSettings
from telemetry.settings import TelemetrySettings
from temporal.settings import ConnectionSettings
from tests.deploy.composed import OURS, ROOT, USER, composed, elsewhere, refused
from worker.platform import SHUTDOWN_PATIENCE
from worker.settings import WorkerSettings

EVERY = sorted(composed()["services"])
ONE_SHOT = ("setup", "schema")
PREFIX = "INSTANTSTART_"
SETTINGS = {
    "gateway": (GatewaySettings, FaceSettings, McpSettings, TelemetrySettings, ConnectionSettings),
    "worker": (WorkerSettings, ActivitySettings, TelemetrySettings, ConnectionSettings),
    "setup": (ConnectionSettings,),
}
"""What each role reads of its environment."""
FOREIGN = {
    "AWS_ACCESS_KEY_ID",
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_REGION",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SHARED_CREDENTIALS_FILE",
    "TEMPORAL_ADDRESS",
    "TEMPORAL_NAMESPACE",
}
"""Variables of botocore and of Temporal's profiles."""


def service(name: str, cloud: str = "aws") -> dict[str, Any]:
    found: dict[str, Any] = composed(cloud)["services"][name]
    return found


@pytest.mark.parametrize("name", EVERY)
def test_a_container_has_no_rights_that_it_does_not_need(name: str) -> None:
    each = service(name)
    assert each["read_only"] is True
    assert each["cap_drop"] == ["ALL"]
    assert "cap_add" not in each
    assert not each.get("privileged")
    assert each["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", each["user"]), "never root"
    assert not any(volume.get("source") == "/var/run/docker.sock" for volume in each.get("volumes", ()))


@pytest.mark.parametrize("name", EVERY)
def test_a_container_has_limits_and_ends_what_it_logs(name: str) -> None:
    each = service(name)
    assert int(each["mem_limit"]) > 0
    assert each["cpus"] > 0
    assert each["pids_limit"] > 0
    assert set(each["logging"]["options"]) == {"max-size", "max-file"}
    assert each["restart"] == ("on-failure:5" if name in ONE_SHOT else "unless-stopped")


@pytest.mark.parametrize("name", EVERY)
def test_whatever_stays_up_is_asked_whether_it_works(name: str) -> None:
    check = service(name)["healthcheck"]
    assert check.get("disable", False) is (name in ONE_SHOT)
    if name not in ONE_SHOT:
        assert check["test"][0] == "CMD", "without a shell"


def test_only_this_machine_reaches_what_is_published() -> None:
    published = {
        (name, port["host_ip"], port["published"]) for name in EVERY for port in service(name).get("ports", ())
    }
    assert published == {
        ("gateway", "127.0.0.1", "3099"),
        ("temporal-ui", "127.0.0.1", "8233"),
        ("prometheus", "127.0.0.1", "9090"),
        ("grafana", "127.0.0.1", "3000"),
    }


def test_nobody_but_temporal_reaches_the_database() -> None:
    assert {name for name in EVERY if "database" in service(name)["networks"]} == {"postgresql", "schema", "temporal"}
    assert set(service("postgresql")["networks"]) == {"database"}
    assert composed()["networks"]["database"]["internal"] is True
    assert composed()["networks"]["control"]["internal"] is True


def test_the_gateway_gets_no_credentials_of_aws() -> None:
    for cloud in ("aws", "sandbox"):
        assert not [name for name in service("gateway", cloud)["environment"] if name.startswith("AWS_")]
        assert "cloud" not in service("gateway", cloud)["networks"]


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"gateway", "worker", "setup", "sandbox"}))
def test_images_of_others_have_a_version_of_their_own(name: str) -> None:
    assert re.fullmatch(r"[a-z]+(/[a-z-]+)?:v?\d+\.\d+(\.\d+)?(@sha256:[0-9a-f]{64})?", service(name)["image"])


def test_the_parts_of_temporal_have_one_version() -> None:
    versions = {service(name)["image"].partition(":")[2].partition("@")[0] for name in ("temporal", "schema")}
    assert len(versions) == 1


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("cloud", ["aws", "sandbox"])
def test_every_variable_of_ours_is_a_setting_that_takes_its_value(
    name: str, cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = service(name, cloud)["environment"]
    known = {f"{PREFIX}{field.upper()}" for each in SETTINGS[name] for field in each.model_fields}
    assert set(environment) <= known | FOREIGN
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("INSTANTSTART_MCP_STATE_KEY_FILE", raising=False)
    for each in SETTINGS[name]:
        each()


def test_gateway_and_workers_serve_the_same_regions_with_the_same_keys() -> None:
    gateway, worker = service("gateway")["environment"], service("worker")["environment"]
    shared = [name for name in gateway if name in worker and name != "INSTANTSTART_METRICS_ADDRESS"]
    assert {"INSTANTSTART_REGIONS", "INSTANTSTART_SEAL_KEY_FILE", "INSTANTSTART_CODEC_KEY_FILE"} <= set(shared)
    assert {name: gateway[name] for name in shared} == {name: worker[name] for name in shared}


def test_the_simulated_cloud_is_used_with_its_own_key_alone() -> None:
    environment = service("worker", "sandbox")["environment"]
    assert environment["AWS_ACCESS_KEY_ID"] == credentials.ACCESS_KEY_ID
    assert environment["AWS_SECRET_ACCESS_KEY"] == credentials.SECRET_ACCESS_KEY
    assert environment["AWS_ENDPOINT_URL"] == "http://sandbox:5566"
    assert "AWS_ACCESS_KEY_ID" not in service("worker", "aws")["environment"]


def test_a_cloud_that_is_misspelt_is_none() -> None:
    assert "sandbx.env" in refused("sandbx", USER)


def test_without_prepared_secrets_it_says_what_to_run() -> None:
    assert "deploy/compose/prepare.py" in refused("aws", None)


@pytest.mark.parametrize("name", OURS)
def test_every_command_of_ours_is_a_program_that_there_is(name: str) -> None:
    command = service(name)["command"]
    assert command[:2] == ["python", "-m"]
    assert importlib.util.find_spec(command[2]) is not None
    if name != "setup":
        test = service(name)["healthcheck"]["test"]
        assert test[:3] == ["CMD", "python", "answers.py"]


def test_the_simulated_cloud_really_runs_every_recipe() -> None:
    command = service("sandbox")["command"]
    programs = {command[at + 1] for at, word in enumerate(command) if word == "--program"}
    assert programs == {str(path.relative_to(ROOT)) for path in (ROOT / "recipes").rglob("*.py")}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("cloud", ["aws", "sandbox"])
def test_every_file_that_is_mounted_is_there(name: str, cloud: str) -> None:
    for volume in service(name, cloud).get("volumes", ()):
        if volume["type"] == "bind":
            assert (ROOT / volume["source"]).exists()
            assert volume["read_only"] is True
        else:
            assert volume["source"] in composed()["volumes"]


def test_every_secret_that_is_mounted_is_one_that_is_made() -> None:
    from deploy.compose.prepare import MAKERS

    mounted = {secret["source"] for name in EVERY for secret in service(name).get("secrets", ())}
    assert mounted == set(composed()["secrets"]) == set(MAKERS)


def test_no_password_stands_in_the_file() -> None:
    for name in EVERY:
        for variable, value in service(name).get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY", variable):
                assert str(value).startswith("/run/secrets/"), variable


def test_a_container_is_given_longer_to_stop_than_its_program_takes() -> None:
    def seconds(text: str) -> float:
        found = re.fullmatch(r"(?:(\d+)m)?(\d+)s", text)
        assert found is not None
        return int(found[1] or 0) * 60 + int(found[2])

    assert seconds(service("worker")["stop_grace_period"]) >= 2 * SHUTDOWN_PATIENCE.total_seconds()
    assert seconds(service("gateway")["stop_grace_period"]) >= 2 * GRACE_SECONDS


def test_temporal_is_given_what_it_can_never_be_given_again() -> None:
    assert 128 <= int(service("temporal")["environment"]["NUM_HISTORY_SHARDS"]) <= 512


def test_the_web_ui_is_where_the_gateway_says_it_is() -> None:
    ui = yaml.safe_load((ROOT / "deploy/compose/temporal/ui.yaml").read_text())
    (origin,) = ui["cors"]["allowOrigins"]
    assert origin == service("gateway")["environment"]["INSTANTSTART_TEMPORAL_UI_URL"]
    assert ui["codec"]["endpoint"] == "http://127.0.0.1:3099/codec"
    assert ui["temporalGrpcAddress"] == service("worker")["environment"]["TEMPORAL_ADDRESS"]
    assert ui["defaultNamespace"] == service("worker")["environment"]["TEMPORAL_NAMESPACE"]
    assert ui["port"] == service("temporal-ui")["ports"][0]["target"]


def test_prometheus_scrapes_every_process_where_it_serves_metrics() -> None:
    scraped = yaml.safe_load((ROOT / "deploy/compose/prometheus/prometheus.yml").read_text())
    found = {
        (name, each["port"])
        for job in scraped["scrape_configs"]
        for each in job.get("dns_sd_configs", ())
        for name in each["names"]
    }
    assert {name for name, _ in found} == {"gateway", "worker"}
    for name, port in found:
        assert service(name)["environment"]["INSTANTSTART_METRICS_ADDRESS"] == f"0.0.0.0:{port}"
        assert "metrics" in service(name)["networks"]
    jobs = {job["job_name"] for job in scraped["scrape_configs"]}
    own = yaml.safe_load((ROOT / "deploy/observability/prometheus.yml").read_text())
    assert {job["job_name"] for job in own["scrape_configs"]} <= jobs, "alerts and dashboard ask for these"
    assert (ROOT / "deploy/observability" / scraped["rule_files"][0]).exists()


def test_nothing_reaches_beyond_the_machine_but_what_must() -> None:
    outward = {"edge", "cloud"}
    assert {name for name in composed()["networks"] if not composed()["networks"][name].get("internal")} == outward
    reaching = {name for name in EVERY if outward & set(service(name)["networks"])}
    assert reaching == {"gateway", "worker", "temporal-ui", "sandbox", "prometheus", "grafana"}


def test_temporals_command_line_reaches_the_namespace_that_is_used() -> None:
    schema, worker = service("schema"), service("worker")["environment"]
    assert "control" in schema["networks"]
    assert schema["environment"] == {name: worker[name] for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE")}


def test_the_web_ui_which_knows_no_roles_changes_nothing() -> None:
    ui = yaml.safe_load((ROOT / "deploy/compose/temporal/ui.yaml").read_text())
    assert ui["disableWriteActions"] is True


def test_with_a_temporal_elsewhere_nothing_of_it_runs_or_is_waited_for_here() -> None:
    services = elsewhere()["services"]
    assert set(services) == {"gateway", "worker", "sandbox", "prometheus", "grafana"}
    for name in ("gateway", "worker"):
        environment = services[name]["environment"]
        assert environment["TEMPORAL_ADDRESS"] == "temporal.example:7233"
        assert environment["TEMPORAL_NAMESPACE"] == "a.b"
        key = next(each for each in services[name]["secrets"] if each["source"] == "temporal_api_key")
        assert environment["TEMPORAL_API_KEY_FILE"] == key["target"]
        assert not set(services[name].get("depends_on") or ()) - {"sandbox"}
        # An internal network leads nowhere: Temporal must be reached by another.
        assert any(not elsewhere()["networks"][each].get("internal") for each in services[name]["networks"])
