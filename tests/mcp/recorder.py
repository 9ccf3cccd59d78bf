"""A gateway that answers everything as if it had done it, and notes what it was asked."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx
from mcp import Client
from pydantic import BaseModel

from contracts.access import Caller, CreatedToken, Session, Ticket
from contracts.answers import (
    ClusterUsage,
    InstanceGroupList,
    NodeDetail,
    NodeGroupList,
    NodePage,
    NodePoolList,
    OperationSpec,
    Readiness,
)
from contracts.autoscalers import AutoscalerDetail, AutoscalerList
from contracts.cluster import ClusterView
from contracts.command_report import ParsedCommand
from contracts.credentials import CredentialList
from contracts.deployments import DeploymentDetail, DeploymentList
from contracts.diagnostics import Diagnosis
from contracts.drift import DriftAnswer
from contracts.durations import Durations
from contracts.endpoints import ENDPOINTS, Endpoint
from contracts.experiment_runs import ExperimentList, RunComparison, RunDetail, RunList
from contracts.experiments import ConnectionTest
from contracts.features import Feature, Features
from contracts.inference import ModelAnswer, ServicesRead
from contracts.jobs import JobDetail, JobList
from contracts.logs import LogPage
from contracts.managed_endpoints import EndpointDetail, EndpointList
from contracts.model_pools import ModelPoolDetail, ModelPoolList
from contracts.models import ModelList
from contracts.operation import Operation
from contracts.options import Options
from contracts.plans import Plan
from contracts.presets import PresetDetail, SavedPreset
from contracts.problem import Problem
from contracts.ray_clusters import RayClusterDetail, RayClusterList
from contracts.routers import RouterDetail, RouterList
from contracts.software import SoftwareRead
from contracts.storage import StorageContents, StorageDefaults, StorageList
from contracts.tracking_servers import TrackingServerDetail, TrackingServerLink, TrackingServerList
from contracts.training_views import TrainingRunDetail, TrainingRunList
from mcp_server.server import create_server
from mcp_server.toolsets import Toolset

NOW = "2026-11-30T06:00:00Z"
ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
_SUMMARY = {"tag": "demo", "region": "us-west-2", "created_by": "alice", "created_at": NOW, "updated_at": NOW}
_CLAIM = {"claim": "s3-claim", "namespace": "default", "volume": "v", "bucket": "b", "phase": "Bound"}
_NODE = {"name": "hyperpod-i-0123456789abcdef0", "kind": "hyperpod", "group": "workers"}
_OPERATION = {
    "kind": "create-cluster",
    "cluster": "demo",
    "phase": "running",
    "plan_hash": "0" * 16,
    "started_by": "me",
    "started_at": NOW,
    "updated_at": NOW,
}

COMMAND = "vllm serve Qwen/Qwen3-0.6B --port 8000"
_DEPLOYMENT = {
    "namespace": "default",
    "name": "chat",
    "state": "ready",
    "detail": "2 of 2 ready",
    "engine": "vllm",
    "image": "i",
    "replicas": 2,
    "created_at": NOW,
}
_ENDPOINT = {
    "namespace": "default",
    "name": "qwen",
    "kind": "InferenceEndpointConfig",
    "state": "ready",
    "created_at": NOW,
}
_POOL = {
    "namespace": "default",
    "name": "pool",
    "state": "ready",
    "detail": "2 of 2 ready",
    "engine": "vllm",
    "image": "i",
    "replicas": 2,
    "created_at": NOW,
}
_ROUTER = {
    "namespace": "default",
    "name": "front",
    "state": "ready",
    "detail": "1 of 1 ready",
    "target": "deployment chat",
    "image": "i",
    "replicas": 1,
    "created_at": NOW,
}
_AUTOSCALER = {
    "namespace": "default",
    "name": "chat",
    "target": "chat",
    "state": "idle",
    "min_replicas": 1,
    "max_replicas": 5,
}

_RUN = {
    "namespace": "default",
    "name": "sft",
    "submission": "hyperpod",
    "recipe": "pytorch",
    "state": "running",
    "detail": "1 of 1 pods run, step 10",
    "nodes": 1,
    "gpus": 4,
}
RUN_SPEC = {
    "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py", "arguments": ["--max-steps=100"]},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 4,
}
_PRESET = {
    "name": "sft-8b",
    "kind": "training",
    "owner": "me",
    "shared": True,
    "version": 3,
    "oldest": 1,
    "saved_by": "me",
    "saved_at": NOW,
}
_RAY_CLUSTER = {
    "namespace": "default",
    "name": "notebooks",
    "state": "ready",
    "detail": "2 of 2 workers ready",
    "image": "i",
    "workers": 2,
    "created_at": NOW,
}
_TRACKING_SERVER = {
    "name": "research",
    "arn": "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/research",
    "kind": "tracking-server",
    "state": "ready",
    "status": "Created",
}
_EXPERIMENT_RUN = {"run_id": "0b5c", "experiment_id": "1", "status": "FINISHED", "metrics": {"loss": 0.5}}

ANSWERS: dict[type[BaseModel], dict[str, Any]] = {
    Caller: {"name": "me", "role": "operator", "default_cluster": "demo"},
    Operation: _OPERATION,
    ClusterView: {
        "record": {**_SUMMARY, "hyperpod": {"name": "hp-cluster-demo", "arn": ARN, "status": "InService"}},
    },
    ClusterUsage: {"summary": {}, "read_at": NOW},
    NodePage: {"nodes": [_NODE], "summary": {}, "matching": 1, "read_at": NOW},
    NodeDetail: {"node": _NODE, "read_at": NOW},
    InstanceGroupList: {"live": True},
    NodeGroupList: {"live": True},
    NodePoolList: {"live": True},
    SoftwareRead: {"cluster_status": "InService", "groups": [], "read_at": NOW},
    Features: {"features": [{"feature": feature, "state": "off"} for feature in Feature]},
    StorageList: {"claims": [_CLAIM], "live": True},
    StorageDefaults: {
        "claim": "s3-claim",
        "namespace": "default",
        "bucket": "b",
        "region": "us-west-2",
        "bucket_exists": True,
        "claim_exists": False,
    },
    StorageContents: {"claim": _CLAIM, "prefix": ""},
    ModelList: {"read_at": NOW},
    CredentialList: {"read_at": NOW},
    ParsedCommand: {"command": {"engine": "vllm", "model": "Qwen/Qwen3-0.6B"}, "image": "i", "gpus_used": 1},
    DeploymentList: {"deployments": [_DEPLOYMENT], "read_at": NOW},
    DeploymentDetail: {
        "deployment": _DEPLOYMENT,
        "spec": {"name": "chat", "command": COMMAND, "gpu_count": 1, "resources": {"memory_gib": 64}},
        "read_at": NOW,
    },
    ServicesRead: {"read_at": NOW},
    ModelAnswer: {"namespace": "default", "service": "chat", "model": "m", "text": "Hello.", "seconds": 0.5},
    ModelPoolList: {"model_pools": [_POOL], "read_at": NOW},
    ModelPoolDetail: {"pool": _POOL, "read_at": NOW},
    RouterList: {"routers": [_ROUTER], "read_at": NOW},
    RouterDetail: {"router": _ROUTER, "read_at": NOW},
    EndpointList: {"endpoints": [_ENDPOINT], "read_at": NOW},
    EndpointDetail: {"endpoint": _ENDPOINT, "read_at": NOW},
    AutoscalerList: {"autoscalers": [_AUTOSCALER], "read_at": NOW},
    AutoscalerDetail: {"autoscaler": _AUTOSCALER, "read_at": NOW},
    JobList: {"read_at": NOW},
    JobDetail: {"job": {"namespace": "default", "name": "j", "state": "running"}, "read_at": NOW},
    Options: {
        "region": "us-west-2",
        "zones": [{"name": f"us-west-2{letter}", "zone_id": f"usw2-az{n}"} for n, letter in enumerate("abc", 1)],
        "instance_types": [
            {
                "instance_type": "ml.g6.4xlarge",
                "availability_zones": ["us-west-2a", "us-west-2c"],
                "vcpus": 16,
                "memory_gib": 64,
                "accelerator": "NVIDIA L4",
                "accelerators": 1,
                "addresses": 15,
                "quota": 4,
            },
            {
                "instance_type": "ml.p5.48xlarge",
                "availability_zones": ["us-west-2b"],
                "vcpus": 192,
                "memory_gib": 2048,
                "accelerator": "NVIDIA H100",
                "accelerators": 8,
                "addresses": 50,
                "quota": 0,
            },
        ],
        "training_plans": [],
        "kubernetes_versions": ["1.34"],
        "looked_up_at": NOW,
    },
    OperationSpec: {"kind": "create-cluster", "cluster": "demo", "spec": {}},
    Durations: {"kind": "create-cluster"},
    Readiness: {"ready": True, "temporal": True, "detail": "ready"},
    Plan: {
        "valid": True,
        "operation": "create-cluster/demo",
        "kind": "create-cluster",
        "cluster": "demo",
        "region": "us-west-2",
        "spec": {},
        "plan_hash": "0" * 16,
        "names": {"eks_cluster": "e", "hyperpod_cluster": "h", "security_group": "s", "vpc": "v"},
        "checked_against_account": True,
        "needs_approval": False,
        "computed_at": NOW,
        "valid_until": NOW,
    },
    TrainingRunList: {"runs": [_RUN], "read_at": NOW},
    TrainingRunDetail: {"run": _RUN, "spec": {"name": "sft", **RUN_SPEC}, "read_at": NOW},
    LogPage: {"cursor": "eJw", "end": True, "read_at": NOW},
    Diagnosis: {"subject": {"kind": "cluster"}, "read_at": NOW},
    DriftAnswer: {"cluster": "demo", "live": False},
    PresetDetail: {
        "preset": _PRESET,
        "version": {"version": 3, "kind": "training", "document": RUN_SPEC, "saved_by": "me", "saved_at": NOW},
    },
    SavedPreset: {"preset": _PRESET, "changed": True},
    RayClusterList: {"ray_clusters": [_RAY_CLUSTER], "read_at": NOW},
    RayClusterDetail: {"ray_cluster": _RAY_CLUSTER, "read_at": NOW},
    TrackingServerList: {"servers": [_TRACKING_SERVER], "read_at": NOW},
    TrackingServerDetail: {"server": _TRACKING_SERVER, "read_at": NOW},
    ExperimentList: {"tracking_server": "arn", "experiments": [{"id": "1", "name": "qwen"}], "read_at": NOW},
    RunList: {"tracking_server": "arn", "runs": [_EXPERIMENT_RUN], "read_at": NOW},
    RunDetail: {"run": _EXPERIMENT_RUN, "read_at": NOW},
    RunComparison: {"runs": [_EXPERIMENT_RUN], "read_at": NOW},
    ConnectionTest: {"tracking_server": "research", "passed": True, "steps": [], "tested_at": NOW},
    TrackingServerLink: {},
    Session: {},
    Ticket: {},
    CreatedToken: {},
}
"""What is answered, of every model that has no defaults for everything. No tool asks for the last four."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    endpoint: Endpoint[Any]
    places: dict[str, str]
    query: dict[str, list[str]]
    body: Any
    headers: httpx.Headers = field(compare=False)

    @property
    def name(self) -> str:
        return self.endpoint.name


