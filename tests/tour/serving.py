"""Models served: deployments, pools, routers, managed endpoints, autoscalers."""

from __future__ import annotations

from contracts import endpoints
from contracts.command_flags import PINNED_IMAGES
from contracts.commands import Engine
from tests.tour.founding import GPUS, TAG
from tests.tour.storage import SMALL
from tests.tour.traveller import Traveller

GIVEN = {"tag": TAG}
COMMAND = f"vllm serve {SMALL} --port 8000 --max-model-len 8192"
BROKEN = "vllm/vllm-openai:v9.9.9"
SERVER = {"command": COMMAND, "gpu_count": 1, "instance_types": [GPUS]}


def deployments(traveller: Traveller) -> None:
    """A server whose image is broken, and corrected; a router before it; changed, scaled, scaled by load, deleted."""
    chat = {"name": "chat", **SERVER}
    traveller.stack.sandbox.post("/kubernetes/pods", json={"add": [{"fault": "crash_loop", "image": BROKEN}]})
    creation = traveller.ask(endpoints.CREATE_DEPLOYMENT, {**chat, "image": BROKEN}, **GIVEN)
    traveller.blocked(creation, "deployment")
    traveller.call(endpoints.DIAGNOSE, {"subject": {"kind": "operation", "name": creation}}, **GIVEN)
    correction = {"corrections": {"image": PINNED_IMAGES[Engine.VLLM]}}
    traveller.resolve(endpoints.RETRY_OPERATION, creation, correction)
    traveller.done(creation, "corrected")

    traveller.do(endpoints.CREATE_DEPLOYMENT, {"name": "open", **SERVER, "service": "public"}, path="public", **GIVEN)
    wish = {"name": "front", "target": {"deployment": "chat"}}
    traveller.do(endpoints.CREATE_ROUTER, wish, **GIVEN)
    traveller.call(endpoints.LIST_ROUTERS, **GIVEN)
    traveller.call(endpoints.GET_ROUTER, name="front", **GIVEN)
    traveller.call(endpoints.LIST_SERVICES, **GIVEN)
    traveller.call(endpoints.CALL_MODEL, {"prompt": "Say hello.", "max_tokens": 8}, name="chat", **GIVEN)
    traveller.do(endpoints.DELETE_ROUTER, name="front", **GIVEN)

    traveller.do(endpoints.UPDATE_DEPLOYMENT, {**chat, "env": {"A": "b"}}, name="chat", **GIVEN)
    traveller.do(endpoints.SCALE_DEPLOYMENT, {"replicas": 2}, name="chat", **GIVEN)
    traveller.call(endpoints.LIST_DEPLOYMENTS, **GIVEN)
    found = traveller.call(endpoints.GET_DEPLOYMENT, name="chat", **GIVEN)
    traveller.call(endpoints.READ_POD_LOG, namespace="default", pod=found.pods[0].name, tail=5, **GIVEN)

    by_cpu = {"target": "chat", "min_replicas": 1, "max_replicas": 2, "triggers": [{"type": "cpu", "utilization": 50}]}
    traveller.do(endpoints.CREATE_AUTOSCALER, by_cpu, **GIVEN)
    traveller.call(endpoints.LIST_AUTOSCALERS, **GIVEN)
    traveller.call(endpoints.GET_AUTOSCALER, name="chat", **GIVEN)
    traveller.do(endpoints.DELETE_AUTOSCALER, name="chat", **GIVEN)
    for name in ("chat", "open"):
        traveller.do(endpoints.DELETE_DEPLOYMENT, name=name, **GIVEN)


def model_pools(traveller: Traveller) -> None:
    """A pool whose pods are handed out, and one that is lost."""
    pool = {"name": "pool", **GIVEN}
    traveller.do(endpoints.CREATE_MODEL_POOL, {"name": "pool", **SERVER, "replicas": 2}, **GIVEN)
    traveller.do(endpoints.ASSIGN_MODEL_POOL, {"assignments": {"search": 1}}, **pool)
    traveller.do(endpoints.SCALE_MODEL_POOL, {"replicas": 3}, **pool)
    traveller.call(endpoints.LIST_MODEL_POOLS, **GIVEN)
    traveller.call(endpoints.GET_MODEL_POOL, **pool)
    traveller.do(endpoints.DELETE_MODEL_POOL, **pool)


def managed(traveller: Traveller) -> None:
    endpoint = {
        "name": "qwen",
        "source": {"type": "hugging-face", "model_id": SMALL},
        "worker": {
            "image": "vllm/vllm-openai:v0.11.0",
            "args": ["--model", "/opt/ml/model", "--served-model-name", "qwen"],
            "gpu_count": 1,
        },
        "instance_types": [GPUS],
    }
    traveller.do(endpoints.CREATE_ENDPOINT, endpoint, **GIVEN)
    traveller.do(endpoints.UPDATE_ENDPOINT, {**endpoint, "replicas": 2}, name="qwen", **GIVEN)
    traveller.call(endpoints.LIST_ENDPOINTS, **GIVEN)
    traveller.call(endpoints.GET_ENDPOINT, name="qwen", **GIVEN)
    traveller.do(endpoints.DELETE_ENDPOINT, name="qwen", **GIVEN)
