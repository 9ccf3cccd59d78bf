"""What is read of Kubernetes for a diagnosis. Every call only reads, and every list is bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

from kubernetes import client

from activities.custom import Kind, list_all
from activities.diagnostics import kubernetes_entries
from activities.diagnostics.aws_entries import moment
from activities.diagnostics.log_entries import of_log
from activities.diagnostics.reading import Reading
from activities.diagnostics.subjects import Parts, containers_of, first_failure, in_trouble, node_of
from activities.kubernetes import REQUEST_TIMEOUT, read_or_none
from activities.nodes.pods import requested
from activities.nodes.sight import Raw, count, labels_of, page_of
from contracts.diagnostics import Source, TimelineEntry

EVENTS = 500
MOST_LOGS = 12
"""Containers whose logs are read: those that failed first, then the others."""
TAIL_LINES = 600
LOG_BYTES = 2 << 20
EFA = "vpc.amazonaws.com/efa"
LABEL_TYPE = "node.kubernetes.io/instance-type"
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")


def collect(api: client.ApiClient, parts: Parts, since: datetime, reading: Reading) -> None:
    """Everything that Kubernetes tells of the subject's parts."""
    reading.add(Source.POD, "pods", [entry for pod in parts.pods for entry in kubernetes_entries.of_pod(pod)])
    nodes = [entry for node in parts.nodes.values() for entry in kubernetes_entries.of_node(node)]
    reading.add(Source.NODE, "nodes", nodes)
    things = [entry for kind, thing in parts.things for entry in kubernetes_entries.of_conditions(kind, thing)]
    reading.add(Source.JOB, "conditions of jobs and deployments", [*things, *_without_efa(parts), *_too_large(parts)])
    reading.ask(Source.KUBERNETES_EVENT, "events", lambda: _events(api, parts, since))
    if any(kind != "Deployment" for kind, _ in parts.things):
        reading.ask(Source.QUEUE, "workloads of queues", lambda: _workloads(api, parts))
    if parts.claims():
        reading.ask(Source.STORAGE, "claims", lambda: _claims(api, parts))
    for pod, container, previous in _logs_to_read(parts):
        what = f"log of {pod['metadata']['name']}/{container}" + (", the one before" if previous else "")
        reading.ask(Source.LOG, what, partial(_log, api, pod, container, previous))


def _events(api: client.ApiClient, parts: Parts, since: datetime) -> Iterable[TimelineEntry]:
    core, found = client.CoreV1Api(api), list[Raw]()
    if parts.whole:
        found, _ = page_of(core.list_event_for_all_namespaces, EVENTS, None, field_selector="type=Warning")
    elif parts.namespace is not None:
        found, _ = page_of(partial(core.list_namespaced_event, parts.namespace), EVENTS, None)
    if parts.node_names and not parts.whole:
        # Events of nodes, which belong to no namespace, are in the default one.
        of_nodes, _ = page_of(
            partial(core.list_namespaced_event, "default"), EVENTS, None, field_selector="involvedObject.kind=Node"
        )
        found += of_nodes
    for event in found:
        if not _concerns(event, parts):
            continue
        entry = kubernetes_entries.of_event(event)
        if entry is not None and (entry.at is None or (entry.last_at or entry.at) >= since):
            ran_on = parts.placed.get((event.get("involvedObject") or {}).get("name") or "")
            yield entry.model_copy(update={"node": ran_on[-1]}) if ran_on and entry.node is None else entry


def _concerns(event: Raw, parts: Parts) -> bool:
    about = event.get("involvedObject") or {}
    name = about.get("name") or ""
    if parts.whole:
        # Of the pods of a whole cluster only those count that are in trouble now: others had to wait once, and run.
        return about.get("kind") != "Pod" or name in parts.names
    if about.get("kind") == "Node":
        return name in parts.node_names or name in parts.names
    within = parts.namespace is None or about.get("namespace") == parts.namespace
    return within and (name in parts.names or (about.get("kind") != "Pod" and _made_by(name, parts)))


def _made_by(name: str, parts: Parts) -> bool:
    """Whether an object is called after one of the subject's things: a ReplicaSet, a Workload, a pod that is gone."""
    things = [thing["metadata"]["name"] for _, thing in parts.things]
    return any(name.startswith(f"{thing}-") or f"-{thing}-" in name for thing in things)


def _workloads(api: client.ApiClient, parts: Parts) -> Iterable[TimelineEntry]:
    own = {thing["metadata"].get("uid") for _, thing in parts.things}
    for workload in list_all(api, WORKLOADS, parts.namespace):
        owners = workload["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") in own for owner in owners):
            yield from kubernetes_entries.of_workload(workload)


def _claims(api: client.ApiClient, parts: Parts) -> Iterable[TimelineEntry]:
    core = client.CoreV1Api(api)
    read = partial(core.read_namespaced_persistent_volume_claim, _preload_content=False)
    for namespace, name in sorted(parts.claims()):
        answer = read_or_none(read, name, namespace)
        if answer is None:
            yield TimelineEntry(
                source=Source.STORAGE, severity="error", subject=f"claim {name}", text="claim is Lost: it is not there"
            )
        else:
            yield from kubernetes_entries.of_claims([json.loads(answer.data)])


