"""A cluster of the sandbox with GPUs, and the model servers on it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.catalogue import CREATE_DEPLOYMENT
from contracts.cluster import ClusterRecord
from contracts.deployments import (
    APPLY_DEPLOYMENT,
    APPLY_SERVICES,
    DELETE_SERVICES,
    LIST_DEPLOYMENTS,
    READ_DEPLOYMENT,
    REMEMBER_DEPLOYMENT,
    START_DEPLOYMENT_DELETION,
    WAIT_FOR_ANSWERS,
    WAIT_FOR_DEPLOYMENT_GONE,
    WAIT_FOR_ROLLOUT,
    Answered,
    ApplyDeployment,
    ApplyServices,
    DeploymentDetail,
    DeploymentObject,
    DeploymentRef,
    DeploymentSpec,
    DeploymentView,
    FormerDeployment,
    ListDeployments,
    ReadDeployment,
    RolledOut,
    WatchAnswers,
    WatchRollout,
)
from contracts.network import Scope
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from contracts.problem import Problem
from sandbox import credentials as known
from tests.activities.conftest import REGION, Runner, Sandbox, problem, settings
from tests.activities.world import OnCluster, World

TYPE = "ml.g5.12xlarge"
"""4 GPUs of 22 GiB."""


@dataclasses.dataclass
class Servers(OnCluster):
    """A cluster with two nodes of four GPUs, a claim on a bucket, and model servers."""

    made: int = 0

    def furnish(self) -> None:
        room = {"cpu": "47", "memory": "180Gi", "pods": "110", "nvidia.com/gpu": "4"}
        with self.api() as api:
            core = client.CoreV1Api(api)
            for name in ("node-1", "node-2"):
                labels = {"node.kubernetes.io/instance-type": TYPE}
                core.create_node({"metadata": {"name": name, "labels": labels}, "status": {"capacity": room}})
                status = {
                    "allocatable": room,
                    "capacity": room,
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
                core.patch_node_status(name, {"status": status})

    def spec(self, name: str | None = None, command: str | None = None, **more: Any) -> DeploymentSpec:
        self.made += name is None
        line = command or "vllm serve Qwen/Qwen3-0.6B --port 8000"
        given = {"name": name or f"chat-{self.made}", "command": line, "gpu_count": 1, **more}
        return DeploymentSpec.model_validate({key: value for key, value in given.items() if value is not ...})

    def apply(self, spec: DeploymentSpec, *, update: bool = False, run: str = "run-1") -> DeploymentObject:
        self.run.operation = f"{'update' if update else 'create'}-deployment/demo/{spec.name}"
        return self.run(APPLY_DEPLOYMENT, ApplyDeployment(**self.place, spec=spec, update=update))

    def roll_out(self, spec: DeploymentSpec, generation: int, minutes: int = 30) -> RolledOut:
        asked = WatchRollout(
            **self.place, name=spec.name, namespace=spec.namespace, generation=generation, limit_minutes=minutes
        )
        return self.run(WAIT_FOR_ROLLOUT, asked)

    def serve(self, spec: DeploymentSpec) -> RolledOut:
        made = self.apply(spec)
        self.run(APPLY_SERVICES, ApplyServices(**self.place, spec=spec))
        return self.roll_out(spec, made.generation)

    def fails(self, spec: DeploymentSpec, minutes: int = 30) -> Problem:
        made = self.apply(spec)
        with pytest.raises(ApplicationError) as caught:
            self.roll_out(spec, made.generation, minutes)
        return problem(caught)

    def ref(self, spec: DeploymentSpec) -> DeploymentRef:
        return DeploymentRef(**self.place, name=spec.name, namespace=spec.namespace)

    def ask(self, spec: DeploymentSpec, **more: Any) -> Answered:
        asked = {
            "port": spec.port,
            "service": None if spec.service == "none" else spec.name,
            "verification": spec.verification,
            "served_model": spec.served_model,
            **more,
        }
        return self.run(WAIT_FOR_ANSWERS, WatchAnswers(**self.ref(spec).model_dump(), **asked))

    def delete(self, spec: DeploymentSpec) -> None:
        self.run(DELETE_SERVICES, self.ref(spec))
        self.run(START_DEPLOYMENT_DELETION, self.ref(spec))
        self.run(WAIT_FOR_DEPLOYMENT_GONE, self.ref(spec))

    def list(self) -> dict[str, DeploymentView]:
        found = self.run(LIST_DEPLOYMENTS, ListDeployments(**self.place)).deployments
        return {each.name: each for each in found}

    def read(self, spec: DeploymentSpec) -> DeploymentDetail:
        return self.run(READ_DEPLOYMENT, ReadDeployment(**self.ref(spec).model_dump()))

    def remember(self, spec: DeploymentSpec) -> FormerDeployment:
        return self.run(REMEMBER_DEPLOYMENT, self.ref(spec))

    def plan(self, kind: str, spec: Any) -> PlanDraft:
        now = datetime.now(UTC)
        record = ClusterRecord(
            tag=self.world.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            control_plane=self.world.control_plane,
        )
        document = spec if isinstance(spec, dict) else spec.model_dump(mode="json")
        self.run.operation = "make-plan/demo"
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=document)).draft

    def blocked(self, spec: DeploymentSpec, kind: str = CREATE_DEPLOYMENT.name) -> list[tuple[str, str]]:
        return [(each.field, each.detail) for each in self.plan(kind, spec).blockers]

    def misfortune(self, **rule: Any) -> None:
        self.sandbox.call("POST", "kubernetes/pods", [rule])

    def fortune(self) -> None:
        self.sandbox.call("POST", "kubernetes/pods", [])

    def calm(self) -> Iterator[None]:
        """Nothing happens to pods before or after what runs meanwhile, and no servers are left of it."""
        self.fortune()
        yield
        self.fortune()
        self.sandbox.fault()
        for view in self.list().values():
            self.delete(self.spec(view.name, namespace=view.namespace))

    def template(self, spec: DeploymentSpec) -> Any:
        with self.api() as api:
            answer = client.AppsV1Api(api).read_namespaced_deployment(spec.name, spec.namespace, _preload_content=False)
        return json.loads(answer.data)["spec"]["template"]


def furnished(sandbox: Sandbox) -> Servers:
    """A new cluster. The sandbox is emptied before."""
    sandbox.call("POST", "reset")
    session = boto3.Session(
        aws_access_key_id=known.ACCESS_KEY_ID,
        aws_secret_access_key=known.SECRET_ACCESS_KEY,
        region_name=REGION,
    )
    configured = settings(hugging_face_endpoint=f"{sandbox.url}/_hub", shortfall_patience=3.0)
    own = Activities(configured, session)
    scope = Scope(cluster="serving", region=REGION, created_by="tests", request_id="req-1")
    found = Servers(World(Runner(own, "create-cluster/serving"), scope), own, sandbox)
    found.furnish()
    return found
