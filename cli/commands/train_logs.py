"""``instantstart train logs``: what the pods of a training run print, as one log."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from cli.log_options import log_options
from cli.options import output_option


@click.command("logs")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The run's.  [default: default]")
@click.option("--rank", type=click.IntRange(min=0), help="Only the pod of this rank.")
@click.option("--pod", help="Only this pod.")
@click.option("--run", help="The execution (run ID of its operation) whose kept logs are shown.  [default: the newest]")
@log_options
@output_option
def logs(tag: str, name: str, rank: int | None, pod: str | None, **choices: Any) -> None:
    """Show what the pods of the training run NAME print, merged; of pods that are gone, what was kept."""
    from cli.gateway import cluster_path, connect
    from cli.logs import show

    path, output = f"training-runs/{quote(name, safe='')}/logs", choices.pop("output")
    one = rank is not None or pod is not None
    show(connect(), cluster_path(tag, path), output, merged=not one, rank=rank, pod=pod, **choices)
