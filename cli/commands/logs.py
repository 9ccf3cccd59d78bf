"""``instantstart logs``: the log of a pod."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from cli.log_options import log_options
from cli.options import output_option


@click.command()
@click.argument("tag")
@click.argument("pod")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's.")
@click.option("-p", "--previous", is_flag=True, help="Of the container's start before its last one.")
@log_options
@output_option
def logs(tag: str, pod: str, namespace: str, **choices: Any) -> None:
    """Show what the pod POD of the cluster TAG prints. What looks like a secret is taken out."""
    from cli.gateway import cluster_path, connect
    from cli.logs import show

    if choices["previous"] and choices["follow"]:
        raise click.UsageError("a log that has ended cannot be followed: leave out -p or -f")
    path = f"pods/{quote(namespace, safe='')}/{quote(pod, safe='')}/logs"
    show(connect(), cluster_path(tag, path), choices.pop("output"), merged=False, **choices)
