"""``instantstart credential``: tokens for other services, stored once and never shown again."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

import click

from cli.options import output_option, start_options
from cli.spec import Body, put


@click.group()
def credential() -> None:
    """Store, list and delete tokens for other services, e.g. of Hugging Face."""


@credential.command("store")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="Where its users run.  [default: default]")
@start_options
def store(tag: str, name: str, namespace: str | None, **choices: Any) -> int:
    """Store a token as NAME in the cluster TAG; one that exists is replaced.

    The token is asked for, or read from stdin: what stands in a command line can be seen by others.
    """
    from cli.gateway import cluster_path
    from cli.starting import begin

    token = click.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read().strip()
    body: Body = {"token": token}
    put(body, "namespace", namespace)
    return begin(cluster_path(tag, f"credentials/{quote(name, safe='')}"), body, method="PUT", **choices)


@credential.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List the credentials of the cluster TAG and what uses them; never their values."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "credentials")), _rows)


@credential.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The credential's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the credential NAME of the cluster TAG, unless something refers to it."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"credentials/{quote(name, safe='')}"), None, method="DELETE", **choices)


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns

    rows = (
        (each["namespace"], each["name"], age(each["created_at"]), ", ".join(each["used_by"]))
        for each in answer["credentials"]
    )
    return columns(("NAMESPACE", "CREDENTIAL", "AGE", "USED BY"), rows)
