"""Node pools: made, watched until their controller takes them, listed and deleted."""

from __future__ import annotations

import time
from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.drain import movable_pods
from activities.errors import fail
from activities.kubernetes import KubernetesClients
from activities.node_groups.observe import list_nodes
from activities.node_pools import groups, objects
from activities.node_pools.objects import LABEL_POOL, NODE_CLAIM, NODE_CLASS, NODE_POOL, Object
from activities.options import Lookup
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.node_pools import (
    DELETE_NODE_CLASS,
    ENSURE_NODE_CLASS,
    ENSURE_NODE_POOL,
    LIST_NODE_POOLS,
    START_NODE_POOL_DELETION,
    WAIT_FOR_NODE_POOL,
    WAIT_FOR_NODE_POOL_GONE,
    DeleteNodeClass,
    EnsureNodeClass,
    EnsureNodePool,
    ListNodePools,
    NodeClass,
    NodeClassGone,
    NodePool,
    NodePoolGone,
    NodePoolRef,
    NodePools,
    NodePoolSpec,
)
from contracts.problem import ProblemCode
from contracts.words import number_of, some

BUDGETS = [
    {"nodes": "100%", "reasons": ["Empty"]},
    {"nodes": "10%", "reasons": ["Underutilized", "Drifted"]},
]
"""Idle nodes all go at once; nodes that work, one after the other (10 % is at least one)."""
SHOWN = 3


class NodePoolActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, lookup: Lookup, settings: Settings) -> None:
        self._aws, self._kubernetes, self._lookup, self._settings = aws, kubernetes, lookup, settings

    @activity.defn(name=ENSURE_NODE_CLASS.name)
    def ensure_node_class(self, request: EnsureNodeClass) -> NodeClass:
        """The HyperpodNodeClass of the instance groups. Raises FOREIGN for one of the name that is not ours."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = objects.get(api, NODE_CLASS, request.name)
            _refuse_foreign(before, "HyperpodNodeClass", request.name, scope.cluster, self._settings.poll_seconds)
            spec = {"instanceGroups": request.instance_groups}
            after = objects.apply(api, NODE_CLASS, scope.cluster, request.name, spec)
        return NodeClass(name=request.name, changed=_changed(before, after))

    @activity.defn(name=ENSURE_NODE_POOL.name)
    def ensure_node_pool(self, request: EnsureNodePool) -> NodePool:
        """The NodePool on the node class of its name, with limits and requirements from its groups' types.

        Raises FOREIGN for one of the name that is not ours, NOT_FOUND where the HyperPod cluster or a group of it is
        missing.
        """
        scope, spec = request.scope, request.spec
        found = groups.look(self._aws, self._lookup, scope.region, request.hyperpod_cluster, spec.instance_groups)
        if found is None:
            remedy = "Create it first (create-hyperpod)."
            fail(ProblemCode.NOT_FOUND, f"There is no HyperPod cluster {request.hyperpod_cluster}", remedy)
        if missing := [name for name in spec.instance_groups if name not in found.groups]:
            remedy = "Add it first, with 0 nodes, or retry without it."
            detail = f"There is no instance group {', '.join(missing)}"
            fail(ProblemCode.NOT_FOUND, detail, remedy, field="/instance_groups")
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = objects.get(api, NODE_POOL, spec.name)
            _refuse_foreign(before, "NodePool", spec.name, scope.cluster, self._settings.poll_seconds)
            after = objects.apply(api, NODE_POOL, scope.cluster, spec.name, pool_spec(found, spec))
            node_class = objects.get(api, NODE_CLASS, spec.name)
            return objects.as_node_pool(api, after, node_class, scope.cluster, changed=_changed(before, after))

    @activity.defn(name=WAIT_FOR_NODE_POOL.name)
    async def wait_until_ready(self, request: NodePoolRef) -> NodePool:
        """Until the controller says of the pool and of its node class that they are Ready.

        Raises NOT_READY with the controller's words when it says for ``shortfall_patience`` that they are not.
        """

        def look(memory: Memory) -> Seen[NodePool]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                pool = objects.get(api, NODE_POOL, request.name)
                if pool is None:
                    remedy = "Retry the stage that makes it."
                    fail(ProblemCode.NOT_FOUND, f"There is no node pool {request.name}", remedy)
                node_class = objects.get(api, NODE_CLASS, objects.class_of(pool) or "")
                seen = objects.as_node_pool(api, pool, node_class, request.scope.cluster, changed=True)
            if seen.ready:
                return Seen(f"{request.name} is Ready", seen)
            memory.notes.setdefault("since", time.time())
            if time.time() - memory.notes["since"] >= self._settings.shortfall_patience:
                fail(
                    ProblemCode.NOT_READY,
                    f"Node pool {request.name} is not Ready: {seen.reason}",
                    "Mend what the reason names (the instance groups, or autoscaling itself), then retry.",
                    retryable=True,
                )
            return Seen(f"{request.name} is not Ready: {seen.reason}")

        limit = WAIT_FOR_NODE_POOL.limit
        pace = self._settings.poll_seconds
        return await wait_until(look, what="a Ready node pool", limit=limit, poll_seconds=pace)

    @activity.defn(name=START_NODE_POOL_DELETION.name)
    def delete_node_pool(self, request: NodePoolRef) -> NodePoolGone:
        """Begin the pool's deletion; its nodes are drained and go with it. Absent is done."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            pool = objects.get(api, NODE_POOL, request.name)
            if pool is None:
                return NodePoolGone(name=request.name, node_class=request.name, changed=False)
            if "deletionTimestamp" not in pool["metadata"]:
                objects.delete(api, NODE_POOL, pool)
        return NodePoolGone(name=request.name, node_class=objects.class_of(pool))

    @activity.defn(name=WAIT_FOR_NODE_POOL_GONE.name)
    async def wait_until_gone(self, request: NodePoolRef) -> NodePoolGone:
        """Until the pool, its NodeClaims and its nodes are gone. The live line names pods that hold nodes back."""

        def look(memory: Memory) -> Seen[NodePoolGone]:
            selector = f"{LABEL_POOL}={request.name}"
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                pool = objects.get(api, NODE_POOL, request.name)
                claims = objects.list_all(api, NODE_CLAIM, selector)
                nodes = [node.metadata.name for node in list_nodes(api, selector)]
                if pool is None and not claims and not nodes:
                    return Seen(f"{request.name} is gone", NodePoolGone(name=request.name))
                pods = [pod for pod in movable_pods(api) if pod.spec.node_name in nodes] if nodes else []
            left = max(len(claims), len(nodes))
            detail = f"{number_of(left, 'node')} left" if left else f"{request.name} is going"
            if pods:
                names = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
                detail += f"; pods still there: {some(names, SHOWN)}"
            return Seen(detail)

        limit = WAIT_FOR_NODE_POOL_GONE.limit
        pace = self._settings.poll_seconds
        return await wait_until(look, what="the end of the node pool", limit=limit, poll_seconds=pace)

    @activity.defn(name=DELETE_NODE_CLASS.name)
    def delete_node_class(self, request: DeleteNodeClass) -> NodeClassGone:
        """Delete the node class, unless it is not ours or another node pool uses it."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.get(api, NODE_CLASS, request.name)
            if found is None:
                return NodeClassGone(name=request.name, changed=False)
            if (why := kept(api, found, request.scope.cluster)) is not None:
                return NodeClassGone(name=request.name, kept=why, changed=False)
            objects.delete(api, NODE_CLASS, found)
        return NodeClassGone(name=request.name)

    @activity.defn(name=LIST_NODE_POOLS.name)
    def list_node_pools(self, request: ListNodePools) -> NodePools:
        """Every NodePool on a HyperpodNodeClass, others' too; none where autoscaling was never on."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            classes = {each["metadata"]["name"]: each for each in objects.list_all(api, NODE_CLASS)}
            return NodePools(
                node_pools=[
                    objects.as_node_pool(api, pool, classes.get(name), request.scope.cluster)
                    for pool in objects.list_all(api, NODE_POOL)
                    if (name := objects.class_of(pool)) is not None
                ]
            )


