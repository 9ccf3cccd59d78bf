"""What serves behind an endpoint: its Deployment's pods, the Service before them, and whether they answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubernetes import client

from activities.custom import Object, owned_by
from activities.deployments import answers, trouble
from activities.deployments.answers import Waiting
from activities.deployments.trouble import Trouble, is_ready
from activities.errors import clean, fail
from activities.inference import proxy
from activities.inference.proxy import Upstream
from activities.jobs.view import as_pod
from activities.kubernetes import listed, read_or_none
from activities.nodes.sight import items
from contracts.deployment_parts import Verification
from contracts.managed_endpoints import EndpointAnswer
from contracts.problem import ProblemCode

OPENAI, OPENAI_PREFIX = "v1/chat/completions", "v1/"


@dataclass(frozen=True)
class Front:
    """A Service before an endpoint's pods."""

    name: str
    port: int
    https: bool = False


def front_of(services: list[Any], found: Object) -> Front | None:
    """The Service by which an endpoint is called: its router's, where it has one. ``services`` are its namespace's.

    The operator makes it, owned by the custom resource or named after it.
    """
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    candidates = [
        each
        for each in services
        if each.spec.ports and (owned_by(each, uid) or each.metadata.name == name or _called_after(each, name))
    ]
    if not candidates:
        return None
    routed = bool((found.get("spec", {}).get("intelligentRoutingSpec") or {}).get("enabled"))
    chosen = min(
        candidates, key=lambda each: (("rout" in each.metadata.name) is not routed, each.metadata.creation_timestamp)
    )
    port = chosen.spec.ports[0]
    return Front(chosen.metadata.name, port.port, port.port == 443 or (port.name or "").startswith("https"))


def _called_after(service: Any, name: str) -> bool:
    return service.metadata.name in (f"{name}-service", f"{name}-routing-service", f"{name}-router")


def services_in(api: client.ApiClient, namespace: str) -> list[Any]:
    return listed(partial(client.CoreV1Api(api).list_namespaced_service, namespace))


def pods_of(api: client.ApiClient, found: Object) -> list[Object]:
    """The pods of the endpoint's Deployment; none before it is made."""
    selector = selector_of(api, found)
    return _pods_with(api, found["metadata"]["namespace"], selector) if selector is not None else []


def selector_of(api: client.ApiClient, found: Object) -> str | None:
    """What tells the endpoint's pods from others; None before its Deployment is made."""
    read = client.AppsV1Api(api).read_namespaced_deployment
    deployment = read_or_none(read, deployment_name(found), found["metadata"]["namespace"])
    if deployment is None:
        return None
    return ",".join(f"{key}={value}" for key, value in (deployment.spec.selector.match_labels or {}).items())


def is_rolled_out(api: client.ApiClient, found: Object) -> bool:
    """Whether no replica of a former form is left. The operator calls an endpoint complete as soon as its Deployment
    is available, which it is while an update fails. (Kubernetes API: DeploymentStatus)"""
    read = client.AppsV1Api(api).read_namespaced_deployment
    deployment = read_or_none(read, deployment_name(found), found["metadata"]["namespace"])
    if deployment is None:
        return True
    status = deployment.status
    seen = (status.observed_generation or 0) >= deployment.metadata.generation
    return seen and (status.updated_replicas or 0) == (status.replicas or 0)


def _pods_with(api: client.ApiClient, namespace: str, selector: str) -> list[Object]:
    return list(items(partial(client.CoreV1Api(api).list_namespaced_pod, namespace), label_selector=selector))


def deployment_name(found: Object) -> str:
    """Of the Deployment that the operator makes: as it says, else as the endpoint."""
    told = ((found.get("status") or {}).get("deploymentStatus") or {}).get("name")
    return str(told or found["metadata"]["name"])


def left_behind(api: client.ApiClient, namespace: str, deployment: str, selector: str | None) -> list[str]:
    """What of a deleted endpoint is still there: its Deployment, and pods of it that end."""
    there = read_or_none(client.AppsV1Api(api).read_namespaced_deployment, deployment, namespace)
    left = [f"Deployment {deployment}"] if there is not None else []
    pods = _pods_with(api, namespace, selector) if selector is not None else []
    return [*left, *(f"pod {pod['metadata']['name']}" for pod in pods)]


def words_of(pod: Object) -> str:
    """A pod in a line."""
    seen = as_pod(pod)
    held = ": ".join(filter(None, (seen.reason, seen.message)))
    return f"{seen.name}: {held or seen.phase}" + (f" on {seen.node}" if seen.node else "")


def worst_of(api: client.ApiClient, pods: list[Object], minutes: int) -> Trouble | None:
    """What keeps the first of the pods from serving that something keeps; ``minutes``: how long a start may take."""
    found = (trouble.find(api, pod, minutes) for pod in pods if not is_ready(pod))
    return next((each for each in found if each is not None), None)


def ask(api: client.ApiClient, found: Object, front: Front | None) -> EndpointAnswer | None:
    """What a small request is answered, by the Service or, without one, by a Ready pod; None while nobody answers.

    Raises NOT_READY with the server's words where it answers, and not as a model does.
    """
    namespace, path = found["metadata"]["namespace"], found.get("spec", {}).get("invocationEndpoint") or OPENAI
    upstream = _pod(api, found)
    if front is not None:
        upstream = Upstream(namespace, front.name, front.port, scheme="https" if front.https else "http")
    if upstream is None:
        return None
    if not path.startswith(OPENAI_PREFIX):
        return _invoked(api, upstream, path)
    said = answers.ask(api, upstream, Verification(), None)
    if isinstance(said, Waiting):
        if said.refused:
            fail(ProblemCode.NOT_READY, said.detail, said.remedy, retryable=True)
        return None
    return EndpointAnswer(model=said.model or path, text=said.sample or "", seconds=(said.latency_ms or 0.0) / 1000)


def _invoked(api: client.ApiClient, upstream: Upstream, path: str) -> EndpointAnswer | None:
    """(SageMaker's large model inference containers: request schema of ``invocations``)"""
    began = time.monotonic()
    body = {"inputs": answers.PROMPT, "parameters": {"max_new_tokens": answers.TOKENS}}
    answer = proxy.post(api, upstream, path, body, answers.SECONDS)
    if answer.nobody_there or answer.status in (408, 425, 429) or answer.status >= 500:
        return None
    if not answer.ok:
        detail = f"{path} answers {answer.status}: {clean(answer.words, 300)}"
        remedy = "Correct invocation_path to where the server listens (update-endpoint)."
        fail(ProblemCode.NOT_READY, detail, remedy, field="/invocation_path", retryable=True)
    seconds = round(time.monotonic() - began, 3)
    return EndpointAnswer(model=path, text=clean(answer.text, answers.LONGEST_SAMPLE), seconds=seconds)


def _pod(api: client.ApiClient, found: Object) -> Upstream | None:
    port = found.get("spec", {}).get("worker", {}).get("modelInvocationPort", {}).get("containerPort")
    for pod in pods_of(api, found):
        declared = [each["containerPort"] for c in pod["spec"]["containers"] for each in c.get("ports") or ()]
        if is_ready(pod) and (chosen := port or next(iter(declared), None)):
            return Upstream(pod["metadata"]["namespace"], pod["metadata"]["name"], chosen, kind="pods")
    return None
