"""``instantstart experiment``: runs that training has reported, and who may report."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import Command, file_option, output_option, start_options
from cli.spec import put, read

SHOWN = 6
"""Metrics and parameters of a run in a table."""


@click.group()
def experiment() -> None:
    """Look at experiments of managed MLflow, compare and export runs, and let training report."""


def search_options(command: Command) -> Command:
    for option in (
        click.option("--deleted", is_flag=True, help="Deleted ones."),
        click.option("--order-by", multiple=True, help="In MLflow's syntax, e.g. 'metrics.loss ASC'."),
        click.option("--filter", help="In MLflow's syntax, e.g. \"metrics.loss < 1 and params.lr = '0.1'\"."),
        click.option("-e", "--experiment", multiple=True, help="Only of this one; may be repeated."),
    ):
        command = option(command)
    return command


@experiment.command("list")
@click.argument("tag")
@click.argument("server")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@output_option
def list_(tag: str, server: str, limit: int | None, output: str) -> None:
    """List the experiments of the tracking server SERVER (a name or ARN)."""
    from cli.output import emit

    found = _pages(tag, "experiments", "experiments", limit, tracking_server=server)
    emit(output, found, _experiments)


@experiment.command("runs")
@click.argument("tag")
@click.argument("server")
@search_options
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@output_option
def runs(tag: str, server: str, limit: int, output: str, **search: Any) -> None:
    """List runs of the tracking server SERVER (a name or ARN), the newest first."""
    from cli.output import emit

    emit(output, _pages(tag, "experiments/runs", "runs", limit, tracking_server=server, **_asked(search)), _runs)


@experiment.command("export")
@click.argument("tag")
@click.argument("server")
@search_options
@click.option("--limit", type=click.IntRange(1, 5000), help="At most so many.  [default: 5000]")
@click.option("--to", type=click.File("wb"), default="-", help="File to write; - for stdout.  [default: -]")
def export(tag: str, server: str, limit: int | None, to: Any, **search: Any) -> None:
    """Export runs of the tracking server SERVER as CSV: every metric, parameter and tag is a column."""
    from cli.errors import say
    from cli.gateway import API, checked, cluster_path, connect

    gateway = connect()
    asked = {"tracking_server": server, "limit": limit, **_asked(search)}
    parameters = {name: value for name, value in asked.items() if value is not None}
    answer = checked(gateway.http.get(API + cluster_path(tag, "experiments/runs.csv"), params=parameters, timeout=300))
    to.write(answer.content)
    if answer.headers.get("InstantStart-Truncated"):
        say("there are more runs than were exported")


@experiment.command("run")
@click.argument("tag")
@click.argument("server")
@click.argument("run_id")
@click.option("-m", "--metric", multiple=True, help="History of this one; may be repeated.  [default: the first 20]")
@output_option
def run(tag: str, server: str, run_id: str, metric: tuple[str, ...], output: str) -> None:
    """Show the run RUN_ID with the histories of its metrics."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    path = cluster_path(tag, f"experiments/runs/{quote(run_id, safe='')}")
    emit(output, connect().get(path, tracking_server=server, metric=list(metric) or None), _run)


@experiment.command("compare")
@click.argument("tag")
@click.argument("server")
@click.argument("run_ids", nargs=-1, required=True)
@click.option("-m", "--metric", multiple=True, help="Of this one; may be repeated.  [default: those of all runs]")
@click.option("--points", type=click.IntRange(2, 500), default=20, show_default=True, help="Steps of each metric.")
@output_option
def compare(tag: str, server: str, run_ids: tuple[str, ...], metric: tuple[str, ...], points: int, output: str) -> None:
    """Show the runs RUN_IDS beside each other, over the same steps."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    asked: dict[str, Any] = {"tracking_server": server, "run": list(run_ids), "points": points}
    found = connect().get(cluster_path(tag, "experiments/comparison"), **asked, metric=list(metric) or None)
    emit(output, found, _comparison)


@experiment.command("test")
@click.argument("tag")
@click.argument("server")
@click.option("-n", "--namespace", help="Also the way of pods of this one.")
@click.option("--service-account", help="Whom these run as.  [default: experiments]")
@output_option
def test(tag: str, server: str, namespace: str | None, service_account: str | None, output: str) -> int:
    """Test the way to the tracking server SERVER, step by step. Exits 1 where a step fails."""
    from cli.errors import Exit
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    body: dict[str, Any] = {"tracking_server": server}
    put(body, "namespace", namespace)
    put(body, "service_account", service_account)
    answer = connect().post(cluster_path(tag, "experiments/test"), body)
    emit(output, answer, _steps)
    return Exit.OK if answer["passed"] else Exit.FAILED


@experiment.command("connect")
@click.argument("tag")
@click.argument("server")
@click.option("-n", "--namespace", help="Of the pods.  [default: default]")
@click.option("--service-account", help="Whom the pods run as.  [default: experiments]")
@start_options
def connect_(tag: str, server: str, namespace: str | None, service_account: str | None, **choices: Any) -> int:
    """Let pods of the cluster TAG report to the tracking server SERVER (a name or ARN), and to no other."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body: dict[str, Any] = {"tracking_server": server}
    put(body, "namespace", namespace)
    put(body, "service_account", service_account)
    return begin(cluster_path(tag, "experiments/connections"), body, **choices)


