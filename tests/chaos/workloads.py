"""What runs on a cluster: models, training, Ray, experiments, and the features that they need."""

from __future__ import annotations

from random import Random
from typing import Any

from contracts.feature_catalogue import dependents, with_needs
from contracts.features import Feature
from sandbox.credentials import ACCOUNT
from tests.chaos.wishes import TYPE, Draft, Plan, deleting

COMMAND = "vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 8192"
LONG = 2000
"""Steps of a run that somebody stops before its end; it has one, for when nobody can."""
FEATURES = (
    *("metrics_server", "kuberay", "training_operator", "load_balancer_controller", "tiered_checkpointing"),
    *("fsx_csi", "container_insights", "keda", "autoscaling", "inference_operator"),
)


def _busy(plan: Plan) -> set[str]:
    """Features that something of the cluster uses."""
    used: set[str] = set()
    used |= {"kuberay"} if plan.rays or plan.trainings else set()
    used |= {"training_operator"} if plan.trainings else set()
    used |= {"keda", "metrics_server"} if plan.autoscalers else set()
    used |= {"autoscaling"} if plan.node_pools else set()
    used |= {"inference_operator"} if plan.endpoints else set()
    return used


def features(dice: Random, plan: Plan) -> Draft:
    """One or two are switched over."""
    return switched(plan, dice.sample(FEATURES, dice.randint(1, 2)), _busy(plan))


def switched(plan: Plan, chosen: list[str], on: set[str]) -> Draft:
    """Switch features over; those of ``on`` and what others need stay on."""
    body: dict[str, Any] = {}
    for name in chosen:
        needed = any(other.value in plan.features for other in dependents(Feature(name)))
        if name not in plan.features or name in on or needed:
            plan.features = plan.features | {each.value for each in with_needs([Feature(name)])}
            body[name] = {"enabled": True}
        else:
            plan.features = plan.features - {name}
            body[name] = {"enabled": False}
    return Draft("update-features", "PATCH", "/features", {**body, "enable_prerequisites": True})


def _server(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "command": COMMAND, "gpu_count": 1, **more}


def create_deployment(dice: Random, plan: Plan) -> Draft | None:
    if not plan.gpus_left:
        return None
    name = plan.name("chat")
    plan.deployments[name] = 1
    body = _server(name)
    return Draft("create-deployment", "POST", "/deployments", body, {**body, "env": {"OTHER": "1"}})


def scale_deployment(dice: Random, plan: Plan) -> Draft | None:
    free = sorted(set(plan.deployments) - plan.autoscalers)
    if not free or not plan.gpus_left:
        return None
    name = dice.choice(free)
    plan.deployments[name] += 1
    path = f"/deployments/{name}/scale"
    return Draft("scale-deployment", "POST", path, {"replicas": plan.deployments[name]})


def update_deployment(dice: Random, plan: Plan) -> Draft | None:
    free = sorted(set(plan.deployments) - plan.autoscalers)
    if not free:
        return None
    name = dice.choice(free)
    body = _server(name, replicas=plan.deployments[name], strategy="recreate", env={"TURN": str(plan.made)})
    plan.made += 1
    return Draft("update-deployment", "PUT", f"/deployments/{name}", body)


def delete_deployment(dice: Random, plan: Plan) -> Draft | None:
    free = sorted(set(plan.deployments) - plan.autoscalers)
    if not free:
        return None
    name = dice.choice(free)
    del plan.deployments[name]
    return Draft("delete-deployment", "DELETE", f"/deployments/{name}")


def create_pool(dice: Random, plan: Plan) -> Draft | None:
    if not plan.gpus_left:
        return None
    name = plan.name("pool")
    plan.pools[name] = 1
    return Draft("create-model-pool", "POST", "/model-pools", _server(name))


def scale_pool(dice: Random, plan: Plan) -> Draft | None:
    if not plan.pools or not plan.gpus_left:
        return None
    name = dice.choice(sorted(plan.pools))
    plan.pools[name] += 1
    return Draft("scale-model-pool", "POST", f"/model-pools/{name}/scale", {"replicas": plan.pools[name]})


def assign_pool(dice: Random, plan: Plan) -> Draft | None:
    if not plan.pools:
        return None
    name = dice.choice(sorted(plan.pools))
    wish = {"assignments": {f"{name}-search": dice.randint(0, 1)}}
    return Draft("assign-model-pool", "PUT", f"/model-pools/{name}/assignments", wish)


def _run(name: str, steps: int, **more: Any) -> dict[str, Any]:
    recipe = {"kind": "pytorch", "script_path": "/s3/code/train.py", "arguments": [f"--max-steps={steps}"]}
    image = "public.ecr.aws/tests/trainer:1.0"
    given = {"name": name, "recipe": recipe, "instance_types": [TYPE], "gpus_per_node": 1, "image": image}
    return {**given, "storage": [], **more}


def train(dice: Random, plan: Plan) -> Draft | None:
    """A run on HyperPod's training operator, which may report to a tracking server."""
    if "training_operator" not in plan.features or not plan.gpus_left:
        return None
    name = plan.name("tune")
    plan.trainings += 1
    told = {"tracking_server": plan.connected, "experiment": "tuning"}
    more = {"experiment": told} if plan.connected in plan.standing else {}
    return Draft("run-training", "POST", "/training-runs", _run(name, 120, **more))


