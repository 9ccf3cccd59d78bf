"""Wrong inputs of everything that starts or answers an operation, as each face is given them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts import endpoints as to
from contracts.endpoints import Endpoint

GROUP = {"instance_type": "ml.g6.4xlarge", "count": 1}
ONE_GROUP = {"/instance_groups/0": ""}
NODE = "i-0123456789abcdef0"
COMMAND = "vllm serve Qwen/Qwen3-0.6B --port 8000"
SERVER = {
    "/name": "/deployment",
    "/resources": "",
    "/labels": "/options/labels",
    "/shm_gib": "/options/shm_gib",
}
SOURCE = {"type": "hugging-face", "model_id": "Qwen/Qwen3-0.6B"}


@dataclass(frozen=True)
class Wrong:
    """One wrong request. Where it names no cluster and no operation, it is about ones that are there."""

    endpoint: Endpoint[Any]
    tool: str | None
    """None: it has none, since what it takes is a secret."""
    body: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] | None = None
    """Arguments of the tool; None: parameters and body, as they are."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where pointers into the body point to among the arguments."""
    operation: str | None = None
    """What the operation does that is answered, and the phase to wait for."""

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.given) if self.given is not None else {**self.parameters, **(self.body or {})}

    def pointed(self, pointer: str) -> str:
        """The pointer as the tool has it."""
        for sent, argument in {"/tag": "/cluster", **self.places}.items():
            if pointer == sent or pointer.startswith(f"{sent}/"):
                return argument + pointer.removeprefix(sent)
        return pointer

    def __str__(self) -> str:
        return f"{self.endpoint.name} {self.parameters or ''} {self.body or ''}"


def _created(body: dict[str, Any]) -> Wrong:
    return Wrong(to.CREATE_CLUSTER, "cluster_create", body, places={"/tag": "/tag"})


def _control_plane(tag: str, network: dict[str, Any], **other: Any) -> Wrong:
    body = {**({"network": network} if network else {}), **other}
    given = {"tag": tag, **network, **other}
    places = {"/tag": "/tag", "/network": ""}
    return Wrong(to.CREATE_CONTROL_PLANE, "cluster_create_eks", body, {"tag": tag}, given, places)


def _hyperpod(group: dict[str, Any]) -> Wrong:
    return Wrong(to.CREATE_HYPERPOD, "hyperpod_create", {"instance_groups": [group]}, given=group, places=ONE_GROUP)


def _added(group: dict[str, Any]) -> Wrong:
    given = {"group" if key == "name" else key: value for key, value in group.items()}
    # A tool's capacity is the kind alone.
    body = {**group, "capacity": {"kind": group["capacity"]}} if "capacity" in group else group
    places = {"/name": "/group"}
    return Wrong(to.ADD_INSTANCE_GROUP, "hyperpod_add_instance_group", body, given=given, places=places)


def _node_group(name: str, types: list[str], **other: Any) -> Wrong:
    scaling = {key: other.pop(key) for key in ("desired", "minimum", "maximum") if key in other}
    body = {"name": name, "instance_types": types, **({"scaling": scaling} if scaling else {}), **other}
    given = {"node_group": name, "instance_types": types, **scaling, **other}
    places = {"/name": "/node_group", "/scaling": ""}
    return Wrong(to.CREATE_NODE_GROUP, "cluster_nodegroup_create", body, given=given, places=places)


def _pool(body: dict[str, Any]) -> Wrong:
    given = {"node_pool" if key == "name" else key: value for key, value in body.items()}
    return Wrong(to.CREATE_NODE_POOL, "node_pool_create", body, given=given, places={"/name": "/node_pool"})


def _scaled(group: str, count: Any) -> Wrong:
    return Wrong(to.SCALE_INSTANCE_GROUP, "hyperpod_scale_instance_group", {"count": count}, {"group": group})


def _scaled_nodes(name: str, body: dict[str, Any]) -> Wrong:
    given = {"node_group": name, **body}
    return Wrong(
        to.SCALE_NODE_GROUP, "cluster_nodegroup_scale", body, {"name": name}, given, places={"/name": "/node_group"}
    )


def _deployed(name: str, command: str, gpu_count: Any, **other: Any) -> Wrong:
    body = {"name": name, "command": command, "gpu_count": gpu_count, **other}
    return Wrong(to.CREATE_DEPLOYMENT, "inference_deploy_container", body, given=_given_server(body), places=SERVER)


