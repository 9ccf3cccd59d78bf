"""From a specification to the objects of Kubernetes: the files of its recipe, and the pod of a node.

The pod is the same on every path of submission; what makes pods of it, and keeps them alive, is the path's own.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from activities.credentials.secrets import KEY
from activities.instance_types import EFA, NVIDIA
from activities.settings import PROJECT
from contracts.commands import literal
from contracts.deployments import TOKEN_VARIABLE
from contracts.names import (
    ANNOTATION_OPERATION,
    ANNOTATION_RUN,
    ANNOTATION_SPEC,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_TRAINING,
    ClusterNames,
    content_named,
    credential_secret,
)
from contracts.recipes.launch import LOCAL_MOUNT, RECIPE_MOUNT, Launch
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_parts import TrainingMount

Manifest = dict[str, Any]

RECIPES = PROJECT / "recipes"
CONTAINER = "trainer"
AGENT_PORT = 8080
"""Where HyperPod's elastic agent listens. (SageMaker Developer Guide: sagemaker-eks-operator-usage)"""
LABEL_TYPE = "node.kubernetes.io/instance-type"
LABEL_HEALTH = "sagemaker.amazonaws.com/node-health-status"
UNHEALTHY = ("Unschedulable", "UnschedulablePendingReboot", "UnschedulablePendingReplacement")
"""Values of that label on nodes that are about to go. (SageMaker Developer Guide: HyperPod resilience, node labels)"""
NVME = "/opt/dlami/nvme"
"""Where HyperPod's nodes mount their own NVMe disks. (SageMaker Developer Guide: HyperPod DLAMI)"""
NVME_FOLDER = f"{NVME}/instantstart"
KEEP_NODE = "karpenter.sh/do-not-disrupt"
"""(Karpenter: pod-level controls)"""
CHECKPOINT_VARIABLE = "CHECKPOINT_PATH"
MOST_CONFIG_BYTES = 900 * 1024
"""Kubernetes admits objects of 1 MiB at most. (Kubernetes: ConfigMaps)"""


def labels_of(cluster: str, spec: TrainingSpec) -> dict[str, str]:
    return {
        LABEL_CLUSTER: ClusterNames(cluster).label,
        LABEL_TRAINING: spec.name,
        "app.kubernetes.io/name": spec.recipe.kind,
        "app.kubernetes.io/instance": spec.name,
        "app.kubernetes.io/component": "training",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
    }


def annotations_of(request: SubmitTraining, operation: str) -> dict[str, str]:
    """What tells who made an object of a run, and from what. The pods have none of it: another attempt at the same job
    must not differ from the first."""
    return {
        ANNOTATION_OPERATION: operation,
        ANNOTATION_RUN: request.run,
        ANNOTATION_SPEC: request.spec.model_dump_json(),
    }


def config_map(cluster: str, spec: TrainingSpec, launch: Launch) -> Manifest:
    """The recipe's files and scripts: called after their content, and immutable."""
    data = {**scripts_of(launch.scripts), **launch.files}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "immutable": True,
        "metadata": {
            "name": content_named(f"training-{spec.name}", json.dumps(data, sort_keys=True)),
            "namespace": spec.namespace,
            "labels": labels_of(cluster, spec),
        },
        "data": data,
    }


def scripts_of(folder: str) -> dict[str, str]:
    """The scripts of a folder of ``recipes/``."""
    place: Path = RECIPES / folder
    return {path.name: path.read_text() for path in sorted(place.glob("*.py"))}


