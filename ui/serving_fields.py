"""A model server as a form, empty or as one is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from contracts.commands import Engine
from contracts.deployment_parts import ServerResources, Verification
from contracts.deployments import DeploymentSpec
from ui.fields import Entered, Fields
from ui.marks import labels_field, labels_text, pairs_field
from ui.mounts import mounts_field, mounts_text

_PLAIN = (
    *("name", "namespace", "command", "shell", "engine", "image", "gpu_count", "replicas", "instance_types", "service"),
    *("public", "confirm_public", "port", "credential", "shm_gib", "efa", "startup_timeout_minutes", "grace_seconds"),
    *("strategy", "served_model"),
)
_PAIRS = ("env", "secret_env", "labels")
_PARTS = ("resources", "verify")


@dataclass(frozen=True)
class Known:
    """What the form's choices are."""

    instance_types: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


_WORDS = {
    "in_cluster": "the cluster alone",
    "public": "a load balancer, too",
    "none": "nobody, but by a pool or router",
    "internal": "of the VPC",
    "internet-facing": "of the internet",
}


def _in_words(value: str) -> str:
    """A choice of who reaches a server, as people say it."""
    return _WORDS.get(value, value)


def command_field(fields: Fields) -> Entered:
    """What it is started with."""
    return fields.area("command", "Command", "vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 8192", 140)


def size_fields(fields: Fields, known: Known) -> Entered:
    """What it is called and takes. GPUs are never told from the command."""
    name, gpus, replicas = st.columns([3, 2, 2])
    with name:
        entered = fields.text("name", "Name", "e.g. qwen3-chat")
    with gpus:
        entered |= fields.number("gpu_count", "GPUs of one replica", "say how many")
    with replicas:
        entered |= fields.number("replicas", "Replicas")
    types, credential = st.columns(2)
    with types:
        entered |= fields.choices("instance_types", "Instance types", known.instance_types, placeholder="any")
    with credential:
        entered |= fields.choice("credential", "Hugging Face credential", known.credentials, placeholder="none")
    return entered | reach_fields(fields)


def reach_fields(fields: Fields) -> Entered:
    """Who reaches it, and where; of what has its own Services, the port alone."""
    service, port, public = st.columns([2, 1, 2])
    with port:
        entered = fields.number("port", "Port")
    if not fields.chooses("service"):
        return entered
    with service:
        entered |= fields.choice("service", "Reached by", described=_in_words)
    if entered.get("service") == "public":
        with public:
            entered |= fields.choice("public", "Load balancer", described=_in_words)
        if entered.get("public") == "internet-facing":
            entered |= fields.switch("confirm_public", "Everybody on the internet may call it")
    return entered


def more_fields(fields: Fields) -> Entered:
    """What is seldom chosen."""
    left, middle, right = st.columns(3)
    with left:
        entered = fields.text("namespace", "Namespace")
        entered |= fields.text("image", "Image", "the engine's, of a pinned version")
        entered |= fields.choice("engine", "Engine", [each.value for each in Engine], placeholder="as the command says")
        entered |= fields.choice("shell", "Signs of a shell in the command", placeholder="there must be none")
        entered |= fields.text("served_model", "Name of the model", "whatever the server says")
        entered |= fields.choice("strategy", "An update is")
    with middle:
        entered |= pairs_field(fields, "env", "Environment", "LOG_LEVEL=info")
        entered |= pairs_field(fields, "secret_env", "Environment from credentials", "API_KEY=my-credential")
        entered |= mounts_field(fields)
        entered |= labels_field(fields)
    with right:
        entered |= _resources(fields.within("resources", ServerResources))
        entered |= fields.number("shm_gib", "/dev/shm, GiB", "by the GPUs")
        entered |= fields.number("efa", "EFA interfaces")
        entered |= fields.number("startup_timeout_minutes", "Minutes to load", "by the model's size")
        entered |= fields.number("grace_seconds", "Seconds to end")
        entered |= _verification(fields.within("verify", Verification))
    return entered


def _resources(fields: Fields) -> Entered:
    entered = fields.decimal("cpu", "CPUs", "by the GPUs")
    entered |= fields.decimal("memory_gib", "Memory, GiB", "by the GPUs")
    return {"resources": entered} if entered else {}


def _verification(fields: Fields) -> Entered:
    entered = fields.choice("kind", "It works when")
    if entered.get("kind") == "http":
        entered |= fields.text("path", "This path answers")
    if entered.get("kind") == "none":
        entered |= fields.text("reason", "Nobody looks, because")
    return {"verify": entered} if entered else {}


def filled_in(form: str, spec: DeploymentSpec) -> None:
    """Let the fields of a form that nobody has touched yet say what ``spec`` says."""
    given = spec.model_dump(mode="json", exclude_defaults=True)
    if spec.argv is not None:
        given["command"] = shlex.join(spec.argv)
    values: dict[str, Any] = {name: given[name] for name in _PLAIN if name in given}
    values |= {name: labels_text(given[name]) for name in _PAIRS if name in given}
    for part in _PARTS:
        values |= {f"{part}/{name}": value for name, value in (given.get(part) or {}).items()}
    if spec.storage is not None:
        values |= {"storage": mounts_text(spec.storage), "no-storage": not spec.storage}
    for name, value in values.items():
        st.session_state.setdefault(f"{form}/{name}", value)
