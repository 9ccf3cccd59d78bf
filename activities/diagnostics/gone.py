"""Where the pods of a subject ran that are gone: Kubernetes' events remember it, for an hour by default.

``Scheduled: Successfully assigned <namespace>/<pod> to <node>``
(https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/)
"""

from __future__ import annotations

import re
from functools import partial

from kubernetes import client

from activities.diagnostics.aws_entries import moment
from activities.diagnostics.subjects import Parts
from activities.nodes.sight import page_of
from contracts.diagnostics import Subject

MOST_EVENTS = 1000
_ASSIGNED = re.compile(r"Successfully assigned \S+/(\S+) to (\S+)")


def find_placed(api: client.ApiClient, parts: Parts, subject: Subject) -> None:
    """Note the nodes of pods of a run (or of the pod) that are not there any more, the last one last. Where its job is
    there, only of pods that are younger: an earlier job may have had the name."""
    if subject.kind not in ("training-run", "pod"):
        return
    listing = partial(client.CoreV1Api(api).list_namespaced_event, subject.namespace)
    selector = "involvedObject.kind=Pod,reason=Scheduled"
    events, _ = page_of(listing, MOST_EVENTS, None, field_selector=selector)
    born = [at for _, thing in parts.things if (at := moment(thing["metadata"].get("creationTimestamp"))) is not None]
    found = []
    for event in events:
        at = moment(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))
        told = _ASSIGNED.match(event.get("message") or "")
        if told is None or at is None or (born and at < min(born)):
            continue
        pod, node = told.groups()
        if pod == subject.name if subject.kind == "pod" else is_of_run(pod, subject.name):
            found.append((at, pod, node))
    there = {pod["metadata"]["name"] for pod in parts.pods}
    for _, pod, node in sorted(found):
        if pod not in there:
            parts.placed.setdefault(pod, []).append(node)


def is_of_run(pod: str, run: str) -> bool:
    """Whether a pod is called as the operators call those of ``run``: ``<run>-pods-0`` (HyperPodPyTorchJob),
    ``<run>-x7kq2`` and ``<run>-0-x7kq2`` (Job), ``<run>-x7kq2-head-…`` and ``<run>-x7kq2-…worker-…`` (RayJob)."""
    rest = pod.removeprefix(f"{run}-")
    shape = r"pods-\d+|(?:\d+-)?[a-z0-9]{5}|[a-z0-9]{5}-(?:head|[a-z0-9-]{0,40}worker)(?:-[a-z0-9-]{1,60})?"
    return rest != pod and re.fullmatch(shape, rest) is not None
