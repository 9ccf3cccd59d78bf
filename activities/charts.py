"""Where charts come from, and which values ours are installed with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import JsonValue

from activities.settings import Settings
from contracts.dependencies import HelmChart

if TYPE_CHECKING:
    from activities.helm import Helm

DOWNLOAD_SECONDS = 30
MAX_ARCHIVE = 200_000_000
ARCHIVES = (".tar.gz", ".tgz")
DEPENDENCY_SECONDS = 180


def hyperpod_dependencies(settings: Settings, region: str) -> HelmChart:
    """The chart that HyperPod wants on a cluster before nodes join: health monitoring, device plugins, restarts.

    cert-manager and the training operator come as EKS add-ons, the inference operator as a feature of its own.
    (SageMaker Developer Guide: install packages on the EKS cluster using Helm)
    """
    values: dict[str, JsonValue] = {
        "global": {"region": region},
        "health-monitoring-agent": {"enabled": True, "region": region},
        "deep-health-check": {"enabled": True},
        "job-auto-restart": {"enabled": True},
        "hyperpod-patching": {"enabled": True},
        "nvidia-device-plugin": {"devicePlugin": {"enabled": True}},
        "neuron-device-plugin": {"devicePlugin": {"enabled": True}},
        "aws-efa-k8s-device-plugin": {"devicePlugin": {"enabled": True}},
        "cert-manager": {"enabled": False},
        "trainingOperators": {"enabled": False},
        "inferenceOperators": {"enabled": False},
        "mpi-operator": {"enabled": False},
        "mlflow": {"enabled": False},
        "storage": {"enabled": False},
        "gpu-operator": {"enabled": False},
    }
    return HelmChart(
        release="hyperpod-dependencies",
        namespace="kube-system",
        source=settings.hyperpod_chart,
        path=settings.chart_path(),
        values=values,
    )


def pinned(release: str, namespace: str, reference: str, values: dict[str, JsonValue]) -> HelmChart:
    """A chart by a reference that may end in ``@VERSION``."""
    source, at, version = reference.rpartition("@")
    return HelmChart(
        release=release,
        namespace=namespace,
        source=source if at else reference,
        version=version if at else None,
        values=values,
    )


def fingerprint(chart: HelmChart) -> str:
    """Changes with the chart (a local one's files too) or its values."""
    content = hashlib.sha256(json.dumps(chart.model_dump(mode="json"), sort_keys=True).encode())
    if os.path.isdir(chart.source):
        for file in sorted(Path(chart.source).rglob("*")):
            if file.is_file():
                content.update(str(file.relative_to(chart.source)).encode() + b"\0" + file.read_bytes())
    return content.hexdigest()[:16]


@contextmanager
def opened(chart: HelmChart, helm: Helm) -> Iterator[list[str]]:
    """What ``helm upgrade`` is given for the chart: a folder (an archive's is unpacked for the time), or a
    reference."""
    source = Path(chart.source)
    if source.is_dir():
        yield [str(source / (chart.path or ""))]
        return
    if not chart.source.endswith(ARCHIVES) or chart.path is None:
        version = ["--version", chart.version] if chart.version else []
        if chart.source.startswith("https://") and not chart.source.endswith(ARCHIVES):
            repository, _, name = chart.source.rpartition("/")
            yield [name, "--repo", repository, *version]
        else:
            yield [chart.source, *version]
        return
    with tempfile.TemporaryDirectory(prefix="instantstart-chart-") as folder:
        archive = Path(folder) / "archive.tgz"
        if source.is_file():
            shutil.copyfile(source, archive)
        else:
            _download(chart.source, archive)
        unpacked = _unpack(archive, Path(folder) / "unpacked") / chart.path
        _complete(unpacked, helm)
        yield [str(unpacked)]


def _download(url: str, target: Path) -> None:
    """Raises ValueError for anything but https, or too large a file; urllib's errors are ConnectionErrors or
    OSErrors."""
    if not url.startswith("https://"):
        raise ValueError(f"a chart's archive comes by https, not {url!r}")
    request = urllib.request.Request(url, headers={"User-Agent": "instantstart"})
    with urllib.request.urlopen(request, timeout=DOWNLOAD_SECONDS) as answer, target.open("wb") as file:
        while block := answer.read(1 << 20):
            file.write(block)
            if file.tell() > MAX_ARCHIVE:
                raise ValueError(f"{url} is larger than {MAX_ARCHIVE} bytes")


def _unpack(archive: Path, target: Path) -> Path:
    """The archive's only folder, else where it was unpacked. The ``data`` filter refuses paths that lead out."""
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    inside = list(target.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _complete(chart: Path, helm: Helm) -> None:
    """Fetch the sub-charts that the chart names but does not bring; their versions are pinned in its Chart.yaml."""
    wanted = yaml.safe_load((chart / "Chart.yaml").read_text()).get("dependencies") or []
    if any(str(each.get("repository", "")).startswith("http") for each in wanted):
        helm.run("dependency", "update", str(chart), "--skip-refresh", seconds=DEPENDENCY_SECONDS)
