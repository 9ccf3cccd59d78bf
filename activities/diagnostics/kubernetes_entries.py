"""What Kubernetes shows, as entries of a timeline. Pure: from objects as the API gives them.

Messages of ended containers may be the end of their log, and errors of starting one quote its command: of both only the
part that says what is missing is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from activities.diagnostics.aws_entries import moment
from activities.diagnostics.lines import told
from activities.nodes.sight import labels_of
from contracts.diagnostics import Severity, Source, TimelineEntry

Raw = dict[str, Any]

SAGEMAKER = "sagemaker.amazonaws.com/"
HEALTH_LABELS = ("node-health-status", "deep-health-check-status", "fault-type", "fault-types", "fault-reason",
                 "fault-reasons", "fault-details")  # fmt: skip
"""(SageMaker Developer Guide: resilience-related Kubernetes labels). Both spellings of the fault labels are seen."""
HEALTHY = frozenset({"Schedulable", "Passed", "InProgress"})
QUEUE_BAD = frozenset({"Evicted", "Preempted", "DeactivationTarget"})
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_NOT_STARTED = re.compile(r"exec: .{1,120}?(?:executable file not found|no such file or directory|permission denied)")


def of_node(node: Raw) -> list[TimelineEntry]:
    """Labels, taints and conditions of a node that are not as they are on a good one."""
    name, spec, status = node["metadata"]["name"], node.get("spec") or {}, node.get("status") or {}
    found = []

    def add(text: str, severity: Severity, at: Any = None) -> None:
        found.append(
            TimelineEntry(
                at=moment(at), source=Source.NODE, severity=severity, subject=f"node {name}", text=told(text), node=name
            )
        )

    labels = labels_of(node)
    for short in HEALTH_LABELS:
        if (value := labels.get(f"{SAGEMAKER}{short}")) and value not in HEALTHY:
            add(f"label {short}={value}", "warning")
    for taint in spec.get("taints") or ():
        if str(taint["key"]).startswith(("node.kubernetes.io/", SAGEMAKER)):
            add(
                f"taint {taint['key']}={taint.get('value') or ''}:{taint.get('effect')}",
                "warning",
                taint.get("timeAdded"),
            )
    for condition in status.get("conditions") or ():
        # EKS's node monitoring agent adds NetworkingReady, StorageReady, AcceleratedHardwareReady and the like.
        good = "True" if condition["type"].endswith("Ready") else "False"
        if condition.get("status") != good:
            add(_condition(condition), "error", condition.get("lastTransitionTime"))
    return found


def _condition(condition: Raw) -> str:
    reason, message = condition.get("reason"), condition.get("message")
    told_of = ": ".join(filter(None, (reason, message)))
    return f"condition {condition['type']}={condition.get('status')}" + (f", {told_of}" if told_of else "")


def of_event(event: Raw) -> TimelineEntry | None:
    """A Kubernetes event; None where it says no word or repeats a command."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    kind, name, namespace = about.get("kind") or "object", about.get("name") or "", about.get("namespace")
    reason, message = event.get("reason") or "", event.get("message") or event.get("note") or ""
    if not reason and not message:
        return None
    if "OCI runtime" in message or "failed to create containerd task" in message:
        message = " ".join(_NOT_STARTED.findall(message)) or "the container could not be started"
    last = moment(_when(event))
    first = moment(event.get("firstTimestamp")) or last
    within = f"{namespace}/" if namespace and namespace != "default" and kind != "Node" else ""
    host = (event.get("source") or {}).get("host") or None
    return TimelineEntry(
        at=first,
        last_at=last if first != last else None,
        source=Source.KUBERNETES_EVENT,
        severity="warning" if event.get("type") == "Warning" else "info",
        subject=f"{kind.lower()} {within}{name}",
        text=told(f"{reason}: {message}" if message else reason),
        node=name if kind == "Node" else host,
        count=event.get("count") or (event.get("series") or {}).get("count") or 1,
    )


def _when(event: Raw) -> Any:
    series = (event.get("series") or {}).get("lastObservedTime")
    return series or event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")


