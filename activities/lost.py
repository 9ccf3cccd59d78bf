"""What others have deleted of a Helm release: helm itself knows only what it has once made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubernetes import client

from activities.helm import Helm, Revision, Workload
from activities.kubernetes import listed


def lost_of(
    helm: Helm,
    api: client.ApiClient,
    release: str,
    namespace: str,
    revision: Revision,
    deployments: list[Any] | None = None,
) -> list[Workload]:
    """The Deployments and DaemonSets of a release's revision that are not there any more. ``deployments``: those of the
    cluster, where they have been listed already."""
    made = helm.workloads(release, namespace, revision)
    kinds = {kind: [each for each in made if each.kind == kind] for kind in ("DaemonSet", "Deployment")}
    apps, lost = client.AppsV1Api(api), []
    if kinds["DaemonSet"]:
        lost += absent(kinds["DaemonSet"], listed(apps.list_daemon_set_for_all_namespaces))
    if kinds["Deployment"]:
        there = listed(apps.list_deployment_for_all_namespaces) if deployments is None else deployments
        lost += absent(kinds["Deployment"], there)
    return lost


def absent(made: Iterable[Workload], there: Iterable[Any]) -> list[Workload]:
    """Those of one kind that are not among the objects that are there, or are on their way out."""
    names = {(each.metadata.namespace, each.metadata.name) for each in there if not each.metadata.deletion_timestamp}
    return [each for each in made if (each.namespace, each.name) not in names]


def words(lost: Iterable[Workload]) -> str:
    return ", ".join(f"{each.kind} {each.namespace}/{each.name}" for each in lost)