def pool_spec(found: groups.PoolGroups, spec: NodePoolSpec) -> Object:
    """The NodePool's spec: idle nodes go, nodes that work stay for as long as they are needed."""
    template: Object = {
        "spec": {
            "nodeClassRef": {"group": NODE_CLASS.group, "kind": NODE_CLASS.kind, "name": spec.name},
            "requirements": groups.requirements(found),
            "expireAfter": "Never",
        }
    }
    if spec.labels:
        template["metadata"] = {"labels": spec.labels}
    if spec.taints:
        template["spec"]["taints"] = [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in spec.taints
        ]
    result: Object = {
        "template": template,
        "disruption": {
            "consolidationPolicy": spec.consolidation,
            "consolidateAfter": spec.consolidate_after,
            "budgets": BUDGETS,
        },
    }
    if limits := groups.limits(found, spec):
        result["limits"] = limits
    if spec.weight is not None:
        result["weight"] = spec.weight
    return result


def kept(api: Any, node_class: Object, cluster: str) -> str | None:
    """Why a node class stays when a pool that uses it goes; None where it may go. A pool that is going does not
    count."""
    if not objects.is_ours(node_class, cluster):
        return "it is not ours"
    name = node_class["metadata"]["name"]
    users = [
        pool["metadata"]["name"]
        for pool in objects.list_all(api, NODE_POOL)
        if objects.class_of(pool) == name and "deletionTimestamp" not in pool["metadata"]
    ]
    return f"node pool {', '.join(users)} uses it" if users else None


def _refuse_foreign(found: Object | None, kind: str, name: str, cluster: str, pace: float) -> None:
    if found is None:
        return
    if not objects.is_ours(found, cluster):
        fail(
            ProblemCode.FOREIGN,
            f"A {kind} {name} exists that InstantStart has not made for {cluster}",
            "Choose another name, or delete that one.",
            field="/name",
        )
    if "deletionTimestamp" in found["metadata"]:
        remedy = "The platform tries again when it is gone."
        fail(ProblemCode.BUSY, f"{kind} {name} is being deleted", remedy, retry=True, delay=2 * pace)


def _changed(before: Object | None, after: Object) -> bool:
    return before is None or before["metadata"].get("generation") != after["metadata"].get("generation")