def train_on_ray(dice: Random, plan: Plan) -> Draft | None:
    if "kuberay" not in plan.features or not plan.gpus_left:
        return None
    name = plan.name("grpo")
    plan.trainings += 1
    config = {
        "data.train_files": "/s3/datasets/gsm8k.parquet",
        "actor_rollout_ref.model.path": "/s3/models/qwen",
        "trainer.total_training_steps": 40,
        "trainer.save_freq": 20,
    }
    image = "registry.example.com/verl:ray2.52.0-cu128"
    body = _run(name, 0, recipe={"kind": "verl", "config": config}, image=image)
    del body["storage"]
    return Draft("run-training", "POST", "/training-runs", body)


def train_on_sagemaker(dice: Random, plan: Plan) -> Draft:
    """On instances of SageMaker's own, outside of the cluster."""
    image = f"{ACCOUNT}.dkr.ecr.{plan.region}.amazonaws.com/team/trainer:1.0"
    recipe = {"kind": "pytorch", "script_text": "print('step')\n", "arguments": ["--max-steps=20"]}
    body = _run(plan.name("lone"), 20, submission="sagemaker", image=image, recipe=recipe)
    del body["storage"]
    return Draft("run-training", "POST", "/training-runs", body)


def long_run(plan: Plan) -> tuple[str, Draft] | None:
    """The name of a run that somebody will have something to do with, and the run."""
    if "training_operator" not in plan.features or not plan.gpus_left:
        return None
    name = plan.name("long")
    plan.trainings += 1
    return name, Draft("run-training", "POST", "/training-runs", _run(name, LONG))


def to_run(name: str, verb: str) -> Draft:
    """``stop``, ``suspend`` or ``resume`` a run."""
    return Draft(f"{verb}-training", "POST", f"/training-runs/{name}/{verb}", {"reason": f"somebody wants to {verb}"})


def ray(dice: Random, plan: Plan) -> Draft | None:
    if "kuberay" not in plan.features or not plan.gpus_left:
        return None
    name = plan.name("ray")
    plan.rays.add(name)
    return Draft("create-ray-cluster", "POST", "/ray-clusters", {"name": name, "gpus_per_worker": 1, "storage": []})


def create_server(dice: Random, plan: Plan) -> Draft:
    name = f"{plan.tag}-{plan.name('mlflow')}"
    plan.servers.add(name)
    return Draft("create-tracking-server", "POST", "/tracking-servers", {"name": name})


def delete_server(dice: Random, plan: Plan) -> Draft | None:
    free = sorted(plan.servers - {plan.connected})
    if not free:
        return None
    name = dice.choice(free)
    plan.servers.discard(name)
    return Draft("delete-tracking-server", "DELETE", f"/tracking-servers/{name}")


def connect(dice: Random, plan: Plan) -> Draft | None:
    """Training may report to a tracking server."""
    free = sorted(plan.servers & plan.standing)
    if plan.connected is not None or not free:
        return None
    plan.connected = dice.choice(free)
    return Draft("connect-experiments", "POST", "/experiments/connections", {"tracking_server": plan.connected})


def disconnect(dice: Random, plan: Plan) -> Draft | None:
    if plan.connected is None or plan.connected not in plan.standing:
        return None
    plan.connected = None
    return Draft("disconnect-experiments", "DELETE", "/experiments/connections/default")


def create_router(dice: Random, plan: Plan) -> Draft | None:
    free = sorted(set(plan.deployments) & plan.standing)
    if not free:
        return None
    name = plan.name("front")
    plan.routers.add(name)
    body = {"name": name, "target": {"deployment": dice.choice(free)}}
    return Draft("create-router", "POST", "/routers", body, {**body, "policy": "random"})


def _endpoint(name: str, replicas: int) -> dict[str, Any]:
    worker = {
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "/opt/ml/model", "--served-model-name", name],
        "gpu_count": 1,
    }
    source = {"type": "hugging-face", "model_id": "Qwen/Qwen3-0.6B"}
    given = {"name": name, "source": source, "worker": worker, "instance_types": [TYPE]}
    return {**given, "replicas": replicas}


def create_endpoint(dice: Random, plan: Plan) -> Draft | None:
    if "inference_operator" not in plan.features or not plan.gpus_left:
        return None
    name = plan.name("qwen")
    plan.endpoints.add(name)
    body = _endpoint(name, 1)
    return Draft("create-endpoint", "POST", "/endpoints", body, {**body, "metrics": False})


def update_endpoint(dice: Random, plan: Plan) -> Draft | None:
    free = sorted(plan.endpoints & plan.standing)
    if not free:
        return None
    name = dice.choice(free)
    body = {**_endpoint(name, 1), "metrics": dice.random() < 0.5}
    return Draft("update-endpoint", "PUT", f"/endpoints/{name}", body)


def create_autoscaler(dice: Random, plan: Plan) -> Draft | None:
    free = sorted((set(plan.deployments) & plan.standing) - plan.autoscalers)
    if not {"keda", "metrics_server"} <= plan.features or not free:
        return None
    name = dice.choice(free)
    plan.autoscalers.add(name)
    triggers = [{"type": "cpu", "utilization": 50}]
    body = {"target": name, "min_replicas": 1, "max_replicas": plan.deployments[name], "triggers": triggers}
    return Draft("create-autoscaler", "POST", "/autoscalers", body)


delete_pool = deleting("delete-model-pool", "/model-pools", "pools")
delete_ray = deleting("delete-ray-cluster", "/ray-clusters", "rays")
delete_router = deleting("delete-router", "/routers", "routers")
delete_endpoint = deleting("delete-endpoint", "/endpoints", "endpoints")
delete_autoscaler = deleting("delete-autoscaler", "/autoscalers", "autoscalers")
