"""``instantstart cluster stage``: one part of a cluster's making, for a cluster that exists."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.commands.storage import claim_options, put_claim
from cli.options import Command, file_option, start_options
from cli.spec import Body, group_options, network_options, put, put_group, put_network, read


@click.group()
def stage() -> None:
    """Run one stage on a cluster: make what is missing of it, and verify the rest."""


def stage_command(command: Command) -> Command:
    """What every stage takes."""
    for option in (start_options, file_option("The stage's spec"), click.argument("tag")):
        command = option(command)
    return command


def start(part: str, tag: str, body: Body, **choices: Any) -> int:
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, part), body, **choices)


@stage.command("control-plane")
@click.option("--region", help="Of a new cluster.  [default: the deployment's]")
@network_options
@stage_command
def control_plane(tag: str, file: TextIO | None, **choices: Any) -> int:
    """Network, identity and EKS control plane."""
    body = read(file)
    put_network(body, choices)
    return start("control-plane", tag, body, **choices)


@stage.command("access")
@stage_command
def access(tag: str, file: TextIO | None, **choices: Any) -> int:
    """Administration of the cluster's Kubernetes API by the platform."""
    return start("access", tag, read(file), **choices)


@stage.command("dependencies")
@click.option("--component", "components", multiple=True, help="Only this one and what it needs; may be repeated.")
@stage_command
def dependencies(tag: str, file: TextIO | None, components: tuple[str, ...], **choices: Any) -> int:
    """EKS add-ons and the HyperPod Helm chart."""
    body = read(file)
    put(body, "components", list(components) or None)
    return start("dependencies", tag, body, **choices)


@stage.command("hyperpod")
@group_options
@click.option("--node-recovery", type=click.Choice(["Automatic", "None"]))
@click.option("--provisioning", type=click.Choice(["Continuous", "Classic"]))
@stage_command
def hyperpod(tag: str, file: TextIO | None, node_recovery: str | None, provisioning: str | None, **choices: Any) -> int:
    """The HyperPod cluster and its instance groups."""
    body = read(file)
    put(body, "hyperpod.node_recovery", node_recovery)
    put(body, "hyperpod.provisioning", provisioning)
    put_group(body, choices)
    return start("hyperpod", tag, body, **choices)


@stage.command("storage")
@claim_options
@stage_command
def storage(tag: str, file: TextIO | None, **choices: Any) -> int:
    """An S3 bucket, mounted by pods through a claim."""
    body = read(file)
    put_claim(body, choices)
    return start("storage", tag, body, **choices)


@stage.command("verify")
@stage_command
def verify(tag: str, file: TextIO | None, **choices: Any) -> int:
    """Look at everything again and bring the cluster's record up to date."""
    return start("verification", tag, read(file), **choices)
