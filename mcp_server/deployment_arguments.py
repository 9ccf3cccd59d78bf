"""Arguments that make a model server, of tools that make one and of those that change one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SkipValidation

from mcp_server.arguments import given, option_places, with_options
from mcp_server.originals import listed, never_a_token, unless_unset, whole_gpus
from mcp_server.toolbox import Alias, as_is

Command = Annotated[
    SkipValidation[str],
    Field(description="As the user wrote it, e.g. vllm serve Qwen/Qwen3-0.6B --max-model-len 8192."),
]
DeploymentName = Annotated[
    SkipValidation[str], Field(description="Name of the deployment, as inference_list_deployments has it.")
]
Engine = Annotated[
    SkipValidation[Literal["vllm", "sglang", "custom"] | None],
    Field(description="Absent: told by command and image."),
]
Image = Annotated[
    SkipValidation[str | None], Field(description="Absent: the engine's, pinned. Needed for engine custom.")
]
Shell = Annotated[
    SkipValidation[Literal["exec", "sh"] | None],
    Field(description="For commands with shell syntax: exec means each character as it stands, sh runs a shell."),
]
Gpus = Annotated[
    SkipValidation[int | None],
    Field(description="GPUs of one replica, by the user's own word, 0 for none. Never told from the command."),
]
Replicas = Annotated[SkipValidation[int | None], Field(description="Absent: 1.")]
Types = Annotated[
    SkipValidation[list[str] | None], Field(description="Where replicas may run, with ml.; absent: wherever they fit.")
]
Service = Annotated[
    SkipValidation[Literal["in_cluster", "public", "none"] | None],
    Field(description="Absent: in_cluster. public: a load balancer besides, in the VPC. none: no Service."),
]
AnyService = Annotated[
    SkipValidation[Literal["in_cluster", "public", "none", "model_pool"] | None],
    Field(
        description="Absent: in_cluster. public: a load balancer besides, in the VPC. none: no Service. model_pool: "
        "servers that model_pool_assign hands out to services."
    ),
]
Reach = Annotated[
    SkipValidation[Literal["internal", "internet-facing"] | None],
    Field(description="Of a public service; internet-facing needs confirm_public, which the user must want."),
]
ConfirmPublic = Annotated[
    SkipValidation[bool | None], Field(description="true: everybody on the internet may call it; the user said so.")
]
Port = Annotated[SkipValidation[int | None], Field(description="Where the server listens; absent: 8000.")]
Environment = Annotated[
    SkipValidation[dict[str, str] | None], Field(description="Plain variables; secrets are credentials.")
]
Credential = Annotated[
    SkipValidation[str | None], Field(description="Name of a stored Hugging Face token; never the token.")
]
Cpu = Annotated[SkipValidation[float | None], Field(description="CPUs of one replica; absent: by its GPUs.")]
Memory = Annotated[SkipValidation[float | None], Field(description="GiB of one replica; absent: by its GPUs.")]
Options = Annotated[
    SkipValidation[dict[str, JsonValue] | None],
    Field(
        description="Other members of the deployment: secret_env, storage, shm_gib, efa, startup_timeout_minutes, "
        "grace_seconds, strategy, labels, served_model, verify."
    ),
]

MODEL_POOL = "model_pool"
"""What inference_deploy_container takes as a service beside those of a deployment: its servers are a pool."""
_SERVICES = {"clusterip": "in_cluster", "external": "public", "modelpool": MODEL_POOL}


def service_of(value: Any) -> dict[str, Any]:
    """The original's ``serviceType``. What it called external was reached from the internet, which needs a word of the
    user here."""
    if value in (None, ""):
        return {}
    return {"service": _SERVICES.get(str(value).lower(), value)}


ALIASES: dict[str, Alias] = {
    "deploymentCommand": "command",
    "gpuCount": unless_unset("gpu_count"),
    "dockerImage": as_is("image"),
    "deploymentName": as_is("deployment"),
    "instanceTypes": listed("instance_types"),
    "serviceType": service_of,
    "huggingFaceToken": never_a_token("huggingFaceToken"),
    "hfToken": never_a_token("hfToken"),
    "gpuMemory": whole_gpus,
    "cpuRequest": unless_unset("cpu"),
    "memoryRequest": unless_unset("memory_gib"),
}

PLACES = {"/name": "/deployment", "/resources/cpu": "/cpu", "/resources/memory_gib": "/memory_gib"}
"""Where parts of a deployment come from among the arguments."""


def placed(options: Any) -> dict[str, str]:
    """The same, with what came as ``options``."""
    return {**PLACES, **option_places(options, "name", "resources")}


def members(cpu: Any, memory_gib: Any, options: Any, **others: Any) -> dict[str, Any]:
    """A deployment of what was given."""
    body = given(**others)
    if resources := given(cpu=cpu, memory_gib=memory_gib):
        body["resources"] = resources
    return with_options(options, body)
