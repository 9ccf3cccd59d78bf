"""``instantstart software``: images of instance groups, and their updates."""

from __future__ import annotations

import re
from typing import Any, TextIO

import click

from cli.options import file_option, output_option, start_options
from cli.spec import Body, put, read


@click.group()
def software() -> None:
    """See and update the software of instance groups."""


@software.command("status")
@click.argument("tag")
@output_option
def status(tag: str, output: str) -> None:
    """Show image, release and last update of every instance group of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "software")), software_lines)


@software.command("update")
@click.argument("tag")
@file_option("The request")
@click.option("--group", "groups", multiple=True, help="Only this instance group; may be repeated.")
@click.option("--image-id", help="ami-… or default.  [default: HyperPod's own image]")
@click.option("--release", "release_version", help="Release of HyperPod's image, e.g. 1.0.5.  [default: the newest]")
@click.option("--batch", metavar="N|N%", help="So many nodes at a time.  [default: all]")
@click.option("--rollback-batch", metavar="N|N%", help="So many at a time on the way back.")
@click.option("--wait-seconds", type=int, help="Between batches.")
@click.option("--rollback-alarm", "alarms", multiple=True, help="CloudWatch alarm that takes it back; may be repeated.")
@start_options
def update(
    tag: str,
    file: TextIO | None,
    groups: tuple[str, ...],
    image_id: str | None,
    release_version: str | None,
    batch: str | None,
    rollback_batch: str | None,
    wait_seconds: int | None,
    alarms: tuple[str, ...],
    **choices: Any,
) -> int:
    """Bring instance groups of the cluster TAG to another image; root volumes are made anew."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body: Body = read(file)
    put(body, "groups", list(groups) or None)
    put(body, "image_id", image_id)
    put(body, "release_version", release_version)
    put(body, "rolling.maximum_batch", _size(batch))
    put(body, "rolling.rollback_batch", _size(rollback_batch))
    put(body, "rolling.wait_seconds", wait_seconds)
    put(body, "rolling.rollback_alarms", list(alarms) or None)
    return begin(cluster_path(tag, "software"), body, **choices)


def _size(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)(%?)", text)
    if match is None:
        raise click.UsageError(f"a batch is a number of nodes or a percentage (2, 25%), not {text!r}")
    return {"type": "CAPACITY_PERCENTAGE" if match.group(2) else "INSTANCE_COUNT", "value": int(match.group(1))}


def software_lines(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns

    headers = (
        "GROUP",
        "TYPE",
        "NODES",
        "IMAGE",
        "CURRENT",
        "DESIRED",
        "ON DESIRED",
        "IMAGE STATUS",
        "LAST UPDATE",
        "AGE",
    )
    rows = (
        (
            each["group"],
            each["instance_type"],
            each["nodes"],
            each.get("current_image"),
            each.get("current_version"),
            each.get("desired_version"),
            each["on_desired"],
            each.get("image_status"),
            each.get("update_status"),
            age(each.get("last_update_at")),
        )
        for each in answer["groups"]
    )
    return [*columns(headers, rows), "", f"HyperPod cluster {answer['cluster_status']}"]