@experiment.command("disconnect")
@click.argument("tag")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the pods.")
@click.option("--service-account", help="Whom the pods run as.  [default: experiments]")
@click.option("--server", "tracking_server", help="Only from this one, by name or ARN.  [default: from all]")
@start_options
def disconnect(
    tag: str, namespace: str, service_account: str | None, tracking_server: str | None, **choices: Any
) -> int:
    """Let pods of the cluster TAG report no more."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    path = cluster_path(tag, f"experiments/connections/{quote(namespace, safe='')}")
    return begin(
        path, None, method="DELETE", service_account=service_account, tracking_server=tracking_server, **choices
    )


@experiment.command("sync")
@click.argument("tag")
@click.argument("source", required=False)
@click.argument("name", required=False)
@click.argument("destination", required=False)
@file_option("The copy's spec")
@click.option("--destination-experiment", help="Its name there.  [default: the same]")
@click.option("--role-arn", help="Role to take there.  [default: none]")
@click.option("--external-id", help="What the role's trust policy asks for.")
@start_options
def sync(
    tag: str,
    source: str | None,
    name: str | None,
    destination: str | None,
    file: TextIO | None,
    destination_experiment: str | None,
    role_arn: str | None,
    external_id: str | None,
    **choices: Any,
) -> int:
    """Copy the experiment NAME of the tracking server SOURCE to the one with the ARN DESTINATION."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "source", source)
    put(body, "experiment", name)
    put(body, "destination", destination)
    put(body, "destination_experiment", destination_experiment)
    put(body, "role_arn", role_arn)
    put(body, "external_id", external_id)
    return begin(cluster_path(tag, "experiments/sync"), body, **choices)


def _asked(search: dict[str, Any]) -> dict[str, Any]:
    return {
        "experiment": list(search["experiment"]) or None,
        "filter": search["filter"],
        "order_by": list(search["order_by"]) or None,
        "wanted": "deleted" if search["deleted"] else None,
    }


def _pages(tag: str, path: str, member: str, limit: int | None, **asked: Any) -> dict[str, Any]:
    """All pages of a list as one."""
    from cli.gateway import PAGE_SIZE, cluster_path, connect

    gateway = connect()
    size = min(limit or PAGE_SIZE, PAGE_SIZE)
    found: dict[str, Any] = gateway.get(cluster_path(tag, path), **asked, page_size=size)
    items = found[member]
    while (token := found.get("next_page_token")) and (limit is None or len(items) < limit):
        found = gateway.get(cluster_path(tag, path), **asked, page_size=size, page_token=token)
        items += found[member]
    return {**found, member: items[:limit]}


def _experiments(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns, plain

    rows = ((each["id"], plain(each["name"]), age(each.get("updated_at"))) for each in answer["experiments"])
    return columns(("ID", "EXPERIMENT", "CHANGED"), rows)


def _runs(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns, plain

    headers = ("RUN", "NAME", "STATUS", "AGE", "TYPE", "NODES", "METRICS")
    rows = (
        (
            each["run_id"],
            plain(each.get("name") or ""),
            each["status"].lower(),
            age(each.get("started_at")),
            each.get("instance_type"),
            each.get("nodes"),
            plain(_values(each["metrics"])),
        )
        for each in answer["runs"]
    )
    return columns(headers, rows)


def _values(metrics: dict[str, Any]) -> str:
    told = [f"{name} {_number(value)}" for name, value in list(metrics.items())[:SHOWN]]
    more = len(metrics) - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "" if value is None else str(value)


def _run(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs, plain

    found = answer["run"]
    shown = ("run_id", "name", "status", "started_at", "ended_at", "training", "instance_type", "nodes")
    told = pairs((name.replace("_", " "), plain(str(found[name]))) for name in shown if found.get(name) is not None)
    parameters = [(plain(name), plain(value)) for name, value in found["parameters"].items()]
    rows = (
        (
            plain(each["metric"]),
            _number(each["points"][-1]["value"]) if each["points"] else "",
            _number(each["lowest"]),
            _number(each["highest"]),
            each["recorded"],
        )
        for each in answer["histories"]
    )
    metrics = columns(("METRIC", "LAST", "LOWEST", "HIGHEST", "POINTS"), rows)
    return [*told, "", *columns(("PARAMETER", "VALUE"), parameters), "", *metrics]


def _comparison(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, plain

    ids = [each["run_id"] for each in answer["runs"]]
    names = [plain(each.get("name") or each["run_id"]) for each in answer["runs"]]
    lines = columns(
        ("PARAMETER", *names),
        ((plain(name), *(plain(each or "") for each in row)) for name, row in answer["differing"].items()),
    )
    for metric in answer["metrics"]:
        series = [metric["values"].get(each, []) for each in ids]
        rows = (
            (step, *(_number(values[index]) if index < len(values) else "" for values in series))
            for index, step in enumerate(metric["steps"])
        )
        lines += ["", plain(metric["metric"]), *columns(("STEP", *names), rows)]
    return lines


def _steps(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, plain

    rows = ((each["name"], "passed" if each["passed"] else "failed", plain(each["detail"])) for each in answer["steps"])
    remedies = [plain(each["remedy"]) for each in answer["steps"] if not each["passed"] and each.get("remedy")]
    return [*columns(("STEP", "", "FOUND"), rows), *([""] if remedies else []), *remedies]
