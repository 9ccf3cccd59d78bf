"""The environment of the stack's processes: the sandbox for AWS, and nothing of the caller's own accounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cli.stack.folder import ROOT
from cli.stack.ports import HOST
from cli.stack.settings import StackSettings
from cli.stack.supervisor import StackError

NOTHING = os.devnull
LEAKY = ("AWS_", "TEMPORAL_", "HELM_", "KUBE", "INSTANTSTART_TOKEN", "INSTANTSTART_URL", "INSTANTSTART_CODEC_")
"""Prefixes of variables that lead to other accounts, servers and clusters, or hold secrets of other gateways."""

METRICS_ADDRESS = "INSTANTSTART_METRICS_ADDRESS"
REGIONS = ("us-west-2", "us-east-1", "us-east-2", "eu-west-1")
POLL_SECONDS = 0.5
SHORTFALL_PATIENCE = 600.0
"""Sandbox seconds that a shortage of capacity lasts before it blocks an operation."""

_READ_CREDENTIALS = (
    "import json; from sandbox import credentials as c; print(json.dumps([c.ACCESS_KEY_ID, c.SECRET_ACCESS_KEY]))"
)


def base(ambient: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its AWS, Temporal and Kubernetes settings."""
    env = {name: value for name, value in ambient.items() if not name.startswith(LEAKY)}
    env["PYTHONUNBUFFERED"] = "1"
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(filter(None, [env.get(name), "127.0.0.1,localhost"]))
    return env


def platform(settings: StackSettings, ambient: Mapping[str, str]) -> dict[str, str]:
    """What the worker and the gateway run with."""
    access_key, secret_key = sandbox_credentials(ambient)
    keys = settings.folder.codec_keys
    codec = {"INSTANTSTART_CODEC_KEY_FILE": str(keys)} if keys.exists() else {}
    return (
        base(ambient)
        | codec
        | {
            "AWS_ENDPOINT_URL": settings.sandbox_url,
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret_key,
            "AWS_REGION": settings.region,
            "AWS_DEFAULT_REGION": settings.region,
            "AWS_CONFIG_FILE": NOTHING,
            "AWS_SHARED_CREDENTIALS_FILE": NOTHING,
            "AWS_EC2_METADATA_DISABLED": "true",
            "KUBECONFIG": NOTHING,
            "TEMPORAL_ADDRESS": f"{HOST}:{settings.ports.temporal}",
            "TEMPORAL_NAMESPACE": "default",
            # A profile in the user's own file could add a key or TLS to this address.
            "TEMPORAL_CONFIG_FILE": NOTHING,
            "INSTANTSTART_DATA_DIR": str(settings.folder.path),
            "INSTANTSTART_DEFAULT_REGION": settings.region,
            "INSTANTSTART_REGIONS": ",".join(dict.fromkeys((settings.region, *REGIONS))),
            "INSTANTSTART_POLL_SECONDS": str(POLL_SECONDS),
            "INSTANTSTART_SETTLE_SECONDS": "1",
            # One worker on one machine: when it is gone, nobody else has its workflows in memory.
            "INSTANTSTART_STICKY_SECONDS": "3",
            # The sandbox does not throttle unless it is told to.
            "INSTANTSTART_AWS_CALLS_PER_SECOND": "500",
            "INSTANTSTART_SHORTFALL_PATIENCE": str(max(5.0, SHORTFALL_PATIENCE / settings.speed)),
            "INSTANTSTART_HYPERPOD_CHART": str(ROOT / "sandbox" / "charts" / "hyperpod-dependencies"),
            "INSTANTSTART_KUBERAY_CHART": str(ROOT / "sandbox" / "charts" / "kuberay-operator"),
            "INSTANTSTART_KEDA_CHART": str(ROOT / "sandbox" / "charts" / "keda"),
            "INSTANTSTART_LOAD_BALANCER_CONTROLLER_CHART": str(
                ROOT / "sandbox" / "charts" / "aws-load-balancer-controller"
            ),
            "INSTANTSTART_HELM": helm(),
            "INSTANTSTART_HUGGING_FACE_ENDPOINT": f"{settings.sandbox_url}/_hub",
            "INSTANTSTART_MLFLOW_ENDPOINT": settings.sandbox_url,
            "INSTANTSTART_SEAL_KEY_FILE": str(settings.folder.seal_key()),
            "INSTANTSTART_TEMPORAL_UI_URL": settings.temporal_ui_url,
            "INSTANTSTART_HOST": HOST,
            "INSTANTSTART_PORT": str(settings.ports.gateway),
        }
    )


def beside(worker: Mapping[str, str]) -> dict[str, str]:
    """What the gateway runs with on the machine of a worker that runs with ``worker``: where that one serves metrics,
    the gateway serves its own one port on."""
    host, _, port = worker.get(METRICS_ADDRESS, "").rpartition(":")
    return {**worker, METRICS_ADDRESS: f"{host}:{int(port) + 1}"} if port.isdigit() else dict(worker)


def helm() -> str:
    """The helm binary. Raises StackError when there is none."""
    bundled = ROOT / ".tools" / "bin" / "helm"
    found = str(bundled) if bundled.exists() else shutil.which("helm")
    if found is None:
        raise StackError("helm is missing. Run `make setup`, or install helm 3 and put it on PATH.")
    return found


def temporal_binary() -> str:
    """The Temporal server that the `local` extra installs. Raises StackError when there is none."""
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise StackError("the Temporal server is missing. Run `make setup` (the `local` extra of instantstart).")
    return found


def sandbox_credentials(ambient: Mapping[str, str]) -> tuple[str, str]:
    """Access key and secret of the sandbox's one AWS user, which only the sandbox knows."""
    run = subprocess.run(
        [sys.executable, "-c", _READ_CREDENTIALS], env=base(ambient), cwd=ROOT, capture_output=True, text=True
    )
    if run.returncode:
        raise StackError(f"the sandbox cannot be loaded; run `make setup`\n{run.stderr.strip()[-1000:]}")
    access_key, secret_key = json.loads(run.stdout)
    return access_key, secret_key
