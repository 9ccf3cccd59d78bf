"""From a specification to a RayCluster."""

from __future__ import annotations

import math
from typing import Any

from activities.credentials.secrets import KEY
from activities.instance_types import EFA, NVIDIA
from activities.ray import (
    API_VERSION,
    RAY_CLUSTER,
    Manifest,
    head_container_ports,
    head_group,
    worker_groups,
)
from contracts.commands import literal
from contracts.deployment_parts import StorageMount
from contracts.deployments import TOKEN_VARIABLE
from contracts.names import (
    ANNOTATION_OPERATION,
    ANNOTATION_RUN,
    ANNOTATION_SPEC,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_RAY_CLUSTER,
    ClusterNames,
    credential_secret,
)
from contracts.ray_clusters import RayClusterSpec
from contracts.ray_parts import ray_version_of

LABEL_TYPE = "node.kubernetes.io/instance-type"
CONTAINER = "ray"
KEEP_NODE = "karpenter.sh/do-not-disrupt"
"""What runs on a Ray cluster would go with its node. (Karpenter: pod-level controls)"""


def ray_cluster(
    cluster: str, spec: RayClusterSpec, mounts: list[StorageMount], *, operation: str, run: str
) -> Manifest:
    """The RayCluster. ``mounts`` are the spec's, its default resolved."""
    labels = labels_of(cluster, spec)
    head_cpu = spec.head_cpu
    head = _pod(spec, mounts, labels, gpus=spec.head_gpus, efa=0, cpu=head_cpu, memory=spec.head_memory_gib)
    head["spec"]["containers"][0]["ports"] = head_container_ports()
    cpu, memory = worker_cpu(spec), worker_memory(spec)
    worker = _pod(
        spec, mounts, labels, gpus=spec.gpus_per_worker, efa=spec.efa_per_worker, cpu=cpu, memory=memory, placed=True
    )
    version = spec.ray_version or ray_version_of(spec.image)
    return {
        "apiVersion": API_VERSION,
        "kind": RAY_CLUSTER.kind,
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": {
                ANNOTATION_OPERATION: operation,
                ANNOTATION_RUN: run,
                ANNOTATION_SPEC: spec.model_dump_json(exclude_defaults=True),
            },
        },
        "spec": {
            **({"rayVersion": version} if version else {}),
            "enableInTreeAutoscaling": False,
            # Tasks on a head without workers would have nowhere else to run.
            "headGroupSpec": head_group(head, head_cpu if spec.head_gpus or not spec.workers else 0, spec.head_gpus),
            "workerGroupSpecs": worker_groups(worker, spec.workers, cpu, spec.gpus_per_worker),
        },
    }


def labels_of(cluster: str, spec: RayClusterSpec) -> dict[str, str]:
    return {
        LABEL_CLUSTER: ClusterNames(cluster).label,
        LABEL_RAY_CLUSTER: spec.name,
        "app.kubernetes.io/name": "ray",
        "app.kubernetes.io/instance": spec.name,
        "app.kubernetes.io/component": "ray-cluster",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
    }


def worker_cpu(spec: RayClusterSpec) -> float:
    return spec.worker_cpu or max(2, 2 * spec.gpus_per_worker)


def worker_memory(spec: RayClusterSpec) -> float:
    return spec.worker_memory_gib or max(4, 8 * spec.gpus_per_worker)


def requests_of(cpu: float, memory: float, gpus: int, efa: int) -> dict[str, str]:
    devices = {name: str(number) for name, number in ((NVIDIA, gpus), (EFA, efa)) if number}
    return {"cpu": f"{math.ceil(cpu * 1000)}m", "memory": f"{math.ceil(memory * 1024)}Mi", **devices}


def _pod(
    spec: RayClusterSpec,
    mounts: list[StorageMount],
    labels: dict[str, str],
    *,
    gpus: int,
    efa: int,
    cpu: float,
    memory: float,
    placed: bool = False,
) -> Manifest:
    """A pod of head or worker. ``placed``: on the instance types that are named. KubeRay starts Ray in it."""
    requests = requests_of(cpu, memory, gpus, efa)
    devices = {name: value for name, value in requests.items() if name in (NVIDIA, EFA)}
    shared = spec.shm_gib or max(1, math.floor(memory / 3))
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # Variables such as RAY_PORT of a Service called ray would be read as Ray's own settings.
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 60,
        "containers": [
            {
                "name": CONTAINER,
                "image": spec.image,
                "imagePullPolicy": "IfNotPresent",
                "env": _environment(spec),
                # Ray reckons its objects' memory by the limit; without one, by the whole node's.
                "resources": {"requests": requests, "limits": {"memory": requests["memory"], **devices}},
                "volumeMounts": _mounts(mounts),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    # EFA pins the memory that it reads and writes.
                    **({"capabilities": {"add": ["IPC_LOCK"]}} if efa else {}),
                },
            }
        ],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared}Gi"}},
            *(
                {"name": f"claim-{position}", "persistentVolumeClaim": {"claimName": claim}}
                for position, claim in enumerate(_claims(mounts))
            ),
        ],
    }
    if gpus:
        pod["tolerations"] = [{"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}]
    if placed and spec.instance_types:
        terms = [{"matchExpressions": [{"key": LABEL_TYPE, "operator": "In", "values": list(spec.instance_types)}]}]
        pod["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    return {"metadata": {"labels": {**spec.labels, **labels}, "annotations": {KEEP_NODE: "true"}}, "spec": pod}


def _environment(spec: RayClusterSpec) -> list[Manifest]:
    secret = dict(spec.secret_env)
    if spec.credential is not None:
        secret[TOKEN_VARIABLE] = spec.credential
    return [
        *({"name": key, "value": literal(value)} for key, value in sorted(spec.env.items())),
        *(
            {"name": key, "valueFrom": {"secretKeyRef": {"name": credential_secret(name), "key": KEY}}}
            for key, name in sorted(secret.items())
        ),
    ]


def _mounts(mounts: list[StorageMount]) -> list[Manifest]:
    claims = _claims(mounts)
    return [
        {"name": "shm", "mountPath": "/dev/shm"},
        *(
            {
                "name": f"claim-{claims.index(each.claim)}",
                "mountPath": each.mount_path,
                "readOnly": each.read_only,
                **({"subPath": each.sub_path} if each.sub_path else {}),
            }
            for each in mounts
        ),
    ]


def _claims(mounts: list[StorageMount]) -> list[str]:
    return list(dict.fromkeys(each.claim for each in mounts))
