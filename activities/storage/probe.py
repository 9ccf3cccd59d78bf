"""Trying a claim by a pod that mounts it: Bound says only that a volume was chosen, not that it can be mounted.

https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.aws import token
from activities.context import operation_id
from activities.errors import clean, fail
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients, listed, read_or_none
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER, LABEL_CLUSTER, LABEL_DOMAIN, ClusterNames
from contracts.problem import ProblemCode
from contracts.storage import (
    ENSURE_PROBE,
    REMOVE_PROBE,
    WAIT_FOR_PROBE,
    Probe,
    ProbeRemoved,
    ProbeState,
    ProbeStorage,
)

MOUNT = "/storage"
ANNOTATION_RUN = f"{LABEL_DOMAIN}/run"
DEADLINE_SECONDS = 1200
"""A pod that nobody removes ends by itself."""
PATIENCE = 20
"""Looks for which a mount may fail before it has failed: drivers and roles need a moment to agree."""
MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
LOOK = f"ls {MOUNT} > /dev/null"
WRITE = (
    f'marker="{MOUNT}/.instantstart-probe-$PROBE"; echo "$PROBE" > "$marker" && [ "$(cat "$marker")" = "$PROBE" ]; '
    'kept=$?; rm -f "$marker" && exit $kept'
)
"""One new file, written from its beginning: all that Mountpoint for Amazon S3 allows."""


class ProbeActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=ENSURE_PROBE.name)
    def ensure_probe(self, request: ProbeStorage) -> Probe:
        """A pod on a Ready node that mounts the claim. Without such a node there is none, and nothing is verified.

        The pod is put on its node: left to the scheduler, it could make an autoscaler buy one.
        """
        name = ClusterNames(request.scope.cluster).storage_probe(request.claim)
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            found = read_or_none(core.read_namespaced_pod, name, request.namespace)
            if found is not None and _is_current(found, request):
                return Probe(pod=name, state=ProbeState.RUNNING, node=found.spec.node_name)
            if found is not None:
                _delete(core, name, request.namespace)
                detail = f"Pod {request.namespace}/{name} of an earlier probe is going"
                pace = self._settings.poll_seconds
                fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=pace)
            node = _ready_node(core)
            if node is None:
                detail = "not verified: there is no Ready node that a pod could run on"
                return Probe(pod=name, state=ProbeState.NOT_VERIFIED, detail=detail)
            pod: Any = _pod(request, name, node, self._settings.probe_image)
            core.create_namespaced_pod(request.namespace, pod, _request_timeout=REQUEST_TIMEOUT)
        return Probe(pod=name, state=ProbeState.RUNNING, node=node)

    @activity.defn(name=WAIT_FOR_PROBE.name)
    async def wait_for_probe(self, request: ProbeStorage) -> Probe:
        """Until the pod has used the claim. Raises NOT_READY, in the kubelet's or the pod's words, where it cannot."""
        name = ClusterNames(request.scope.cluster).storage_probe(request.claim)
        claim, pace = f"{request.namespace}/{request.claim}", self._settings.poll_seconds

        def look(memory: Memory) -> Seen[Probe]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                core = client.CoreV1Api(api)
                pod = read_or_none(core.read_namespaced_pod, name, request.namespace)
                if pod is None:
                    remedy = "Retry: another one is made."
                    fail(ProblemCode.NOT_READY, f"The pod that tries {claim} is gone", remedy, retryable=True)
                phase, events = (pod.status.phase if pod.status else None) or "Pending", _events(core, pod)
            node = pod.spec.node_name
            if phase == "Succeeded":
                return Seen(f"{claim} works on {node}", Probe(pod=name, state=ProbeState.VERIFIED, node=node))
            if phase == "Failed":
                fail(
                    ProblemCode.NOT_READY,
                    f"A pod on {node} mounted {claim} and could not use it: {_ended(pod)}",
                    "Compare what the driver's role and the bucket's policy or the file system allow; then retry.",
                    retryable=True,
                )
            reason = events or _waiting(pod)
            if reason is None:
                memory.notes.pop("since", None)
                return Seen(f"a pod on {node} tries {claim}: {phase}")
            memory.notes.setdefault("since", time.time())
            if time.time() - memory.notes["since"] >= PATIENCE * pace:
                fail(
                    ProblemCode.NOT_READY,
                    f"A pod on {node} cannot mount {claim}: {reason}" if events else f"{name} does not start: {reason}",
                    "Mend what the message names (the CSI driver, its role, the bucket or the file system's network), "
                    "then retry.",
                    retryable=True,
                )
            return Seen(f"a pod on {node} tries {claim}: {reason}")

        return await wait_until(look, what="a claim that works", limit=WAIT_FOR_PROBE.limit, poll_seconds=pace)

    @activity.defn(name=REMOVE_PROBE.name)
    def remove_probe(self, request: ProbeStorage) -> ProbeRemoved:
        """Delete the pod, whatever became of it. Absent is done."""
        name = ClusterNames(request.scope.cluster).storage_probe(request.claim)
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            if read_or_none(core.read_namespaced_pod, name, request.namespace) is not None:
                _delete(core, name, request.namespace)
        return ProbeRemoved(pod=name)


def _pod(request: ProbeStorage, name: str, node: str, image: str) -> dict[str, Any]:
    names = ClusterNames(request.scope.cluster)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                LABEL_CLUSTER: names.label,
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
                "app.kubernetes.io/component": "storage-probe",
            },
            "annotations": {ANNOTATION_OPERATION: operation_id(), ANNOTATION_RUN: _run(request)},
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "probe",
                    "image": image,
                    "command": ["sh", "-c", LOOK if request.read_only else f"{LOOK} && {{ {WRITE}; }}"],
                    "env": [{"name": "PROBE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "16Mi"},
                        "limits": {"memory": "64Mi"},
                    },
                    "volumeMounts": [{"name": "storage", "mountPath": MOUNT, "readOnly": request.read_only}],
                }
            ],
            "volumes": [
                {
                    "name": "storage",
                    "persistentVolumeClaim": {"claimName": request.claim, "readOnly": request.read_only},
                }
            ],
        },
    }


def _ready_node(core: client.CoreV1Api) -> str | None:
    """The first node by name that is Ready and takes pods."""
    names = [
        node.metadata.name
        for node in listed(core.list_node)
        if not node.spec.unschedulable
        and not node.metadata.deletion_timestamp
        and any(each.type == "Ready" and each.status == "True" for each in (node.status.conditions or ()))
    ]
    return min(names, default=None)


def _is_current(pod: Any, request: ProbeStorage) -> bool:
    """Whether the pod is of this very run of the operation, and may still succeed."""
    made_by = (pod.metadata.annotations or {}).get(ANNOTATION_RUN)
    failed = pod.status is not None and pod.status.phase == "Failed"
    return made_by == _run(request) and not failed and not pod.metadata.deletion_timestamp


def _run(request: ProbeStorage) -> str:
    return token(f"probe/{request.namespace}/{request.claim}")


def _events(core: client.CoreV1Api, pod: Any) -> str | None:
    """What the kubelet last said about the pod's volumes; None once the containers have started."""
    states = [each.state for each in (pod.status.container_statuses or ())] if pod.status else []
    if any(state is not None and (state.running or state.terminated) for state in states):
        return None
    selector = f"involvedObject.uid={pod.metadata.uid}"
    found = [
        each
        for each in listed(partial(core.list_namespaced_event, pod.metadata.namespace), field_selector=selector)
        if each.reason in MOUNT_EVENTS
    ]
    found.sort(key=lambda each: str(each.last_timestamp or each.event_time or ""))
    return clean(found[-1].message or found[-1].reason) if found else None


def _waiting(pod: Any) -> str | None:
    """Why a container does not start, where that is not just a matter of time."""
    for each in (pod.status.container_statuses or ()) if pod.status else ():
        waiting = each.state.waiting if each.state is not None else None
        if waiting is not None and waiting.reason not in ("ContainerCreating", "PodInitializing"):
            return clean(f"{waiting.reason}: {waiting.message or ''}".rstrip(": "))
    return None


def _ended(pod: Any) -> str:
    for each in pod.status.container_statuses or ():
        ended = each.state.terminated if each.state is not None else None
        if ended is not None:
            return clean(ended.message or f"exit code {ended.exit_code} ({ended.reason})")
    return clean(pod.status.message or pod.status.reason or "it says nothing")


def _delete(core: client.CoreV1Api, name: str, namespace: str) -> None:
    try:
        core.delete_namespaced_pod(name, namespace, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status != 404:
            raise
