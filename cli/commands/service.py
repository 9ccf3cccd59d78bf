"""``instantstart service``: what answers in OpenAI's format on a cluster."""

from __future__ import annotations

from typing import Any

import click

from cli.options import output_option


@click.group()
def service() -> None:
    """Look at the services that models answer by."""


@service.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@click.option("--public", is_flag=True, default=None, help="Only those with a load balancer.")
@output_option
def list_(tag: str, namespace: str | None, public: bool | None, output: str) -> None:
    """List the services of the cluster TAG that models answer by, others' too. `instantstart call` asks one."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    found = connect().get(cluster_path(tag, "services"), namespace=namespace, public=public)
    emit(output, found, service_lines)


def service_lines(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "SERVICE", "SERVES", "OF", "ENGINE", "READY", "WAITING", "PORT", "ADDRESS")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["serves"],
            each.get("of"),
            each.get("engine"),
            each["ready"],
            each["waiting"],
            each["port"],
            each.get("address"),
        )
        for each in answer["services"]
    )
    return columns(headers, rows)
