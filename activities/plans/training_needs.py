"""What single members of a training run's specification need of the cluster."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities import custom
from activities.deployments.capacity import in_words
from activities.kubernetes import REQUEST_TIMEOUT
from activities.ray import RAY_JOB
from activities.training import hyperpod
from activities.training.queues import CLUSTER_QUEUE, LOCAL_QUEUE
from activities.training.room import amount_of
from contracts.cluster import ClusterRecord
from contracts.features import Feature
from contracts.plans import Check
from contracts.problem import FieldError, ProblemCode
from contracts.training import TrainingSpec
from contracts.training_parts import Submission

OPERATORS: dict[Submission, tuple[Feature, custom.Kind]] = {
    Submission.HYPERPOD: (Feature.TRAINING_OPERATOR, hyperpod.KIND),
    Submission.RAY: (Feature.KUBERAY, RAY_JOB),
}
"""Who must run for a path of submission to do anything."""
PRIORITIES: dict[str, Any] = {"group": "kueue.x-k8s.io", "version": "v1beta1", "plural": "workloadpriorityclasses"}


def operator_check(api: client.ApiClient, spec: TrainingSpec) -> tuple[Check, list[FieldError]]:
    """Whether somebody will look after the job; the feature is offered where nobody would."""
    needed = OPERATORS.get(spec.path)
    if needed is None:
        return Check(name=f"submission {spec.path.value}", passed=True), []
    feature, kind = needed
    why = custom.missing_controller(api, feature, kind)
    remedy = f"Switch the feature {feature.value} on (update-features)."
    check = Check(name=f"{kind.kind} is looked after", passed=why is None, detail=why, remedy=remedy)
    if why is None:
        return check, []
    detail = f"nothing would come of a {kind.kind}: {why}"
    return check, [FieldError(field="/submission", detail=detail, remedy=remedy, code=ProblemCode.NOT_READY)]


def queue_blockers(api: client.ApiClient, spec: TrainingSpec) -> tuple[list[FieldError], list[str]]:
    """The queue and the priority must be there; and a warning where there are queues and none is named."""
    queues = [each["metadata"]["name"] for each in custom.list_all(api, LOCAL_QUEUE, spec.namespace)]
    if spec.queue is None:
        told = f"namespace {spec.namespace} has queues ({', '.join(queues)}) and the run names none: it is not queued"
        return [], [told] if queues else []
    if spec.queue.queue not in queues:
        there = f"it has {', '.join(queues)}" if queues else "it has none"
        detail = f"namespace {spec.namespace} has no local queue {spec.queue.queue}; {there}"
        remedy = "Name one that there is, or switch the feature task_governance on and give the team a quota."
        return [FieldError(field="/queue/queue", detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND)], []
    if spec.queue.priority is not None and not _has_priority(api, spec.queue.priority):
        detail = f"the cluster has no priority class {spec.queue.priority} for workloads"
        remedy = "Name one of task governance's, or leave it out."
        return [FieldError(field="/queue/priority", detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND)], []
    return [], []


def beyond_quota(api: client.ApiClient, spec: TrainingSpec, requests: dict[str, str]) -> list[str]:
    """Warnings where the run's queue may never give as much as its pods request together: it would wait for good."""
    if spec.queue is None or (found := custom.get(api, LOCAL_QUEUE, spec.namespace, spec.queue.queue)) is None:
        return []
    name = (found.get("spec") or {}).get("clusterQueue")
    queues = [each for each in custom.list_all(api, CLUSTER_QUEUE) if each["metadata"]["name"] == name]
    pods = spec.elastic.min_nodes if spec.elastic is not None else spec.nodes
    return [told for queue in queues for told in too_much(queue, requests, pods)]


def too_much(queue: custom.Object, requests: dict[str, str], pods: int) -> list[str]:
    """What ``pods`` pods request more of than a ClusterQueue may ever give. (Kueue: nominalQuota, borrowingLimit; what
    may be borrowed without a limit is not reckoned)"""
    spec = queue.get("spec") or {}
    most: dict[str, Decimal | None] = {}
    for group in spec.get("resourceGroups") or ():
        for resource in (each for flavor in group.get("flavors") or () for each in flavor.get("resources") or ()):
            name, limit = resource["name"], resource.get("borrowingLimit")
            gives: Decimal | None = amount_of(str(resource.get("nominalQuota") or "0"))
            if spec.get("cohort") and gives is not None:
                gives = None if limit is None else gives + amount_of(str(limit))
            known = most.get(name, Decimal(0))
            most[name] = None if gives is None or known is None else max(gives, known)
    return [
        f"queue {queue['metadata']['name']} may give at most {in_words(name, str(gives))}, and {pods} pods request "
        f"{in_words(name, str(amount_of(amount) * pods))}: the run would never be admitted; ask for fewer nodes, or "
        "raise the quota"
        for name, amount in requests.items()
        if (gives := most.get(name)) is not None and amount_of(amount) * pods > gives
    ]


def elastic_blockers(record: ClusterRecord, spec: TrainingSpec) -> list[FieldError]:
    """Elastic training does not run on spot capacity. (SageMaker Developer Guide: sagemaker-eks-elastic-training)"""
    if spec.elastic is None or record.hyperpod is None:
        return []
    spot = [
        group.name
        for group in record.hyperpod.groups
        if group.instance_type == spec.instance_type and group.capacity == "spot"
    ]
    if not spot:
        return []
    detail = f"elastic training does not work on spot capacity, which {', '.join(spot)} has"
    remedy = "Leave elastic out, or choose a type whose groups have no spot capacity."
    return [FieldError(field="/elastic", detail=detail, remedy=remedy)]


def tiered_account(record: ClusterRecord, spec: TrainingSpec) -> tuple[str | None, list[FieldError]]:
    """The service account that may use tiered checkpointing, as the feature was switched on."""
    if not spec.tiered_checkpointing:
        return None, []
    status = next((each for each in record.features if each.feature is Feature.TIERED_CHECKPOINTING), None)
    if status is None or not status.state.usable:
        detail = "tiered checkpointing is not on in the cluster"
        remedy = "Switch the feature tiered_checkpointing on (update-features)."
        return None, [
            FieldError(field="/tiered_checkpointing", detail=detail, remedy=remedy, code=ProblemCode.NOT_READY)
        ]
    namespace = status.settings.get("namespace") or "default"
    account = status.settings.get("service_account") or "tiered-storage-sa"
    if namespace != spec.namespace:
        detail = f"tiered checkpointing is set up for pods of namespace {namespace}, the run is in {spec.namespace}"
        remedy = f"Submit it in {namespace}, or switch the feature to {spec.namespace} (update-features)."
        return None, [FieldError(field="/namespace", detail=detail, remedy=remedy, code=ProblemCode.CONFLICT)]
    return str(account), []


def _has_priority(api: client.ApiClient, name: str) -> bool:
    try:
        client.CustomObjectsApi(api).get_cluster_custom_object(
            **PRIORITIES, name=name, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return True
