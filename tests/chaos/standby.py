"""Programs of the project that start at once: a process that has imported them forks one whenever it is asked.

Most of what a start costs is importing. A schedule starts programs a dozen times, so one process imports them once.
What is forked is a process of its own like any other: with its own environment and output, in the process group of who
asked, and killed with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cli.stack.child import Service
from cli.stack.folder import ROOT

MODULES = ("sandbox", "worker", "server")
ASK = Path(__file__).with_name("standby_ask.py")
LARGEST = 1 << 20
LIMIT = 600.0


class Standby:
    """Makes services of Python start by a fork."""

    def __init__(self, address: Path) -> None:
        self._address = address

    def __call__(self, service: Service) -> Service:
        """The service, started by the process that stands by; others as they are."""
        python, flag, module, *arguments = [*service.argv, "", "", ""]
        if (python, flag) != (sys.executable, "-m") or module not in MODULES:
            return service
        given = [each for each in arguments if each]
        asks = [sys.executable, "-I", "-S", str(ASK), str(self._address), module, *given]
        return replace(service, argv=asks)


@contextmanager
def standby(folder: Path) -> Iterator[Standby]:
    """A process that stands by, for as long as the block lasts. It dies with its parent."""
    address, log = folder / "standby", folder / "standby.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.standby", str(address)], cwd=ROOT, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + LIMIT
        while not address.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"nothing stands by\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield Standby(address)
    finally:
        process.kill()
        process.wait()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def serve(address: str) -> None:
    """Import everything, then fork for whoever asks. Never returns."""
    _die_with_parent()
    before = dict(os.environ)
    for module in MODULES:
        importlib.import_module(f"{module}.__main__")
    imported = {name: value for name, value in os.environ.items() if before.get(name) != value}
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(16)
    os.rename(f"{address}.new", address)
    while True:
        asker, _ = listener.accept()
        said, descriptors, _, _ = socket.recv_fds(asker, LARGEST, 2)
        while not said.endswith(b"\n"):
            said += asker.recv(LARGEST)
        if os.fork() == 0:
            listener.close()
            _become(json.loads(said), descriptors, asker, imported)
        for each in descriptors:
            os.close(each)
        asker.close()


def _become(asked: dict[str, object], descriptors: list[int], asker: socket.socket, imported: dict[str, str]) -> None:
    """In the fork: be the program that is asked for. The connection stays open until it ends. ``imported``: variables
    that modules have set when they were imported, which they will not be again."""
    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, int(str(asked["group"])))
    for number, descriptor in enumerate(descriptors, start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    environment = asked["environment"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update({**imported, **environment})
    asker.sendall(f"{os.getpid()}\n".encode())
    module, arguments = str(asked["module"]), asked["arguments"]
    assert isinstance(arguments, list)
    sys.argv = [module, *arguments]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
