"""Training programs: what a command line, variables and mounted files say of how long a training runs.

Known are the launchers torchrun, hyperpodrun, accelerate and deepspeed, and the command lines of LLaMA-Factory,
MS-Swift (also with Megatron), torchtitan and VERL. A pod of a HyperPodPyTorchJob trains whatever it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandbox.kubernetes.resources import Json

from .arguments import command_line
from .model import TRAINING, Program, Surroundings

PYTORCH, LLAMA_FACTORY, SWIFT, MEGATRON, TORCHTITAN, VERL = (
    *("pytorch", "llama-factory", "swift"),
    *("megatron", "torchtitan", "verl"),
)
JOB_LABEL = "training.sagemaker.amazonaws.com/job-name"
STEPS, STEP_SECONDS = 100, 3.0
"""Of a training that says nothing: it takes some five minutes."""
RAY_SUBMIT = re.compile(r"\bray\s+job\s+submit\b")

# By what names a tool in a command line, a variable or the name of a file; the first that is found.
_TOOLS = (
    (MEGATRON, re.compile(r"\bmegatron\s+(pt|sft|rlhf)\b|swift[./]cli[./]_megatron|\bswift-megatron\b")),
    (SWIFT, re.compile(r"\bswift\s+(pt|sft|rlhf)\b|swift[./]cli\b|\bms[-_]swift\b")),
    (LLAMA_FACTORY, re.compile(r"llamafactory|llama[-_]factory", re.IGNORECASE)),
    (TORCHTITAN, re.compile(r"\btorchtitan\b")),
    (VERL, re.compile(r"\bverl\b")),
)
_LAUNCHERS = re.compile(
    r"\b(torchrun|hyperpodrun|deepspeed|accelerate\s+launch|torch\.distributed\.(run|launch)|llamafactory-cli)\b"
)
_DRIVER = re.compile(r"\bverl\.trainer\b|\bmain_ppo\b")

_STEPS = r"max[-_]steps|training[-_.]steps|total[-_]training[-_]steps|train[-_]iters|num[-_]steps|steps"
_EVERY = r"save[-_]steps|save[-_]interval|save[-_]freq|checkpoint[-_.](?:interval|every|steps)|checkpoint[-_]freq"
_LOGGED = r"logging[-_]steps|log[-_](?:every|freq|interval)"
_FOLDER = r"output[-_]dir|checkpoint[-_](?:dir|path)|checkpoint\.folder|save|default_local_dir"
_PROCESSES = r"nproc[-_]per[-_]node|num_processes|processes"


@dataclass(frozen=True)
class Trainer:
    """A training as far as it can be seen from outside."""

    tool: str
    steps: int
    step_seconds: float
    checkpoint_every: int
    checkpoints: str
    """Where they are written."""
    log_every: int
    processes: int
    """Of each node."""
    agent: bool
    """Whether HyperPod's elastic agent looks after the processes."""
    noise: float = 0.0
    """Further lines in a sandbox second, by the annotation ``sandbox/log-rate``."""


def recognise(container: Json, around: Surroundings) -> Program | None:
    """The training that a container runs, if it runs one."""
    words = " ".join(command_line(container, around.env))
    hints = "\n".join((words, *(f"{k}={v}" for k, v in around.env.items()), str(container.get("image", ""))))
    operated = JOB_LABEL in around.labels
    driver = RAY_SUBMIT.search(words) is not None
    if around.labels.get("ray.io/node-type"):
        # A node of a Ray cluster: what it works for is printed where that was submitted.
        return None
    launched = _LAUNCHERS.search(words) or _DRIVER.search(words) or _tool_in(words)
    if not (operated or driver or launched):
        return None
    source = "\n".join((words, *(f"{k.lower()}={v}" for k, v in around.env.items()), *around.files))
    steps = max(1, int(_number(_STEPS, source) or STEPS))
    every = int(_number(_EVERY, source) or max(1, steps // 5))
    processes = int(_number(_PROCESSES, source) or around.gpus or 1)
    seconds = _float(around.annotations.get("sandbox/step-seconds"), STEP_SECONDS)
    trainer = Trainer(
        tool=_tool_in(hints) or _tool_in("\n".join(around.files)) or PYTORCH,
        steps=steps,
        step_seconds=max(seconds, 0.01),
        checkpoint_every=max(1, every),
        checkpoints=_text(_FOLDER, source) or "checkpoints",
        log_every=max(1, int(_number(_LOGGED, source) or 1)),
        processes=max(1, processes),
        agent=operated,
        noise=_float(around.annotations.get("sandbox/log-rate"), 0.0),
    )
    return Program(TRAINING, trainer=trainer)


def _tool_in(text: str) -> str:
    return next((tool for tool, pattern in _TOOLS if pattern.search(text)), "")


def _found(names: str, text: str, value: str) -> str:
    """The value of the last option, assignment or member of one of these names."""
    pattern = rf"(?m)(?:^|[\s\"'.{{,(-])(?:{names})[\"']?\s*(?:=|:|\s)\s*[\"']?({value})"
    found = re.findall(pattern, text)
    return str(found[0]) if found else ""


def _number(names: str, text: str) -> float:
    found = _found(names, text, r"\d+(?:\.\d+)?(?![\w%])")
    return float(found) if found else 0.0


def _text(names: str, text: str) -> str:
    return _found(names, text, r"[/\w][^\s\"',}]*").rstrip("/")


def _float(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default
