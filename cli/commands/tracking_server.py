"""``instantstart tracking-server``: managed MLflow on SageMaker."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import file_option, output_option, start_options
from cli.spec import put, read


@click.group("tracking-server")
def tracking_server() -> None:
    """Create, list, open and delete tracking servers of managed MLflow."""


@tracking_server.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The server's spec")
@click.option("--size", type=click.Choice(["Small", "Medium", "Large"]), help="[default: Small]")
@click.option("--mlflow-version", help="[default: SageMaker's choice]")
@click.option("--register-models/--no-register-models", default=None, help="Register models with SageMaker, too.")
@click.option("--maintenance-window", help="Weekly, in UTC, e.g. Tue:03:30.  [default: SageMaker's choice]")
@start_options
def create(
    tag: str,
    name: str | None,
    file: TextIO | None,
    size: str | None,
    mlflow_version: str | None,
    register_models: bool | None,
    maintenance_window: str | None,
    **choices: Any,
) -> int:
    """Create the tracking server NAME for the cluster TAG. It takes up to 25 minutes, and is paid for while it runs."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "name", name)
    put(body, "size", size)
    put(body, "mlflow_version", mlflow_version)
    put(body, "register_models", register_models)
    put(body, "maintenance_window", maintenance_window)
    return begin(cluster_path(tag, "tracking-servers"), body, **choices)


@tracking_server.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List tracking servers and MLflow apps of the account in the region of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "tracking-servers")), _rows)


@tracking_server.command("get")
@click.argument("tag")
@click.argument("server")
@output_option
def get(tag: str, server: str, output: str) -> None:
    """Show the tracking server SERVER (a name or ARN), and who of the cluster TAG reports to it."""
    from cli.gateway import connect
    from cli.output import emit

    emit(output, connect().get(_path(tag, server)), _detail)


@tracking_server.command("open")
@click.argument("tag")
@click.argument("server")
@output_option
def open_(tag: str, server: str, output: str) -> None:
    """Print a link into the pages of the tracking server SERVER, for once and for five minutes.

    It lets in whoever has it.
    """
    from cli.gateway import connect
    from cli.output import emit

    emit(output, connect().post(f"{_path(tag, server)}/link", None), lambda answer: [answer["url"]])


@tracking_server.command("delete")
@click.argument("tag")
@click.argument("name")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the tracking server NAME of the cluster TAG with all its runs. Its artifacts stay in the bucket."""
    from cli.starting import begin

    return begin(_path(tag, name), None, method="DELETE", **choices)


def _path(tag: str, server: str) -> str:
    from cli.gateway import cluster_path

    return cluster_path(tag, f"tracking-servers/{quote(server, safe='')}")


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns, plain

    headers = ("NAME", "KIND", "STATE", "SIZE", "MLFLOW", "CLUSTER", "AGE")
    rows = (
        (
            plain(each["name"]),
            each["kind"],
            each["state"],
            each.get("size"),
            each.get("mlflow_version"),
            each.get("cluster"),
            age(each.get("created_at")),
        )
        for each in answer["servers"]
    )
    unreadable = [plain(each) for each in answer["unreadable"]]
    return [*columns(headers, rows), *([""] if unreadable else []), *unreadable]


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs, plain

    server = answer["server"]
    shown = ("name", "arn", "kind", "state", "status", "cluster", "size", "mlflow_version", "artifacts", "detail")
    told = pairs((name.replace("_", " "), plain(str(server[name]))) for name in shown if server.get(name) is not None)
    rows = [(each["namespace"], each["service_account"], each["role_arn"]) for each in answer["connections"]]
    return [*told, "", *columns(("NAMESPACE", "SERVICE ACCOUNT", "ROLE"), rows)] if rows else told
