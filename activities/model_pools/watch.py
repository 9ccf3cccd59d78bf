"""Watching pools: until a pod is drained, serves, can be handed out, or until something is to be done."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from kubernetes import client
from temporalio import activity

from activities.deployments import objects as deployments
from activities.deployments.manifests import DRAIN_SECONDS
from activities.deployments.trouble import is_ready
from activities.errors import fail
from activities.inference import proxy
from activities.inference.proxy import Upstream
from activities.kubernetes import KubernetesClients
from activities.model_pools import load, objects
from activities.model_pools.acts import elsewhere, gone, same, seen
from activities.nodes.sight import Raw
from activities.polling import Look, Memory, Result, Seen, wait_until
from activities.settings import Settings
from contracts.model_pools import (
    WAIT_FOR_DRAINED_POD,
    WAIT_FOR_POOL_GONE,
    WAIT_FOR_SERVING_POD,
    WAIT_FOR_WORKERS,
    WATCH_POOL,
    MovePod,
    PodMoved,
    PoolGone,
    PoolNews,
    PoolRef,
    PoolSeen,
    WatchPool,
)
from contracts.names import ANNOTATION_LEFT, public_service
from contracts.pool_moves import LEAVING, UNASSIGNED, moves_for, reached, told
from contracts.problem import ProblemCode
from contracts.words import number_of, some

IDLE_LOOKS = 2
"""So many looks in a row must find no request under way: one may have been sent just before the pod was left out."""
UNREADY_SECONDS = 60.0
"""How long a pod that is to serve may be not Ready before another is taken."""
NEWS_LOOKS = 2
"""So many looks in a row must find something to do: a pod that is not Ready for a moment is left where it is."""
SHOWN = 3


class ModelPoolWaits:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=WAIT_FOR_DRAINED_POD.name)
    async def wait_until_drained(self, request: MovePod) -> PodMoved:
        """Until no request is under way in a pod that has left its service, or its grace is over.

        First no EndpointSlice of the pool's Services may list it as ready; then the server's own metrics must say that
        it is idle. A server without metrics is given its whole grace (``grace_seconds`` of the pool).
        """
        move = request.move

        def look(memory: Memory) -> Seen[PodMoved]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.pod(api, request.namespace, move.pod)
                if found is None or not same(found, move.uid):
                    return Seen(f"{move.pod} is gone", gone(move.pod))
                business = objects.business_of(found)
                if business != LEAVING:
                    done = PodMoved(pod=move.pod, changed=False)
                    return Seen(f"{move.pod} serves {business}", done)
                pool = objects.required(
                    api, request.namespace, request.name, request.scope.cluster, self._settings.poll_seconds
                )
                services = [
                    each["metadata"]["name"] for each in objects.services_of(api, request.namespace, request.name)
                ]
                if behind := objects.listed_behind(api, request.namespace, services, move.pod):
                    memory.notes["idle"] = 0
                    return Seen(f"{move.pod} is still behind {', '.join(behind)}")
                if not is_ready(found):
                    return Seen(f"{move.pod} is not ready", PodMoved(pod=move.pod, detail="nothing was under way"))
                spec = objects.known_spec(pool)
                running = load.of_pod(api, request.namespace, move.pod, spec.port)
            memory.notes["idle"] = memory.notes.get("idle", 0) + 1 if running == 0 else 0
            if memory.notes["idle"] >= IDLE_LOOKS:
                return Seen(f"{move.pod} is idle", PodMoved(pod=move.pod, detail="no request is under way"))
            under_way = f"requests under way: {running:g}" if running is not None else "it does not say what it does"
            if _since_left(found) >= timedelta(seconds=spec.grace_seconds + DRAIN_SECONDS):
                return Seen(f"{move.pod} had its grace", PodMoved(pod=move.pod, detail=f"after its grace: {under_way}"))
            return Seen(f"{move.pod} has left: {under_way}")

        return await self._until(look, "a pod without requests under way", WAIT_FOR_DRAINED_POD.limit)

    @activity.defn(name=WAIT_FOR_SERVING_POD.name)
    async def wait_until_serving(self, request: MovePod) -> PodMoved:
        """Until the Service that a pod was given to sends requests to it, and the pod answers them."""
        move = request.move
        if move.target == UNASSIGNED:
            return PodMoved(pod=move.pod, changed=False)

        def look(memory: Memory) -> Seen[PodMoved]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.pod(api, request.namespace, move.pod)
                if found is None or not same(found, move.uid):
                    return Seen(f"{move.pod} is gone", gone(move.pod))
                if (business := objects.business_of(found)) != move.target:
                    return Seen(f"{move.pod} serves {business}", elsewhere(move.pod, business))
                if not is_ready(found):
                    since = memory.notes.setdefault("unready", time.time())
                    if time.time() - since >= min(UNREADY_SECONDS, self._settings.shortfall_patience):
                        lost = PodMoved(pod=move.pod, gone=True, changed=False, detail="it is not ready any more")
                        return Seen(f"{move.pod} is not ready", lost)
                    return Seen(f"{move.pod} is not ready")
                memory.notes.pop("unready", None)
                if not objects.listed_behind(api, request.namespace, [move.target], move.pod):
                    return Seen(f"{move.target} does not list {move.pod} yet")
                pool = objects.required(
                    api, request.namespace, request.name, request.scope.cluster, self._settings.poll_seconds
                )
                spec = objects.known_spec(pool)
                if (path := spec.health_path) is not None:
                    answer = proxy.get(api, Upstream(request.namespace, move.pod, spec.port, "pods"), path)
                    # One that wants a key says so; that it is there is seen all the same.
                    if not answer.ok and answer.status not in (401, 403):
                        return Seen(f"{move.pod} answers {answer.status} for {move.target}")
            return Seen(f"{move.pod} serves {move.target}", PodMoved(pod=move.pod, detail=f"serves {move.target}"))

        return await self._until(look, "a pod that serves", WAIT_FOR_SERVING_POD.limit)

    @activity.defn(name=WAIT_FOR_WORKERS.name)
    async def wait_for_workers(self, request: PoolRef) -> PoolNews:
        """Until pods can be handed out as the pool's Deployment says, or all are. The live line tells who waits."""

        def look(memory: Memory) -> Seen[PoolNews]:
            pool = self._look(request)
            if pool is None:
                return Seen("the pool is gone", PoolNews(gone=True, detail="the pool is gone"))
            if pool.wish_problem is not None:
                remedy = "Send the whole wish again (assign-model-pool)."
                fail(ProblemCode.INVALID, pool.wish_problem, remedy, field="/assignments")
            line = told(pool.wish.assignments, pool.pods)
            if moves_for(pool.wish.assignments, pool.pods) or reached(pool.wish.assignments, pool.pods):
                return Seen(line, PoolNews(work=True, detail=line))
            return Seen(line)

        return await self._until(look, "enough pods that are ready", WAIT_FOR_WORKERS.limit)

    @activity.defn(name=WATCH_POOL.name)
    async def watch(self, request: WatchPool) -> PoolNews:
        """Until there is something to do, the pool is gone or not as known, or ``patience_seconds`` are over."""

        def look(memory: Memory) -> Seen[PoolNews]:
            pool = self._look(request)
            if pool is None:
                return Seen("the pool is gone", PoolNews(gone=True, detail="the pool is gone"))
            line, work = pool.wish_problem or told(pool.wish.assignments, pool.pods), to_do(pool)
            if request.known is None:
                return Seen(line, PoolNews(detail=line))
            memory.notes["work"] = memory.notes.get("work", 0) + 1 if work else 0
            if memory.notes["work"] >= NEWS_LOOKS:
                return Seen(line, PoolNews(work=True, detail=f"{line}; {work}"))
            other = line != request.known and line == memory.notes.get("other")
            memory.notes["other"] = line
            if other:
                return Seen(line, PoolNews(detail=line))
            began = memory.notes.setdefault("began", time.time())
            if time.time() - began >= request.patience_seconds:
                return Seen(line, PoolNews(detail=line))
            return Seen(line)

        return await self._until(look, "news of a model pool", WATCH_POOL.limit)

    @activity.defn(name=WAIT_FOR_POOL_GONE.name)
    async def wait_until_gone(self, request: PoolRef) -> PoolGone:
        """Until the Deployment, its pods, and the Services with their load balancers are gone."""

        def look(memory: Memory) -> Seen[PoolGone]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = deployments.deployment(api, request.namespace, request.name)
                left = objects.pods_of(api, request.namespace, request.name)
                left += objects.services_of(api, request.namespace, request.name)
            if found is None and not left:
                result = PoolGone(name=request.name, namespace=request.namespace)
                return Seen(f"{request.name} is gone", result)
            names = [each["metadata"]["name"] for each in left]
            return Seen(f"still there: {some(names, SHOWN)}" if names else f"{request.name} is going")

        return await self._until(look, "the end of the model pool", WAIT_FOR_POOL_GONE.limit)

    def _look(self, request: PoolRef) -> PoolSeen | None:
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            return _pool(api, request)

    async def _until(self, look: Look[Result], what: str, limit: timedelta) -> Result:
        return await wait_until(look, what=what, limit=limit, poll_seconds=self._settings.poll_seconds)


def to_do(pool: PoolSeen) -> str | None:
    """What can be done about the pool now; None: nothing."""
    if pool.wish_problem is not None:
        return None
    wanted = set(pool.wish.assignments) | {public_service(name) for name in pool.wish.public}
    if missing := sorted(wanted - set(pool.services)):
        return f"there is no Service {', '.join(missing)}"
    if moves := moves_for(pool.wish.assignments, pool.pods):
        return f"elsewhere than asked: {number_of(len(moves), 'pod')}"
    return None


def _pool(api: client.ApiClient, request: PoolRef) -> PoolSeen | None:
    """None: it is gone, or going, or another's by now."""
    found = deployments.deployment(api, request.namespace, request.name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return None
    return seen(api, found) if objects.is_pool(found, request.scope.cluster) else None


def _since_left(found: Raw) -> timedelta:
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_LEFT)
    try:
        left = datetime.fromisoformat(text or "")
    except ValueError:
        return timedelta.max
    return datetime.now(UTC) - left
