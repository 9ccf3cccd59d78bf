"""``instantstart job``: the Kubernetes Jobs of a cluster, read only."""

from __future__ import annotations

from typing import Any

import click

from cli.options import output_option
from contracts.words import number_of

STATES = ("pending", "running", "suspended", "succeeded", "failed")


@click.group()
def job() -> None:
    """Look at the Kubernetes Jobs of a cluster."""


@job.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@output_option
def list_(tag: str, namespace: str | None, state: str | None, limit: int | None, output: str) -> None:
    """List the Jobs of the cluster TAG as they are now."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    path = cluster_path(tag, "jobs").removeprefix("/")
    emit(output, connect().all(path, limit, namespace=namespace, state=state), jobs_lines)


@job.command("get")
@click.argument("tag")
@click.argument("name", metavar="JOB")
@click.option("-n", "--namespace", default="default", show_default=True, help="The Job's namespace.")
@output_option
def get(tag: str, name: str, namespace: str, output: str) -> None:
    """Show the Job JOB of the cluster TAG and its pods, those in trouble first."""
    from urllib.parse import quote

    from cli.gateway import cluster_path, connect
    from cli.output import emit

    part = "/".join(("jobs", quote(namespace, safe=""), quote(name, safe="")))
    emit(output, connect().get(cluster_path(tag, part)), job_lines)


def jobs_lines(jobs: list[dict[str, Any]]) -> list[str]:
    from cli.output import age, columns

    headers = ("NAMESPACE", "JOB", "STATE", "COMPLETIONS", "ACTIVE", "FAILED", "STARTED", "REASON")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            _completions(each),
            each["active"],
            each["failed"],
            age(each.get("started_at")),
            each.get("reason"),
        )
        for each in jobs
    )
    return columns(headers, rows)


def job_lines(detail: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs

    each = detail["job"]
    lines = pairs(
        [
            ("Job", f"{each['namespace']}/{each['name']}"),
            ("State", each["state"]),
            ("Reason", each.get("reason")),
            ("Completions", _completions(each)),
            ("Pods", f"{each['active']} active, {each['failed']} failed, {each['parallelism']} at once"),
            ("Started", each.get("started_at")),
            ("Finished", each.get("finished_at")),
            ("Images", ", ".join(each["images"])),
            ("Labels", ", ".join(f"{key}={value}" for key, value in each["labels"].items())),
        ]
    )
    if detail["pods"]:
        headers = ("POD", "PHASE", "NODE", "RESTARTS", "EXIT CODE", "REASON")
        rows = (
            (
                pod["name"],
                pod["phase"],
                pod.get("node"),
                pod["restarts"],
                pod.get("exit_code"),
                ": ".join(filter(None, (pod.get("reason"), pod.get("message")))),
            )
            for pod in detail["pods"]
        )
        lines += ["", *columns(headers, rows)]
    if more := detail.get("more_pods"):
        lines.append(f"… and {number_of(more, 'pod')} more")
    return lines


def _completions(each: dict[str, Any]) -> str:
    """``2/3``; ``2/1 of 4`` where one that ends well is enough of four at once, as kubectl has it."""
    if each.get("completions") is not None:
        return f"{each['succeeded']}/{each['completions']}"
    several = f" of {each['parallelism']}" if each["parallelism"] > 1 else ""
    return f"{each['succeeded']}/1{several}"