def _without_efa(parts: Parts) -> Iterable[TimelineEntry]:
    """A job of several pods on nodes that have EFA, which asks for none."""
    with_efa = {
        name
        for name, node in parts.nodes.items()
        if count((node.get("status") or {}).get("allocatable"), EFA)  # only where the plugin shows them
    }
    bare = [pod for pod in parts.pods if node_of(pod) in with_efa and not _asks_for_efa(pod)]
    jobs = [thing["metadata"]["name"] for kind, thing in parts.things if kind != "Deployment"]
    if jobs and len(bare) > 1:
        text = f"{len(bare)} pods ask for no {EFA} although their nodes have it"
        yield TimelineEntry(source=Source.JOB, severity="warning", subject=f"job {jobs[0]}", text=text)


def _too_large(parts: Parts) -> Iterable[TimelineEntry]:
    """Pods without a node that ask for more devices than any node has that would do; or no such node is there now,
    which says nothing of whether one comes."""
    for pod in parts.pods:
        if node_of(pod) is not None or not parts.every:
            continue
        subject, types = f"pod {pod['metadata']['name']}", types_asked(pod)
        would_do = [node for node in parts.every if not types or labels_of(node).get(LABEL_TYPE) in types]
        if not would_do:
            text = f"no node of type {'|'.join(sorted(types))[:80]} is there now"
            yield TimelineEntry(source=Source.POD, severity="warning", subject=subject, text=text)
            continue
        for device, wanted in requested(pod).items():
            largest = max(_capacity(node, device) for node in would_do)
            if wanted > largest > 0:
                text = f"asks for {wanted} {device}, and the largest node has {largest}"
                yield TimelineEntry(source=Source.POD, severity="error", subject=subject, text=text)
            elif wanted > largest:
                text = f"asks for {wanted} {device}, and no node has any now"
                yield TimelineEntry(source=Source.POD, severity="warning", subject=subject, text=text)


def types_asked(pod: Raw) -> frozenset[str]:
    """The instance types that a pod may run on; empty where it does not choose."""
    spec = pod.get("spec") or {}
    if (chosen := (spec.get("nodeSelector") or {}).get(LABEL_TYPE)) is not None:
        return frozenset({chosen})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    named = [
        {
            value
            for each in term.get("matchExpressions") or ()
            if _names_types(each)
            for value in each.get("values") or ()
        }
        for term in terms
    ]
    # Terms are alternatives: one that names no type admits all.
    return frozenset().union(*named) if all(named) else frozenset()


def _names_types(expression: Raw) -> bool:
    return expression.get("key") == LABEL_TYPE and expression.get("operator") == "In"


def _capacity(node: Raw, device: str) -> int:
    return count((node.get("status") or {}).get("capacity"), device)


def _asks_for_efa(pod: Raw) -> bool:
    containers = (pod.get("spec") or {}).get("containers") or ()
    return any(count((each.get("resources") or {}).get("limits"), EFA) for each in containers)


def _logs_to_read(parts: Parts) -> list[tuple[Raw, str, bool]]:
    """Pod, container, and whether the log before the last restart is meant: what failed first comes first."""
    pods = parts.pods if not parts.whole else [pod for pod in parts.pods if in_trouble(pod)]
    ordered = sorted(pods, key=lambda pod: (first_failure(pod) or "9", pod["metadata"]["name"]))
    found: list[tuple[Raw, str, bool]] = []
    for pod in ordered:
        for container in containers_of(pod):
            state = container.get("state") or {}
            if container.get("restartCount"):
                found.append((pod, container["name"], True))
            if "running" in state or "terminated" in state:
                found.append((pod, container["name"], False))
    return found[:MOST_LOGS]


def _log(api: client.ApiClient, pod: Raw, container: str, previous: bool) -> list[TimelineEntry]:
    metadata = pod["metadata"]
    answer: Any = client.CoreV1Api(api).read_namespaced_pod_log(
        metadata["name"],
        metadata.get("namespace") or "default",
        container=container,
        previous=previous,
        tail_lines=TAIL_LINES,
        timestamps=True,
        _preload_content=False,
        _request_timeout=REQUEST_TIMEOUT,
    )
    try:
        text = answer.read(LOG_BYTES).decode(errors="replace")
    finally:
        answer.release_conn()
    return of_log(metadata["name"], node_of(pod), text.splitlines())


def failed_at(parts: Parts) -> datetime | None:
    """When the subject failed: its job's own word, else the first container that ended badly."""
    for _, thing in parts.things:
        for condition in (thing.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Failed" and condition.get("status") == "True":
                return moment(condition.get("lastTransitionTime"))
    firsts = [first for pod in parts.pods if (first := first_failure(pod)) is not None]
    return moment(min(firsts, default=None))
