"""``instantstart cluster import`` and ``redetect``: clusters that others made, and what clusters are made of now."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import file_option, start_options
from cli.spec import put, read


@click.command("import")
@click.argument("tag")
@file_option("The import's spec")
@click.option("--eks-cluster", help="Name of the EKS cluster.  [default: the one made here under TAG]")
@click.option("--hyperpod-cluster", help="Name or ARN.  [default: the one on the EKS cluster]")
@click.option("--region", help="AWS region.  [default: the deployment's]")
@click.option(
    "--grant-access", is_flag=True, default=None, help="Make an access entry for the platform if it has none."
)
@click.option(
    "--adopt", is_flag=True, default=None, help="Tag the clusters as this platform's, so that it may delete them."
)
@start_options
def import_(tag: str, file: TextIO | None, **choices: Any) -> int:
    """Take over an existing EKS cluster under TAG, with or without HyperPod. Without options nothing is changed."""
    from cli.starting import begin

    body = read(file)
    put(body, "tag", tag)
    for name in ("eks_cluster", "hyperpod_cluster", "region", "grant_access", "adopt"):
        put(body, name, choices.pop(name))
    return begin("/clusters/import", body, **choices)


@click.command("redetect")
@click.argument("tag")
@start_options
def redetect(tag: str, **choices: Any) -> int:
    """Compare the record of the cluster TAG with what there is, and bring it up to date."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, "redetection"), None, **choices)
