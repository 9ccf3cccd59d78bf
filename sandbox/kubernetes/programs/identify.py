"""Which program a container runs, by its command line or, where it leaves that to its image, by the image."""

from __future__ import annotations

import re

from sandbox.kubernetes.resources import Json

from . import monitoring, ray, routing, sglang, training, vllm
from .arguments import command_line, inside_shell
from .model import Program, Surroundings

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_VLLM_IMAGE = re.compile(r"(?:.*/)?vllm[-a-z0-9]*(?:[:@].*)?")
"""Their entry point is ``vllm serve``; https://hub.docker.com/r/vllm/vllm-openai"""
_LMI_IMAGE = re.compile(r".*(djl-inference|djl-serving|huggingface-vllm|-lmi).*")

_VLLM_API = "vllm.entrypoints.openai.api_server"


def _named(words: list[str]) -> bool:
    """Whether a command line names a program that is known here."""
    return _module(words) in (_VLLM_API, "sglang.launch_server", "sglang_router.launch_router") or (
        words[0].rsplit("/", 1)[-1] in ("vllm", "sglang", "sglang-router")
    )


def _module(words: list[str]) -> str:
    """X of ``python -m X``."""
    if len(words) > 2 and _PYTHON.fullmatch(words[0]) and "-m" in words[1:4]:
        after = words.index("-m") + 1
        return words[after] if after < len(words) else ""
    return ""


def identify(container: Json, around: Surroundings) -> Program | None:
    """The program of a container; None for one that just runs."""
    words, image = command_line(container, around.env), str(container.get("image", ""))
    if monitoring.IMAGE.fullmatch(image):
        return monitoring.serve(words)
    if (head := ray.head(container, around)) is not None:
        return head
    if not container.get("command"):
        if _VLLM_IMAGE.fullmatch(image):
            return vllm.serve(words, around)
        if _LMI_IMAGE.fullmatch(image):
            return vllm.lmi(around)
    if (trained := training.recognise(container, around)) is not None:
        return trained
    words = inside_shell(words, around.env, _named)
    if not words:
        return None
    rest = words[words.index("-m") + 2 :] if (module := _module(words)) else []
    match module or words[0].rsplit("/", 1)[-1], words[1:]:
        case "vllm", ["serve", *arguments]:
            return vllm.serve(list(arguments), around)
        case "vllm.entrypoints.openai.api_server", _:
            return vllm.serve(rest, around, "api_server.py")
        case "sglang.launch_server", _:
            return sglang.serve(rest, around)
        case "sglang", ["serve", *arguments]:
            return sglang.serve(list(arguments), around)
        case "sglang_router.launch_router", _:
            return routing.launch(rest, around)
        case "sglang-router", ["launch", *arguments]:
            return routing.launch(list(arguments), around)
    return None
