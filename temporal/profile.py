"""Where Temporal is and who we are there: its standard client profiles.

A profile comes from a file (``TEMPORAL_CONFIG_FILE``, by default ``~/.config/temporalio/temporal.toml``; which of its
profiles: ``TEMPORAL_PROFILE``) and from variables (``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, ``TEMPORAL_TLS_…``),
as Temporal's own command line reads it. Source: https://docs.temporal.io/develop/environment-configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig

from temporal.faults import ConnectionFaultError

DEFAULT_ADDRESS = "localhost:7233"
"""Where Temporal is if nothing says, as for its own command line."""
API_KEY_FILE = "TEMPORAL_API_KEY_FILE"
"""Names a file with the API key alone: how a mounted secret is given. Temporal's own profiles take the key itself."""


def connect_config(environment: Mapping[str, str] | None = None) -> ClientConnectConfig:
    """What ``Client.connect`` is called with: address, namespace, TLS, API key, metadata.

    ``environment`` stands for the process's. Raises ConnectionFaultError where the profile cannot be read, names a file
    that cannot, or gives one half of a client certificate.
    """
    environment = os.environ if environment is None else environment
    try:
        profile = ClientConfigProfile.load(override_env_vars=dict(environment), config_file_strict=True)
        profile = _with_api_key(profile, environment)
        config = profile.to_client_connect_config()
    except OSError as error:
        raise ConnectionFaultError(
            f"{error.filename} cannot be read: {error.strerror}",
            "Correct the path in the profile or in TEMPORAL_TLS_…, or let this process read the file.",
        ) from error
    except RuntimeError as error:
        raise ConnectionFaultError(
            f"Temporal's profile cannot be used: {error}",
            "Correct the file that TEMPORAL_CONFIG_FILE names (deploy/temporal has examples), or TEMPORAL_PROFILE.",
        ) from error
    tls = profile.tls
    if tls is not None and not tls.disabled and bool(tls.client_cert) != bool(tls.client_private_key):
        raise ConnectionFaultError(
            "a client certificate needs its key, and a key its certificate",
            "Give both client_cert_path and client_key_path (TEMPORAL_TLS_CLIENT_CERT_PATH, …_KEY_PATH), or neither.",
        )
    config.setdefault("target_host", DEFAULT_ADDRESS)
    return config


def _with_api_key(profile: ClientConfigProfile, environment: Mapping[str, str]) -> ClientConfigProfile:
    named = environment.get(API_KEY_FILE)
    if not named:
        return profile
    key = Path(named).read_text().strip()
    if not key or any(character.isspace() for character in key):
        raise ConnectionFaultError(
            f"{named} holds no API key", f"The file that {API_KEY_FILE} names has the key alone, in one line."
        )
    return replace(profile, api_key=key)
