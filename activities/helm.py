"""The one way to the helm binary: argument lists without a shell, credentials in the environment, nothing left on disk.

https://helm.sh/docs/helm/helm_upgrade/ and https://helm.sh/docs/topics/kubernetes_apis/
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, NoReturn

import yaml

from activities import charts, fence
from activities.aws import token
from activities.context import attempt
from activities.errors import clean, fail
from activities.kubernetes import Connection
from activities.settings import Settings
from contracts.dependencies import HelmChart
from contracts.problem import ProblemCode

PENDING = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")
INSTALLED = ("deployed", "superseded")
OWNER_LABEL = "instantstart-owner"
QUICK_SECONDS = 60
ACTING = frozenset({"upgrade", "rollback", "uninstall"})
PASSING = (
    "connection re",
    "timeout",
    "deadline exceeded",
    "tls handshake",
    "eof",
    "no such host",
    "kubernetes cluster unreachable",
    "service unavailable",
    "too many requests",
    "internal error",
    "unable to handle the request",
    "apiserver not ready",
    "etcdserver",
    "failed to download openapi",
    "failed calling webhook",
    # Another writer was quicker; Kubernetes says to apply the same once more.
    "the object has been modified",
)
"""Words in helm's errors of what may pass by itself."""
KILL_SECONDS = 5
MOST_KEPT = 1000
RFC_3339 = "2006-01-02T15:04:05.999999999Z07:00"
"""As helm's history tells times; its list does only when it is told so. (Go, package time)"""
_BETWEEN = re.compile(r"^---\s*$", re.MULTILINE)
_WORKLOAD = re.compile(r"^kind: (Deployment|DaemonSet)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Revision:
    """One line of a release's history."""

    number: int
    status: str
    chart: str
    description: str
    updated: datetime


class Workload(NamedTuple):
    """An object of a release that runs pods."""

    kind: str
    namespace: str
    name: str


_MADE: dict[tuple[str, str, str, int, datetime], list[Workload]] = {}
"""What revisions have made, by API server, namespace, release and revision: it does not change, and is asked for at
every look at a cluster."""
_MADE_LOCK = threading.Lock()


@dataclass
class Helm:
    """helm for one cluster; make one with :func:`helm_for`."""

    binary: str
    environment: dict[str, str] = field(repr=False)
    timeout: int

    def run(self, *arguments: str, seconds: float = QUICK_SECONDS) -> str:
        """Standard output of helm. Raises the problem that its standard error means.

        Killed with all it started when the activity is cancelled or ``seconds`` are over; dies with its worker.
        """
        if arguments[0] in ACTING:
            fence.check()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [*_tether(), self.binary, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.environment,
                start_new_session=True,
            )
            try:
                _wait(process, seconds)
            finally:
                _end(process)
            out.seek(0)
            err.seek(0)
            if process.returncode:
                raise_for(arguments[0], err.read().decode(errors="replace"))
            return out.read().decode(errors="replace")

    def history(self, release: str, namespace: str) -> list[Revision]:
        """The revisions of a release, the newest last; empty where there is none."""
        try:
            text = self.run("history", release, "--namespace", namespace, "--output", "json")
        except ReleaseNotFound:
            return []
        return [
            Revision(
                number=int(entry["revision"]),
                status=str(entry["status"]),
                chart=str(entry["chart"]),
                description=str(entry.get("description", "")),
                updated=_time(str(entry["updated"])),
            )
            for entry in json.loads(text)
        ]

    def workloads(self, release: str, namespace: str, revision: Revision) -> list[Workload]:
        """The Deployments and DaemonSets that a revision of a release has made; none where it is not there any more."""
        where = (self.environment["HELM_KUBEAPISERVER"], namespace, release, revision.number, revision.updated)
        with _MADE_LOCK:
            known = _MADE.get(where)
        if known is not None:
            return known
        try:
            text = self.run("get", "manifest", release, "--namespace", namespace, "--revision", str(revision.number))
        except ReleaseNotFound:
            return []
        # Definitions of resources are long, and none of them is looked at.
        found = [yaml.safe_load(each) for each in _BETWEEN.split(text) if _WORKLOAD.search(each)]
        made = [
            Workload(each["kind"], each["metadata"].get("namespace") or namespace, each["metadata"]["name"])
            for each in found
        ]
        with _MADE_LOCK:
            while len(_MADE) >= MOST_KEPT:
                _MADE.pop(next(iter(_MADE)))
            _MADE[where] = made
        return made

    def ensure(self, chart: HelmChart, gone: Callable[[Revision], bool] = lambda _: False) -> tuple[Revision, bool]:
        """The release as asked, and whether something had to be done. Does not wait for pods: nodes may not exist
        yet. One that is as asked is applied again where ``gone`` says that something of it is not there any more."""
        history = self.history(chart.release, chart.namespace)
        if history and history[-1].status in PENDING:
            self._recover(chart, history)
            history = self.history(chart.release, chart.namespace)
        digest = charts.fingerprint(chart)
        description = f"instantstart {digest}"
        as_asked = history and history[-1].status == "deployed" and history[-1].description == description
        if as_asked and not gone(history[-1]):
            return history[-1], False
        with charts.opened(chart, self) as reference, tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            yaml.safe_dump(dict(chart.values), values)
            values.flush()
            arguments = ["upgrade", chart.release, *reference, "--install", "--namespace", chart.namespace]
            arguments += ["--values", values.name, "--description", description, "--history-max", "5"]
            arguments += [
                "--create-namespace",
                "--timeout",
                f"{self.timeout}s",
                "--labels",
                f"{OWNER_LABEL}={_owner()}",
            ]
            self.run(*arguments, "--output", "json", seconds=self.timeout + QUICK_SECONDS)
        made = self.history(chart.release, chart.namespace)[-1]
        if made.status != "deployed":
            # helm ends well even where it could not note down that it is done.
            fail(
                ProblemCode.UNAVAILABLE,
                f"helm has ended, and release {chart.release} is {made.status}",
                "The platform tries again.",
                retry=True,
            )
        return made, True

    def owned(self) -> dict[tuple[str, str], Revision]:
        """The releases that we installed, in any state, by namespace and name."""
        arguments = ["--all-namespaces", "--selector", OWNER_LABEL, "--max", "0", "--time-format", RFC_3339]
        text = self.run("list", *arguments, "--output", "json")
        return {
            (str(entry["namespace"]), str(entry["name"])): Revision(
                number=int(entry["revision"]),
                status=str(entry["status"]),
                chart=str(entry["chart"]),
                description="",
                updated=_time(str(entry["updated"])),
            )
            for entry in json.loads(text or "[]")
        }

    def remove(self, chart: HelmChart) -> bool:
        """Take the release away with all that it put in; false where there is none. One that a dead helm left in the
        middle of something goes, too."""
        history = self.history(chart.release, chart.namespace)
        if not history:
            return False
        if history[-1].status in PENDING:
            self._check_abandoned(chart, history[-1])
        where = ("--namespace", chart.namespace, "--timeout", f"{self.timeout}s")
        self.run("uninstall", chart.release, *where, "--ignore-not-found", seconds=self.timeout + QUICK_SECONDS)
        return True

    def _recover(self, chart: HelmChart, history: list[Revision]) -> None:
        """Free a release that a helm left in the middle of something when it died: back to the newest revision that was
        deployed, else to the end of what was begun. One that was going away goes.

        helm keeps no lock but this status. Its owner is dead if it was an earlier attempt of ours, or if it has had
        more time than helm allows itself.
        """
        stuck = history[-1]
        self._check_abandoned(chart, stuck)
        # An install that was begun is the only one that there is: going "back" to it makes what it has not made yet.
        good = next((each for each in reversed(history) if each.status in INSTALLED), stuck)
        where = ("--namespace", chart.namespace, "--timeout", f"{self.timeout}s")
        if stuck.status != "uninstalling":
            self.run("rollback", chart.release, str(good.number), *where, seconds=self.timeout + QUICK_SECONDS)
        else:
            self.run("uninstall", chart.release, *where, seconds=self.timeout + QUICK_SECONDS)

    def _check_abandoned(self, chart: HelmChart, stuck: Revision) -> None:
        """Raise BUSY (retried) while the helm that left the release so may still be at work."""
        age = (datetime.now(UTC) - stuck.updated).total_seconds()
        ours = attempt() > 1 and self._owner_of(chart) == _owner()
        if not ours and age < self.timeout + QUICK_SECONDS:
            fail(
                ProblemCode.BUSY,
                f"Helm release {chart.release} is {stuck.status} since {age:.0f} s; somebody works on it",
                "The platform tries again, and takes it over when it must be dead.",
                retry=True,
                delay=15,
            )

    def _owner_of(self, chart: HelmChart) -> str | None:
        text = self.run("get", "metadata", chart.release, "--namespace", chart.namespace, "--output", "json")
        labels = json.loads(text).get("labels") or {}
        return labels.get(OWNER_LABEL) if isinstance(labels, dict) else None


class ReleaseNotFound(Exception):
    """helm says that there is no such release."""


def raise_for(command: str, text: str) -> NoReturn:
    """Raise the problem that helm's standard error means."""
    lowered, detail = text.lower(), clean(f"helm {command}: {text}")
    if "release: not found" in lowered:
        raise ReleaseNotFound(detail)
    again = "The platform tries again."
    if "another operation (install/upgrade/rollback) is in progress" in lowered:
        fail(ProblemCode.BUSY, detail, again, retry=True, delay=10)
    if "unauthorized" in lowered or "provide credentials" in lowered:
        fail(ProblemCode.PROPAGATION, detail, again, retry=attempt() < 12, delay=5)
    if "forbidden" in lowered:
        remedy = "Give the platform's principal cluster administration (AmazonEKSClusterAdminPolicy)."
        fail(ProblemCode.DENIED, detail, remedy)
    if any(word in lowered for word in PASSING):
        fail(ProblemCode.UNAVAILABLE, detail, again, retry=True)
    if "invalid ownership metadata" in lowered or "conflict" in lowered:
        remedy = "Somebody else installed an object of the chart; remove it, or let its owner keep it."
        fail(ProblemCode.CONFLICT, detail, remedy)
    fail(ProblemCode.NOT_READY, detail, "Mend what helm names, then retry.", retry=attempt() < 3, retryable=True)


@contextmanager
def helm_for(settings: Settings, connection: Connection) -> Iterator[Helm]:
    """helm for one cluster. Its token is in the environment only; its CA and its caches are in a private folder that is
    removed at the end."""
    with tempfile.TemporaryDirectory(prefix="instantstart-helm-") as folder:
        authority = Path(folder) / "ca.pem"
        authority.write_text(connection.certificate_authority)
        cache = settings.helm_cache or Path(folder)
        passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
        yield Helm(
            binary=settings.helm_binary(),
            timeout=settings.helm_timeout_seconds,
            environment={
                **passed,
                "HOME": folder,
                "KUBECONFIG": os.devnull,
                "HELM_KUBEAPISERVER": connection.endpoint,
                "HELM_KUBETOKEN": connection.token(),
                "HELM_KUBECAFILE": str(authority),
                "HELM_CACHE_HOME": str(cache / "cache"),
                "HELM_CONFIG_HOME": str(Path(folder) / "config"),
                "HELM_DATA_HOME": str(Path(folder) / "data"),
            },
        )


_PASSED = ("PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")


def _tether() -> list[str]:
    """What a command is put behind so that it dies with this process."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("tether.py")), str(os.getpid())]


def _owner() -> str:
    """Says whose helm it was: the running operation's."""
    return token("helm")[:16]


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """In short steps: a thread can be told of a cancellation only between them."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            process.wait(0.25)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                fail(
                    ProblemCode.UNAVAILABLE,
                    f"helm did not end within {seconds:.0f} s",
                    "The platform tries again.",
                    retry=True,
                )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that nothing of it runs on: asked first, so that helm can note down that it failed."""
    if process.poll() is not None:
        return
    for how, patience in ((signal.SIGTERM, KILL_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        try:
            os.killpg(process.pid, how)
            process.wait(patience)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _time(text: str) -> datetime:
    """Go's times have nanoseconds; Python reads microseconds."""
    head, _, rest = text.partition(".")
    if rest:
        digits = "".join(c for c in rest if c.isdigit() or c in "+-:Z")
        zone = next((i for i, c in enumerate(digits) if c in "+-Z"), len(digits))
        text = f"{head}.{digits[:zone][:6]}{digits[zone:]}"
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
