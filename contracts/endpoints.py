"""The gateway's routes as its faces call them, each under the ``operationId`` that it has in the OpenAPI document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from contracts.access import Caller, CreatedToken, Session, Ticket, TokenList
from contracts.answers import (
    AuditPage,
    ClusterPage,
    ClusterUsage,
    InstanceGroupList,
    NodeDetail,
    NodeGroupList,
    NodePage,
    NodePoolList,
    OperationPage,
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
from contracts.experiment_runs import ExperimentList, RunComparison, RunDetail, RunList
from contracts.experiments import ConnectionTest
from contracts.features import Features
from contracts.inference import ModelAnswer, ServicesRead
from contracts.jobs import JobDetail, JobList
from contracts.logs import LogPage
from contracts.managed_endpoints import EndpointDetail, EndpointList
from contracts.model import Model
from contracts.model_pools import ModelPoolDetail, ModelPoolList
from contracts.models import ModelList
from contracts.operation import Operation
from contracts.options import Options
from contracts.plans import Plan
from contracts.presets import PresetDetail, PresetList, SavedPreset
from contracts.ray_clusters import RayClusterDetail, RayClusterList
from contracts.recipes.catalogue import RecipeList
from contracts.routers import RouterDetail, RouterList
from contracts.software import SoftwareRead
from contracts.storage import StorageContents, StorageDefaults, StorageList
from contracts.tracking_servers import TrackingServerDetail, TrackingServerLink, TrackingServerList
from contracts.training_views import TrainingRunDetail, TrainingRunList

API = "/api/v1"


class Nothing(Model):
    """The answer of a route that has nothing to say (204)."""


Answer = TypeVar("Answer", bound=BaseModel)

_PLACEHOLDER = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Endpoint(Generic[Answer]):
    """A route: ``path`` has ``{placeholders}``; ``answer`` is what it answers with when it succeeds."""

    name: str
    method: str
    path: str
    answer: type[Answer]
    starts: bool = False
    """It starts an operation: ``validate_only`` gives the plan of it instead."""
    answered_with: tuple[int, ...] = ()
    """Statuses of failures that come with an answer all the same."""

    @property
    def placeholders(self) -> list[str]:
        return _PLACEHOLDER.findall(self.path)

    @property
    def planned(self) -> Endpoint[Plan]:
        """The same with ``validate_only``: it answers with the plan, and changes nothing."""
        return Endpoint(self.name, self.method, self.path, Plan)

    @property
    def reads(self) -> bool:
        """It changes nothing."""
        return self.method == "GET" or self.name in ASKING


ASKING = (
    *("make_plan", "diagnose", "check_drift", "call_model", "parse_command"),
    *("test_experiments", "open_tracking_server"),
)
"""Routes that ask by POST and change nothing."""

ENDPOINTS: dict[str, Endpoint[Any]] = {}
"""All of them, by name."""


def _route(name: str, method: str, path: str, answer: type[Answer], starts: bool = False) -> Endpoint[Answer]:
    endpoint = Endpoint(name, method, path, answer, starts)
    ENDPOINTS[name] = endpoint
    return endpoint


def _start(name: str, method: str, path: str) -> Endpoint[Operation]:
    return _route(name, method, API + path, Operation, starts=True)


def _read(name: str, path: str, answer: type[Answer]) -> Endpoint[Answer]:
    return _route(name, "GET", API + path, answer)


def _answered(name: str, path: str) -> Endpoint[Operation]:
    return _route(name, "POST", f"{API}/operations/{{id}}/{path}", Operation)


_CLUSTERS = "/clusters"
_CLUSTER = "/clusters/{tag}"

LIST_CLUSTERS = _read("list_clusters", _CLUSTERS, ClusterPage)
GET_CLUSTER = _read("get_cluster", _CLUSTER, ClusterView)
LIST_CLUSTER_OPERATIONS = _read("list_cluster_operations", f"{_CLUSTER}/operations", OperationPage)
CREATE_CLUSTER = _start("create_cluster", "POST", _CLUSTERS)
IMPORT_CLUSTER = _start("import_cluster", "POST", f"{_CLUSTERS}/import")
GET_DRIFT = _route("get_drift", "GET", f"{API}{_CLUSTER}/drift", DriftAnswer)
CHECK_DRIFT = _route("check_drift", "POST", f"{API}{_CLUSTER}/drift/check", DriftAnswer)
ADOPT_DRIFT = _start("adopt_drift", "POST", f"{_CLUSTER}/drift/adopt")
RESTORE_DRIFT = _start("restore_drift", "POST", f"{_CLUSTER}/drift/restore")
REDETECT_CLUSTER = _start("redetect_cluster", "POST", f"{_CLUSTER}/redetection")
DELETE_CLUSTER = _start("delete_cluster", "DELETE", _CLUSTER)

CREATE_CONTROL_PLANE = _start("create_control_plane", "POST", f"{_CLUSTER}/control-plane")
VERIFY_ACCESS = _start("verify_access", "POST", f"{_CLUSTER}/access")
INSTALL_DEPENDENCIES = _start("install_dependencies", "POST", f"{_CLUSTER}/dependencies")
CREATE_HYPERPOD = _start("create_hyperpod", "POST", f"{_CLUSTER}/hyperpod")
VERIFY_CLUSTER = _start("verify_cluster", "POST", f"{_CLUSTER}/verification")

_STORAGE = f"{_CLUSTER}/storage"
LIST_STORAGE = _read("list_storage", _STORAGE, StorageList)
GET_STORAGE_DEFAULTS = _read("get_storage_defaults", f"{_STORAGE}/defaults", StorageDefaults)
LIST_STORAGE_CONTENTS = _read("list_storage_contents", f"{_STORAGE}/{{claim}}/contents", StorageContents)
CREATE_STORAGE = _start("create_storage", "POST", _STORAGE)
CREATE_FSX_STORAGE = _start("create_fsx_storage", "POST", f"{_CLUSTER}/fsx-storage")
DELETE_STORAGE = _start("delete_storage", "DELETE", f"{_STORAGE}/{{claim}}")

_GROUPS = f"{_CLUSTER}/instance-groups"
LIST_INSTANCE_GROUPS = _read("list_instance_groups", _GROUPS, InstanceGroupList)
ADD_INSTANCE_GROUP = _start("add_instance_group", "POST", _GROUPS)
SCALE_INSTANCE_GROUP = _start("scale_instance_group", "POST", f"{_GROUPS}/{{group}}/scale")
UPDATE_INSTANCE_GROUP = _start("update_instance_group", "PATCH", f"{_GROUPS}/{{group}}")
DELETE_INSTANCE_GROUP = _start("delete_instance_group", "DELETE", f"{_GROUPS}/{{group}}")

_SOFTWARE = f"{_CLUSTER}/software"
GET_SOFTWARE = _read("get_software", _SOFTWARE, SoftwareRead)
UPDATE_SOFTWARE = _start("update_software", "POST", _SOFTWARE)

_NODES = f"{_CLUSTER}/nodes"
LIST_NODES = _read("list_nodes", _NODES, NodePage)
GET_USAGE = _read("get_usage", f"{_CLUSTER}/usage", ClusterUsage)
GET_NODE = _read("get_node", f"{_NODES}/{{node}}", NodeDetail)
REBOOT_NODES = _start("reboot_nodes", "POST", f"{_NODES}/reboot")
REPLACE_NODES = _start("replace_nodes", "POST", f"{_NODES}/replace")
DELETE_NODES = _start("delete_nodes", "POST", f"{_NODES}/delete")

_JOBS = f"{_CLUSTER}/jobs"
LIST_JOBS = _read("list_jobs", _JOBS, JobList)
GET_JOB = _read("get_job", f"{_JOBS}/{{namespace}}/{{name}}", JobDetail)

_POD_LOG = f"{_CLUSTER}/pods/{{namespace}}/{{pod}}/logs"
READ_POD_LOG = _read("read_pod_log", _POD_LOG, LogPage)
WATCH_POD_LOG = _read("watch_pod_log", f"{_POD_LOG}/stream", Nothing)
DOWNLOAD_POD_LOG = _read("download_pod_log", f"{_POD_LOG}/download", Nothing)

DIAGNOSE = _route("diagnose", "POST", f"{API}{_CLUSTER}/diagnoses", Diagnosis)

_SERVICES = f"{_CLUSTER}/services"
LIST_SERVICES = _read("list_services", _SERVICES, ServicesRead)
CALL_MODEL = _route("call_model", "POST", f"{API}{_SERVICES}/{{name}}/invocations", ModelAnswer)

_CREDENTIALS = f"{_CLUSTER}/credentials"
LIST_CREDENTIALS = _read("list_credentials", _CREDENTIALS, CredentialList)
STORE_CREDENTIAL = _start("store_credential", "PUT", f"{_CREDENTIALS}/{{name}}")
DELETE_CREDENTIAL = _start("delete_credential", "DELETE", f"{_CREDENTIALS}/{{name}}")

_MODELS = f"{_CLUSTER}/models"
LIST_MODELS = _read("list_models", _MODELS, ModelList)
DOWNLOAD_MODEL = _start("download_model", "POST", f"{_MODELS}/downloads")

_DEPLOYMENTS = f"{_CLUSTER}/deployments"
LIST_DEPLOYMENTS = _read("list_deployments", _DEPLOYMENTS, DeploymentList)
PARSE_COMMAND = _route("parse_command", "POST", f"{API}{_DEPLOYMENTS}/parse", ParsedCommand)
GET_DEPLOYMENT = _read("get_deployment", f"{_DEPLOYMENTS}/{{name}}", DeploymentDetail)
CREATE_DEPLOYMENT = _start("create_deployment", "POST", _DEPLOYMENTS)
UPDATE_DEPLOYMENT = _start("update_deployment", "PUT", f"{_DEPLOYMENTS}/{{name}}")
SCALE_DEPLOYMENT = _start("scale_deployment", "POST", f"{_DEPLOYMENTS}/{{name}}/scale")
DELETE_DEPLOYMENT = _start("delete_deployment", "DELETE", f"{_DEPLOYMENTS}/{{name}}")

_MODEL_POOLS = f"{_CLUSTER}/model-pools"
LIST_MODEL_POOLS = _read("list_model_pools", _MODEL_POOLS, ModelPoolList)
GET_MODEL_POOL = _read("get_model_pool", f"{_MODEL_POOLS}/{{name}}", ModelPoolDetail)
CREATE_MODEL_POOL = _start("create_model_pool", "POST", _MODEL_POOLS)
SCALE_MODEL_POOL = _start("scale_model_pool", "POST", f"{_MODEL_POOLS}/{{name}}/scale")
ASSIGN_MODEL_POOL = _start("assign_model_pool", "PUT", f"{_MODEL_POOLS}/{{name}}/assignments")
DELETE_MODEL_POOL = _start("delete_model_pool", "DELETE", f"{_MODEL_POOLS}/{{name}}")

_RAY_CLUSTERS = f"{_CLUSTER}/ray-clusters"
LIST_RAY_CLUSTERS = _read("list_ray_clusters", _RAY_CLUSTERS, RayClusterList)
GET_RAY_CLUSTER = _read("get_ray_cluster", f"{_RAY_CLUSTERS}/{{name}}", RayClusterDetail)
CREATE_RAY_CLUSTER = _start("create_ray_cluster", "POST", _RAY_CLUSTERS)
DELETE_RAY_CLUSTER = _start("delete_ray_cluster", "DELETE", f"{_RAY_CLUSTERS}/{{name}}")

_TRAINING_RUNS = f"{_CLUSTER}/training-runs"
LIST_TRAINING_RUNS = _read("list_training_runs", _TRAINING_RUNS, TrainingRunList)
GET_TRAINING_RUN = _read("get_training_run", f"{_TRAINING_RUNS}/{{name}}", TrainingRunDetail)
RUN_TRAINING = _start("run_training", "POST", _TRAINING_RUNS)
STOP_TRAINING = _start("stop_training", "POST", f"{_TRAINING_RUNS}/{{name}}/stop")
SUSPEND_TRAINING = _start("suspend_training", "POST", f"{_TRAINING_RUNS}/{{name}}/suspend")
_TRAINING_LOG = f"{_TRAINING_RUNS}/{{name}}/logs"
READ_TRAINING_LOG = _read("read_training_log", _TRAINING_LOG, LogPage)
WATCH_TRAINING_LOG = _read("watch_training_log", f"{_TRAINING_LOG}/stream", Nothing)
DOWNLOAD_TRAINING_LOG = _read("download_training_log", f"{_TRAINING_LOG}/download", Nothing)
RESUME_TRAINING = _start("resume_training", "POST", f"{_TRAINING_RUNS}/{{name}}/resume")

_TRACKING_SERVERS = f"{_CLUSTER}/tracking-servers"
LIST_TRACKING_SERVERS = _read("list_tracking_servers", _TRACKING_SERVERS, TrackingServerList)
GET_TRACKING_SERVER = _read("get_tracking_server", f"{_TRACKING_SERVERS}/{{name}}", TrackingServerDetail)
CREATE_TRACKING_SERVER = _start("create_tracking_server", "POST", _TRACKING_SERVERS)
DELETE_TRACKING_SERVER = _start("delete_tracking_server", "DELETE", f"{_TRACKING_SERVERS}/{{name}}")
OPEN_TRACKING_SERVER = _route(
    "open_tracking_server", "POST", f"{API}{_TRACKING_SERVERS}/{{name}}/link", TrackingServerLink
)

_EXPERIMENTS = f"{_CLUSTER}/experiments"
LIST_EXPERIMENTS = _read("list_experiments", _EXPERIMENTS, ExperimentList)
SEARCH_RUNS = _read("search_runs", f"{_EXPERIMENTS}/runs", RunList)
EXPORT_RUNS = _read("export_runs", f"{_EXPERIMENTS}/runs.csv", Nothing)
GET_RUN = _read("get_run", f"{_EXPERIMENTS}/runs/{{run_id}}", RunDetail)
COMPARE_RUNS = _read("compare_runs", f"{_EXPERIMENTS}/comparison", RunComparison)
TEST_EXPERIMENTS = _route("test_experiments", "POST", f"{API}{_EXPERIMENTS}/test", ConnectionTest)
CONNECT_EXPERIMENTS = _start("connect_experiments", "POST", f"{_EXPERIMENTS}/connections")
DISCONNECT_EXPERIMENTS = _start("disconnect_experiments", "DELETE", f"{_EXPERIMENTS}/connections/{{namespace}}")
SYNC_EXPERIMENTS = _start("sync_experiments", "POST", f"{_EXPERIMENTS}/sync")

_ROUTERS = f"{_CLUSTER}/routers"
LIST_ROUTERS = _read("list_routers", _ROUTERS, RouterList)
GET_ROUTER = _read("get_router", f"{_ROUTERS}/{{name}}", RouterDetail)
CREATE_ROUTER = _start("create_router", "POST", _ROUTERS)
DELETE_ROUTER = _start("delete_router", "DELETE", f"{_ROUTERS}/{{name}}")

_NODE_GROUPS = f"{_CLUSTER}/node-groups"
LIST_NODE_GROUPS = _read("list_node_groups", _NODE_GROUPS, NodeGroupList)
CREATE_NODE_GROUP = _start("create_node_group", "POST", _NODE_GROUPS)
SCALE_NODE_GROUP = _start("scale_node_group", "POST", f"{_NODE_GROUPS}/{{name}}/scale")
DELETE_NODE_GROUP = _start("delete_node_group", "DELETE", f"{_NODE_GROUPS}/{{name}}")

_NODE_POOLS = f"{_CLUSTER}/node-pools"
LIST_NODE_POOLS = _read("list_node_pools", _NODE_POOLS, NodePoolList)
CREATE_NODE_POOL = _start("create_node_pool", "POST", _NODE_POOLS)
DELETE_NODE_POOL = _start("delete_node_pool", "DELETE", f"{_NODE_POOLS}/{{name}}")

_ENDPOINTS = f"{_CLUSTER}/endpoints"
LIST_ENDPOINTS = _read("list_endpoints", _ENDPOINTS, EndpointList)
GET_ENDPOINT = _read("get_endpoint", f"{_ENDPOINTS}/{{name}}", EndpointDetail)
CREATE_ENDPOINT = _start("create_endpoint", "POST", _ENDPOINTS)
UPDATE_ENDPOINT = _start("update_endpoint", "PUT", f"{_ENDPOINTS}/{{name}}")
DELETE_ENDPOINT = _start("delete_endpoint", "DELETE", f"{_ENDPOINTS}/{{name}}")

_AUTOSCALERS = f"{_CLUSTER}/autoscalers"
LIST_AUTOSCALERS = _read("list_autoscalers", _AUTOSCALERS, AutoscalerList)
GET_AUTOSCALER = _read("get_autoscaler", f"{_AUTOSCALERS}/{{name}}", AutoscalerDetail)
CREATE_AUTOSCALER = _start("create_autoscaler", "POST", _AUTOSCALERS)
DELETE_AUTOSCALER = _start("delete_autoscaler", "DELETE", f"{_AUTOSCALERS}/{{name}}")

_FEATURES = f"{_CLUSTER}/features"
LIST_FEATURES = _read("list_features", _FEATURES, Features)
UPDATE_FEATURES = _start("update_features", "PATCH", _FEATURES)

MAKE_PLAN = _route("make_plan", "POST", f"{API}/plans", Plan)

LIST_OPERATIONS = _read("list_operations", "/operations", OperationPage)
GET_OPERATION = _read("get_operation", "/operations/{id}", Operation)
GET_OPERATION_SPEC = _read("get_operation_spec", "/operations/{id}/spec", OperationSpec)
GET_DURATIONS = _read("get_durations", "/durations", Durations)
DECIDE_OPERATION = _answered("decide_operation", "decide")
RETRY_OPERATION = _answered("retry_operation", "retry")
SKIP_STAGE = _answered("skip_stage", "skip")
ABORT_OPERATION = _answered("abort_operation", "abort")
APPROVE_OPERATION = _answered("approve_operation", "approve")
REJECT_OPERATION = _answered("reject_operation", "reject")

LIST_RECIPES = _read("list_recipes", "/recipes", RecipeList)
_PRESETS = "/presets"
LIST_PRESETS = _read("list_presets", _PRESETS, PresetList)
GET_PRESET = _read("get_preset", f"{_PRESETS}/{{name}}", PresetDetail)
SAVE_PRESET = _route("save_preset", "PUT", f"{API}{_PRESETS}/{{name}}", SavedPreset)
DELETE_PRESET = _route("delete_preset", "DELETE", f"{API}{_PRESETS}/{{name}}", Nothing)

GET_OPTIONS = _read("get_options", "/options", Options)

GET_CALLER = _read("get_caller", "/me", Caller)
SET_DEFAULT_CLUSTER = _route("set_default_cluster", "PUT", f"{API}/me/default-cluster", Caller)
CLEAR_DEFAULT_CLUSTER = _route("clear_default_cluster", "DELETE", f"{API}/me/default-cluster", Caller)
CREATE_SESSION = _route("create_session", "POST", f"{API}/sessions", Session)
END_SESSION = _route("end_session", "DELETE", f"{API}/sessions/current", Nothing)
CREATE_TICKET = _route("create_ticket", "POST", f"{API}/tickets", Ticket)
LIST_TOKENS = _read("list_tokens", "/tokens", TokenList)
CREATE_TOKEN = _route("create_token", "POST", f"{API}/tokens", CreatedToken)
REVOKE_TOKEN = _route("revoke_token", "DELETE", f"{API}/tokens/{{name}}", Nothing)
LIST_AUDIT = _read("list_audit", "/audit", AuditPage)
GET_READINESS = Endpoint("get_readiness", "GET", "/ready", Readiness, answered_with=(503,))
ENDPOINTS[GET_READINESS.name] = GET_READINESS
