"""Run the local stack: take the folder, look at the ports, start everything, hand out the links, keep it running."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cli.errors import CliError
from cli.gateway import Gateway, Target
from cli.sign_in import sign_in_link
from cli.stack import probe, tokens
from cli.stack.folder import DataFolder, Held, read_json, write_private
from cli.stack.services import services
from cli.stack.settings import StackSettings, taken_message
from cli.stack.supervisor import Signals, StackError, Stopped, Supervisor

Links = dict[str, Any]
TOKEN_NAME = "launcher"


class AlreadyRunning(StackError):
    """A stack runs on the folder."""

    def __init__(self, folder: DataFolder, pid: int | None) -> None:
        super().__init__(f"a stack is running on {folder.path}" + (f" (pid {pid})" if pid else ""))
        self.pid = pid


def run_stack(
    settings: StackSettings,
    *,
    free_ports: bool,
    say: Callable[[str], None],
    on_ready: Callable[[Links], None],
    tied: int | None = None,
) -> None:
    """Run the stack until a signal, or the end of the stream ``tied``, stops it.

    ``free_ports``: move to other ports where the chosen ones are taken. Raises StackError when it cannot run.
    """
    folder = settings.folder
    folder.create()
    try:
        lock = folder.hold()
    except Held as held:
        raise AlreadyRunning(folder, held.pid) from None
    with lock:
        folder.status.unlink(missing_ok=True)
        if taken := settings.ports.taken():
            if not free_ports:
                raise StackError(taken_message(taken))
            settings = replace(settings, ports=settings.ports.moved())
            say("taken ports were replaced: " + ", ".join(port.wanted_by for port in taken))
        signals = Signals(tied)
        supervisor = Supervisor(services(settings), folder.logs, say, signals)
        with signals.caught():
            try:
                supervisor.start()
                ensure_credentials(settings)
                links = links_of(settings)
                write_private(folder.status, links)
                on_ready({**links, "console": console_link(folder)})
                supervisor.run()
            except Stopped:
                say("stopping")
            finally:
                folder.status.unlink(missing_ok=True)
                supervisor.stop()
    say("stopped")


def links_of(settings: StackSettings) -> Links:
    """Where everything of the stack answers."""
    return {
        "pid": os.getpid(),
        "gateway": settings.gateway_url,
        "api_docs": f"{settings.gateway_url}/docs",
        "temporal_ui": settings.temporal_ui_url,
        "sandbox": settings.sandbox_url,
        "data": str(settings.folder.path),
        "logs": str(settings.folder.logs),
    }


def console_link(folder: DataFolder) -> str:
    """A link that signs a person in to the console of the stack that runs on the folder. It works once, and for some
    minutes: so it is shown, and not kept with the other links. Raises StackError."""
    kept = read_json(folder.credentials) or {}
    try:
        return str(sign_in_link(Gateway(Target(kept["url"], kept["token"])))["url"])
    except CliError as error:
        raise StackError(f"no link to the console could be made: {error}") from error


def ensure_credentials(settings: StackSettings) -> None:
    """Keep a token of an administrator in the folder, for the command line; make one if there is none that works."""
    folder = settings.folder
    known = read_json(folder.credentials) or {}
    token = known.get("token")
    if not (isinstance(token, str) and _is_accepted(settings, token)):
        token = new_token(settings)
    if known != (kept := {"url": settings.gateway_url, "token": token, "name": TOKEN_NAME, "role": "admin"}):
        write_private(folder.credentials, kept)


def new_token(settings: StackSettings) -> str:
    """A new token of an administrator. Raises StackError when the gateway's tokens cannot be changed."""
    tokens.run(settings.folder, "revoke", TOKEN_NAME)  # one that is lost: nobody can use it
    run = tokens.run(settings.folder, "add", TOKEN_NAME, "admin")
    if run.returncode or not run.stdout.strip():
        raise StackError(f"no token for the command line could be made\n{run.stderr.strip()[-1000:]}")
    return run.stdout.strip()


def _is_accepted(settings: StackSettings, token: str) -> bool:
    status, _ = probe.get(
        settings.ports.gateway, "/api/v1/operations?page_size=1", {"Authorization": f"Bearer {token}"}
    )
    return status not in (401, 403)
