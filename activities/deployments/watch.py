"""Watching model servers: until they run, are reached, answer, or are gone."""

from __future__ import annotations

import time
from typing import Any, NoReturn

from kubernetes import client
from temporalio import activity

from activities.deployments import objects, trouble
from activities.deployments.answers import Waiting, ask
from activities.deployments.trouble import Trouble
from activities.errors import clean, fail
from activities.inference.proxy import Upstream
from activities.kubernetes import KubernetesClients
from activities.nodes.sight import Raw
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.deployments import (
    WAIT_FOR_ADDRESS,
    WAIT_FOR_ANSWERS,
    WAIT_FOR_DEPLOYMENT_GONE,
    WAIT_FOR_ROLLOUT,
    Answered,
    DeploymentGone,
    DeploymentRef,
    PublicAddress,
    RolledOut,
    WatchAnswers,
    WatchRollout,
)
from contracts.names import public_service
from contracts.problem import ProblemCode
from contracts.words import some

PASSING_SECONDS = 120.0
"""How long trouble that may pass by itself must last before it counts: three pulls of an image, say."""
LOOKED_AT = 3
"""Pods whose troubles are looked into at one look."""
SHOWN = 3


class DeploymentWaits:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=WAIT_FOR_ROLLOUT.name)
    async def wait_for_rollout(self, request: WatchRollout) -> RolledOut:
        """Until every replica is of the newest form and Ready.

        Raises the problem of a replica that will not serve: its image, its memory, its arguments, its model; of one
        that finds no node, after ``shortfall_patience``.
        """

        def look(memory: Memory) -> Seen[RolledOut]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.deployment(api, request.namespace, request.name)
                if found is None:
                    remedy = "Retry the stage that makes it."
                    fail(ProblemCode.NOT_FOUND, f"There is no deployment {request.namespace}/{request.name}", remedy)
                return self._look(api, request, found, memory)

        limit, pace = WAIT_FOR_ROLLOUT.limit, self._settings.poll_seconds
        return await wait_until(look, what="a deployment whose replicas are ready", limit=limit, poll_seconds=pace)

    def _look(self, api: client.ApiClient, request: WatchRollout, found: Raw, memory: Memory) -> Seen[RolledOut]:
        status, wanted = found.get("status") or {}, found["spec"].get("replicas", 1)
        ready, updated = status.get("readyReplicas") or 0, status.get("updatedReplicas") or 0
        if (status.get("observedGeneration") or 0) < max(request.generation, found["metadata"].get("generation") or 0):
            return Seen("its controller has not looked at it yet")
        pods = objects.pods_of(api, found, newest=True)
        old = (status.get("replicas") or 0) - updated
        available = status.get("availableReplicas") or 0
        if updated == wanted and available >= wanted and ready >= wanted and old <= 0:
            nodes = sorted({pod["spec"]["nodeName"] for pod in pods if trouble.is_ready(pod)}) if wanted else []
            result = RolledOut(
                name=request.name, namespace=request.namespace, replicas=wanted, ready=ready, nodes=nodes
            )
            return Seen(f"{ready} of {wanted} ready", result)
        waiting = [pod for pod in pods if not trouble.is_ready(pod) and not pod["metadata"].get("deletionTimestamp")]
        fresh = sum(map(trouble.is_ready, pods))
        line = f"{fresh} of {wanted} ready"
        troubles = [
            each for pod in waiting[:LOOKED_AT] if (each := trouble.find(api, pod, request.limit_minutes)) is not None
        ]
        troubles += [each for each in (_not_made(status), _overdue(status, request, line)) if each is not None]
        for each in troubles:
            if not each.passes:
                self._give_up(each)
        self._lasting(troubles, memory, request.patient)
        if troubles:
            return Seen(f"{line}: {troubles[0].detail}")
        if waiting:
            return Seen(f"{line}: {trouble.progress(api, waiting)}")
        return Seen(f"{line}: replicas of the former form that end: {old}" if old > 0 else f"{line}: pods are made")

    def _lasting(self, troubles: list[Trouble], memory: Memory, patient: bool) -> None:
        """Raise the problem of what has lasted; by reason, so that a pod's restart does not begin it anew."""
        since: dict[str, float] = memory.notes.setdefault("since", {})
        there = {_kind(each.reason) for each in troubles}
        for over in [kind for kind in since if kind not in there]:
            del since[over]
        patience = self._settings.shortfall_patience
        for each in troubles:
            began = since.setdefault(_kind(each.reason), time.time())
            limit = patience if each.scheduling and patient else min(PASSING_SECONDS, patience)
            if time.time() - began >= limit:
                self._give_up(each)

    @staticmethod
    def _give_up(found: Trouble) -> NoReturn:
        more: dict[str, Any] = {"field": found.field} if found.field else {}
        fail(found.code, found.detail, found.remedy, retryable=found.passes, **more)

    @activity.defn(name=WAIT_FOR_ADDRESS.name)
    async def wait_for_address(self, request: DeploymentRef) -> PublicAddress:
        """Until the load balancer of the public Service has a host name. The live line tells what its controller says.

        (AWS Load Balancer Controller: Network Load Balancer)
        """
        name = public_service(request.name)

        def look(memory: Memory) -> Seen[PublicAddress]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.service(api, request.namespace, name)
                if found is None:
                    remedy = "Retry the stage that makes it."
                    fail(ProblemCode.NOT_FOUND, f"There is no Service {request.namespace}/{name}", remedy)
                for entry in ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
                    if address := entry.get("hostname") or entry.get("ip"):
                        return Seen(f"{name} is reached at {address}", PublicAddress(service=name, hostname=address))
                events = trouble.events_of(api, request.namespace, "Service", name)
            warned = [each for each in events if each.get("type") == "Warning"]
            told = f": {clean(warned[-1].get('message') or warned[-1].get('reason') or '', 200)}" if warned else ""
            return Seen(f"{name} has no address yet{told}")

        limit, pace = WAIT_FOR_ADDRESS.limit, self._settings.poll_seconds
        return await wait_until(look, what="the address of the load balancer", limit=limit, poll_seconds=pace)

    @activity.defn(name=WAIT_FOR_ANSWERS.name)
    async def wait_for_answers(self, request: WatchAnswers) -> Answered:
        """Until the server answers as ``verification`` asks, through the Kubernetes API.

        Raises NOT_READY where it answers something else, and keeps to it.
        """
        verification = request.verification
        if verification.kind == "none":
            return Answered(verified=f"nobody looked: {verification.reason}")

        def look(memory: Memory) -> Seen[Answered]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                upstream = self._upstream(api, request)
                if upstream is None:
                    return Seen("no replica is ready")
                found = ask(api, upstream, verification, request.served_model)
            if not isinstance(found, Waiting):
                return Seen(found.verified, found)
            if found.refused:
                began = memory.notes.setdefault("refused", time.time())
                if time.time() - began >= min(PASSING_SECONDS, self._settings.shortfall_patience):
                    fail(ProblemCode.NOT_READY, found.detail, found.remedy, field=found.field, retryable=True)
            else:
                memory.notes.pop("refused", None)
            return Seen(found.detail)

        limit, pace = WAIT_FOR_ANSWERS.limit, self._settings.poll_seconds
        return await wait_until(look, what="an answer of the server", limit=limit, poll_seconds=pace)

    @staticmethod
    def _upstream(api: client.ApiClient, request: WatchAnswers) -> Upstream | None:
        if request.service is not None:
            return Upstream(request.namespace, request.service, request.port)
        found = objects.deployment(api, request.namespace, request.name)
        pods = objects.pods_of(api, found, newest=True) if found is not None else []
        ready = next((pod["metadata"]["name"] for pod in pods if trouble.is_ready(pod)), None)
        return Upstream(request.namespace, ready, request.port, "pods") if ready is not None else None

    @activity.defn(name=WAIT_FOR_DEPLOYMENT_GONE.name)
    async def wait_until_gone(self, request: DeploymentRef) -> DeploymentGone:
        """Until the Deployment, its pods and its Services, with their load balancers, are gone."""

        def look(memory: Memory) -> Seen[DeploymentGone]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.deployment(api, request.namespace, request.name)
                pods = objects.pods_of(api, found) if found is not None else []
                services = objects.services_of(api, request.namespace, request.name)
            if found is None and not services:
                result = DeploymentGone(name=request.name, namespace=request.namespace)
                return Seen(f"{request.name} is gone", result)
            left = [each["metadata"]["name"] for each in (*pods, *services)]
            return Seen(f"still there: {some(left, SHOWN)}" if left else f"{request.name} is going")

        limit, pace = WAIT_FOR_DEPLOYMENT_GONE.limit, self._settings.poll_seconds
        return await wait_until(look, what="the end of the deployment", limit=limit, poll_seconds=pace)


def _not_made(status: Raw) -> Trouble | None:
    """Pods that Kubernetes refuses to make: a quota, or a rule of the cluster."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return Trouble(
                reason=condition.get("reason") or "ReplicaFailure",
                detail=f"Kubernetes makes no pod: {clean(condition.get('message') or '')}",
                remedy="Change what the message names: a quota of the namespace, or a rule of the cluster.",
                code=ProblemCode.DENIED,
                passes=True,
            )
    return None


def _overdue(status: Raw, request: WatchRollout, line: str) -> Trouble | None:
    """What Kubernetes says of a rollout that does not get on. It may say so for a while of one that was begun anew."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Progressing" and condition.get("status") == "False":
            return Trouble(
                reason=condition.get("reason") or "Progressing",
                detail=f"the replicas make no progress within {request.limit_minutes} minutes: {line}",
                remedy="Read the pods' logs; give more startup_timeout_minutes if they only load.",
                code=ProblemCode.TIMEOUT,
                field="/startup_timeout_minutes",
                passes=True,
            )
    return None


def _kind(reason: str) -> str:
    """What lasts: an image that is not pulled changes its reason from one look to the next."""
    return "image" if reason in trouble.IMAGE else reason
