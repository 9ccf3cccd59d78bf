"""``instantstart preset``: training runs without a name, saved and versioned."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import output_option


@click.group()
def preset() -> None:
    """Save, list, show and delete presets of training runs; `train submit --preset` begins with one."""


@preset.command("list")
@output_option
def list_(output: str) -> None:
    """List your presets, and those that are shared."""
    from cli.gateway import connect
    from cli.output import emit

    emit(output, connect().all("presets"), _rows)


@preset.command("get")
@click.argument("name", metavar="NAME[@VERSION]")
@output_option
def get(name: str, output: str) -> None:
    """Show a version of a preset, the last one where none is named."""
    from cli.gateway import connect
    from cli.output import emit
    from cli.presets import preset_path
    from contracts.preset_loading import reference

    try:
        found, version = reference(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    emit(output, connect().get(preset_path(found), version=version), _lines)


@preset.command("save")
@click.argument("name")
@click.option("-f", "--file", type=click.File(), help="A training run in YAML or JSON; its name is left out.")
@click.option("--preset", metavar="NAME[@VERSION]", help="Begin with a saved preset.")
@click.option(
    "--set", "settings", multiple=True, metavar="PATH=VALUE", help="Set one member, e.g. nodes=4. Repeatable."
)
@click.option("--shared/--private", default=None, help="Whether everybody may load it.  [default: as it was; private]")
@click.option("-m", "--comment", default="", help="What is new in this version.")
@click.option("--if-version", type=int, help="Only upon this version; 0: only where there is none.")
@output_option
def save(
    name: str,
    file: TextIO | None,
    preset: str | None,
    settings: tuple[str, ...],
    shared: bool | None,
    comment: str,
    if_version: int | None,
    output: str,
) -> None:
    """Save a training run as a new version of the preset NAME. What is equal to its last version makes none."""
    from cli.gateway import API, checked, connect
    from cli.output import emit
    from cli.presets import preset_path, with_preset
    from cli.spec import put, read

    gateway = connect()
    document = with_preset(gateway, read(file), preset, settings)
    if not document:
        raise click.UsageError("there is nothing to save; give -f, --preset or --set")
    document.pop("name", None)
    body: dict[str, Any] = {"document": document, "comment": comment}
    put(body, "shared", shared)
    headers = {}
    if if_version is not None:
        headers = {"If-Match": f'"{if_version}"'} if if_version else {"If-None-Match": "*"}
    answer = checked(gateway.http.request("PUT", API + preset_path(name), json=body, headers=headers)).json()
    emit(output, answer, _saved)


@preset.command("delete")
@click.argument("name")
def delete(name: str) -> None:
    """Delete the preset NAME with all its versions. Runs that were made from it are not touched."""
    from cli.errors import say
    from cli.gateway import API, checked, connect
    from cli.presets import preset_path

    checked(connect().http.request("DELETE", API + preset_path(name)))
    say(f"preset {name} is deleted")


def _rows(presets: list[dict[str, Any]]) -> list[str]:
    from cli.output import age, columns

    rows = (
        (
            each["name"],
            str(each["version"]),
            each["owner"],
            "yes" if each["shared"] else "no",
            age(each["saved_at"]),
            each["title"],
            each["comment"],
        )
        for each in presets
    )
    return columns(("PRESET", "VERSION", "OWNER", "SHARED", "AGE", "RUNS", "COMMENT"), rows)


def _lines(detail: dict[str, Any]) -> list[str]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Lines of text stay lines."""

    def lines(dumper: yaml.SafeDumper, text: str) -> Any:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, lines)
    preset, version = detail["preset"], detail["version"]
    head = f"# {preset['name']}@{version['version']} of {preset['owner']}, saved by {version['saved_by']}"
    notes = [f"# {text}" for text in (version["comment"], detail.get("problem")) if text]
    text = yaml.dump(version["document"], Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return [head, *notes, *text.rstrip("\n").splitlines()]


def _saved(answer: dict[str, Any]) -> list[str]:
    preset = answer["preset"]
    if not answer["changed"]:
        return [f"{preset['name']} is at version {preset['version']} already"]
    return [f"{preset['name']} has version {preset['version']} now"]