def pod_spec(request: SubmitTraining, launch: Launch, config: str) -> Manifest:
    """The pod of one node. ``config``: the name of the ConfigMap with the recipe's files."""
    spec = request.spec
    pod: Manifest = {
        "automountServiceAccountToken": False,
        # Variables such as MASTER_PORT of a Service called master would be read as the launcher's own.
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 60,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_on(spec)]}}
        },
        "containers": [_container(request, launch)],
        "volumes": _volumes(spec, config),
    }
    if spec.gpus_per_node:
        pod["tolerations"] = [{"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}]
    if request.service_account is not None:
        pod["serviceAccountName"] = request.service_account
    return pod


def pod_metadata(cluster: str, spec: TrainingSpec) -> Manifest:
    """Labels and annotations of a run's pods: one selector finds them on every path."""
    return {
        "labels": {**spec.labels, LABEL_CLUSTER: ClusterNames(cluster).label, LABEL_TRAINING: spec.name},
        "annotations": {KEEP_NODE: "true"},
    }


def resources_of(spec: TrainingSpec, efa: int) -> Manifest:
    """Accelerators are requested as they are limited: Kubernetes admits nothing else."""
    cpu = spec.resources.cpu or max(1, 2 * spec.gpus_per_node)
    memory = spec.resources.memory_gib or max(2, 8 * spec.gpus_per_node)
    devices = {name: str(number) for name, number in ((NVIDIA, spec.gpus_per_node), (EFA, efa)) if number}
    requests = {"cpu": f"{math.ceil(cpu * 1000)}m", "memory": f"{math.ceil(memory * 1024)}Mi", **devices}
    return {"requests": requests, **({"limits": devices} if devices else {})}


def shm_gib(spec: TrainingSpec) -> int:
    return spec.shm_gib or max(4, 8 * spec.gpus_per_node)


def _on(spec: TrainingSpec) -> Manifest:
    """Nodes of the type that are not about to be rebooted or replaced."""
    return {
        "matchExpressions": [
            {"key": LABEL_TYPE, "operator": "In", "values": spec.instance_types},
            {"key": LABEL_HEALTH, "operator": "NotIn", "values": list(UNHEALTHY)},
        ]
    }


def _container(request: SubmitTraining, launch: Launch) -> Manifest:
    spec = request.spec
    return {
        "name": CONTAINER,
        "image": spec.image or launch.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [literal(word) for word in launch.argv],
        "ports": [{"name": "elastic-agent", "containerPort": AGENT_PORT, "protocol": "TCP"}],
        "env": environment(request, launch),
        "resources": resources_of(spec, request.efa),
        "volumeMounts": _mounts(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # EFA pins the memory that it reads and writes.
            **({"capabilities": {"add": ["IPC_LOCK"]}} if request.efa else {}),
        },
    }


def environment(request: SubmitTraining, launch: Launch) -> list[Manifest]:
    """The recipe's defaults, where to report to, and what the specification says; the last word wins."""
    spec = request.spec
    plain = dict(launch.env)
    if spec.checkpoint_path is not None:
        plain[CHECKPOINT_VARIABLE] = spec.checkpoint_path
    plain |= request.experiment_environment
    plain |= spec.env
    secret = dict(spec.secret_env)
    if spec.credential is not None:
        secret[TOKEN_VARIABLE] = spec.credential
    return [
        *({"name": key, "value": literal(value)} for key, value in sorted(plain.items()) if key not in secret),
        *(
            {"name": key, "valueFrom": {"secretKeyRef": {"name": credential_secret(name), "key": KEY}}}
            for key, name in sorted(secret.items())
        ),
    ]


def _volumes(spec: TrainingSpec, config: str) -> list[Manifest]:
    return [
        # Workers hand batches to each other there; a container's own 64 MiB end in "Bus error".
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shm_gib(spec)}Gi"}},
        {"name": "recipe", "configMap": {"name": config}},
        *(
            [{"name": "local", "hostPath": {"path": NVME_FOLDER, "type": "DirectoryOrCreate"}}]
            if spec.local_cache
            else []
        ),
        *(
            {"name": f"claim-{position}", "persistentVolumeClaim": {"claimName": claim}}
            for position, claim in enumerate(_claims(spec.mounts))
        ),
    ]


def _mounts(spec: TrainingSpec) -> list[Manifest]:
    claims = _claims(spec.mounts)
    return [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "recipe", "mountPath": RECIPE_MOUNT, "readOnly": True},
        *([{"name": "local", "mountPath": LOCAL_MOUNT}] if spec.local_cache else []),
        *(
            {
                "name": f"claim-{claims.index(each.claim)}",
                "mountPath": each.mount_path,
                "readOnly": each.read_only,
                **({"subPath": each.sub_path} if each.sub_path else {}),
            }
            for each in spec.mounts
        ),
    ]


def _claims(mounts: list[TrainingMount]) -> list[str]:
    return list(dict.fromkeys(each.claim for each in mounts))
