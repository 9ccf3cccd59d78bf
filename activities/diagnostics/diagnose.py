"""A diagnosis: collectors side by side, rules over what they found, and the next step of each cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kubernetes import client
from temporalio import activity

from activities.aws import AwsClients
from activities.diagnostics import kept_logs, kubernetes_collectors
from activities.diagnostics.aws_collectors import AwsCollectors
from activities.diagnostics.gone import find_placed
from activities.diagnostics.matching import causes, in_order, together
from activities.diagnostics.reading import Reading
from activities.diagnostics.rules import NODE_RULES, RULES
from activities.diagnostics.steps import with_step
from activities.diagnostics.subjects import Parts, add_nodes, parts_of
from activities.errors import fail
from activities.hyperpod.cluster import describe
from activities.kubernetes import KubernetesClients
from contracts.diagnostics import (
    DIAGNOSE,
    MOST_ENTRIES,
    Cause,
    Diagnose,
    Diagnosis,
    Source,
    SourceRead,
    Subject,
    TimelineEntry,
)
from contracts.problem import ProblemCode

SECONDS = 9.0
"""For all collectors together, so that the gateway's caller gets an answer."""
TRACES = frozenset({Source.KUBERNETES_EVENT, Source.HYPERPOD_EVENT, Source.INSTANCE, Source.LOG})
"""What tells of something that was there."""
NOTHING_WRONG = "Nothing that was read says that anything is wrong"
_RULES = {rule.id: rule for rule in RULES}


class DiagnosisActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=DIAGNOSE.name)
    def diagnose(self, request: Diagnose) -> Diagnosis:
        """What is known of a subject, and the causes that it tells of. Changes nothing.

        A source that cannot be read is told, and the diagnosis rests on the others. Raises NOT_FOUND where neither the
        subject nor a trace of it is there.
        """
        about = request.focus or request.subject
        since = datetime.now(UTC) - timedelta(hours=request.since_hours)
        reading = Reading(SECONDS)
        reading.add(Source.STAGE, "stages of the operation", request.stages)
        parts = self._in_kubernetes(request, about, since, reading)
        self._in_aws(request, about, parts, since, reading)
        if (place := request.kept) is not None:
            pods = parts.pods if parts is not None else []
            live = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
            ran_on = {pod: nodes[-1] for pod, nodes in parts.placed.items()} if parts is not None else {}
            reading.ask(
                Source.LOG,
                "logs that were kept",
                lambda: kept_logs.entries(self._aws, request.region, place, request.run, live, ran_on),
            )
        found_entries, read = reading.end()
        entries = together(found_entries)
        if request.focus is None:
            _refuse_unknown(request, parts, entries, read)
        failed_at = request.failed_at or (kubernetes_collectors.failed_at(parts) if parts is not None else None)
        rules = NODE_RULES if about.kind == "node" else RULES
        near = parts.own_nodes if parts is not None and not parts.whole else None
        found = [
            with_step(cause, _RULES[cause.rule], about, request.repairs)
            for cause in causes(entries, failed_at, rules, near)
        ]
        shown = timeline(entries, found)
        return Diagnosis(
            subject=request.subject,
            causes=found,
            timeline=shown,
            more_entries=len(entries) - len(shown),
            note=NOTHING_WRONG if not found and _all_well(entries, read) else None,
            read=read,
            read_at=datetime.now(UTC),
        )

    def _in_kubernetes(self, request: Diagnose, about: Subject, since: datetime, reading: Reading) -> Parts | None:
        """Begin to read; None where Kubernetes cannot be asked, which is told."""
        name = request.eks_cluster
        if name is None:
            return None

        def look() -> tuple[client.ApiClient, Parts]:
            # Not closed here: the collectors go on with it, and it holds nothing but sockets.
            with self._kubernetes.connect(request.region, name) as api:
                parts = parts_of(api, about)
                reading.now(Source.KUBERNETES_EVENT, "where pods ran", lambda: find_placed(api, parts, about))
                add_nodes(api, parts)
                return api, parts

        found = reading.now(Source.POD, "Kubernetes API", look)
        if found is None:
            return None
        api, parts = found
        kubernetes_collectors.collect(api, parts, since, reading)
        return parts

    def _in_aws(
        self, request: Diagnose, about: Subject, parts: Parts | None, since: datetime, reading: Reading
    ) -> None:
        nodes = None if about.kind == "cluster" else _nodes(about, parts)
        collectors = AwsCollectors(self._aws, request.region, nodes)
        name = request.hyperpod
        if name is not None:
            cluster = reading.now(Source.CLUSTER, "HyperPod cluster", lambda: describe(self._aws, request.region, name))
            if cluster is not None:
                collectors.of_hyperpod(cluster, since, reading)
        if request.eks_cluster is not None and about.kind == "cluster":
            collectors.of_eks(request.eks_cluster, reading)


def _nodes(about: Subject, parts: Parts | None) -> set[str]:
    named = {f"hyperpod-{about.name.removeprefix('hyperpod-')}"} if about.kind == "node" else set()
    return named | (parts.node_names if parts is not None else set())


def _all_well(entries: list[TimelineEntry], read: list[SourceRead]) -> bool:
    """Whether something was found, everything could be read, and nothing of it warns."""
    return bool(entries) and all(each.ok for each in read) and all(entry.severity == "info" for entry in entries)


def _refuse_unknown(
    request: Diagnose, parts: Parts | None, entries: list[TimelineEntry], read: list[SourceRead]
) -> None:
    """Raise NOT_FOUND for what is not there, unless something could not be read, or left a trace."""
    if parts is None or parts.whole or not all(each.ok for each in read):
        return
    if any(entry.source in TRACES for entry in entries):
        return
    if parts.things or parts.pods or parts.nodes:
        return
    subject = request.subject
    fail(
        ProblemCode.NOT_FOUND,
        f"cluster {request.cluster} has no {subject.title}"
        + (f" in namespace {subject.namespace}" if parts.namespace is not None else ""),
        "List what there is; of a run that has ended diagnose the operation (run-training/…).",
        field="/subject/name",
    )


def timeline(entries: list[TimelineEntry], found: list[Cause]) -> list[TimelineEntry]:
    """The entries in order; of too many, those that causes rest on, then the worst and newest."""
    ordered = in_order(entries)
    if len(ordered) <= MOST_ENTRIES:
        return ordered
    needed = [entry for cause in found for entry in cause.evidence]
    rank = {"error": 0, "warning": 1, "info": 2}
    others = [entry for entry in reversed(ordered) if entry not in needed]
    others.sort(key=lambda entry: rank[entry.severity])
    return in_order([*needed, *others[: MOST_ENTRIES - len(needed)]])
