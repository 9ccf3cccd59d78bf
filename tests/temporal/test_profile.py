"""Profiles: each example leads where it says, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.service import TLSConfig

from temporal.faults import ConnectionFaultError
from temporal.profile import connect_config

PROFILES = Path(__file__).parents[2] / "deploy" / "temporal"


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """Files as a secret has them when it is mounted."""
    for name in ("ca.crt", "tls.crt", "tls.key", "api-key"):
        (tmp_path / name).write_text(f"{name} of the test\n")
    return tmp_path


def _example(name: str, mounted: Path) -> dict[str, str]:
    """The environment of a process that uses an example, its files where the test has them."""
    file = mounted / name
    file.write_text((PROFILES / name).read_text().replace("/etc/instantstart/temporal", str(mounted)))
    return {"TEMPORAL_CONFIG_FILE": str(file)}


def test_every_example_is_tried_here() -> None:
    assert {file.name for file in PROFILES.glob("*.toml")} == {
        "dev-server.toml",
        "self-hosted-mtls.toml",
        "cloud-api-key.toml",
        "cloud-mtls.toml",
    }


def test_the_dev_server_is_reached_without_tls(mounted: Path) -> None:
    config = connect_config(_example("dev-server.toml", mounted))
    assert (config["target_host"], config["namespace"]) == ("localhost:7233", "default")
    assert "tls" not in config


def test_without_any_profile_it_is_the_dev_server(tmp_path: Path) -> None:
    config = connect_config({"TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml"), "HOME": str(tmp_path)})
    assert config == {"target_host": "localhost:7233"}


def test_a_service_of_ones_own_sees_a_certificate_and_shows_one(mounted: Path) -> None:
    config = connect_config(_example("self-hosted-mtls.toml", mounted))
    tls = config["tls"]
    assert isinstance(tls, TLSConfig)
    assert (tls.server_root_ca_cert, tls.domain) == (b"ca.crt of the test\n", "temporal-frontend")
    assert (tls.client_cert, tls.client_private_key) == (b"tls.crt of the test\n", b"tls.key of the test\n")


def test_the_cloud_takes_a_key_from_a_file_over_tls(mounted: Path) -> None:
    environment = _example("cloud-api-key.toml", mounted) | {"TEMPORAL_API_KEY_FILE": str(mounted / "api-key")}
    (mounted / "api-key").write_text("eyJhbGciOi.secret\n")
    config = connect_config(environment)
    assert config["api_key"] == "eyJhbGciOi.secret"
    assert config["namespace"] == "instantstart.a1b2c"
    assert config["tls"] is True


def test_the_cloud_takes_a_certificate(mounted: Path) -> None:
    config = connect_config(_example("cloud-mtls.toml", mounted))
    tls = config["tls"]
    assert isinstance(tls, TLSConfig)
    assert tls.server_root_ca_cert is None, "the system's authorities"
    assert tls.client_cert == b"tls.crt of the test\n"


def test_variables_count_more_than_the_file(mounted: Path) -> None:
    environment = _example("self-hosted-mtls.toml", mounted) | {"TEMPORAL_NAMESPACE": "other"}
    assert connect_config(environment)["namespace"] == "other"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"TEMPORAL_TLS_CLIENT_CERT_PATH": "/nowhere/tls.crt"}, r"/nowhere/tls\.crt"),
        ({"TEMPORAL_PROFILE": "production"}, "production"),
        ({"TEMPORAL_API_KEY_FILE": "/nowhere/key"}, "/nowhere/key"),
    ],
)
def test_what_is_not_there_is_named(mounted: Path, change: dict[str, str], names: str) -> None:
    with pytest.raises(ConnectionFaultError, match=names):
        connect_config(_example("self-hosted-mtls.toml", mounted) | change)


def test_a_member_that_no_profile_has_is_named(tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.default]\nadress = "temporal:7233"\n')
    with pytest.raises(ConnectionFaultError, match="adress"):
        connect_config({"TEMPORAL_CONFIG_FILE": str(file)})


def test_a_certificate_without_its_key_is_refused(mounted: Path) -> None:
    environment = {
        "TEMPORAL_CONFIG_FILE": str(mounted / "none.toml"),
        "TEMPORAL_TLS_CLIENT_CERT_PATH": str(mounted / "tls.crt"),
    }
    with pytest.raises(ConnectionFaultError, match="needs its key"):
        connect_config(environment)


@pytest.mark.parametrize("text", ["", "  \n", "two words"])
def test_a_file_without_an_api_key_is_refused_and_not_repeated(mounted: Path, text: str) -> None:
    (mounted / "api-key").write_text(text)
    environment = _example("cloud-api-key.toml", mounted) | {"TEMPORAL_API_KEY_FILE": str(mounted / "api-key")}
    with pytest.raises(ConnectionFaultError, match="holds no API key") as refused:
        connect_config(environment)
    assert "words" not in str(refused.value)
