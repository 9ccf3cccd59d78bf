"""``instantstart diagnose``: what is wrong, from evidence that is only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli.options import output_option
from contracts.words import number_of

Command = TypeVar("Command", bound=Callable[..., Any])

LAST_ENTRIES = 20
"""Of the timeline, where not all are asked for."""


@click.group()
def diagnose() -> None:
    """Find out what is wrong: probable causes with their evidence, and what to do next. Nothing is changed."""


def _reading_options(command: Command) -> Command:
    """What every diagnosis takes."""
    for option in (
        output_option,
        click.option("--all", "everything", is_flag=True, help="Print the whole timeline, and every source."),
        click.option(
            "--since",
            type=click.FloatRange(0, 336, min_open=True),
            metavar="HOURS",
            help="How far back.  [default: 24]",
        ),
    ):
        command = option(command)
    return command


_namespace = click.option("-n", "--namespace", default="default", show_default=True, help="Where it is.")


@diagnose.command("operation")
@click.argument("identifier", metavar="ID")
@_reading_options
def operation(identifier: str, since: float | None, everything: bool, output: str) -> None:
    """Diagnose the operation ID (such as create-cluster/demo): why it is blocked, has failed or takes so long."""
    parts = identifier.split("/")
    if len(parts) < 2 or not parts[1]:
        raise click.BadParameter("an operation is called KIND/TAG or KIND/TAG/…", param_hint="ID")
    _diagnose(parts[1], {"kind": "operation", "name": identifier}, since, everything, output)


@diagnose.command("cluster")
@click.argument("tag")
@_reading_options
def cluster(tag: str, since: float | None, everything: bool, output: str) -> None:
    """Diagnose the cluster TAG: its nodes, events, network, add-ons and pods that do not run."""
    _diagnose(tag, {"kind": "cluster"}, since, everything, output)


@diagnose.command("node")
@click.argument("tag")
@click.argument("name", metavar="NODE")
@_reading_options
def node(tag: str, name: str, since: float | None, everything: bool, output: str) -> None:
    """Diagnose the node NODE (i-… or hyperpod-i-…) of the cluster TAG."""
    _diagnose(tag, {"kind": "node", "name": name}, since, everything, output)


@diagnose.command("job")
@click.argument("tag")
@click.argument("name", metavar="JOB")
@_namespace
@_reading_options
def job(tag: str, name: str, namespace: str, since: float | None, everything: bool, output: str) -> None:
    """Diagnose the training run JOB of the cluster TAG, or any HyperPodPyTorchJob, RayJob or Job of that name."""
    _diagnose(tag, {"kind": "training-run", "name": name, "namespace": namespace}, since, everything, output)


@diagnose.command("deployment")
@click.argument("tag")
@click.argument("name", metavar="DEPLOYMENT")
@_namespace
@_reading_options
def deployment(tag: str, name: str, namespace: str, since: float | None, everything: bool, output: str) -> None:
    """Diagnose the model server DEPLOYMENT of the cluster TAG."""
    _diagnose(tag, {"kind": "deployment", "name": name, "namespace": namespace}, since, everything, output)


@diagnose.command("pod")
@click.argument("tag")
@click.argument("name", metavar="POD")
@_namespace
@_reading_options
def pod(tag: str, name: str, namespace: str, since: float | None, everything: bool, output: str) -> None:
    """Diagnose the pod POD of the cluster TAG."""
    _diagnose(tag, {"kind": "pod", "name": name, "namespace": namespace}, since, everything, output)


def _diagnose(tag: str, subject: dict[str, Any], since: float | None, everything: bool, output: str) -> None:
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    body: dict[str, Any] = {"subject": subject}
    if since is not None:
        body["since_hours"] = since
    answer = connect().post(cluster_path(tag, "diagnoses"), body)
    emit(output, answer, lambda found: diagnosis_lines(found, tag, everything))


def diagnosis_lines(found: dict[str, Any], tag: str, everything: bool = False) -> list[str]:
    lines: list[str] = []
    for number, cause in enumerate(found["causes"], 1):
        lines += [*_cause(number, cause, tag), ""]
    if note := found.get("note"):
        lines += [_plain(note), ""]
    elif not found["causes"]:
        lines += ["Unknown: nothing that was read tells a cause that is known.", ""]
    lines += _timeline(found, everything)
    unread = [each for each in found["read"] if not each["ok"]]
    if everything:
        lines += ["", "Read:", *(f"  {each['what']} ({each['source']}): {_how(each)}" for each in found["read"])]
    elif unread:
        lines += ["", "Not read:", *(f"  {each['what']}: {_plain(each['problem'])}" for each in unread)]
    return lines


def _cause(number: int, cause: dict[str, Any], tag: str) -> list[str]:
    lines = [f"{number}. {cause['title']}  ({cause['confidence']:.0%}, {cause['rule']})"]
    if cause.get("explained_by"):
        lines.append(f"   Probably a consequence of {cause['explained_by']}.")
    lines += [f"   {cause['explanation']}"]
    lines += [f"   | {_entry(entry)}" for entry in cause["evidence"]]
    if more := cause.get("more_evidence"):
        lines.append(f"   | … and {more} more")
    lines += [f"   Fix: {cause['fix']}", f"   See: {cause['source']}"]
    if step := cause.get("next_step"):
        lines.append(f"   Next: {step['level']}. {_plain(step['why'])}")
        if step.get("operation"):
            lines.append(f"         {_command(step, tag)}")
    return lines


def _command(step: dict[str, Any], tag: str) -> str:
    """The command that would start what is proposed, as far as the command line has one for it."""
    nodes = (step.get("spec") or {}).get("nodes")
    verbs = {"reboot-nodes": "reboot", "replace-nodes": "replace"}
    if nodes and step["operation"] in verbs:
        return f"instantstart node {verbs[step['operation']]} {tag} {' '.join(nodes)}"
    return f"operation {step['operation']}"


def _timeline(found: dict[str, Any], everything: bool) -> list[str]:
    entries = found["timeline"]
    shown = entries if everything else entries[-LAST_ENTRIES:]
    hidden = len(entries) - len(shown) + found.get("more_entries", 0)
    if not entries:
        return ["Timeline: nothing."]
    return [
        "Timeline:" + (f"  ({hidden} earlier or lesser entries are not shown)" if hidden else ""),
        *(f"  {_entry(entry)}" for entry in shown),
    ]


def _entry(entry: dict[str, Any]) -> str:
    at = str(entry["at"])[:19].replace("T", " ") if entry.get("at") else "now".ljust(19)
    times = f" (x{entry['count']})" if entry.get("count", 1) > 1 else ""
    if entry.get("last_at"):
        times += f" until {str(entry['last_at'])[:19].replace('T', ' ')}"
    return f"{at}  {entry['source']}  {_plain(entry['subject'])}: {_plain(entry['text'])}{times}"


def _how(each: dict[str, Any]) -> str:
    return number_of(each["entries"], "entry", "entries") if each["ok"] else f"not read: {_plain(each['problem'])}"


def _plain(text: str) -> str:
    from cli.output import plain

    return plain(text)
