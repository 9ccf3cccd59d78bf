"""Bodies of requests from files and options. No rule is checked here that the gateway checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

import click

from cli.options import Command

Body = dict[str, Any]

CAPACITIES = ["on-demand", "spot", "training-plan"]


def group_options(command: Command) -> Command:
    """The first instance group."""
    options: list[Callable[[Command], Command]] = [
        click.option("--instance-type", help="HyperPod instance type, e.g. ml.g5.8xlarge."),
        click.option("--count", type=int, help="How many instances.  [default: 1]"),
        click.option("--availability-zone", help="Zone by name or ID."),
        click.option("--capacity", type=click.Choice(CAPACITIES), help="How the capacity is bought."),
        click.option("--training-plan", help="Name or ARN of a training plan; implies --capacity training-plan."),
        click.option("--group", help="Name of the instance group.  [default: workers]"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def network_options(command: Command) -> Command:
    for option in (
        click.option("--vpc-id", help="Reuse this VPC."),
        click.option("--vpc-cidr", help="Block of a new VPC, e.g. 10.90.0.0/16."),
        click.option("--kubernetes-version"),
    ):
        command = option(command)
    return command


def read(file: TextIO | None) -> Body:
    """The object in a YAML or JSON file; empty without one. What ``get`` has printed of one thing stands for the spec
    that it was made from. Raises click.UsageError when the file holds something else."""
    if file is None:
        return {}
    import yaml

    from contracts.plain_yaml import read_yaml

    try:
        value = read_yaml(file.read())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.UsageError(f"{file.name} is not YAML: {error}") from None
    if not isinstance(value, dict | None):
        raise click.UsageError(f"{file.name} holds a {type(value).__name__}, not an object")
    return _made_from(value or {}, file.name)


def _made_from(value: Body, name: str) -> Body:
    """The specification in the gateway's answer about one thing, which also says when that was read."""
    if "read_at" not in value:
        return value
    spec = value.get("spec")
    if not isinstance(spec, dict):
        raise click.UsageError(f"{name} is what `get` says, and has no spec: write the spec into a file")
    return {member: each for member, each in spec.items() if each is not None}


def put(body: Body, path: str, value: Any) -> None:
    """Set the member that a dotted path leads to, unless there is no value. Options win over files."""
    if value is None:
        return
    *parents, last = path.split(".")
    for parent in parents:
        body = body.setdefault(parent, {})
        if not isinstance(body, dict):
            raise click.UsageError(f"{parent} in the file is not an object")
    body[last] = value


def put_network(body: Body, choices: Body) -> None:
    put(body, "kubernetes_version", choices.pop("kubernetes_version"))
    put(body, "network.vpc_cidr", choices.pop("vpc_cidr"))
    put(body, "network.vpc_id", choices.pop("vpc_id"))


def put_group(body: Body, choices: Body) -> None:
    """The instance group that the options describe, if they describe one."""
    names = ("instance_type", "count", "availability_zone", "capacity", "training_plan", "group")
    given = {name: value for name in names if (value := choices.pop(name)) is not None}
    if not given:
        return
    if body.get("instance_groups"):
        raise click.UsageError("the file has instance groups; change them there, or leave out the options for one")
    if "instance_type" not in given:
        raise click.UsageError("an instance group needs --instance-type")
    plan, kind = given.pop("training_plan", None), given.pop("capacity", None)
    if plan and kind not in (None, "training-plan"):
        raise click.UsageError(f"--training-plan does not go with --capacity {kind}")
    if kind == "training-plan" and not plan:
        raise click.UsageError("--capacity training-plan needs --training-plan")
    group: Body = {"count": 1, **given}
    if "group" in group:
        group["name"] = group.pop("group")
    if plan:
        group["capacity"] = {"kind": "training-plan", "training_plan": plan}
    elif kind:
        group["capacity"] = {"kind": kind}
    body["instance_groups"] = [group]
