"""Submission by KubeRay: RayJob of ray.io/v1, with a Ray cluster of its own.

The driver runs on the head; KubeRay's submitter, a Job, follows its log. Its command goes through shells of KubeRay and
of Ray, so that it is a fixed one, which starts the recipe's words.
(KubeRay: controllers/ray/rayjob_controller.go, common/job.go; https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html)
"""

from __future__ import annotations

import copy
import math
from datetime import datetime
from typing import Any

from activities.errors import clean
from activities.instance_types import NVIDIA
from activities.ray import API_VERSION, RAY_JOB, head_container_ports, head_group, worker_groups
from activities.training import queues
from activities.training.manifests import (
    Manifest,
    annotations_of,
    labels_of,
    pod_metadata,
    pod_spec,
    resources_of,
    shm_gib,
)
from activities.training.objects import ObjectPath
from activities.training.paths import Job, Raw
from activities.training.pods import LABEL_DRIVER
from activities.training.starter import SCRIPT, with_starter
from contracts.node_views import NodeCondition
from contracts.ray_parts import RayOptions, ray_version_of
from contracts.recipes.launch import RECIPE_MOUNT, Launch
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_parts import Restarts, Submission, TrainingState

SUBMITTER = "ray-job-submitter"
GIB = 2**30
CPUS_FOR_GPU = 12
"""The fewest that HyperPod's types have beside a GPU, but for the smallest. (EC2: p4d, g5.12xlarge)"""
SUBMITTER_RESOURCES = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
STATES = {
    "": TrainingState.STARTING,
    "Initializing": TrainingState.STARTING,
    "Waiting": TrainingState.STARTING,
    "Running": TrainingState.RUNNING,
    "Retrying": TrainingState.RESTARTING,
    "Suspending": TrainingState.SUSPENDED,
    "Suspended": TrainingState.SUSPENDED,
    "Complete": TrainingState.SUCCEEDED,
    "Failed": TrainingState.FAILED,
    "ValidationFailed": TrainingState.FAILED,
}
"""By status.jobDeploymentStatus. (KubeRay: rayjob_types.go, JobDeploymentStatus)"""
FAILURES = {
    "AppFailed": "the driver failed",
    "DeadlineExceeded": "the job reached its deadline",
    "SubmissionFailed": "the job could not be submitted to its Ray cluster",
    "JobDeploymentStatusTransitionGracePeriodExceeded": "KubeRay lost sight of the job",
    "ValidationFailed": "KubeRay does not take the job",
}
"""By status.reason. (KubeRay: rayjob_types.go, JobFailedReason)"""


class RayPath(ObjectPath):
    submission = Submission.RAY
    kind = RAY_JOB
    api_version = API_VERSION
    plural = RAY_JOB.plural

    def launch(self, request: SubmitTraining) -> Launch:
        return with_starter(request.spec.launch(request.efa))

    def as_job(self, found: Raw) -> Job:
        return as_job(found)

    def manifest(self, cluster: str, request: SubmitTraining, config: str, operation: str) -> Manifest:
        return manifest(cluster, request, config, operation)

    def suspension(self, suspended: bool) -> Manifest:
        return {"suspend": suspended}


def manifest(cluster: str, request: SubmitTraining, config: str, operation: str) -> Manifest:
    """The RayJob of a run: a head, workers, and the submitter's pod."""
    spec = request.spec
    options = options_of(spec)
    launch = with_starter(spec.launch(request.efa))
    body: Manifest = {
        "submissionMode": "K8sJobMode",
        "entrypoint": f"python3 {RECIPE_MOUNT}/{SCRIPT}",
        # Every other attempt is a new Ray cluster.
        "backoffLimit": spec.recovery.job_retries,
        "shutdownAfterJobFinishes": True,
        # Logs are followed while pods run; what is written last is read in this time.
        "ttlSecondsAfterFinished": options.linger_seconds,
        "rayClusterSpec": ray_cluster(cluster, request, launch, config, options),
        "submitterPodTemplate": _submitter(cluster, spec, launch, config),
    }
    if spec.deadline_hours is not None:
        body["activeDeadlineSeconds"] = max(int(spec.deadline_hours * 3600), 1)
    return {
        "apiVersion": API_VERSION,
        "kind": RAY_JOB.kind,
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": {**spec.labels, **labels_of(cluster, spec), **queues.labels_of(spec)},
            "annotations": annotations_of(request, operation),
        },
        "spec": body,
    }


