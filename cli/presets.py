"""Presets under a command's own options: what was saved, over it the file and the options, over that each ``--set``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from cli.options import Command
from cli.spec import Body

if TYPE_CHECKING:
    from cli.gateway import Gateway


def preset_path(name: str) -> str:
    """The route of a preset."""
    return f"/presets/{quote(name, safe='')}"


def preset_options(command: Command) -> Command:
    """``--preset`` and ``--set``, as the parameters ``preset`` and ``settings``."""
    for option in (
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="PATH=VALUE",
            help="Set one member, e.g. nodes=4 or recipe.config.learning_rate=1e-5; it wins over all else. Repeatable.",
        ),
        click.option("--preset", metavar="NAME[@VERSION]", help="Begin with a saved preset; its last version."),
    ):
        command = option(command)
    return command


def with_preset(gateway: Gateway, given: Body, preset: str | None, settings: tuple[str, ...]) -> Body:
    """The body of a run. Raises click.UsageError for what is written wrongly; CliError where there is no such
    preset."""
    from contracts.preset_loading import loaded, reference, setting

    try:
        parsed = [setting(each) for each in settings]
        name, version = reference(preset) if preset is not None else (None, None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    saved: dict[str, Any] = {}
    if name is not None:
        saved = gateway.get(preset_path(name), version=version)["version"]["document"]
    try:
        body: Body = loaded(saved, given, parsed)
    except ValueError as error:
        raise click.UsageError(f"--set: {error}") from None
    return body
