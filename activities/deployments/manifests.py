"""From a spec to the objects of Kubernetes.

Everything that a replica needs stands in its template, so that an update of anything is a rollout, and a way back is
the former template.
"""

from __future__ import annotations

import math
from typing import Any

from activities.credentials.secrets import KEY
from activities.instance_types import EFA, NVIDIA
from contracts.command_lint import HUB_ID
from contracts.commands import Command, Engine, literal
from contracts.deployment_parts import DEFAULT_CLAIM, StorageMount
from contracts.deployments import TOKEN_VARIABLE, DeploymentSpec
from contracts.inference import LABEL_SERVES, Serves
from contracts.model import fingerprint
from contracts.names import (
    ANNOTATION_OPERATION,
    ANNOTATION_RUN,
    ANNOTATION_SPEC,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_DEPLOYMENT,
    LABEL_DOMAIN,
    ClusterNames,
    credential_secret,
    public_service,
)

Manifest = dict[str, Any]

ANNOTATION_SPEC_HASH = f"{LABEL_DOMAIN}/spec-hash"
LABEL_TYPE = "node.kubernetes.io/instance-type"
CONTAINER = "server"
PORT_NAME = "http"
CACHE = "/model-cache"
HUB_HOME = "HF_HOME"
"""Where Hugging Face's library keeps what it fetched. (huggingface_hub: environment variables)"""
DEFAULT_STARTUP_MINUTES = 30
PROBE_SECONDS = 10
DRAIN_SECONDS = 10
"""Between a replica's leaving its Services and its end: what routes requests learns of it with a delay.

(Kubernetes: Pod lifecycle, termination of pods)
"""
BALANCER = "service.beta.kubernetes.io/aws-load-balancer-"
"""(AWS Load Balancer Controller: Service annotations of a Network Load Balancer)"""
PUBLIC_PORT = 80


def deployment(
    cluster: str,
    spec: DeploymentSpec,
    mounts: list[StorageMount],
    *,
    operation: str,
    run: str,
    startup_minutes: int | None = None,
    replicas: int | None = None,
) -> Manifest:
    """The Deployment. ``mounts`` are the spec's, its default resolved; ``replicas`` null: the spec's."""
    labels = labels_of(cluster, spec)
    document = spec.model_dump_json(exclude_defaults=True)
    minutes = spec.startup_timeout_minutes or startup_minutes or DEFAULT_STARTUP_MINUTES
    body: Manifest = {
        "replicas": spec.replicas if replicas is None else replicas,
        "progressDeadlineSeconds": minutes * 60 + 600,
        "revisionHistoryLimit": 5,
        "strategy": _strategy(spec),
        "selector": {"matchLabels": selector_of(spec.name)},
        "template": {"metadata": {"labels": {**spec.labels, **labels}}, "spec": _pod(spec, mounts, minutes)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": {
                ANNOTATION_OPERATION: operation,
                ANNOTATION_RUN: run,
                ANNOTATION_SPEC: document,
                ANNOTATION_SPEC_HASH: fingerprint(spec),
            },
        },
        "spec": body,
    }


def services(cluster: str, spec: DeploymentSpec, operation: str) -> list[Manifest]:
    """The Services that lead to it: none, one inside the cluster, or that and one with a load balancer."""
    if spec.service == "none":
        return []
    inside = _service(cluster, spec, operation, spec.name, {"type": "ClusterIP"}, spec.port, {})
    if spec.service == "in_cluster":
        return [inside]
    annotations = balanced_by(spec.public, health_path(spec))
    balanced = {"type": "LoadBalancer"}
    name = public_service(spec.name)
    return [inside, _service(cluster, spec, operation, name, balanced, PUBLIC_PORT, annotations)]


def balanced_by(scheme: str, health: str | None) -> dict[str, str]:
    """Annotations of a Service with a Network Load Balancer. ``health``: the path that tells whether a pod is well."""
    annotations = {
        f"{BALANCER}type": "external",
        f"{BALANCER}nlb-target-type": "ip",
        f"{BALANCER}scheme": scheme,
        f"{BALANCER}attributes": "load_balancing.cross_zone.enabled=true",
    }
    if health is not None:
        annotations |= {
            f"{BALANCER}healthcheck-protocol": "http",
            f"{BALANCER}healthcheck-port": "traffic-port",
            f"{BALANCER}healthcheck-path": health,
        }
    return annotations


def selector_of(name: str) -> dict[str, str]:
    return {LABEL_DEPLOYMENT: name}


def labels_of(cluster: str, spec: DeploymentSpec) -> dict[str, str]:
    return {
        LABEL_CLUSTER: ClusterNames(cluster).label,
        LABEL_DEPLOYMENT: spec.name,
        "app.kubernetes.io/name": spec.read.engine.value,
        "app.kubernetes.io/instance": spec.name,
        "app.kubernetes.io/component": "model-server",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
    }


def default_mounts(claim_exists: bool) -> list[StorageMount]:
    """What a spec without storage mounts."""
    return [StorageMount(claim=DEFAULT_CLAIM)] if claim_exists else []


def _service(
    cluster: str,
    spec: DeploymentSpec,
    operation: str,
    name: str,
    body: Manifest,
    port: int,
    annotations: dict[str, str],
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": spec.namespace,
            "labels": {**labels_of(cluster, spec), LABEL_SERVES: Serves.DEPLOYMENT.value},
            "annotations": {ANNOTATION_OPERATION: operation, **annotations},
        },
        "spec": {
            **body,
            "selector": selector_of(spec.name),
            "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP", "targetPort": PORT_NAME}],
        },
    }