def options_of(spec: TrainingSpec) -> RayOptions:
    return spec.ray or RayOptions()


def ray_cluster(cluster: str, request: SubmitTraining, launch: Launch, config: str, options: RayOptions) -> Manifest:
    """As many GPUs and EFA interfaces as the recipe reckons with: ``nodes`` pods of ``gpus_per_node`` each, whether the
    head is one of them or stands apart."""
    spec = request.spec
    node = {"metadata": pod_metadata(cluster, spec), "spec": _of_ray(pod_spec(request, launch, config))}
    cpus = _cpus(spec, resources_of(spec, request.efa))
    works = options.head == "works"
    head, head_cpus = copy.deepcopy(node), cpus
    if not works:
        _without_devices(head["spec"], options)
        head_cpus = 0.0
    head["spec"]["containers"][0]["ports"] = head_container_ports()
    group = head_group(head, head_cpus, spec.gpus_per_node if works else 0)
    workers = worker_groups(node, spec.nodes - 1 if works else spec.nodes, cpus, spec.gpus_per_node)
    for each in (group, *workers):
        # The other half is for what processes hand to each other (NCCL, batches).
        each["rayStartParams"]["object-store-memory"] = str(shm_gib(spec) * GIB // 2)
    version = options.ray_version or ray_version_of(spec.image or launch.image)
    return {
        **({"rayVersion": version} if version else {}),
        "enableInTreeAutoscaling": False,
        "headGroupSpec": group,
        "workerGroupSpecs": workers,
    }


def _of_ray(pod: Manifest) -> Manifest:
    """The pod of a node as KubeRay takes it: it starts Ray in the first container itself."""
    container = pod["containers"][0]
    for member in ("command", "ports"):
        container.pop(member, None)
    return pod


def _without_devices(pod: Manifest, options: RayOptions) -> None:
    """A head apart may be on any node, and takes none of its accelerators."""
    pod.pop("affinity", None)
    container = pod["containers"][0]
    memory = f"{math.ceil(options.head_memory_gib * 1024)}Mi"
    container["resources"] = {
        "requests": {"cpu": f"{math.ceil(options.head_cpu * 1000)}m", "memory": memory},
        "limits": {"memory": memory},
    }
    container["securityContext"].pop("capabilities", None)
    container["env"] = [each for each in container["env"] if each["name"] not in ("FI_PROVIDER", "FI_EFA_FORK_SAFE")]


def _cpus(spec: TrainingSpec, resources: Manifest) -> float:
    """What Ray may hand out of a node: as asked, else by its GPUs. They are places for actors, and no cores; where
    there are too few, a driver waits for them without end. (verl: single_controller/ray/base.py, RayResourcePool)"""
    requested = int(str(resources["requests"]["cpu"]).removesuffix("m")) / 1000
    return requested if spec.resources.cpu is not None else max(requested, CPUS_FOR_GPU * spec.gpus_per_node)


def _submitter(cluster: str, spec: TrainingSpec, launch: Launch, config: str) -> Manifest:
    """The pod that submits, and prints what the driver prints. KubeRay gives it its command."""
    metadata = pod_metadata(cluster, spec)
    metadata["labels"][LABEL_DRIVER] = "true"
    return {
        "metadata": metadata,
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            # It may run wherever there is room: nodes with GPUs keep others away.
            "tolerations": [{"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                {
                    "name": SUBMITTER,
                    "image": spec.image or launch.image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": copy.deepcopy(SUBMITTER_RESOURCES),
                    # What was submitted can be read where its log is.
                    "volumeMounts": [{"name": "recipe", "mountPath": RECIPE_MOUNT, "readOnly": True}],
                    "securityContext": {"allowPrivilegeEscalation": False},
                }
            ],
            "volumes": [{"name": "recipe", "configMap": {"name": config}}],
        },
    }


