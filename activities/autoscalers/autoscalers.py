"""Autoscalers: applied, watched until they follow their metrics, listed, read and deleted."""

from __future__ import annotations

import time

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities import custom
from activities.autoscalers.manifests import spec_of
from activities.autoscalers.metrics import Reader
from activities.autoscalers.view import (
    as_autoscaler,
    hpa_of,
    lines_of,
    owner_of,
    reads_metrics,
    replicas_of,
    target_of,
)
from activities.aws import AwsClients
from activities.custom import Object
from activities.deployments.objects import SCALED_OBJECT
from activities.errors import clean, fail
from activities.kubernetes import KubernetesClients, time_of
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.autoscalers import (
    APPLY_AUTOSCALER,
    LIST_AUTOSCALERS,
    READ_AUTOSCALER,
    START_AUTOSCALER_DELETION,
    WAIT_FOR_AUTOSCALER,
    WAIT_FOR_AUTOSCALER_GONE,
    ApplyAutoscaler,
    Autoscaler,
    AutoscalerApplied,
    AutoscalerDetail,
    AutoscalerGone,
    AutoscalerList,
    AutoscalerRef,
    AutoscalerState,
    ListAutoscalers,
    ReadAutoscaler,
    TriggerView,
    desired,
)
from contracts.problem import ProblemCode

WEBHOOK = "admission webhook"


class AutoscalerActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=APPLY_AUTOSCALER.name)
    def apply(self, request: ApplyAutoscaler) -> AutoscalerApplied:
        """The ScaledObject of the spec; does not wait for anything.

        Raises FOREIGN for one that is not ours, CONFLICT where something else owns the Deployment's replicas, INVALID
        with KEDA's words where its webhook refuses.
        """
        scope, spec = request.scope, request.spec
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = custom.get(api, SCALED_OBJECT, spec.namespace, spec.called)
            custom.refuse_foreign(before, SCALED_OBJECT, scope.cluster, self._settings.poll_seconds)
            if (owner := owner_of(api, spec.namespace, spec.target, but=spec.called)) is not None:
                remedy = "Delete that one first; a number of replicas has one owner."
                fail(ProblemCode.CONFLICT, f"{owner} scales Deployment {spec.target} already", remedy, field="/target")
            wanted = spec_of(spec, scope.region)
            try:
                after = custom.apply(api, SCALED_OBJECT, scope.cluster, spec.namespace, spec.called, wanted)
            except ApiException as error:
                if WEBHOOK in str(error.body) and "denied the request" in str(error.body):
                    detail = clean(str(error.body))
                    fail(ProblemCode.INVALID, f"KEDA refuses the autoscaler: {detail}", "Correct what it names.")
                raise
        changed = custom.changed(before, after)
        return AutoscalerApplied(name=spec.called, namespace=spec.namespace, changed=changed)

    @activity.defn(name=WAIT_FOR_AUTOSCALER.name)
    async def wait_until_ready(self, request: AutoscalerRef) -> Autoscaler:
        """Until KEDA takes the ScaledObject and its HorizontalPodAutoscaler has read a metric, or it rests at none.

        Raises NOT_READY with KEDA's words when it says for ``shortfall_patience`` that it cannot.
        """

        def look(memory: Memory) -> Seen[Autoscaler]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = custom.get(api, SCALED_OBJECT, request.namespace, request.name)
                if found is None:
                    remedy = "Retry the stage that makes it."
                    fail(ProblemCode.NOT_FOUND, f"There is no autoscaler {request.name}", remedy)
                hpa = hpa_of(api, found)
                seen = self._seen(api, found, hpa, request.scope.cluster)
            at_rest = seen.state is AutoscalerState.IDLE and seen.replicas == 0 and seen.min_replicas == 0
            if seen.state in (AutoscalerState.ACTIVE, AutoscalerState.IDLE) and (reads_metrics(hpa) or at_rest):
                return Seen(f"{request.name} is {seen.state.value}", seen)
            if seen.state is not AutoscalerState.FAILED:
                memory.notes.pop("since", None)
                return Seen(seen.detail or f"{request.name}: its HorizontalPodAutoscaler has read no metric yet")
            memory.notes.setdefault("since", time.time())
            if time.time() - memory.notes["since"] >= self._settings.shortfall_patience:
                fail(
                    ProblemCode.NOT_READY,
                    f"Autoscaler {request.namespace}/{request.name} does not work: {seen.reason}: {seen.detail}",
                    "Mend what it names (address, query, KEDA's permissions), then retry with the correction.",
                    retryable=True,
                )
            return Seen(f"{request.name} does not work yet: {seen.reason}: {seen.detail}")

        pace = self._settings.poll_seconds
        return await wait_until(look, what="a working autoscaler", limit=WAIT_FOR_AUTOSCALER.limit, poll_seconds=pace)

    @activity.defn(name=START_AUTOSCALER_DELETION.name)
    def delete(self, request: AutoscalerRef) -> AutoscalerGone:
        """Begin the deletion; the Deployment keeps its replicas. Absent is done. Raises FOREIGN for one not ours."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = custom.get(api, SCALED_OBJECT, request.namespace, request.name)
            if found is None:
                return AutoscalerGone(name=request.name, changed=False)
            if "deletionTimestamp" not in found["metadata"]:
                custom.refuse_foreign(found, SCALED_OBJECT, request.scope.cluster, self._settings.poll_seconds)
                custom.delete(api, SCALED_OBJECT, found)
            target = target_of(found)
            return AutoscalerGone(
                name=request.name, target=target, replicas=replicas_of(api, request.namespace, target)
            )

    @activity.defn(name=WAIT_FOR_AUTOSCALER_GONE.name)
    async def wait_until_gone(self, request: AutoscalerRef) -> AutoscalerGone:
        """Until the ScaledObject and its HorizontalPodAutoscaler are gone; tells the replicas that are left."""

        def look(memory: Memory) -> Seen[AutoscalerGone]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = custom.get(api, SCALED_OBJECT, request.namespace, request.name)
                if found is not None:
                    memory.notes["target"] = target_of(found)
                named = found or {"metadata": {"namespace": request.namespace, "name": request.name}}
                if found is not None or hpa_of(api, named) is not None:
                    return Seen(f"{request.name} is going")
                target = memory.notes.get("target")
                replicas = replicas_of(api, request.namespace, target) if target else None
            gone = AutoscalerGone(name=request.name, target=target, replicas=replicas)
            return Seen(f"{request.name} is gone", gone)

        limit, pace = WAIT_FOR_AUTOSCALER_GONE.limit, self._settings.poll_seconds
        return await wait_until(look, what="the end of the autoscaler", limit=limit, poll_seconds=pace)

    @activity.defn(name=LIST_AUTOSCALERS.name)
    def list_autoscalers(self, request: ListAutoscalers) -> AutoscalerList:
        """Every ScaledObject on a Deployment, others' too; none where KEDA was never installed."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            found = [
                self._seen(api, each, hpa_of(api, each), request.cluster)
                for each in custom.list_all(api, SCALED_OBJECT, request.namespace)
                if each.get("spec", {}).get("scaleTargetRef", {}).get("kind", "Deployment") == "Deployment"
            ]
        return AutoscalerList(autoscalers=found, read_at=time_of(api))

    @activity.defn(name=READ_AUTOSCALER.name)
    def read_autoscaler(self, request: ReadAutoscaler) -> AutoscalerDetail:
        """An autoscaler with what its triggers say now. Raises NOT_FOUND, with the names that there are."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            found = custom.get(api, SCALED_OBJECT, request.namespace, request.name)
            if found is None:
                there = custom.list_all(api, SCALED_OBJECT, request.namespace)
                names = ", ".join(each["metadata"]["name"] for each in there) or "none"
                detail = f"there is no autoscaler {request.name} in namespace {request.namespace}; there are: {names}"
                fail(ProblemCode.NOT_FOUND, detail, "List the autoscalers: it may be in another namespace.")
            hpa = hpa_of(api, found)
            seen = self._seen(api, found, hpa, request.cluster)
            reader = Reader(api, self._aws, request.region)
            triggers = [_as_trigger(reader, each, seen) for each in found.get("spec", {}).get("triggers", [])]
        lines = lines_of(found, hpa)
        return AutoscalerDetail(autoscaler=seen, triggers=triggers, conditions=lines, read_at=time_of(api))

    def _seen(self, api: client.ApiClient, found: Object, hpa: Object | None, cluster: str) -> Autoscaler:
        replicas = replicas_of(api, found["metadata"]["namespace"], target_of(found))
        return as_autoscaler(found, hpa, replicas, cluster)


def _as_trigger(reader: Reader, trigger: Object, seen: Autoscaler) -> TriggerView:
    kind, metadata = trigger.get("type", ""), trigger.get("metadata") or {}
    if kind != "prometheus":
        return TriggerView(type=kind)
    address, query = str(metadata.get("serverAddress", "")), str(metadata.get("query", ""))
    reading = reader.read(address, query)
    threshold, activation = _number(metadata.get("threshold")), _number(metadata.get("activationThreshold")) or 0.0
    wants = None
    if reading.value is not None and threshold:
        per_replica = trigger.get("metricType", "AverageValue") != "Value"
        limits = (seen.min_replicas, seen.max_replicas)
        wants = desired(reading.value, threshold, activation, per_replica, limits, seen.replicas or 0)
    return TriggerView(
        type=kind,
        query=query,
        server=address,
        threshold=threshold,
        value=reading.value,
        wants=wants,
        problem=reading.problem,
    )


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None
