"""A training run as a form, but for its recipe: hardware, what keeps it alive, where it reports to, and the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from contracts.cluster import ClusterRecord
from contracts.deployment_parts import ServerResources
from contracts.experiments import ExperimentTarget
from contracts.ray_parts import RayOptions
from contracts.sagemaker_parts import SageMakerOptions
from contracts.training_parts import QueuePlace, Submission
from contracts.training_resilience import ElasticPolicy, LogRule, RecoveryBudget
from ui.fields import Entered, Fields
from ui.marks import labels_field, lines_field, pairs_field
from ui.mounts import mounts_field

_PATHS = {
    Submission.HYPERPOD.value: "HyperPod's training operator",
    Submission.RAY.value: "Ray, by KubeRay",
    Submission.SAGEMAKER.value: "A SageMaker training job, on instances of its own",
}


@dataclass(frozen=True)
class Known:
    """What the form's choices are."""

    instance_types: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)


def types_of(record: ClusterRecord, ready: list[str]) -> list[str]:
    """Instance types to choose from: of nodes that are ready, and of groups that may have none yet."""
    groups = record.hyperpod.groups if record.hyperpod is not None else []
    return list(dict.fromkeys([*ready, *(each.instance_type for each in groups)]))


def hardware_fields(fields: Fields, known: Known, submissions: list[str]) -> Entered:
    """What it is called, what it runs on, and who looks after it. GPUs are never told from anything else."""
    name, path = st.columns(2)
    with name:
        entered = fields.text("name", "Name", "e.g. qwen3-sft")
    with path:
        entered |= fields.choice(
            "submission",
            "Submitted by",
            submissions,
            described=lambda each: _PATHS.get(each, each),
            placeholder=_PATHS[submissions[0]],
        )
    kind, nodes, gpus, efa = st.columns([2.6, 1.7, 2.3, 1.9])
    with kind:
        chosen = fields.choice("instance_types", "Instance type", known.instance_types, placeholder="choose")
        entered |= {name: [value] for name, value in chosen.items()}
    with nodes:
        entered |= fields.number("nodes", "Nodes")
    with gpus:
        entered |= fields.number("gpus_per_node", "GPUs of each node", "how many")
    with efa:
        entered |= fields.number("efa_per_node", "EFA of each", "all")
    return entered


def own_options(fields: Fields, path: str) -> Entered:
    """What only the chosen way of submission has."""
    if path == Submission.RAY:
        return _part("ray", _ray(fields.within("ray", RayOptions)))
    if path == Submission.SAGEMAKER:
        return _part("sagemaker", _sagemaker(fields.within("sagemaker", SageMakerOptions)))
    return {}


def place_fields(fields: Fields, known: Known) -> Entered:
    """Where it reads, writes and reports."""
    left, right = st.columns(2)
    with left:
        entered = fields.text("checkpoint_path", "Checkpoints go to", "/s3/checkpoints/my-run")
        entered |= fields.choice("credential", "Hugging Face credential", known.credentials, placeholder="none")
    target = fields.within("experiment", ExperimentTarget)
    with right:
        reported = target.choice("tracking_server", "Reports to the tracking server", known.servers, placeholder="none")
        reported |= target.text("experiment", "Experiment", "where a server is chosen")
    return entered | _part("experiment", reported)


def resilience_fields(fields: Fields) -> Entered:
    """How often it is started again, what its log is watched for, and how it grows and shrinks."""
    st.markdown("**Budget of restarts**")
    budget = fields.within("recovery", RecoveryBudget)
    columns = st.columns(5)
    with columns[0]:
        recovery = budget.number("job_retries", "In all")
    with columns[1]:
        recovery |= budget.number("in_place_restarts", "In place")
    with columns[2]:
        recovery |= budget.number("full_restarts", "New pods")
    with columns[3]:
        recovery |= budget.number("window_seconds", "Within seconds")
    with columns[4]:
        recovery |= budget.choice("clean_pods", "Pods that go", ["All", "OnlyComplete", "None"])
    entered = _part("recovery", recovery)
    st.markdown("**Log monitoring**")
    entered |= _rules(fields)
    st.markdown("**Nodes that come and go**")
    elastic = fields.within("elastic", ElasticPolicy)
    bounds = st.columns(4)
    with bounds[0]:
        policy = elastic.number("min_nodes", "At least", "fixed")
    with bounds[1]:
        policy |= elastic.number("max_nodes", "At most", "fixed")
    with bounds[2]:
        policy |= elastic.number("step", "Step", "1")
    with bounds[3]:
        entered |= fields.number("spares", "Spare nodes")
    fields.faults.at("/elastic")
    entered |= _part("elastic", policy)
    st.markdown("**Queue and checkpoints**")
    place = fields.within("queue", QueuePlace)
    queue, priority = st.columns(2)
    with queue:
        queued = place.text("queue", "Local queue of task governance", "none")
        entered |= fields.switch("tiered_checkpointing", "Checkpoints in memory first")
    with priority:
        queued |= place.text("priority", "Priority class", "the lowest")
        entered |= fields.switch("checkpointless", "Recover without checkpoints")
    fields.faults.at("/queue")
    return entered | _part("queue", queued)