class Recorder:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: dict[str, dict[str, Any]] = {}
        """By route, instead of the usual."""
        self.refusals: dict[tuple[str, str], Problem] = {}
        """By route and the value of its first place."""

        self.starters: dict[tuple[str, str], str] = {}
        """Who has started what already, by the same."""

    @property
    def changing(self) -> list[Asked]:
        return [each for each in self.asked if not each.endpoint.reads]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        endpoint, places = _route(request.method, path)
        body = json.loads(request.content) if request.content else None
        query = {name: request.url.params.get_list(name) for name in request.url.params}
        self.asked.append(Asked(endpoint, places, query, body, request.headers))
        first = next(iter(places.values()), (body or {}).get("tag", "") if isinstance(body, dict) else "")
        if (refusal := self.refusals.get((endpoint.name, first))) is not None:
            return httpx.Response(refusal.status, content=refusal.model_dump_json())
        document = {**ANSWERS.get(endpoint.answer, {}), **self.answers.get(endpoint.name, {})}
        if endpoint.answer is Operation:
            document.setdefault("id", places.get("id", f"{endpoint.name.replace('_', '-')}/{first}"))
            document["cluster"] = first if endpoint.starts else document["cluster"]
            document["started_by"] = self.starters.get((endpoint.name, first), document["started_by"])
        return httpx.Response(200, json=document)

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncIterator[Client]:
        """A client of all tools in front of this gateway. ``options``: those of ``mcp.Client``."""
        face = create_server("http://gateway", "token", tuple(Toolset))
        await face.http.aclose()
        face.http = httpx.AsyncClient(base_url="http://gateway", transport=httpx.MockTransport(self))
        async with face.http, Client(face, **options) as client:
            yield client


_PATTERNS = [
    (endpoint, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", endpoint.path))) for endpoint in ENDPOINTS.values()
]


def _route(method: str, path: str) -> tuple[Endpoint[Any], dict[str, str]]:
    fitting = [
        (endpoint, found)
        for endpoint, pattern in _PATTERNS
        if endpoint.method == method and (found := pattern.fullmatch(path))
    ]
    # As the gateway has it: what is written out comes before what is a placeholder.
    endpoint, match = min(fitting, key=lambda each: len(each[0].placeholders))
    return endpoint, {name: unquote(value) for name, value in match.groupdict().items()}
