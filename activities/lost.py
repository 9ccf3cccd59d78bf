"""What others have deleted of a Helm release: helm itself knows only what it has once made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubernetes import client

from activities.helm import Helm, Revision, Workload
from activities.kubernetes import listed


def lost_of(helm: Helm, api: client.ApiClient, release: str, namespace: str, revision: Revision) -> list[Workload]:
    """The Deployments and DaemonSets of a release's revision that are not there any more."""
    made = helm.workloads(release, namespace, revision)
    apps = client.AppsV1Api(api)
    there = {
        "Deployment": apps.list_deployment_for_all_namespaces,
        "DaemonSet": apps.list_daemon_set_for_all_namespaces,
    }
    return [
        each
        for kind in sorted({each.kind for each in made})
        for each in absent([each for each in made if each.kind == kind], listed(there[kind]))
    ]


def absent(made: Iterable[Workload], there: Iterable[Any]) -> list[Workload]:
    """Those of one kind that are not among the objects that are there, or are on their way out."""
    names = {(each.metadata.namespace, each.metadata.name) for each in there if not each.metadata.deletion_timestamp}
    return [each for each in made if (each.namespace, each.name) not in names]


def words(lost: Iterable[Workload]) -> str:
    return ", ".join(f"{each.kind} {each.namespace}/{each.name}" for each in lost)
