"""Which Services of a cluster serve models."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.errors import fail
from activities.kubernetes import REQUEST_TIMEOUT
from activities.nodes.sight import Raw, items
from contracts.inference import LABEL_SERVES, InferenceService, ListServices, Serves
from contracts.names import FIELD_MANAGER, LABEL_DOMAIN
from contracts.problem import ProblemCode

ENGINES = ("vllm", "sglang", "text-generation-inference", "tritonserver", "djl-inference", "llama.cpp", "ollama")
"""Parts of the names of images that serve models."""
OPERATOR = "inference.sagemaker.aws.amazon.com"
OPERATOR_KINDS = ("InferenceEndpointConfig", "JumpStartModel")
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
"""(AWS Load Balancer Controller: NLB annotations; without it a load balancer is internal)"""
LABEL_ENGINE = "app.kubernetes.io/name"
NAMES = {
    Serves.DEPLOYMENT: f"{LABEL_DOMAIN}/deployment",
    Serves.POOL_SERVICE: f"{LABEL_DOMAIN}/model-pool",
    Serves.ROUTER: f"{LABEL_DOMAIN}/router",
    Serves.ENDPOINT: f"{LABEL_DOMAIN}/endpoint",
}
PORT_NAMES = ("http", "serving", "openai")


def list_services(api: client.ApiClient, asked: ListServices) -> list[InferenceService]:
    """Every Service that serves a model, or only those with a load balancer, by namespace and name."""
    core = client.CoreV1Api(api)
    services = [each for each in items(_listing(core, "service", asked.namespace)) if _may_serve(each)]
    if asked.public:
        services = [each for each in services if each["spec"].get("type") == "LoadBalancer"]
    pods = _by_namespace(items(_listing(core, "pod", asked.namespace))) if services else {}
    found = [_seen(each, pods.get(each["metadata"]["namespace"], [])) for each in services]
    return sorted((each for each in found if each is not None), key=lambda each: (each.namespace, each.name))


def read_service(api: client.ApiClient, namespace: str, name: str) -> InferenceService:
    """One Service, whatever it serves. Raises NOT_FOUND with those that there are, INVALID for one without pods."""
    core = client.CoreV1Api(api)
    try:
        answer: Any = core.read_namespaced_service(
            name, namespace, _preload_content=False, _request_timeout=REQUEST_TIMEOUT
        )
        service: Raw = json.loads(answer.data)
    except ApiException as error:
        if error.status != 404:
            raise
        here = items(partial(core.list_namespaced_service, namespace))
        names = ", ".join(sorted(each["metadata"]["name"] for each in here if _may_serve(each))[:10])
        fail(
            ProblemCode.NOT_FOUND,
            f"namespace {namespace} has no Service {name}" + (f"; it has {names}" if names else ""),
            "List the services that serve models, and name one of them with its namespace.",
        )
    if not _may_serve(service):
        detail = f"Service {namespace}/{name} selects no pods or has no TCP port"
        fail(ProblemCode.INVALID, detail, "Name a Service that stands before a model server.")
    selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
    pods = list(items(partial(core.list_namespaced_pod, namespace), label_selector=selector))
    return _view(service, pods, _serves(service, pods) or Serves.OTHER)


def _listing(core: client.CoreV1Api, kind: str, namespace: str | None) -> Callable[..., Any]:
    if namespace is None:
        everywhere: Callable[..., Any] = getattr(core, f"list_{kind}_for_all_namespaces")
        return everywhere
    return partial(getattr(core, f"list_namespaced_{kind}"), namespace)


def _may_serve(service: Raw) -> bool:
    spec = service["spec"]
    elsewhere = service["metadata"]["namespace"] in SYSTEM_NAMESPACES or spec.get("type") == "ExternalName"
    return not elsewhere and bool(spec.get("selector")) and bool(_ports(service))


def _ports(service: Raw) -> list[Raw]:
    return [each for each in service["spec"].get("ports") or () if each.get("protocol", "TCP") == "TCP"]


def _by_namespace(pods: Iterable[Raw]) -> dict[str, list[Raw]]:
    found = defaultdict(list)
    for pod in pods:
        found[pod["metadata"]["namespace"]].append(pod)
    return found


def _seen(service: Raw, pods: list[Raw]) -> InferenceService | None:
    wanted = service["spec"]["selector"].items()
    behind = [pod for pod in pods if wanted <= (pod["metadata"].get("labels") or {}).items()]
    serves = _serves(service, behind)
    return _view(service, behind, serves) if serves is not None else None


def _serves(service: Raw, pods: list[Raw]) -> Serves | None:
    metadata = service["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(LABEL_SERVES) in list(Serves):
        return Serves(labels[LABEL_SERVES])
    owners = {each["kind"] for each in metadata.get("ownerReferences") or ()}
    if owners & set(OPERATOR_KINDS) or any(key.startswith(f"{OPERATOR}/") for key in labels):
        return Serves.ENDPOINT
    return Serves.OTHER if _engine(pods) is not None else None


def _engine(pods: list[Raw]) -> str | None:
    images = {each["image"] for pod in pods for each in pod["spec"]["containers"]}
    return next((engine for engine in ENGINES for image in images if engine in image.lower()), None)


def _view(service: Raw, pods: list[Raw], serves: Serves) -> InferenceService:
    metadata, spec = service["metadata"], service["spec"]
    labels = metadata.get("labels") or {}
    owners = [each["name"] for each in metadata.get("ownerReferences") or () if each["kind"] in OPERATOR_KINDS]
    known = next((each["port"] for each in _ports(service) if each.get("name") in PORT_NAMES), None)
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}]
    there = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    ready = sum(map(_is_ready, there))
    balanced = spec.get("type") == "LoadBalancer"
    return InferenceService(
        namespace=metadata["namespace"],
        name=metadata["name"],
        serves=serves,
        of=labels.get(NAMES.get(serves, "")) or next(iter(owners), None),
        engine=labels.get(LABEL_ENGINE) if LABEL_SERVES in labels else _engine(pods),
        type=spec.get("type") or "ClusterIP",
        port=known or _ports(service)[0]["port"],
        public=balanced and (metadata.get("annotations") or {}).get(SCHEME) == "internet-facing",
        address=(ingress[0].get("hostname") or ingress[0].get("ip")) if balanced else None,
        ready=ready,
        waiting=len(there) - ready,
        created_at=datetime.fromisoformat(str(metadata["creationTimestamp"])).astimezone(UTC),
        managed=labels.get("app.kubernetes.io/managed-by") == FIELD_MANAGER,
    )


def _is_ready(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