def _given_server(body: dict[str, Any]) -> dict[str, Any]:
    """What tools take for a model server: some of it by other names, some of it together as ``options``."""
    given = {"deployment" if key == "name" else key: value for key, value in body.items()}
    if options := {key: given.pop(key) for key in ("labels", "shm_gib") if key in given}:
        given["options"] = options
    return given


def _endpoint(endpoint: Endpoint[Any], tool: str, body: dict[str, Any], **parameters: Any) -> Wrong:
    given = {"endpoint" if key == "name" else key: value for key, value in body.items()}
    return Wrong(endpoint, tool, body, parameters, given, places={"/name": "/endpoint"})


def _pool_of_models(endpoint: Endpoint[Any], tool: str, body: dict[str, Any], **parameters: Any) -> Wrong:
    given = {"model_pool" if key == "name" else key: value for key, value in {**parameters, **body}.items()}
    return Wrong(endpoint, tool, body, parameters, given, places={"/name": "/model_pool"})


def _router(body: dict[str, Any]) -> Wrong:
    given = {"router" if key == "name" else key: value for key, value in body.items()}
    return Wrong(to.CREATE_ROUTER, "router_create", body, given=given, places={"/name": "/router"})


def _trained(body: dict[str, Any]) -> Wrong:
    given = {"run" if key == "name" else key: value for key, value in body.items()}
    options: dict[str, Any] = {
        key: given.pop(key) for key in ("log_monitoring", "spares", "deadline_hours") if key in given
    }
    if options:
        given["options"] = options
    places = {"/name": "/run"} | {f"/{key}": f"/options/{key}" for key in options}
    return Wrong(to.RUN_TRAINING, "training_submit", body, given=given, places=places)


def _controlled(endpoint: Endpoint[Any], tool: str, name: str, body: dict[str, Any] | None = None) -> Wrong:
    return Wrong(endpoint, tool, body or {}, {"name": name}, {"run": name, **(body or {})}, {"/name": "/run"})


def _ray_cluster(body: dict[str, Any]) -> Wrong:
    given = {"ray_cluster" if key == "name" else key: value for key, value in body.items()}
    if "labels" in given:
        given["options"] = {"labels": given.pop("labels")}
    places = {"/name": "/ray_cluster", "/labels": "/options/labels"}
    return Wrong(to.CREATE_RAY_CLUSTER, "ray_cluster_create", body, given=given, places=places)


def _tracking_server(body: dict[str, Any]) -> Wrong:
    given = {"tracking_server" if key == "name" else key: value for key, value in body.items()}
    places = {"/name": "/tracking_server"}
    return Wrong(to.CREATE_TRACKING_SERVER, "tracking_server_create", body, given=given, places=places)


def _misnamed(endpoint: Endpoint[Any], tool: str, argument: str) -> Wrong:
    given, places = {argument: "Bad_Name"}, {"/name": f"/{argument}"}
    return Wrong(endpoint, tool, None, {"name": "Bad_Name"}, given, places)


def _answered(endpoint: Endpoint[Any], tool: str, operation: str, body: dict[str, Any]) -> Wrong:
    return Wrong(endpoint, tool, body, operation=operation)


def _unknown(endpoint: Endpoint[Any], tool: str, body: dict[str, Any]) -> Wrong:
    none = "create-cluster/none"
    return Wrong(endpoint, tool, body, {"id": none}, given={"operation": none, **body})


_RECIPE = {"kind": "pytorch", "script_path": "/s3/code/train.py"}
_TRAINED = {"name": "sft", "recipe": _RECIPE, "instance_types": ["ml.g5.12xlarge"], "gpus_per_node": 4}
_ELSEWHERE = "arn:aws:sagemaker:us-west-2:444455556666:mlflow-tracking-server/shared"

_NOWHERE: dict[str, Any] = {"parameters": {"tag": "nobody"}, "given": {"cluster": "nobody"}}
_MISNAMED: dict[str, Any] = {"parameters": {"tag": "Bad_Tag"}, "given": {"cluster": "Bad_Tag"}}
_DECIDE = (to.DECIDE_OPERATION, "operation_decide")
_RETRY = (to.RETRY_OPERATION, "operation_retry")
_SKIP = (to.SKIP_STAGE, "operation_skip")
_ABORT = (to.ABORT_OPERATION, "operation_abort")
_APPROVE = (to.APPROVE_OPERATION, "operation_approve")
_REJECT = (to.REJECT_OPERATION, "operation_reject")

