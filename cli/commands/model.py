"""``instantstart model``: models and data sets on a cluster's storage."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import file_option, output_option, start_options
from cli.spec import put, read

MEMBERS = ("repository_type", "revision", "claim", "namespace", "path", "credential", "cpu", "memory_gib")


@click.group()
def model() -> None:
    """Download models and data sets of the Hugging Face Hub, and see what is there."""


@model.command("download")
@click.argument("tag")
@click.argument("repository", required=False)
@file_option("The download's spec")
@click.option("--type", "repository_type", type=click.Choice(["model", "dataset"]), help="[default: model]")
@click.option("--revision", help="Branch, tag or commit.  [default: main]")
@click.option("--include", multiple=True, help="Only files like this; may be repeated.")
@click.option("--exclude", multiple=True, help="No files like this; may be repeated.")
@click.option("--claim", help="Onto this claim.  [default: s3-claim]")
@click.option("-n", "--namespace", help="The claim's.  [default: default]")
@click.option("--path", help="Into this folder.  [default: models/owner-name]")
@click.option("--credential", help="Stored credential with a token of the Hub.")
@click.option("--cpu", type=float)
@click.option("--memory-gib", type=int)
@start_options
def download(tag: str, repository: str | None, file: TextIO | None, **choices: Any) -> int:
    """Download REPOSITORY (owner/name) onto the storage of the cluster TAG."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "repository", repository)
    for member in MEMBERS:
        put(body, member, choices.pop(member))
    for member in ("include", "exclude"):
        put(body, member, list(choices.pop(member)) or None)
    return begin(cluster_path(tag, "models/downloads"), body, **choices)


@model.command("list")
@click.argument("tag")
@click.option("--claim", help="Only on this one.  [default: all]")
@click.option("-n", "--namespace", help="Only on claims of this one.  [default: all]")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@output_option
def list_(tag: str, claim: str | None, namespace: str | None, limit: int | None, output: str) -> None:
    """List models and data sets on the S3 claims of the cluster TAG, and the downloads that run."""
    from cli.gateway import PAGE_SIZE, cluster_path, connect
    from cli.output import emit

    gateway, path = connect(), cluster_path(tag, "models")
    asked: dict[str, Any] = {"claim": claim, "namespace": namespace, "page_size": min(limit or PAGE_SIZE, PAGE_SIZE)}
    found: dict[str, Any] = gateway.get(path, **asked)
    models = found["models"]
    while (token := found.get("next_page_token")) and (limit is None or len(models) < limit):
        found = {**gateway.get(path, **asked, page_token=token), "running": found["running"]}
        models += found["models"]
    emit(output, {**found, "models": models[:limit]}, _rows)


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns, plain, size

    headers = ("CLAIM", "FOLDER", "STATE", "REPOSITORY", "FILES", "SIZE", "AGE")
    rows = (
        (
            f"{each['namespace']}/{each['claim']}",
            plain(each["path"]),
            each["state"],
            each.get("repository"),
            each.get("files"),
            None if each.get("size") is None else size(each["size"]),
            age(each.get("finished_at")),
        )
        for each in (*answer["running"], *answer["models"])
    )
    unreadable = [plain(each) for each in answer["unreadable"]]
    return [*columns(headers, rows), *([""] if unreadable else []), *unreadable]
