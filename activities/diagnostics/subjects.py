"""What a subject is made of in Kubernetes: its object, its pods and its nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubernetes import client

from activities.custom import Kind, get
from activities.deployments import objects
from activities.diagnostics import kubernetes_entries
from activities.kubernetes import read_or_none
from activities.nodes.sight import Raw, items, labels_of, page_of
from contracts.diagnostics import Subject
from contracts.names import LABEL_TRAINING

OPERATOR_LABEL = "training.sagemaker.amazonaws.com/job-name"
"""(SageMaker HyperPod training operator)"""
POD_LABELS = (LABEL_TRAINING, OPERATOR_LABEL, "job-name", "ray.io/originated-from-cr-name")
"""What tells a job's pods, by who made them: ours, the training operator, Kubernetes' Jobs, KubeRay."""
JOBS = (
    Kind("sagemaker.amazonaws.com", "v1", "HyperPodPyTorchJob", "hyperpodpytorchjobs"),
    Kind("ray.io", "v1", "RayJob", "rayjobs"),
    Kind("batch", "v1", "Job", "jobs"),
)
MOST_PODS = 200
MOST_OF_CLUSTER = 50
"""Pods of each phase that are looked at where the subject is the whole cluster."""
MOST_LOOKED_AT = 500
"""Running pods of a cluster that are looked at for containers that do not start."""
IN_TROUBLE = ("Pending", "Failed")


@dataclass
class Parts:
    """A subject's parts as they are now."""

    namespace: str | None = None
    """Null: all."""
    things: list[tuple[str, Raw]] = field(default_factory=list)
    """Objects with their kinds: a job, a deployment."""
    pods: list[Raw] = field(default_factory=list)
    nodes: dict[str, Raw] = field(default_factory=dict)
    """By name."""
    names: set[str] = field(default_factory=set)
    """Of objects whose events count."""
    subjects: set[str] = field(default_factory=set)
    """The node that is the subject."""
    every: list[Raw] = field(default_factory=list)
    """All nodes of the cluster, where they were read."""
    placed: dict[str, list[str]] = field(default_factory=dict)
    """Nodes that pods ran on that are gone, by the pods' names; the last one last."""
    whole: bool = False
    """The subject is the cluster: everything counts."""

    @property
    def own_nodes(self) -> frozenset[str]:
        """The nodes that the subject is on, or is."""
        return frozenset(self.subjects | self._placed | {name for pod in self.pods if (name := node_of(pod))})

    @property
    def node_names(self) -> set[str]:
        return set(self.nodes) | self._placed | {name for pod in self.pods if (name := node_of(pod))}

    @property
    def _placed(self) -> set[str]:
        return {node for nodes in self.placed.values() for node in nodes}

    def claims(self) -> set[tuple[str, str]]:
        """Namespace and name of the claims that the pods mount."""
        return {
            (pod["metadata"].get("namespace") or "default", claim)
            for pod in self.pods
            for volume in (pod.get("spec") or {}).get("volumes") or ()
            if (claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"))
        }


def parts_of(api: client.ApiClient, subject: Subject) -> Parts:
    """The subject's object and pods, without their nodes. Nothing where they are not there (any more)."""
    match subject.kind:
        case "training-run":
            return _job(api, subject)
        case "deployment":
            return _deployment(api, subject)
        case "pod":
            return _pod(api, subject)
        case "node":
            return _node(api, subject)
    return _cluster(api)


def add_nodes(api: client.ApiClient, parts: Parts) -> None:
    """The nodes of the pods, and where one has none those that are not well; of a cluster all."""
    wanted = parts.node_names - set(parts.nodes)
    homeless = any(node_of(pod) is None for pod in parts.pods)
    if parts.whole or homeless or len(wanted) > 5:
        found = parts.every = list(items(client.CoreV1Api(api).list_node))
        if homeless:
            # A pod waits: nodes that take none may be why, and it may have been on one of them before.
            wanted |= {each["metadata"]["name"] for each in found if kubernetes_entries.of_node(each)}
        parts.nodes |= {
            each["metadata"]["name"]: each for each in found if parts.whole or each["metadata"]["name"] in wanted
        }
        return
    for name in wanted:
        if (node := _read(client.CoreV1Api(api).read_node, name)) is not None:
            parts.nodes[name] = node


def node_of(pod: Raw) -> str | None:
    return (pod.get("spec") or {}).get("nodeName") or None


def _job(api: client.ApiClient, subject: Subject) -> Parts:
    parts = Parts(namespace=subject.namespace, names={subject.name})
    for kind in JOBS:
        if (found := get(api, kind, subject.namespace, subject.name)) is not None:
            parts.things.append((kind.kind, found))
    listing = partial(client.CoreV1Api(api).list_namespaced_pod, subject.namespace)
    by_uid: dict[str, Raw] = {}
    for label in POD_LABELS:
        page, _ = page_of(listing, MOST_PODS, None, label_selector=f"{label}={subject.name}")
        by_uid |= {pod["metadata"]["uid"]: pod for pod in page}
    parts.pods = list(by_uid.values())
    parts.names |= {pod["metadata"]["name"] for pod in parts.pods}
    return parts


def _deployment(api: client.ApiClient, subject: Subject) -> Parts:
    parts = Parts(namespace=subject.namespace, names={subject.name})
    found = objects.deployment(api, subject.namespace, subject.name)
    if found is not None:
        parts.things.append(("Deployment", found))
        parts.pods = objects.pods_of(api, found)[:MOST_PODS]
        parts.names |= {pod["metadata"]["name"] for pod in parts.pods}
    return parts


def _pod(api: client.ApiClient, subject: Subject) -> Parts:
    found = _read(client.CoreV1Api(api).read_namespaced_pod, subject.name, subject.namespace)
    return Parts(namespace=subject.namespace, names={subject.name}, pods=[found] if found is not None else [])


def _node(api: client.ApiClient, subject: Subject) -> Parts:
    """A node by its Kubernetes name or its instance, and the pods in trouble that are bound to it."""
    core = client.CoreV1Api(api)
    instance = subject.name.removeprefix("hyperpod-")
    parts = Parts(names={subject.name, f"hyperpod-{instance}"})
    for name in (subject.name, f"hyperpod-{instance}"):
        if (node := _read(core.read_node, name)) is not None:
            parts.nodes[name] = node
            parts.names.add(name)
            parts.subjects.add(name)
            page, _ = page_of(core.list_pod_for_all_namespaces, MOST_PODS, None, field_selector=f"spec.nodeName={name}")
            parts.pods += [pod for pod in page if in_trouble(pod)]
    return parts


def _cluster(api: client.ApiClient) -> Parts:
    parts = Parts(whole=True)
    listing = client.CoreV1Api(api).list_pod_for_all_namespaces
    for phase in IN_TROUBLE:
        page, _ = page_of(listing, MOST_OF_CLUSTER, None, field_selector=f"status.phase={phase}")
        parts.pods += page
    running, _ = page_of(listing, MOST_LOOKED_AT, None, field_selector="status.phase=Running")
    parts.pods += [pod for pod in running if is_stuck(pod)][:MOST_OF_CLUSTER]
    parts.names |= {pod["metadata"]["name"] for pod in parts.pods}
    return parts


def in_trouble(pod: Raw) -> bool:
    """Whether a pod waits, has failed, or has containers that were started again."""
    status = pod.get("status") or {}
    return status.get("phase") in IN_TROUBLE or any(each.get("restartCount") for each in containers_of(pod))


def is_stuck(pod: Raw) -> bool:
    """Whether a container of a running pod waits to be started again."""
    return any("waiting" in (each.get("state") or {}) for each in containers_of(pod))


def containers_of(pod: Raw) -> Iterator[Raw]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def first_failure(pod: Raw) -> str | None:
    """When a container of the pod first ended badly, as far as Kubernetes still knows."""
    ends = [
        ended["finishedAt"]
        for container in containers_of(pod)
        for state in (container.get("lastState"), container.get("state"))
        if (ended := (state or {}).get("terminated")) and ended.get("exitCode") and ended.get("finishedAt")
    ]
    return min(ends, default=None)


def instance_types(parts: Parts) -> set[str]:
    return {kind for node in parts.nodes.values() if (kind := labels_of(node).get("node.kubernetes.io/instance-type"))}


def _read(read: Any, *names: str) -> Raw | None:
    answer = read_or_none(partial(read, _preload_content=False), *names)
    return json.loads(answer.data) if answer is not None else None