def as_job(found: Raw) -> Job:
    """A RayJob as every path shows its jobs."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    labels, suspended = metadata.get("labels") or {}, bool(spec.get("suspend"))
    state = _state(status)
    if suspended and not state.ended:
        state = TrainingState.SUSPENDED
    reason = str(status.get("reason") or "") or None
    return Job(
        submission=Submission.RAY,
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        state=TrainingState.DELETING if metadata.get("deletionTimestamp") and not state.ended else state,
        detail=_detail(status, state, reason),
        reason=reason,
        restarts=_restarts(spec, status, state),
        suspended=suspended,
        deleting=bool(metadata.get("deletionTimestamp")),
        queue=labels.get(queues.LABEL_QUEUE),
        started_at=_time((status.get("rayJobInfo") or {}).get("startTime"))
        or _time(status.get("startTime"))
        or _time(metadata.get("creationTimestamp")),
        finished_at=_time(status.get("endTime")) if state.ended else None,
        labels=labels,
        annotations=metadata.get("annotations") or {},
        conditions=_conditions(status),
        version=str(metadata.get("resourceVersion") or ""),
    )


def _state(status: Raw) -> TrainingState:
    deployed, submitted = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    state = STATES.get(deployed, TrainingState.UNKNOWN)
    if state is TrainingState.SUCCEEDED and submitted in ("FAILED", "STOPPED"):
        # A job that was stopped at the dashboard is complete, for KubeRay.
        return TrainingState.FAILED if submitted == "FAILED" else TrainingState.STOPPED
    if state is TrainingState.RUNNING and submitted in ("", "PENDING"):
        return TrainingState.STARTING
    if state is TrainingState.STARTING and _number(status.get("failed")):
        return TrainingState.RESTARTING
    return state


def _detail(status: Raw, state: TrainingState, reason: str | None) -> str:
    if state is TrainingState.FAILED:
        said = FAILURES.get(reason or "", "the job failed")
        message = clean(str(status.get("message") or ""), 240)
        return f"{said}: {message}" if message else said
    if state is TrainingState.STOPPED:
        return "the job was stopped at its Ray cluster's dashboard"
    if state in (TrainingState.STARTING, TrainingState.RESTARTING):
        return _coming(status)
    return {
        TrainingState.RUNNING: "the driver runs",
        TrainingState.SUCCEEDED: "the driver has ended well",
        TrainingState.SUSPENDED: "suspended",
    }.get(state, f"KubeRay calls it {status.get('jobDeploymentStatus')}")


def _coming(status: Raw) -> str:
    """What is still missing before the driver runs."""
    deployed = str(status.get("jobDeploymentStatus") or "")
    cluster = status.get("rayClusterStatus") or {}
    if deployed == "Running":
        return "the job is submitted"
    if deployed == "Retrying":
        return f"attempt {_number(status.get('failed')) + 1} comes: {clean(str(status.get('message') or ''), 160)}"
    if not cluster:
        return "KubeRay has not looked at it yet" if not deployed else "its Ray cluster is made"
    wanted = _number(cluster.get("desiredWorkerReplicas"))
    ready = _number(cluster.get("readyWorkerReplicas") or cluster.get("availableWorkerReplicas"))
    head = any(
        each.get("type") == "HeadPodReady" and each.get("status") == "True" for each in cluster.get("conditions") or ()
    )
    return f"its Ray cluster comes up: head {'ready' if head else 'not ready'}, {ready} of {wanted} workers ready"


def _restarts(spec: Raw, status: Raw, state: TrainingState) -> Restarts:
    """Failed attempts that another one came after."""
    failed = _number(status.get("failed"))
    return Restarts(
        job=max(failed - 1, 0) if state is TrainingState.FAILED else failed, job_limit=_number(spec.get("backoffLimit"))
    )


def _conditions(status: Raw) -> list[NodeCondition]:
    """Those of the Ray cluster: a RayJob has none of its own."""
    return [
        NodeCondition(
            type=str(each.get("type") or ""),
            status=str(each.get("status") or ""),
            reason=str(each.get("reason") or ""),
            message=clean(str(each.get("message") or ""), 300),
        )
        for each in (status.get("rayClusterStatus") or {}).get("conditions") or ()
    ]


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