def _strategy(spec: DeploymentSpec) -> Manifest:
    """Without a gap: a new replica comes before an old one goes."""
    if spec.strategy == "recreate":
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def _pod(spec: DeploymentSpec, mounts: list[StorageMount], startup_minutes: int) -> Manifest:
    pod: Manifest = {
        "automountServiceAccountToken": False,
        # Variables such as VLLM_PORT of a Service called vllm would be read as the server's own settings.
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": spec.grace_seconds + DRAIN_SECONDS,
        "containers": [_container(spec, mounts, startup_minutes)],
        "volumes": _volumes(spec, mounts),
    }
    if spec.gpu_count:
        pod["tolerations"] = [{"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}]
    if spec.instance_types:
        wanted = {"key": LABEL_TYPE, "operator": "In", "values": spec.instance_types}
        pod["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
                }
            }
        }
    return pod


def _container(spec: DeploymentSpec, mounts: list[StorageMount], startup_minutes: int) -> Manifest:
    container: Manifest = {
        "name": CONTAINER,
        "image": spec.chosen_image,
        "imagePullPolicy": "IfNotPresent",
        **_started_with(spec.read),
        "ports": [{"name": PORT_NAME, "containerPort": spec.port, "protocol": "TCP"}],
        "env": _environment(spec),
        "resources": _resources(spec),
        "volumeMounts": _mounts(spec, mounts),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # EFA pins the memory that it reads and writes.
            **({"capabilities": {"add": ["IPC_LOCK"]}} if spec.efa else {}),
        },
        "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        **_probes(spec, startup_minutes),
    }
    return container


def _started_with(command: Command) -> Manifest:
    """The program replaces the image's entry point, whatever that is; a command of arguments alone goes to it."""
    if command.argv[:2] == ["sh", "-c"] and command.argv != command.words:
        return {"command": command.argv[:2], "args": [literal(command.argv[2])]}
    words = [literal(word) for word in command.argv]
    started: Manifest = {"command": words[: command.program]} if command.program else {}
    return {**started, **({"args": words[command.program :]} if words[command.program :] else {})}


def _probes(spec: DeploymentSpec, startup_minutes: int) -> Manifest:
    """Nobody judges a replica's liveness before it has started; loading may take as long as it is given."""
    path = health_path(spec)
    looked: Manifest = {"httpGet": {"path": path, "port": PORT_NAME}} if path else {"tcpSocket": {"port": PORT_NAME}}
    return {
        "startupProbe": {
            **looked,
            "periodSeconds": PROBE_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(startup_minutes * 60 / PROBE_SECONDS),
        },
        "readinessProbe": {**looked, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**looked, "periodSeconds": PROBE_SECONDS, "timeoutSeconds": 10, "failureThreshold": 6},
    }


def health_path(spec: DeploymentSpec) -> str | None:
    """Where a replica says that it is well; None: only that it listens is known."""
    if spec.read.engine is not Engine.CUSTOM:
        return "/health"
    return {"openai": "/v1/models", "http": spec.verification.path}.get(spec.verification.kind)


def _environment(spec: DeploymentSpec) -> list[Manifest]:
    secret = dict(spec.secret_env)
    if spec.credential is not None:
        secret[TOKEN_VARIABLE] = spec.credential
    plain = dict(spec.env)
    if _fetches(spec):
        plain.setdefault(HUB_HOME, f"{CACHE}/huggingface")
    return [
        *({"name": key, "value": literal(value)} for key, value in sorted(plain.items())),
        *(
            {"name": key, "valueFrom": {"secretKeyRef": {"name": credential_secret(name), "key": KEY}}}
            for key, name in sorted(secret.items())
        ),
    ]


def _fetches(spec: DeploymentSpec) -> bool:
    """Whether the server fetches its model itself: a replica that is started anew should not fetch it anew."""
    model = spec.read.model
    return model is not None and HUB_ID.match(model) is not None and HUB_HOME not in spec.secret_env


def _resources(spec: DeploymentSpec) -> Manifest:
    cpu = spec.resources.cpu or max(1, 2 * spec.gpu_count)
    memory = spec.resources.memory_gib or max(4, 8 * spec.gpu_count)
    devices = {name: str(number) for name, number in ((NVIDIA, spec.gpu_count), (EFA, spec.efa)) if number}
    requests = {"cpu": f"{math.ceil(cpu * 1000)}m", "memory": f"{math.ceil(memory * 1024)}Mi", **devices}
    return {"requests": requests, **({"limits": devices} if devices else {})}


def _volumes(spec: DeploymentSpec, mounts: list[StorageMount]) -> list[Manifest]:
    shared = spec.shm_gib or max(2, 4 * spec.gpu_count)
    claims = {each.claim: each for each in mounts}
    return [
        # Processes of one server exchange tensors there; a container's own 64 MiB end in "Bus error".
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared}Gi"}},
        *([{"name": "model-cache", "emptyDir": {}}] if _fetches(spec) else []),
        *(
            {"name": f"claim-{position}", "persistentVolumeClaim": {"claimName": claim}}
            for position, claim in enumerate(claims)
        ),
    ]


def _mounts(spec: DeploymentSpec, mounts: list[StorageMount]) -> list[Manifest]:
    positions = {claim: position for position, claim in enumerate({each.claim: each for each in mounts})}
    return [
        {"name": "shm", "mountPath": "/dev/shm"},
        *([{"name": "model-cache", "mountPath": CACHE}] if _fetches(spec) else []),
        *(
            {
                "name": f"claim-{positions[each.claim]}",
                "mountPath": each.mount_path,
                "readOnly": each.read_only,
                **({"subPath": each.sub_path} if each.sub_path else {}),
            }
            for each in mounts
        ),
    ]
