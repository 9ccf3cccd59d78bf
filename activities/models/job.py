"""The Job that downloads: its script in a ConfigMap, and its pod.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from __future__ import annotations

import json
import math
from enum import IntEnum
from typing import Any

from activities.context import operation_id
from activities.credentials.secrets import KEY
from activities.settings import PROJECT, Settings
from contracts.models import DownloadSpec, EnsureDownload, deadline_of
from contracts.names import (
    ANNOTATION_OPERATION,
    ANNOTATION_RUN,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_DOMAIN,
    LABEL_DOWNLOAD,
    ClusterNames,
    content_named,
    credential_secret,
    download_job,
)

Manifest = dict[str, Any]

RECIPE = PROJECT / "recipes" / "download"
SCRIPT = "download.py"
LABEL_TYPE = "node.kubernetes.io/instance-type"
ANNOTATION_REPOSITORY = f"{LABEL_DOMAIN}/repository"
ANNOTATION_PATH = f"{LABEL_DOMAIN}/path"
ANNOTATION_CLAIM = f"{LABEL_DOMAIN}/claim"
CONTAINER = "download"
PROGRAM, STORAGE, SCRATCH = "/opt/instantstart", "/s3", "/scratch"
KEPT_SECONDS = 24 * 3600
"""How long a Job that has ended can be looked at."""
RETRIES = 6
GIB = 2**30


class Exit(IntEnum):
    """Exit codes of the script. (``recipes/download/endings.py``)"""

    UNEXPECTED = 1
    DENIED = 10
    NOT_FOUND = 11
    NO_SPACE = 12
    MISMATCH = 13
    NOT_WRITABLE = 14
    WRONG_ARGUMENTS = 15
    THROTTLED = 20
    UNREACHABLE = 21
    BOOTSTRAP = 22


FINAL = [code for code in Exit if 10 <= code < 20]
"""After these another pod would end alike."""
ACCELERATORS = ("nvidia.com/gpu", "aws.amazon.com/neuron")
"""Taints of nodes with accelerators: a download may run there, many clusters have no other nodes."""


def script_manifest(cluster: str, namespace: str) -> Manifest:
    """The ConfigMap of the script and what belongs to it: called after its content, and immutable."""
    files = {path.name: path.read_text() for path in sorted(RECIPE.glob("*.py"))}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "immutable": True,
        "metadata": {
            "name": content_named("instantstart-download", json.dumps(files)),
            "namespace": namespace,
            "labels": _labels(cluster),
        },
        "data": files,
    }


def job_name(request: EnsureDownload) -> str:
    spec = request.spec
    return download_job(spec.target, f"{request.found.commit or spec.revision} {spec.selection}")


def job_manifest(request: EnsureDownload, settings: Settings, script: str) -> Manifest:
    """The Job; ``script`` is the name of its ConfigMap."""
    spec, found = request.spec, request.found
    labels = {**_labels(request.scope.cluster), LABEL_DOWNLOAD: spec.target}
    annotations = {
        ANNOTATION_OPERATION: operation_id(),
        ANNOTATION_RUN: request.run,
        ANNOTATION_REPOSITORY: f"{spec.repository_type.value} {spec.repository}@{found.commit or spec.revision}",
        ANNOTATION_CLAIM: spec.claim,
        ANNOTATION_PATH: spec.folder,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(request),
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "backoffLimit": RETRIES,
            "activeDeadlineSeconds": int(deadline_of(spec, found.size).total_seconds()),
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": CONTAINER,
                            "operator": "In",
                            "values": [code.value for code in FINAL],
                        },
                    },
                    # A node that goes takes no attempt away: the next pod goes on with the next file.
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {
                "metadata": {"labels": labels, "annotations": {ANNOTATION_OPERATION: operation_id()}},
                "spec": _pod(request, settings, script),
            },
        },
    }


def scratch_gib(largest: int) -> int:
    """Room on the node's disk: for the largest file, and the Hub's library. 50 GiB where that is not known: publishers
    part weights into files of 5, few have one of more than 40."""
    return math.ceil(largest * 1.05 / GIB) + 2 if largest else 50


def _pod(request: EnsureDownload, settings: Settings, script: str) -> Manifest:
    spec = request.spec
    scratch = f"{scratch_gib(request.found.largest)}Gi"
    resources = {"cpu": f"{spec.cpu:g}", "memory": f"{spec.memory_gib}Gi", "ephemeral-storage": scratch}
    pod: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 10,
        "tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in ACCELERATORS],
        "containers": [
            {
                "name": CONTAINER,
                "image": spec.image,
                "command": ["python", f"{PROGRAM}/{SCRIPT}"],
                "args": _arguments(request),
                "env": _environment(spec, settings),
                "resources": {"requests": resources, "limits": resources},
                "securityContext": {"allowPrivilegeEscalation": False},
                "terminationMessagePath": "/dev/termination-log",
                "volumeMounts": [
                    {"name": "program", "mountPath": PROGRAM, "readOnly": True},
                    {"name": "storage", "mountPath": STORAGE},
                    {"name": "scratch", "mountPath": SCRATCH},
                ],
            }
        ],
        "volumes": [
            {"name": "program", "configMap": {"name": script}},
            {"name": "storage", "persistentVolumeClaim": {"claimName": spec.claim}},
            {"name": "scratch", "emptyDir": {"sizeLimit": scratch}},
        ],
    }
    if spec.instance_types:
        terms = [{"matchExpressions": [{"key": LABEL_TYPE, "operator": "In", "values": list(spec.instance_types)}]}]
        pod["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    return pod


def _arguments(request: EnsureDownload) -> list[str]:
    spec = request.spec
    arguments = [
        f"--repository={spec.repository}",
        f"--type={spec.repository_type.value}",
        f"--revision={spec.revision}",
        f"--target={STORAGE}/{spec.folder}",
        f"--scratch={SCRATCH}",
        f"--selection={spec.selection}",
        f"--operation={operation_id()}",
    ]
    if request.found.commit is not None:
        arguments.append(f"--commit={request.found.commit}")
    arguments += [f"--include={each}" for each in spec.include]
    return [*arguments, *(f"--exclude={each}" for each in spec.exclude)]


def _environment(spec: DownloadSpec, settings: Settings) -> list[Manifest]:
    variables: list[Manifest] = [
        {"name": "HF_ENDPOINT", "value": settings.hugging_face_endpoint},
        {"name": "HF_HOME", "value": f"{SCRATCH}/home"},
        # Each chunk is needed once: what the library would keep of them would fill the disk.
        {"name": "HF_XET_CHUNK_CACHE_SIZE_BYTES", "value": "0"},
        {"name": "HF_HUB_DISABLE_TELEMETRY", "value": "1"},
        {"name": "HF_HUB_DISABLE_PROGRESS_BARS", "value": "1"},
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "TERMINATION_LOG", "value": "/dev/termination-log"},
    ]
    if spec.credential is not None:
        reference = {"secretKeyRef": {"name": credential_secret(spec.credential), "key": KEY}}
        variables.append({"name": "HF_TOKEN", "valueFrom": reference})
    return variables


def _labels(cluster: str) -> dict[str, str]:
    return {
        LABEL_CLUSTER: ClusterNames(cluster).label,
        "app.kubernetes.io/name": "instantstart-download",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
    }