def of_pod(pod: Raw) -> list[TimelineEntry]:
    """What holds a pod up, and how its containers ended."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    namespace = metadata.get("namespace") or "default"
    subject = f"pod {metadata['name'] if namespace == 'default' else namespace + '/' + metadata['name']}"
    node = (pod.get("spec") or {}).get("nodeName") or None
    found = []

    def add(text: str, severity: Severity, at: Any = None) -> None:
        found.append(
            TimelineEntry(
                at=moment(at), source=Source.POD, severity=severity, subject=subject, text=told(text), node=node
            )
        )

    if status.get("reason"):
        add(f"{status.get('phase')}, {status['reason']}: {status.get('message') or ''}", "error")
    for condition in status.get("conditions") or ():
        kind, held = condition["type"], condition.get("status")
        if (kind == "PodScheduled" and held == "False") or (kind == "DisruptionTarget" and held == "True"):
            add(_condition(condition), "warning", condition.get("lastTransitionTime"))
    for container in _containers(status):
        for text, severity, at in _container(container):
            add(text, severity, at)
    return found


def _containers(status: Raw) -> Iterator[Raw]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _container(container: Raw) -> Iterator[tuple[str, Severity, Any]]:
    name, state = container["name"], container.get("state") or {}
    ends = [(container.get("lastState") or {}).get("terminated"), state.get("terminated")]
    for ended in filter(None, ends):
        reason, code = ended.get("reason") or "", ended.get("exitCode")
        missing = " ".join(_NOT_STARTED.findall(ended.get("message") or "")) if code else ""
        again = f", started again {container['restartCount']} times" if container.get("restartCount") else ""
        text = f"container {name} ended with exit code {code} ({reason}){again}" + (f": {missing}" if missing else "")
        yield text, "error" if code else "info", ended.get("finishedAt")
    waiting = state.get("waiting") or {}
    reason = waiting.get("reason")
    if reason and reason not in STARTING:
        message = waiting.get("message") or ""
        if reason in ("RunContainerError", "CreateContainerError"):
            message = " ".join(_NOT_STARTED.findall(message))
        yield f"container {name} waits, {reason}: {message}", "warning", None


def of_conditions(kind: str, thing: Raw) -> list[TimelineEntry]:
    """Conditions of a job, a deployment or the like that tell of trouble."""
    found = []
    for condition in (thing.get("status") or {}).get("conditions") or ():
        held, name = condition.get("status"), condition.get("type") or ""
        bad_word = re.search(r"fail|error|suspend|evict|degraded|restart", f"{name} {condition.get('reason')}", re.I)
        if (held == "True" and bad_word) or (held == "False" and name in ("Available", "Progressing", "Ready")):
            found.append(_of_thing(Source.JOB, kind, thing, condition, "error" if "ail" in name else "warning"))
    return found


def of_workload(workload: Raw) -> list[TimelineEntry]:
    """Why a Kueue Workload is not admitted, or was put out again. (Kueue: Workload conditions)"""
    found = []
    for condition in (workload.get("status") or {}).get("conditions") or ():
        held, name = condition.get("status"), condition.get("type")
        if (name in ("QuotaReserved", "Admitted") and held == "False") or (name in QUEUE_BAD and held == "True"):
            found.append(_of_thing(Source.QUEUE, "workload", workload, condition, "warning"))
    return found


def _of_thing(source: Source, kind: str, thing: Raw, condition: Raw, severity: Severity) -> TimelineEntry:
    metadata = thing["metadata"]
    return TimelineEntry(
        at=moment(condition.get("lastTransitionTime")),
        source=source,
        severity=severity,
        subject=f"{kind} {metadata['name']}",
        text=told(_condition(condition)),
    )


def of_claims(claims: Iterable[Raw]) -> list[TimelineEntry]:
    """Claims that are not bound."""
    return [
        TimelineEntry(
            source=Source.STORAGE,
            severity="warning",
            subject=f"claim {claim['metadata']['name']}",
            text=told(f"claim is {phase}, class {(claim.get('spec') or {}).get('storageClassName') or 'none'}"),
        )
        for claim in claims
        if (phase := (claim.get("status") or {}).get("phase")) != "Bound"
    ]
