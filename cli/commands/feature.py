"""``instantstart feature``: managed features of a cluster."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import Command, file_option, output_option, start_options
from cli.spec import Body, put, read


@click.group()
def feature() -> None:
    """List features of a cluster, and switch them."""


def prerequisites_option(command: Command) -> Command:
    return click.option(
        "--prerequisites",
        "enable_prerequisites",
        is_flag=True,
        default=None,
        help="Switch on and install what they need, too.",
    )(command)


@feature.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List the features of the cluster TAG as AWS and Kubernetes have them now."""
    from cli.gateway import cluster_path, connect
    from cli.output import columns, emit

    def table(answer: dict[str, Any]) -> list[str]:
        rows = (
            (each["feature"], each["state"], each.get("version"), _settings(each), each.get("detail"))
            for each in answer["features"]
        )
        return columns(("FEATURE", "STATE", "VERSION", "SETTINGS", "DETAIL"), rows)

    emit(output, connect().get(cluster_path(tag, "features")), table)


def _settings(status: dict[str, Any]) -> str | None:
    return ", ".join(f"{key}={value}" for key, value in (status.get("settings") or {}).items()) or None


@feature.command("enable")
@click.argument("tag")
@click.argument("features", nargs=-1, required=True)
@prerequisites_option
@start_options
def enable(tag: str, features: tuple[str, ...], **choices: Any) -> int:
    """Switch FEATURES of the cluster TAG on; the others are not touched."""
    return _switch(tag, features, True, choices)


@feature.command("disable")
@click.argument("tag")
@click.argument("features", nargs=-1, required=True)
@start_options
def disable(tag: str, features: tuple[str, ...], **choices: Any) -> int:
    """Switch FEATURES of the cluster TAG off, with all that was made for them; the others are not touched."""
    return _switch(tag, features, False, choices)


@feature.command("set")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The features to change")
@click.option("--memory-percentage", type=int, help="tiered_checkpointing: share of the instances' memory.")
@click.option("--namespace", help="tiered_checkpointing: of the training pods' service account.")
@click.option("--service-account", help="tiered_checkpointing: the training pods'.")
@click.option("--prometheus-workspace-arn", help="observability: use this workspace.")
@click.option("--grafana-workspace-arn", help="observability: put the dashboards there.")
@prerequisites_option
@start_options
def set_(tag: str, name: str | None, file: TextIO | None, enable_prerequisites: bool | None, **choices: Any) -> int:
    """Switch the feature NAME of the cluster TAG on with settings, or several features by a file."""
    body = read(file)
    put(body, "enable_prerequisites", enable_prerequisites)
    members = ("memory_percentage", "namespace", "service_account", "prometheus_workspace_arn", "grafana_workspace_arn")
    given = {member: value for member in members if (value := choices.pop(member)) is not None}
    if name is None and (given or not body):
        raise click.UsageError("name a feature, or give a file")
    if name is not None:
        body[name] = {"enabled": True, **(body.get(name) or {}), **given}
    return _patch(tag, body, choices)


def _switch(tag: str, features: tuple[str, ...], on: bool, choices: dict[str, Any]) -> int:
    body: Body = {name.replace("-", "_"): {"enabled": on} for name in features}
    put(body, "enable_prerequisites", choices.pop("enable_prerequisites", None))
    return _patch(tag, body, choices)


def _patch(tag: str, body: Body, choices: dict[str, Any]) -> int:
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, "features"), body, method="PATCH", **choices)
