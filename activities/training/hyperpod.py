"""Submission by HyperPod's training operator: HyperPodPyTorchJob of sagemaker.amazonaws.com/v1.

The definition is not public. Its fields are those of ``hyperpod_pytorch_job_unified_config.py`` (HyperPod's own command
line, github.com/aws/sagemaker-hyperpod-cli) and of the SageMaker Developer Guide, sagemaker-eks-operator-usage and
sagemaker-eks-elastic-training.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from activities import custom
from activities.errors import clean
from activities.training import queues
from activities.training.manifests import Manifest, annotations_of, labels_of, pod_metadata, pod_spec
from activities.training.objects import ObjectPath
from activities.training.paths import Job, Raw
from contracts.node_views import NodeCondition
from contracts.recipes.launch import Launch
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_parts import Restarts, Submission, TrainingState
from contracts.training_resilience import LogRule

KIND = custom.Kind("sagemaker.amazonaws.com", "v1", "HyperPodPyTorchJob", "hyperpodpytorchjobs")
REPLICAS = "pods"
"""The name of the one set of replicas: pods are called ``<job>-pods-<number>``."""
FOREVER = -1
"""Seconds that a finished job is kept: the mirror's default, 0, would take it away before anybody saw its end."""

ENDED = {
    "Completed": TrainingState.SUCCEEDED,
    "Succeeded": TrainingState.SUCCEEDED,
    "Failed": TrainingState.FAILED,
}
STATES = {
    **ENDED,
    "Suspended": TrainingState.SUSPENDED,
    "Running": TrainingState.RUNNING,
    "Restarting": TrainingState.RESTARTING,
    "Recovering": TrainingState.RESTARTING,
    "Faulted": TrainingState.RESTARTING,
    "Hanging": TrainingState.RESTARTING,
    "Created": TrainingState.STARTING,
}
"""By the condition that is true; where several are, the first of these that is not contradicted by a later one.

UNVERIFIED: that these are all, and that Restarting, Recovering, Faulted and Hanging are called so.
"""


class HyperPodPath(ObjectPath):
    submission = Submission.HYPERPOD
    kind = KIND
    api_version = f"{KIND.group}/{KIND.version}"
    plural = KIND.plural

    def launch(self, request: SubmitTraining) -> Launch:
        return request.spec.launch(request.efa)

    def as_job(self, found: Raw) -> Job:
        return as_job(found)

    def manifest(self, cluster: str, request: SubmitTraining, config: str, operation: str) -> Manifest:
        return manifest(cluster, request, config, operation)

    def suspension(self, suspended: bool) -> Manifest:
        return {"runPolicy": {"suspend": suspended}}


def manifest(cluster: str, request: SubmitTraining, config: str, operation: str) -> Manifest:
    """The HyperPodPyTorchJob of a run."""
    spec = request.spec
    launch = spec.launch(request.efa)
    labels = {**spec.labels, **labels_of(cluster, spec), **queues.labels_of(spec)}
    replicas: Manifest = {
        "name": REPLICAS,
        "replicas": spec.nodes,
        "spares": spec.spares,
        "template": {"metadata": pod_metadata(cluster, spec), "spec": pod_spec(request, launch, config)},
    }
    body: Manifest = {
        "nprocPerNode": str(spec.processes_per_node),
        "replicaSpecs": [replicas],
        "runPolicy": run_policy(spec),
    }
    if spec.elastic is not None:
        replicas["maxReplicas"] = spec.elastic.max_nodes
        body["elasticPolicy"] = elastic_policy(spec)
    return {
        "apiVersion": HyperPodPath.api_version,
        "kind": KIND.kind,
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": annotations_of(request, operation),
        },
        "spec": body,
    }


def run_policy(spec: TrainingSpec) -> Manifest:
    budget = spec.recovery
    policy: Manifest = {
        "cleanPodPolicy": budget.clean_pods.value,
        "jobMaxRetryCount": budget.job_retries,
        "restartPolicy": {
            "evalPeriodSeconds": budget.window_seconds,
            "maxFullJobRestarts": budget.full_restarts,
            "numRestartBeforeFullJobRestart": budget.in_place_restarts,
        },
        "ttlSecondsAfterFinished": FOREVER,
    }
    if spec.deadline_hours is not None:
        policy["activeDeadlineSeconds"] = max(int(spec.deadline_hours * 3600), 1)
    if spec.log_monitoring:
        policy["logMonitoringConfiguration"] = [log_rule(rule) for rule in spec.log_monitoring]
    return policy


