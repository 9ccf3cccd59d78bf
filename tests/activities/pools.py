"""Pools of model servers on a cluster of the sandbox, and their pods' ways step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import client

from contracts.deployments import WAIT_FOR_ROLLOUT, WatchRollout
from contracts.model_pools import (
    APPLY_POOL,
    APPLY_POOL_SERVICES,
    ATTACH_POD,
    DETACH_POD,
    LIST_MODEL_POOLS,
    READ_MODEL_POOL,
    SET_WISH,
    START_POOL_DELETION,
    SURVEY_POOL,
    WAIT_FOR_DRAINED_POD,
    WAIT_FOR_POOL_GONE,
    WAIT_FOR_SERVING_POD,
    ApplyPool,
    ApplyPoolServices,
    ListModelPools,
    ModelPoolDetail,
    ModelPoolSpec,
    ModelPoolView,
    MovePod,
    PodMoved,
    PoolRef,
    PoolSeen,
    ReadModelPool,
    SetWish,
    Wish,
)
from contracts.names import LABEL_BUSINESS
from contracts.pool_moves import UNASSIGNED, Move, counted, moves_for
from tests.activities.conftest import Sandbox
from tests.activities.serving import Servers, furnished

STEPS = (DETACH_POD, WAIT_FOR_DRAINED_POD, ATTACH_POD, WAIT_FOR_SERVING_POD)


class Pools(Servers):
    """Pools on ``Servers``' two nodes of four GPUs."""

    def pool(self, name: str, replicas: int = 2, **more: Any) -> ModelPoolSpec:
        given = {"name": name, "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1, **more}
        return ModelPoolSpec.model_validate({**given, "replicas": replicas})

    def pool_ref(self, spec: ModelPoolSpec) -> PoolRef:
        return PoolRef(**self.place, name=spec.name, namespace=spec.namespace)

    def create(self, spec: ModelPoolSpec) -> PoolRef:
        self.run.operation = f"create-model-pool/{self.world.scope.cluster}/{spec.name}"
        made = self.run(APPLY_POOL, ApplyPool(**self.place, spec=spec))
        self.settle(spec, made.generation)
        return self.pool_ref(spec)

    def settle(self, spec: ModelPoolSpec, generation: int = 0) -> None:
        asked = {"name": spec.name, "namespace": spec.namespace, "generation": generation, "limit_minutes": 30}
        self.run(WAIT_FOR_ROLLOUT, WatchRollout(**self.place, **asked))

    def survey(self, pool: PoolRef) -> PoolSeen:
        return self.run(SURVEY_POOL, pool)

    def wish(self, pool: PoolRef, **assignments: int) -> None:
        wish = Wish(assignments=assignments)
        self.run(SET_WISH, SetWish(**pool.model_dump(), wish=wish))
        self.run(APPLY_POOL_SERVICES, ApplyPoolServices(**pool.model_dump(), wish=wish))

    def step(self, signature: Any, pool: PoolRef, move: Move) -> PodMoved:
        found: PodMoved = self.run(signature, MovePod(**pool.model_dump(), move=move))
        return found

    def move(self, pool: PoolRef, move: Move, steps: int = 4) -> None:
        """The first ``steps`` of a pod's way: whoever carries it is killed after them."""
        for signature in STEPS[:steps]:
            if signature in STEPS[:2] and move.source == UNASSIGNED:
                continue
            if self.step(signature, pool, move).gone:
                return

    def hand_out(self, pool: PoolRef, **assignments: int) -> dict[str, int]:
        """Move pods as an operation does, and tell who has how many."""
        self.wish(pool, **assignments)
        return self.repair(pool)

    def repair(self, pool: PoolRef) -> dict[str, int]:
        while moves := moves_for(self.survey(pool).wish.assignments, self.survey(pool).pods):
            for move in moves:
                self.move(pool, move)
        return counted(self.survey(pool).pods)

    def remove(self, pool: PoolRef) -> None:
        self.run(APPLY_POOL_SERVICES, ApplyPoolServices(**pool.model_dump(), wish=Wish(), delete_others=True))
        self.run(START_POOL_DELETION, pool)
        self.run(WAIT_FOR_POOL_GONE, pool)

    @contextmanager
    def given(self, name: str, replicas: int = 2, **more: Any) -> Iterator[PoolRef]:
        """A pool that is Ready, for as long as a test needs it."""
        spec = self.pool(name, replicas, **more)
        pool = self.create(spec)
        try:
            yield pool
        finally:
            self.fortune()
            self.remove(pool)

    def pools(self) -> dict[str, ModelPoolView]:
        found = self.run(LIST_MODEL_POOLS, ListModelPools(**self.place)).model_pools
        return {each.name: each for each in found}

    def read_pool(self, pool: PoolRef) -> ModelPoolDetail:
        return self.run(READ_MODEL_POOL, ReadModelPool(**pool.model_dump()))

    def label(self, pod: str, business: str) -> None:
        """By hand, past everybody."""
        with self.api() as api:
            client.CoreV1Api(api).patch_namespaced_pod(
                pod, "default", {"metadata": {"labels": {LABEL_BUSINESS: business}}}
            )

    def end_pod(self, pod: str) -> None:
        with self.api() as api:
            client.CoreV1Api(api).delete_namespaced_pod(pod, "default", grace_period_seconds=0)

    def behind(self, service: str) -> set[str]:
        """Pods that a Service sends requests to."""
        with self.api() as api:
            answer: Any = client.DiscoveryV1Api(api).list_namespaced_endpoint_slice(
                "default", label_selector=f"kubernetes.io/service-name={service}", _preload_content=False
            )
        return {
            endpoint["targetRef"]["name"]
            for each in json.loads(answer.data)["items"]
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"].get("ready") is not False
        }

    def metric(self, deployment: str, **values: float | None) -> None:
        """What the Deployment's servers say of themselves, instead of the truth."""
        metrics = {name.replace("__", ":"): value for name, value in values.items()}
        self.sandbox.call(
            "PUT", "kubernetes/metrics", {"namespace": "default", "deployment": deployment, "metrics": metrics}
        )


def pools_of(sandbox: Sandbox) -> Pools:
    """A new cluster with its nodes. The sandbox is emptied before."""
    made = furnished(sandbox)
    return Pools(made.world, made.activities, sandbox)
