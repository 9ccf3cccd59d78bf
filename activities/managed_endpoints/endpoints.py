"""Managed endpoints: applied, watched until they serve, listed, read and deleted."""

from __future__ import annotations

import time
from typing import NoReturn

from kubernetes import client
from temporalio import activity

from activities import custom
from activities.custom import Object
from activities.deployments.trouble import Trouble
from activities.errors import fail
from activities.kubernetes import KubernetesClients, time_of
from activities.managed_endpoints import serving
from activities.managed_endpoints.manifests import spec_of
from activities.managed_endpoints.view import KINDS, as_endpoint, conditions_of, may_rest
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.managed_endpoints import (
    APPLY_ENDPOINT,
    LIST_ENDPOINTS,
    READ_ENDPOINT,
    START_ENDPOINT_DELETION,
    WAIT_FOR_ENDPOINT,
    WAIT_FOR_ENDPOINT_ANSWER,
    WAIT_FOR_ENDPOINT_GONE,
    ApplyEndpoint,
    EndpointAnswer,
    EndpointApplied,
    EndpointDetail,
    EndpointGone,
    EndpointList,
    EndpointRef,
    EndpointState,
    ListEndpoints,
    ManagedEndpoint,
    ReadEndpoint,
)
from contracts.problem import ProblemCode

FIELDS = {
    "/image": "/worker/image",
    "/command": "/worker/args",
    "/port": "/worker/port",
    "/resources/memory_gib": "/worker/memory_gib",
    "/startup_timeout_minutes": "/deploy_timeout_seconds",
    "/credential": "/source/credential",
    "/storage": "/source",
}
"""Fields of a deployment's specification, as an endpoint's calls them."""


class EndpointActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=APPLY_ENDPOINT.name)
    def apply(self, request: ApplyEndpoint) -> EndpointApplied:
        """The custom resource of the spec; does not wait for anything. Raises FOREIGN for one that is not ours."""
        scope, spec = request.scope, request.spec
        kind = KINDS[spec.kind]
        wanted = spec_of(spec, scope.region)
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = custom.get(api, kind, spec.namespace, spec.name)
            custom.refuse_foreign(before, kind, scope.cluster, self._settings.poll_seconds)
            if before is not None and spec.autoscaling is not None:
                # The autoscaler's number, as far as the new limits allow it.
                limits, now = spec.autoscaling, before.get("spec", {}).get("replicas", spec.replicas)
                wanted["replicas"] = min(max(now, limits.min_replicas), limits.max_replicas)
            after = custom.apply(api, kind, scope.cluster, spec.namespace, spec.name, wanted)
        return EndpointApplied(
            name=spec.name,
            namespace=spec.namespace,
            kind=spec.kind,
            generation=after["metadata"].get("generation", 1),
            changed=custom.changed(before, after),
        )

    @activity.defn(name=WAIT_FOR_ENDPOINT.name)
    async def wait_until_deployed(self, request: EndpointRef) -> ManagedEndpoint:
        """Until the operator calls the endpoint complete with at least one replica (unless it may rest at none) and
        none of a former form, and with its SageMaker endpoint where one is asked for.

        Raises NOT_READY with the operator's or the kubelet's words, CAPACITY where pods find no node for
        ``shortfall_patience``.
        """

        def look(memory: Memory) -> Seen[ManagedEndpoint]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = _required(api, request)
                seen = as_endpoint(found, request.scope.cluster)
                complete = seen.state is EndpointState.READY and (seen.ready_replicas or may_rest(found))
                if complete and serving.is_rolled_out(api, found):
                    front = serving.front_of(serving.services_in(api, request.namespace), found)
                    ready = _with_front(seen, front)
                    return Seen(f"{seen.ready_replicas} of {seen.replicas} replicas ready", ready)
                minutes = found.get("spec", {}).get("maxDeployTimeInSeconds", 3600) // 60
                worst = serving.worst_of(api, serving.pods_of(api, found), minutes)
            if seen.state is EndpointState.FAILED:
                _failed(seen, worst)
            self._patience(memory, seen, worst)
            return Seen(_line(seen, worst))

        pace = self._settings.poll_seconds
        return await wait_until(look, what="a deployed endpoint", limit=WAIT_FOR_ENDPOINT.limit, poll_seconds=pace)

    def _patience(self, memory: Memory, seen: ManagedEndpoint, worst: Trouble | None) -> None:
        """End the wait for what does not pass, or has lasted too long to."""
        if worst is None:
            memory.notes.pop("since", None)
            return
        memory.notes.setdefault("since", time.time())
        if not worst.passes or time.time() - memory.notes["since"] >= self._settings.shortfall_patience:
            _failed(seen, worst)

    @activity.defn(name=WAIT_FOR_ENDPOINT_ANSWER.name)
    async def wait_until_it_answers(self, request: EndpointRef) -> EndpointAnswer:
        """Until one small request is answered. Raises what a refusal means when the server answers with one."""

        def look(memory: Memory) -> Seen[EndpointAnswer]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = _required(api, request)
                front = serving.front_of(serving.services_in(api, request.namespace), found)
                answer = serving.ask(api, found, front)
            if answer is None:
                return Seen("no pod answers yet")
            return Seen(f"{answer.model} answers in {answer.seconds} s", answer)

        limit, pace = WAIT_FOR_ENDPOINT_ANSWER.limit, self._settings.poll_seconds
        return await wait_until(look, what="an answer of the endpoint", limit=limit, poll_seconds=pace)

    @activity.defn(name=START_ENDPOINT_DELETION.name)
    def delete(self, request: EndpointRef) -> EndpointGone:
        """Begin the deletion of the endpoint; absent is done. Raises FOREIGN for one that is not ours."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = _find(api, request)
            if found is None:
                return EndpointGone(name=request.name, kind=request.kind, changed=False)
            kind = KINDS[found["kind"]]
            if "deletionTimestamp" not in found["metadata"]:
                custom.refuse_foreign(found, kind, request.scope.cluster, self._settings.poll_seconds)
                custom.delete(api, kind, found)
        gone_kind = as_endpoint(found, request.scope.cluster).kind
        return EndpointGone(name=request.name, kind=gone_kind)

    @activity.defn(name=WAIT_FOR_ENDPOINT_GONE.name)
    async def wait_until_gone(self, request: EndpointRef) -> EndpointGone:
        """Until the custom resource is gone, with the pods, load balancer and SageMaker endpoint of its operator.

        Raises NOT_READY where the operator says that it cannot delete them.
        """

        def look(memory: Memory) -> Seen[EndpointGone]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = _find(api, request)
                if found is not None:
                    seen = as_endpoint(found, request.scope.cluster)
                    memory.notes["deployment"] = serving.deployment_name(found)
                    memory.notes["selector"] = serving.selector_of(api, found) or memory.notes.get("selector")
                    if seen.state is EndpointState.FAILED:
                        _failed(seen, None)
                    held = ", ".join(found["metadata"].get("finalizers") or ())
                    return Seen(seen.detail or f"{request.name} is going" + (f" ({held})" if held else ""))
                deployment, selector = memory.notes.get("deployment", request.name), memory.notes.get("selector")
                left = serving.left_behind(api, request.namespace, deployment, selector)
            if left:
                return Seen(f"still there: {', '.join(left)}")
            return Seen(f"{request.name} is gone", EndpointGone(name=request.name, kind=request.kind))

        limit, pace = WAIT_FOR_ENDPOINT_GONE.limit, self._settings.poll_seconds
        return await wait_until(look, what="the end of the endpoint", limit=limit, poll_seconds=pace)

    @activity.defn(name=LIST_ENDPOINTS.name)
    def list_endpoints(self, request: ListEndpoints) -> EndpointList:
        """Every endpoint, others' too; none where the operator was never installed."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            found = [each for kind in KINDS.values() for each in custom.list_all(api, kind, request.namespace)]
            namespaces = {each["metadata"]["namespace"] for each in found}
            services = {namespace: serving.services_in(api, namespace) for namespace in namespaces}
        seen = [
            _with_front(as_endpoint(each, request.cluster), serving.front_of(services[namespace], each))
            for each in found
            for namespace in [each["metadata"]["namespace"]]
        ]
        return EndpointList(endpoints=sorted(seen, key=lambda each: (each.namespace, each.name)), read_at=time_of(api))

    @activity.defn(name=READ_ENDPOINT.name)
    def read_endpoint(self, request: ReadEndpoint) -> EndpointDetail:
        """An endpoint with its operator's conditions and its pods. Raises NOT_FOUND, with the names that there are."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            found = find(api, request.namespace, request.name)
            if found is None:
                there = [each for kind in KINDS.values() for each in custom.list_all(api, kind, request.namespace)]
                names = ", ".join(each["metadata"]["name"] for each in there) or "none"
                detail = f"there is no endpoint {request.name} in namespace {request.namespace}; there are: {names}"
                fail(ProblemCode.NOT_FOUND, detail, "List the endpoints: it may be in another namespace.")
            front = serving.front_of(serving.services_in(api, request.namespace), found)
            pods = serving.pods_of(api, found)
        return EndpointDetail(
            endpoint=_with_front(as_endpoint(found, request.cluster), front),
            conditions=conditions_of(found),
            pods=[serving.words_of(pod) for pod in pods],
            read_at=time_of(api),
        )


def find(api: client.ApiClient, namespace: str, name: str) -> Object | None:
    """The endpoint of a name, of whichever kind."""
    found = (custom.get(api, kind, namespace, name) for kind in KINDS.values())
    return next((each for each in found if each is not None), None)


def _find(api: client.ApiClient, request: EndpointRef) -> Object | None:
    if request.kind is not None:
        return custom.get(api, KINDS[request.kind], request.namespace, request.name)
    return find(api, request.namespace, request.name)


def _required(api: client.ApiClient, request: EndpointRef) -> Object:
    found = _find(api, request)
    if found is None:
        name = f"{request.namespace}/{request.name}"
        fail(ProblemCode.NOT_FOUND, f"There is no endpoint {name}", "Retry the stage that makes it.")
    return found


def _with_front(seen: ManagedEndpoint, front: serving.Front | None) -> ManagedEndpoint:
    return seen if front is None else seen.model_copy(update={"service": front.name, "port": front.port})


def _line(seen: ManagedEndpoint, worst: Trouble | None) -> str:
    held = worst.detail if worst is not None else seen.detail or seen.reason or "the operator works on it"
    return f"{seen.ready_replicas} of {seen.replicas} replicas ready; {held}"


def _failed(seen: ManagedEndpoint, worst: Trouble | None) -> NoReturn:
    """The pod's trouble where one is seen: it says more than the operator's word for it."""
    name = f"Endpoint {seen.namespace}/{seen.name}"
    if worst is not None:
        field = FIELDS.get(worst.field, worst.field) if worst.field is not None else None
        fail(worst.code, f"{name}: {worst.detail}", worst.remedy, field=field, retryable=True)
    said = ": ".join(filter(None, (seen.reason, seen.detail))) or "its operator says no more"
    remedy = "Mend what the message names (image, model's place, credential, arguments), then retry."
    fail(ProblemCode.NOT_READY, f"{name} failed: {said}", remedy, retryable=True)