def log_rule(rule: LogRule) -> Manifest:
    given = {
        "name": rule.name,
        "logPattern": rule.pattern,
        "expectedStartCutOffInSeconds": rule.start_within_seconds,
        "expectedRecurringFrequencyInSeconds": rule.every_seconds,
        "metricThreshold": rule.metric_threshold,
        "operator": rule.operator,
        "metricEvaluationDataPoints": rule.data_points if rule.metric_threshold is not None else None,
        "stopPattern": rule.stop_pattern,
    }
    return {key: value for key, value in given.items() if value is not None}


def elastic_policy(spec: TrainingSpec) -> Manifest:
    policy = spec.elastic
    assert policy is not None
    given = {
        "minReplicas": policy.min_nodes,
        "maxReplicas": policy.max_nodes,
        "replicaIncrementStep": None if policy.discrete else policy.step or 1,
        "replicaDiscreteValues": policy.discrete,
        "gracefulShutdownTimeoutInSeconds": policy.graceful_shutdown_seconds,
        "scalingTimeoutInSeconds": policy.scaling_timeout_seconds,
        "faultyScaleDownTimeoutInSeconds": policy.faulty_scale_down_seconds,
    }
    return {key: value for key, value in given.items() if value is not None}


def as_job(found: Raw) -> Job:
    """A HyperPodPyTorchJob as every path shows its jobs."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    policy = spec.get("runPolicy") or {}
    labels, suspended = metadata.get("labels") or {}, bool(policy.get("suspend"))
    restarts = _restarts(policy, status)
    state, telling = _state(status.get("conditions") or [], restarts.job > 0)
    if suspended and not state.ended:
        state = TrainingState.SUSPENDED
    reason = (telling or {}).get("reason") or None
    message = clean((telling or {}).get("message") or reason or "its operator has not looked at it yet", 300)
    faulty = status.get("latestFaultyPodInstanceList") or {}
    return Job(
        submission=Submission.HYPERPOD,
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        state=TrainingState.DELETING if metadata.get("deletionTimestamp") and not state.ended else state,
        detail=message,
        reason=reason,
        restarts=restarts,
        suspended=suspended,
        deleting=bool(metadata.get("deletionTimestamp")),
        queue=labels.get(queues.LABEL_QUEUE),
        started_at=_time(status.get("startTime")) or _time(metadata.get("creationTimestamp")),
        finished_at=(_time(status.get("completionTime")) or _time((telling or {}).get("lastTransitionTime")))
        if state.ended
        else None,
        labels=labels,
        annotations=metadata.get("annotations") or {},
        conditions=[_condition(each) for each in status.get("conditions") or ()],
        faulty=[str(each) for each in faulty.get("faultyPodList") or ()],
        version=str(metadata.get("resourceVersion") or ""),
    )


def _state(conditions: list[Raw], restarted: bool) -> tuple[TrainingState, Raw | None]:
    """What the job's conditions say: an end first, else the one that is true and came last. A job that has been started
    again and does not run (yet) restarts."""
    true = [each for each in conditions if each.get("status") == "True"]
    for each in true:
        if each.get("type") in ENDED:
            return ENDED[each["type"]], each
    known = [each for each in true if each.get("type") in STATES]
    if not known:
        return TrainingState.STARTING, true[-1] if true else None
    order = list(STATES)
    last = max(known, key=lambda each: (str(each.get("lastTransitionTime") or ""), -order.index(each["type"])))
    state = STATES[last["type"]]
    stopped = next((each for each in conditions if each.get("type") == "Running" and each not in true), None)
    if state is TrainingState.STARTING and restarted and stopped is not None:
        return TrainingState.RESTARTING, stopped
    return state, last


def _restarts(policy: Raw, status: Raw) -> Restarts:
    limits, window = policy.get("restartPolicy") or {}, status.get("restartStatus") or {}
    return Restarts(
        job=_number(status.get("restartCount")),
        job_limit=policy.get("jobMaxRetryCount"),
        in_place=_number(window.get("restartCount")),
        in_place_limit=limits.get("numRestartBeforeFullJobRestart"),
        full=_number(window.get("fullJobRestartCount")),
        full_limit=limits.get("maxFullJobRestarts"),
        window_seconds=limits.get("evalPeriodSeconds"),
    )


def _condition(found: Raw) -> NodeCondition:
    return NodeCondition(
        type=str(found.get("type") or ""),
        status=str(found.get("status") or ""),
        reason=str(found.get("reason") or ""),
        message=clean(str(found.get("message") or ""), 300),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
