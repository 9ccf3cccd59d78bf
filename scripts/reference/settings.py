"""``docs/reference/settings.md``: every variable that a process of ours reads, from the classes that read it."""

from __future__ import annotations

from typing import Any

import click
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

import activities.settings
import api.settings
import mcp_server.settings
import server.faces
import telemetry.settings
import temporal.settings
import ui.settings
import worker.settings
from cli.commands.up import up
from cli.stack.settings import WANTED_BY
from contracts.docstrings import field_docstrings
from contracts.queues import REGIONS
from scripts.reference.pages import MADE, paragraphs, table

PROCESSES: dict[type[BaseSettings], tuple[str, ...]] = {
    worker.settings.WorkerSettings: ("worker",),
    activities.settings.Settings: ("worker",),
    api.settings.Settings: ("gateway",),
    server.faces.Settings: ("server",),
    ui.settings.Settings: ("console",),
    mcp_server.settings.Settings: ("tools",),
    temporal.settings.ConnectionSettings: ("worker", "gateway", "setup"),
    telemetry.settings.TelemetrySettings: ("worker", "gateway", "tools", "console"),
}
"""Which processes read which class. ``python -m server`` is gateway, tools and console in one process."""
COLUMNS = ("variable", "default", "meaning")
ORDER = ("worker", "gateway", "server", "tools", "console", "setup")

_PORTS = {f"INSTANTSTART_{setting.upper()}_PORT": wanted_by for setting, wanted_by in WANTED_BY.items()}

HEAD = f"""# Settings

{MADE}
Variables of the environment, by process. `python -m server` is gateway, tools and console in one, and reads what all
three read. A value that breaks a rule ends the process at its start with a message that names the variable.

Not ours, and read by those who made them: `TEMPORAL_…` ([temporal.md](../temporal.md)), `AWS_…`
([aws.md](../aws.md)), `OTEL_…` ([observability.md](../observability.md)).
"""
LOCAL = (
    ("INSTANTSTART_URL", "the stack of this machine", "The gateway that the command line speaks to."),
    ("INSTANTSTART_TOKEN", "the stack's own", "Whose calls they are."),
    ("INSTANTSTART_DATA", "`.data` of the checkout, else the user's data folder", "The local stack's data folder."),
)
"""What the command line reads without a class of settings."""


def page() -> str:
    """The page. Raises ValueError for a setting whose class does not say what it means."""
    sections = []
    for process in ORDER:
        rows = [(f"`{name}`", default, meaning) for name, (default, meaning) in settings_of(process).items()]
        sections.append(f"\n## {process.capitalize()}\n\n{table(COLUMNS, rows)}")
    rows = [*((f"`{name}`", default, meaning) for name, default, meaning in LOCAL), *_options(up)]
    sections.append(f"\n## Command line and local stack\n\n{table(COLUMNS, rows)}")
    return paragraphs(HEAD) + "".join(sections)


def settings_of(process: str) -> dict[str, tuple[str, str]]:
    """Default and meaning of each variable that a process reads."""
    found: dict[str, tuple[str, str]] = {}
    for kind in (kind for kind, processes in PROCESSES.items() if process in processes):
        said = _meanings(kind)
        for field, info in kind.model_fields.items():
            if field not in said:
                raise ValueError(f"{kind.__module__}.{kind.__name__}.{field} does not say what it means")
            name = f"{kind.model_config['env_prefix']}{field}".upper()
            found.setdefault(name, (_default(info.get_default(call_default_factory=True)), said[field]))
    return found


def _meanings(kind: type[BaseSettings]) -> dict[str, str]:
    """The docstring below each member of a class, on one line."""
    return {name: " ".join(said.replace("``", "`").split()) for name, said in field_docstrings(kind).items()}


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "none"
    if value in (list(REGIONS), ",".join(REGIONS)):
        return f"{len(REGIONS)} regions"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`{','.join(str(each) for each in value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _options(command: click.Command) -> list[tuple[str, str, str]]:
    """The options of a command that have a variable."""
    return [
        (f"`{option.envvar}`", _default(option.default), option.help or f"Port of {_PORTS[option.envvar]}.")
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.envvar, str)
    ]