WRONG: list[Wrong] = [
    _created({"tag": "Demo_1"}),
    _created({"tag": ""}),
    _created({"tag": 7}),
    _created({"tag": "ok", "region": "eu-north-1"}),
    _created({"tag": "ok", "region": "Oregon"}),
    _created({"tag": "ok", "kubernetes_version": 1.3, "network": {"vpc_cidr": "10.0.0.0/8"}}),
    _created({"tag": "ok", "network": {"vpc_cidr": "10.0.0.1/16", "colour": "red"}}),
    _created({"tag": "ok", "network": {"vpc_id": "vpc-1"}}),
    _created({"tag": "ok", "instance_groups": [{"instance_type": "g6.4xlarge", "count": "one"}]}),
    _created({"tag": "ok", "instance_groups": [{**GROUP, "availability_zone": "west"}]}),
    _created({"tag": "ok", "instance_groups": "two"}),
    _created({"tag": "ok", "hyperpod": {"node_recovery": "Perhaps"}}),
    _control_plane("Bad_Tag", {}),
    _control_plane("ok", {"vpc_cidr": "10.0.0.1/16"}),
    _control_plane("ok", {"vpc_cidr": "ten", "vpc_id": "vpc-1"}, kubernetes_version="1.x"),
    Wrong(to.IMPORT_CLUSTER, "cluster_import", {"tag": "A_1", "eks_cluster": "-"}, places={"/tag": "/tag"}),
    Wrong(to.IMPORT_CLUSTER, "cluster_import", {"tag": "a", "grant_access": "perhaps"}, places={"/tag": "/tag"}),
    Wrong(to.VERIFY_ACCESS, "access_verify", **_NOWHERE),
    Wrong(to.VERIFY_CLUSTER, "cluster_verify", **_NOWHERE),
    Wrong(to.REDETECT_CLUSTER, "cluster_redetect", **_MISNAMED),
    Wrong(to.ADOPT_DRIFT, "drift_adopt", {"differences": []}),
    Wrong(to.ADOPT_DRIFT, "drift_adopt", {"differences": ["workers"], "accept_weaker_security": "perhaps"}),
    Wrong(to.RESTORE_DRIFT, "drift_restore", {"differences": "all"}),
    Wrong(to.RESTORE_DRIFT, "drift_restore", {"differences": ["vpc/v~01234567", "vpc/v~01234567"]}),
    Wrong(to.INSTALL_DEPENDENCIES, "cluster_configure_dependencies", {"components": ["x"]}),
    Wrong(to.INSTALL_DEPENDENCIES, "cluster_configure_dependencies", {"components": "all of them"}),
    _hyperpod({"instance_type": "g6.4xlarge", "count": 2}),
    _hyperpod({"count": 2}),
    _hyperpod({**GROUP, "volume_gib": 0}),
    _added({"instance_type": "p5.48xlarge", "count": True, "name": "A_b"}),
    _added({**GROUP, "capacity": "cheap"}),
    _added({**GROUP, "count": -1, "availability_zone": "us-west-2", "subnet_id": "subnet-x"}),
    _added({**GROUP, "count": 1_000_000}),
    _added({**GROUP, "labels": {"sagemaker.amazonaws.com/node-health-status": "fine"}}),
    _added({**GROUP, "taints": [{"key": "a", "effect": "Sometimes"}]}),
    _added({**GROUP, "deep_health_checks": ["Everything"]}),
    _scaled("workers", -1),
    _scaled("workers", "abc"),
    _scaled("workers", 10_000_000),
    _scaled("work_ers", 2),
    Wrong(to.UPDATE_INSTANCE_GROUP, "hyperpod_update_instance_group", {}, {"group": "workers"}),
    Wrong(to.UPDATE_INSTANCE_GROUP, "hyperpod_update_instance_group", {"min_count": "abc"}, {"group": "workers"}),
    Wrong(to.DELETE_INSTANCE_GROUP, "hyperpod_delete_instance_group", None, {"group": "work_ers"}),
    Wrong(to.DELETE_INSTANCE_GROUP, "hyperpod_delete_instance_group", None, {"group": "workers", "drain": "perhaps"}),
    Wrong(to.UPDATE_SOFTWARE, "hyperpod_update_software", {"groups": ["a", "a"]}),
    Wrong(to.UPDATE_SOFTWARE, "hyperpod_update_software", {"image_id": "latest", "release_version": "1"}),
    Wrong(to.REBOOT_NODES, "hyperpod_node_reboot", {"nodes": []}),
    Wrong(to.REBOOT_NODES, "hyperpod_node_reboot", {"nodes": [NODE], "drain_timeout_minutes": 10_000}),
    Wrong(to.REPLACE_NODES, "hyperpod_node_replace", {"nodes": ["no/node"], "drain": "perhaps"}),
    Wrong(to.DELETE_NODES, "hyperpod_node_delete", {"nodes": NODE}),
    Wrong(to.UPDATE_FEATURES, "hyperpod_update_advanced_features", {}),
    Wrong(
        to.UPDATE_FEATURES,
        "hyperpod_update_advanced_features",
        {"tiered_checkpointing": {"enabled": True, "memory_percentage": 5}, "autoscaling": {"enabled": "on top"}},
    ),
    _node_group("a b", ["ml.g5.8xlarge"], desired=2, minimum=3),
    _node_group("cpu", ["m5.large"], desired="abc", capacity="cheap"),
    _scaled_nodes("cpu", {"desired": 5, "maximum": 1}),
    _scaled_nodes("cpu", {"desired": -1}),
    _scaled_nodes("a b", {"desired": 1}),
    Wrong(to.DELETE_NODE_GROUP, "cluster_nodegroup_delete", None, {"name": "a b"}, {"node_group": "a b"}),
    _pool({"name": "A", "instance_groups": ["a", "a"]}),
    _pool({"name": "pool", "instance_groups": ["a"], "consolidation": "Never", "weight": 1_000}),
    Wrong(
        to.DELETE_NODE_POOL,
        "node_pool_delete",
        None,
        {"tag": "nobody", "name": "pool"},
        {"cluster": "nobody", "node_pool": "pool"},
    ),
    Wrong(to.CREATE_STORAGE, "s3_storage_create", {"claim": "X", "prefix": "no-slash"}),
    Wrong(to.CREATE_STORAGE, "s3_storage_create", {"claim": "data", "read_only": "perhaps"}),
    Wrong(to.DELETE_STORAGE, "s3_storage_delete", None, {"claim": "data", "delete_file_system": "perhaps"}),
    Wrong(to.CREATE_FSX_STORAGE, "fsx_storage_create", {"claim": "X", "file_system_id": "fs-1", "read_only": "maybe"}),
    Wrong(to.CREATE_FSX_STORAGE, "fsx_storage_create", {"claim": "fsx"}),
    Wrong(to.CREATE_FSX_STORAGE, "fsx_storage_create", {"create": {"capacity_gib": 1300}}),
    Wrong(to.STORE_CREDENTIAL, None, {"token": "two words", "namespace": "A"}, {"name": "hub"}),
    Wrong(to.STORE_CREDENTIAL, None, {}, {"name": "hub"}),
    _misnamed(to.DELETE_CREDENTIAL, "credential_delete", "credential"),
    Wrong(to.DOWNLOAD_MODEL, "model_download_enhanced", {"repository": "no-slash", "cpu": "many", "memory_gib": 0}),
    Wrong(to.DOWNLOAD_MODEL, "model_download_enhanced", {"repository": "a/b", "path": "../up", "include": "all"}),
    _deployed("A_b", COMMAND, -1, replicas=0, port=70_000, instance_types="all"),
    _deployed("chat", "vllm serve m && rm x", 1),
    _deployed("chat", "serve-it", 1),
    _deployed("chat", COMMAND, 1, env={"A": "hf_" + "x" * 34}),
    _deployed("chat", COMMAND, 1, labels={"instantstart.dev/x": "y"}, shm_gib=0, service="everywhere"),
    _deployed("chat", COMMAND, 1, service="public", public="internet-facing"),
    Wrong(
        to.UPDATE_DEPLOYMENT,
        "inference_update_deployment",
        {"name": "chat", "command": COMMAND, "gpu_count": 1},
        {"tag": "nobody", "name": "chat"},
        {"cluster": "nobody", "deployment": "chat", "gpu_count": 1},
    ),
    Wrong(
        to.SCALE_DEPLOYMENT,
        "inference_scale_deployment",
        {"replicas": -1},
        {"name": "chat"},
        {"deployment": "chat", "replicas": -1},
    ),
    _misnamed(to.DELETE_DEPLOYMENT, "inference_undeploy", "deployment"),
    _pool_of_models(to.CREATE_MODEL_POOL, "model_pool_create", {"name": "A_b", "command": COMMAND, "gpu_count": "all"}),
    _pool_of_models(to.CREATE_MODEL_POOL, "model_pool_create", {"name": "p", "command": "a | b", "gpu_count": 1}),
    _pool_of_models(to.SCALE_MODEL_POOL, "model_pool_scale", {"replicas": 0}, name="pool"),
    _pool_of_models(to.ASSIGN_MODEL_POOL, "model_pool_assign", {"assignments": {"Chat": 1, "b": -1}}, name="pool"),
    _pool_of_models(
        to.ASSIGN_MODEL_POOL,
        "model_pool_assign",
        {"assignments": {"chat": 1}, "public": {"chat": "internet-facing"}},
        name="pool",
    ),
    _misnamed(to.DELETE_MODEL_POOL, "model_pool_delete", "model_pool"),
    _router({"name": "R_", "target": {"deployment": "chat"}, "policy": "by luck", "replicas": 0}),
    _router({"name": "front", "target": {"deployment": "chat", "pool": "pool"}}),
    _router({"name": "front", "target": {"deployment": "chat"}, "service": "public", "public": "internet-facing"}),
    _misnamed(to.DELETE_ROUTER, "router_delete", "router"),
    _endpoint(
        to.CREATE_ENDPOINT,
        "endpoint_create",
        {"name": "Q_", "source": {"type": "s3", "bucket": "B"}, "instance_types": ["g5.8xlarge"], "replicas": 0},
    ),
    _endpoint(
        to.CREATE_ENDPOINT, "endpoint_create", {"name": "q", "source": SOURCE, "instance_types": ["ml.g5.xlarge"]}
    ),
    _endpoint(
        to.UPDATE_ENDPOINT,
        "endpoint_update",
        {"name": "q", "source": {"type": "disk"}, "instance_types": [], "routing": "by luck"},
        name="q",
    ),
    _misnamed(to.DELETE_ENDPOINT, "endpoint_delete", "endpoint"),
    Wrong(to.CREATE_AUTOSCALER, "autoscaler_create", {"target": "chat", "triggers": []}),
    Wrong(
        to.CREATE_AUTOSCALER,
        "autoscaler_create",
        {"target": "chat", "min_replicas": 9, "triggers": [{"type": "cpu", "utilization": 50}]},
    ),
    Wrong(
        to.CREATE_AUTOSCALER,
        "autoscaler_create",
        {"target": "Chat", "triggers": [{"type": "prometheus", "threshold": 0}, {"type": "luck"}]},
    ),
    _misnamed(to.DELETE_AUTOSCALER, "autoscaler_delete", "autoscaler"),
    _trained({**_TRAINED, "name": "Sft_1"}),
    _trained({**_TRAINED, "recipe": {"kind": "jax"}}),
    _trained({**_TRAINED, "recipe": "train.py"}),
    _trained({**_TRAINED, "recipe": {**_RECIPE, "script_path": "../train.py", "colour": "red"}}),
    _trained({**_TRAINED, "recipe": {**_RECIPE, "arguments": ["--api_key=" + "hf_" + "x" * 34]}}),
    _trained({**_TRAINED, "instance_types": ["g5.12xlarge"], "gpus_per_node": "all", "nodes": 0}),
    _trained({**_TRAINED, "instance_types": ["ml.g5.12xlarge", "ml.p5.48xlarge"]}),
    _trained({**_TRAINED, "submission": "slurm"}),
    _trained({**_TRAINED, "submission": "ray"}),
    _trained({**_TRAINED, "submission": "sagemaker", "image": "public/trainer:1"}),
    _trained({**_TRAINED, "env": {"RANK": "0"}}),
    _trained({**_TRAINED, "checkpoint_path": "/tmp/run", "spares": 1}),
    _trained({**_TRAINED, "log_monitoring": [{"name": "hang", "pattern": "(a+)+$", "every_seconds": 60}]}),
    _trained({**_TRAINED, "experiment": {"experiment": "qwen"}, "deadline_hours": -1}),
    _controlled(to.STOP_TRAINING, "training_stop", "Bad_Name"),
    _controlled(to.STOP_TRAINING, "training_stop", "sft", {"reason": "x" * 301}),
    _controlled(to.SUSPEND_TRAINING, "training_suspend", "sft", {"reason": 7}),
    _controlled(to.RESUME_TRAINING, "training_resume", "n" * 60),
    _ray_cluster({"name": "R_", "gpus_per_worker": 1, "workers": 1}),
    _ray_cluster({"name": "notebooks", "gpus_per_worker": "all", "workers": -1, "image": "two words"}),
    _ray_cluster({"name": "notebooks", "gpus_per_worker": 1, "labels": {"ray.io/x": "y"}}),
    _misnamed(to.DELETE_RAY_CLUSTER, "ray_cluster_delete", "ray_cluster"),
    _tracking_server({"name": "-research", "size": "Huge", "maintenance_window": "Tuesday"}),
    _misnamed(to.DELETE_TRACKING_SERVER, "tracking_server_delete", "tracking_server"),
    Wrong(
        to.CONNECT_EXPERIMENTS,
        "experiment_connect",
        {"tracking_server": "arn:aws:s3:::bucket", "namespace": "A_b", "service_account": ""},
    ),
    Wrong(
        to.DISCONNECT_EXPERIMENTS, "experiment_disconnect", None, {"namespace": "A_b", "tracking_server": "arn:aws:x"}
    ),
    Wrong(
        to.SYNC_EXPERIMENTS,
        "experiment_sync",
        {"source": "research", "experiment": "qwen", "destination": _ELSEWHERE, "external_id": "agreed"},
    ),
    Wrong(to.SYNC_EXPERIMENTS, "experiment_sync", {"source": "", "experiment": " qwen", "destination": "research"}),
    Wrong(to.DELETE_CLUSTER, "cluster_delete", {"level": "hyperpod", "delete_bucket": True}),
    Wrong(to.DELETE_CLUSTER, "cluster_delete", {"level": "everything"}),
    _unknown(*_DECIDE, {"answer": {"choice": "wait"}}),
    _answered(*_DECIDE, "run running", {"answer": {"choice": "wait"}}),
    _answered(*_DECIDE, "drain waiting_for_decision", {"answer": {"choice": "perhaps"}}),
    _answered(*_DECIDE, "drain waiting_for_decision", {"answer": "wait"}),
    _answered(*_DECIDE, "drain waiting_for_decision", {"answer": {"choice": "wait"}, "decision": "capacity"}),
    _unknown(*_RETRY, {}),
    _answered(*_RETRY, "run running", {}),
    _answered(*_RETRY, "block blocked", {"stage": "dancing"}),
    _answered(*_RETRY, "block blocked", {"attempt": 99}),
    _answered(*_RETRY, "block blocked", {"attempt": "abc"}),
    _answered(*_RETRY, "block blocked", {"attempt": -1, "stage": 7}),
    _answered(*_RETRY, "block blocked", {"corrections": ["a"]}),
    _unknown(*_SKIP, {}),
    _answered(*_SKIP, "run running", {}),
    _answered(*_SKIP, "block blocked", {"attempt": "abc"}),
    _answered(*_SKIP, "block blocked", {"stage": "dancing"}),
    _unknown(*_ABORT, {}),
    _answered(*_ABORT, "run running", {"reason": "x" * 1001}),
    _answered(*_ABORT, "run running", {"reason": 7}),
    _unknown(*_APPROVE, {"plan_hash": "0"}),
    _answered(*_APPROVE, "run running", {"plan_hash": "0"}),
    _answered(*_APPROVE, "drain waiting_for_approval", {"plan_hash": "0"}),
    _answered(*_APPROVE, "drain waiting_for_approval", {"plan_hash": 7, "reason": ["none"]}),
    _unknown(*_REJECT, {}),
    _answered(*_REJECT, "run running", {}),
    _answered(*_REJECT, "run running", {"reason": "x" * 1001}),
]
"""All of them. Unknown members are the gateway's to refuse; a tool has no more arguments than it declares."""