def _rules(fields: Fields) -> Entered:
    counter = f"{fields.key}/rule-count"
    count = int(st.session_state.setdefault(counter, 0))
    found = []
    for number in range(count):
        pointer = f"/log_monitoring/{number}"
        rule = Fields(LogRule, f"{fields.key}/rule/{number}", fields.faults, pointer, fields.disabled)
        with st.container(border=True):
            found.append(_rule(rule))
        fields.faults.at(pointer)
    with st.container(horizontal=True):
        for label, change in (("Another rule", 1), *([("One less", -1)] if count else [])):
            st.button(
                label,
                key=f"{fields.key}/rules/{change}",
                icon=":material/add:" if change > 0 else ":material/remove:",
                disabled=fields.disabled,
                on_click=lambda change=change: st.session_state.update({counter: count + change}),
            )
    return {"log_monitoring": found} if found else {}


def _rule(rule: Fields) -> Entered:
    left, right = st.columns([1, 3])
    with left:
        entered = rule.text("name", "Name", "hang")
    with right:
        entered |= rule.text("pattern", "Lines like", ".*loss: ([0-9.]+).*")
    columns = st.columns(5)
    for column, (name, label) in zip(
        columns[:2],
        (("start_within_seconds", "First within, s"), ("every_seconds", "Next within, s")),
        strict=True,
    ):
        with column:
            entered |= rule.number(name, label, "none")
    with columns[2]:
        entered |= rule.choice("operator", "Slow if", placeholder="none")
    with columns[3]:
        entered |= rule.number("metric_threshold", "Than", "none")
    with columns[4]:
        entered |= rule.number("data_points", "In a row")
    return entered


def more_fields(fields: Fields) -> Entered:
    """What is seldom chosen."""
    left, middle, right = st.columns(3)
    with left:
        entered = fields.text("namespace", "Namespace")
        entered |= fields.text("image", "Image", "the recipe's")
        entered |= mounts_field(fields)
        entered |= labels_field(fields)
    with middle:
        entered |= pairs_field(fields, "env", "Environment", "NCCL_DEBUG=WARN")
        entered |= pairs_field(fields, "secret_env", "Environment from credentials", "WANDB_API_KEY=my-credential")
        target = fields.within("experiment", ExperimentTarget)
        reported = target.text("run_name", "Name of the MLflow run", "MLflow makes one up")
        reported |= target.text("tracking_uri", "or an MLflow by its address", "http://mlflow.mlflow.svc:5000")
    with right:
        resources = fields.within("resources", ServerResources)
        asked = resources.decimal("cpu", "CPUs of each node", "by the GPUs")
        asked |= resources.decimal("memory_gib", "Memory of each, GiB", "by the GPUs")
        entered |= fields.number("shm_gib", "/dev/shm, GiB", "by the GPUs")
        entered |= fields.decimal("deadline_hours", "Ended after hours", "never")
        entered |= fields.switch("local_cache", "Caches on own disks")
        entered |= fields.switch("keep_logs", "Keep the logs")
    return entered | _part("experiment", reported) | _part("resources", asked)


def _ray(ray: Fields) -> Entered:
    columns = st.columns(4)
    with columns[0]:
        entered = ray.text("ray_version", "Ray's version", "as the image's tag tells")
    with columns[1]:
        entered |= ray.choice("head", "The head")
    if entered.get("head") == "apart":
        with columns[2]:
            entered |= ray.decimal("head_cpu", "CPUs of the head")
        with columns[3]:
            entered |= ray.decimal("head_memory_gib", "Memory of the head, GiB")
    return entered | ray.number("linger_seconds", "Seconds that it stays when its job has ended")


def _sagemaker(options: Fields) -> Entered:
    left, right = st.columns(2)
    with left:
        entered = lines_field(options, "inputs", "Folders that it reads", "/s3/datasets/alpaca")
        entered |= options.switch("fast_file", "Read files when they are opened")
        entered |= options.switch("spot", "On spot capacity")
    with right:
        entered |= options.number("volume_gib", "Volume of each instance, GiB")
        entered |= options.number("keep_alive_minutes", "Minutes that instances are kept")
        if entered.get("spot"):
            entered |= options.decimal("max_wait_hours", "Hours to wait at most", "twice as long as it may run")
    return entered


def _part(name: str, entered: Entered) -> Entered:
    return {name: entered} if entered else {}
