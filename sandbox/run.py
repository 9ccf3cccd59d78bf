"""One sandbox in one process: clock, faults, ledger, snapshots, AWS, and Kubernetes if wanted."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from sandbox.aws.app import AwsSandbox
from sandbox.aws.server import Server, serve
from sandbox.clock import DEFAULT_SPEED, Clock
from sandbox.dataplane import DataPlane
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State, UnreadableSnapshot

log = logging.getLogger(__name__)


class Sandbox:
    """Everything, wired up. :meth:`start` serves in the background, :meth:`run` until a signal."""

    def __init__(
        self,
        speed: float = DEFAULT_SPEED,
        data: Path | None = None,
        kubernetes_port: int | None = None,
        host: str = "127.0.0.1",
        paused: bool = False,
        programs: Sequence[Path] = (),
        policies: Mapping[str, Any] | None = None,
    ) -> None:
        self.clock = Clock(speed)
        if paused:
            self.clock.pause()
        self.faults, self.ledger, self.state = Faults(), Ledger(), State(data)
        self.aws = AwsSandbox(self.clock, self.faults, self.ledger, state=self.state)
        self._policies = policies
        """IAM policies of the sandbox's own caller, by name; None: those that a snapshot has kept, else none."""
        # Certificates need a folder even where nothing is kept.
        self._folder = data or Path(tempfile.mkdtemp(prefix="sandbox-"))
        self.programs = programs
        """Scripts that really run where a container has them."""
        self.dataplane: DataPlane | None = None
        if kubernetes_port is not None:
            self.dataplane = self._kubernetes(kubernetes_port, host)
        self.server: Server | None = None

    def start(self, port: int, host: str = "127.0.0.1") -> Server:
        """Restore what was kept and serve. ``port`` 0 picks a free one."""
        self.state.restore()
        if self._policies is not None:
            self.aws.guard.enforce(self._policies)
        self.aws.ready()
        start = getattr(self.dataplane, "start", None)
        if callable(start):
            start()
        self.clock.start()
        self.state.start()
        self.server = serve(self.aws.wsgi, port, host)
        return self.server

    def stop(self) -> None:
        """Stop serving and keep a last snapshot."""
        if self.server is not None:
            self.server.stop()
        self.clock.stop()
        self.state.stop()
        stop = getattr(self.dataplane, "stop", None)
        if callable(stop):
            stop()

    def run(self, port: int, host: str = "127.0.0.1") -> None:
        """Serve until SIGTERM or SIGINT."""
        stopped = threading.Event()

        def on_signal(number: int, frame: FrameType | None) -> None:
            stopped.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
        try:
            server = self.start(port, host)
        except UnreadableSnapshot as error:
            sys.exit(str(error))
        print(f"sandbox ready at {server.url}, clock at {self.clock.speed:g}x", flush=True)
        while not stopped.wait(3600):
            pass
        with contextlib.suppress(KeyboardInterrupt):
            self.stop()

    def _kubernetes(self, port: int, host: str) -> DataPlane | None:
        # Imported only here: the AWS half is served without the Kubernetes half's dependencies.
        try:
            from sandbox.kubernetes.dataplane import KubernetesDataPlane
        except ImportError as error:
            log.warning("no Kubernetes behind EKS: %s", error)
            return None
        folder = self.state.folder or Path(tempfile.mkdtemp(prefix="sandbox-"))
        folder.mkdir(parents=True, exist_ok=True)
        dataplane = KubernetesDataPlane(
            self.clock, self.faults, self.ledger, folder, state=self.state, admin=self.aws.admin, host=host, port=port
        )
        dataplane.clusters.cloud = self.aws.cloud
        dataplane.clusters.identified = self.aws.identified
        dataplane.clusters.scripts.allow(list(self.programs), self.state.folder and self.state.folder / "volumes")
        dataplane.clusters.scripts.buckets = self.aws.buckets
        self.aws.use_dataplane(dataplane)
        return dataplane
