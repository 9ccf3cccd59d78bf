"""Training: runs of every path and every end, Ray clusters, experiments, presets."""

from __future__ import annotations

from typing import Any

from botocore.credentials import Credentials

from activities.experiments.copying import batches
from activities.experiments.tracking import Tracking
from contracts import endpoints
from contracts.operation import Phase
from sandbox import credentials
from tests.tour.founding import GPUS, TAG
from tests.tour.storage import WANDB
from tests.tour.traveller import Traveller

GIVEN = {"tag": TAG}
LONG = 1_000_000
SCRIPT = "print('step')\n"
POINTS = 30


def run(name: str, steps: int, **more: Any) -> dict[str, Any]:
    recipe = {"kind": "pytorch", "script_text": SCRIPT, "arguments": [f"--max-steps={steps}"]}
    return {"name": name, "recipe": recipe, "instance_types": [GPUS], "gpus_per_node": 1, **more}


def runs(traveller: Traveller) -> None:
    """One that ends well, one that fails and is corrected."""
    traveller.do(endpoints.RUN_TRAINING, run("short", 40, secret_env={"WANDB_API_KEY": WANDB}), **GIVEN)
    crash = {"fault": "crash", "cause": "cuda_oom", "deployment": "greedy", "step": 20, "times": 1}
    traveller.stack.sandbox.post("/kubernetes/pods", json={"add": [crash]}).raise_for_status()
    greedy = traveller.ask(endpoints.RUN_TRAINING, run("greedy", 40, recovery={"job_retries": 0}), **GIVEN)
    traveller.blocked(greedy, "run")
    correction = {"env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}
    traveller.resolve(endpoints.RETRY_OPERATION, greedy, {"corrections": correction})
    traveller.done(greedy, "corrected")


def interrupted(traveller: Traveller) -> None:
    """Runs that would go on for ever: stopped after a suspension, aborted, cancelled in Temporal."""
    long = traveller.ask(endpoints.RUN_TRAINING, run("long", LONG), **GIVEN)
    traveller.until_detail(long, "run", "step")
    traveller.call(endpoints.LIST_TRAINING_RUNS, **GIVEN)
    traveller.call(endpoints.GET_TRAINING_RUN, name="long", **GIVEN)
    traveller.call(endpoints.READ_TRAINING_LOG, name="long", tail=5, **GIVEN)
    watched = traveller.gateway.stream(endpoints.WATCH_TRAINING_LOG, name="long", **GIVEN)
    told = (event for event in watched if event.name == "lines")
    next(told)
    next(told)  # the first are a page of what was there; now somebody follows
    watched.close()
    traveller.do(endpoints.SUSPEND_TRAINING, {"reason": "makes room"}, name="long", **GIVEN)
    traveller.do(endpoints.RESUME_TRAINING, {}, name="long", **GIVEN)
    traveller.do(endpoints.STOP_TRAINING, {"reason": "it has diverged"}, name="long", **GIVEN)
    traveller.ended(long, Phase.ABORTED, "stopped")

    unwanted = traveller.ask(endpoints.RUN_TRAINING, run("unwanted", LONG), **GIVEN)
    traveller.until_detail(unwanted, "run", "step")
    traveller.call(endpoints.ABORT_OPERATION, {"reason": "a mistake"}, id=unwanted)
    traveller.ended(unwanted, Phase.ABORTED, "aborted")

    cut = traveller.ask(endpoints.RUN_TRAINING, run("cut", LONG), **GIVEN)
    traveller.until_detail(cut, "run", "step")
    traveller.at(cut, lambda operation: operation.cancel())
    traveller.ended(cut, Phase.ABORTED, "cancelled")


def other_paths(traveller: Traveller) -> None:
    """The other two ways in which a run gets its pods, and a Ray cluster for people."""
    config = {
        "data.train_files": "/s3/datasets/gsm8k.parquet",
        "actor_rollout_ref.model.path": "/s3/models/qwen",
        "trainer.total_training_steps": 40,
        "trainer.save_freq": 20,
    }
    grpo = run("grpo", 0, recipe={"kind": "verl", "config": config}, image="registry.example.com/verl:ray2.52.0-cu128")
    traveller.do(endpoints.RUN_TRAINING, grpo, path="ray", **GIVEN)
    image = f"{credentials.ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/team/trainer:1.0"
    traveller.do(
        endpoints.RUN_TRAINING, run("lone", 20, submission="sagemaker", image=image), path="sagemaker", **GIVEN
    )
    notebooks = {"name": "notebooks", "gpus_per_worker": 1, "instance_types": [GPUS]}
    traveller.do(endpoints.CREATE_RAY_CLUSTER, notebooks, **GIVEN)
    traveller.call(endpoints.LIST_RAY_CLUSTERS, **GIVEN)
    traveller.call(endpoints.GET_RAY_CLUSTER, name="notebooks", **GIVEN)
    traveller.do(endpoints.DELETE_RAY_CLUSTER, name="notebooks", **GIVEN)


def experiments(traveller: Traveller) -> None:
    """Two tracking servers: one that runs report to, and one that gets a copy."""
    arns = [
        str((traveller.do(endpoints.CREATE_TRACKING_SERVER, {"name": name}, **GIVEN).result or {})["arn"])
        for name in ("research", "copy")
    ]
    research = {"tracking_server": "research"}
    traveller.call(endpoints.LIST_TRACKING_SERVERS, **GIVEN)
    traveller.call(endpoints.GET_TRACKING_SERVER, name="research", **GIVEN)
    traveller.call(endpoints.OPEN_TRACKING_SERVER, name="research", **GIVEN)
    traveller.do(endpoints.CONNECT_EXPERIMENTS, research, **GIVEN)
    traveller.call(endpoints.TEST_EXPERIMENTS, {**research, "namespace": "default"}, **GIVEN)
    reports = {"experiment": {**research, "experiment": "qwen"}}
    traveller.do(endpoints.RUN_TRAINING, run("told", 20, **reports), path="reporting", **GIVEN)

    fill(traveller, arns[0])
    traveller.call(endpoints.LIST_EXPERIMENTS, **research, **GIVEN)
    found = traveller.call(endpoints.SEARCH_RUNS, **research, experiment=["qwen"], **GIVEN).runs
    ids = [each.run_id for each in found]
    traveller.call(endpoints.GET_RUN, **research, run_id=ids[0], **GIVEN)
    traveller.call(endpoints.COMPARE_RUNS, **research, run=ids, **GIVEN)
    copying = {"source": "research", "experiment": "qwen", "destination": arns[1]}
    traveller.do(endpoints.SYNC_EXPERIMENTS, copying, **GIVEN)
    traveller.do(endpoints.DISCONNECT_EXPERIMENTS, namespace="default", **GIVEN)
    for name in ("research", "copy"):
        traveller.do(endpoints.DELETE_TRACKING_SERVER, name=name, **GIVEN)


def fill(traveller: Traveller, arn: str) -> None:
    """Two runs, as training reports them."""
    keys = Credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)
    with Tracking(arn, traveller.stack.settings.sandbox_url, lambda: keys) as tracking:
        experiment = tracking.post("experiments/create", name="qwen")["experiment_id"]
        for number in range(2):
            begun = tracking.post("runs/create", experiment_id=experiment, start_time=1000 + number)
            run_id = begun["run"]["info"]["run_id"]
            points = ({"key": "loss", "value": 1 / (n + 1), "timestamp": n, "step": n} for n in range(POINTS))
            for batch in batches(points, 1000):
                tracking.post("runs/log-batch", run_id=run_id, metrics=batch)
            tracking.post("runs/update", run_id=run_id, status="FINISHED", end_time=9000)


def presets(traveller: Traveller) -> None:
    """A preset that gets a second version, and goes."""
    document = run("", 100)
    del document["name"]
    for comment, nodes in (("the first", 1), ("more nodes", 2)):
        wish = {"document": {**document, "nodes": nodes}, "comment": comment}
        traveller.call(endpoints.SAVE_PRESET, wish, name="sft")
    traveller.call(endpoints.GET_PRESET, name="sft", version=1)
    traveller.call(endpoints.DELETE_PRESET, name="sft")
