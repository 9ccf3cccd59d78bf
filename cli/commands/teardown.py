"""``instantstart cluster delete``."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import file_option, start_options
from cli.spec import put, read


@click.command("delete")
@click.argument("tag")
@click.option(
    "--level",
    type=click.Choice(["hyperpod", "eks", "network"]),
    help="How much goes: HyperPod alone, the EKS cluster too, or everything.  [default: network]",
)
@click.option("--abort-running", is_flag=True, default=None, help="Abort operations that hold the cluster.")
@click.option("--delete-bucket", is_flag=True, default=None, help="Delete its bucket, with all that is in it.")
@click.option("--delete-file-systems", is_flag=True, default=None, help="Delete its FSx file systems with their data.")
@click.option("--delete-dedicated-subnets", is_flag=True, default=None, help="Delete dedicated compute subnets.")
@click.option("--keep", multiple=True, metavar="ID", help="An ID, ARN or name that must stay; may be repeated.")
@click.option("--region", help="Where to look for what is left of a cluster that has no record any more.")
@click.option("--if-exists", is_flag=True, help="Exit 0 where there is no such cluster.")
@file_option("The choices")
@start_options
def delete(
    tag: str,
    file: TextIO | None,
    level: str | None,
    abort_running: bool | None,
    delete_bucket: bool | None,
    delete_file_systems: bool | None,
    delete_dedicated_subnets: bool | None,
    keep: tuple[str, ...],
    if_exists: bool,
    **choices: Any,
) -> int:
    """Delete the cluster TAG: what it runs, its nodes, the EKS cluster, roles and network.

    See what would go, and what stays, with --validate-only. The bucket stays unless --delete-bucket is given.
    """
    from cli.errors import CliError, Exit, say
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    for name, value in (
        ("level", level),
        ("abort_running", abort_running),
        ("delete_bucket", delete_bucket),
        ("delete_file_systems", delete_file_systems),
        ("delete_dedicated_subnets", delete_dedicated_subnets),
        ("keep", list(keep) or None),
    ):
        put(body, name, value)
    try:
        return begin(cluster_path(tag), body, method="DELETE", **choices)
    except CliError as error:
        if if_exists and error.exit == Exit.NOT_FOUND:
            say(f"There is no cluster {tag}.")
            return Exit.OK
        raise
