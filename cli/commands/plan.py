"""``instantstart plan``: what an operation would do, before anybody starts it."""

from __future__ import annotations

from typing import TextIO

import click

from cli.options import file_option, output_option
from cli.spec import read


@click.command()
@click.argument("kind")
@click.argument("tag")
@file_option("The operation's spec")
@click.option("--region", help="Of a new cluster.  [default: the deployment's]")
@output_option
def plan(kind: str, tag: str, file: TextIO | None, region: str | None, output: str) -> int:
    """Plan an operation of KIND (e.g. scale-instance-group) on the cluster TAG. Nothing is changed.

    Exits 1 if something stands in its way. The commands that start operations show the same with --validate-only.
    """
    from cli.errors import Exit
    from cli.gateway import connect
    from cli.output import emit
    from cli.plan import plan_lines

    body = {"kind": kind, "cluster": tag, "region": region, "spec": read(file)}
    answer = connect().send("POST", "/plans", body)
    emit(output, answer, plan_lines)
    return Exit.OK if answer["valid"] else Exit.FAILED
