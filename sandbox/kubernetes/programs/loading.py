"""What the engines have in common while they load a model."""

from __future__ import annotations

from .model import Surroundings
from .models import Model

LOAD_BEGIN, LOAD_END = 0.2, 0.7
"""The shares of the whole start between which the weights are read."""

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"""


def source_problem(model: Model, around: Surroundings) -> tuple[str, ...]:
    """Why the weights cannot be had: a folder that is not there, a repository that is closed or absent."""
    name = model.name
    if name.startswith(("/", "./", "s3://", "~")):
        if any(name == path or name.startswith(path.rstrip("/") + "/") for path in around.mounts):
            return ()
        return (
            f"ValueError: Invalid repository ID or local directory specified: '{name}'.",
            "Please verify the following requirements:",
            "1. Provide a valid Hugging Face repository ID.",
            "2. Specify a local directory that contains a recognized configuration file.",
        )
    page = f"https://huggingface.co/{name}"
    if model.absent or name.count("/") > 1:
        return (
            f"OSError: {name} is not a local folder and is not a valid model identifier listed on "
            "'https://huggingface.co/models'",
            f"404 Client Error. Repository Not Found for url: {page}/resolve/main/config.json.",
        )
    if model.gated and not any(around.env.get(variable) for variable in TOKENS):
        return (
            "OSError: You are trying to access a gated repo.",
            f"Make sure to have access to it at {page}.",
            "401 Client Error.",
            f"Cannot access gated repo for url {page}/resolve/main/config.json.",
            f"Access to model {name} is restricted. You must have access to it and be authenticated to access it. "
            "Please log in.",
        )
    return ()


def shard_lines(shards: int, seconds: float) -> list[tuple[float, str]]:
    """The progress of reading the weights: share of the whole start, and what is printed. At most five lines."""
    steps = sorted({round(shards * quarter / 4) for quarter in range(5)})
    return [
        (
            LOAD_BEGIN + (LOAD_END - LOAD_BEGIN) * done / shards,
            f"Loading safetensors checkpoint shards: {done * 100 // shards:3d}% Completed | {done}/{shards} "
            f"[{_minutes(seconds * done / shards)}<{_minutes(seconds * (shards - done) / shards)}]",
        )
        for done in steps
    ]


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
