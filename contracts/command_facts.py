"""What the rules about commands see: the command taken apart, and what is known of the deployment around it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import Field

from contracts.command_flags import EngineFlags
from contracts.commands import Command, Finding, Option, Severity
from contracts.model import Model


class ModelShape(Model):
    """A model as its ``config.json`` and its files tell. Null: not told."""

    heads: int | None = None
    kv_heads: int | None = None
    layers: int | None = None
    head_size: int | None = None
    latent_size: int | None = None
    """Of a compressed cache (multi-head latent attention), values for each layer and token."""
    positions: int | None = None
    value_bytes: float = 2.0
    """Of one value of the cache."""
    weight_bytes: int | None = None


class NodeShape(Model):
    """A type of machine that a replica may run on."""

    instance_type: str
    gpus: int
    gpu_gib: float | None = None
    """Memory of one GPU."""


class LintFacts(Model):
    """What is known of the deployment around the command."""

    name: str = ""
    image: str = ""
    port: int | None = None
    gpu_count: int | None = None
    nodes: list[NodeShape] = Field(default_factory=list)
    """Empty: not known."""
    model: ModelShape | None = None
    mounts: dict[str, str] | None = None
    """Claim by mount path; null: not known."""
    environment: dict[str, str] = Field(default_factory=dict)
    credential: bool = False
    """The pod is given a Hugging Face token."""
    gated: bool | None = None
    """The model's owner admits only who has asked; null: not known."""
    service: bool = True
    """Others call it over the network."""


@dataclass
class Subject:
    """A command taken apart, with what is known around it."""

    command: Command
    facts: LintFacts
    flags: EngineFlags | None
    options: list[Option]
    positional: list[int]

    def value(self, *names: str) -> Option | None:
        """The last option of these names: the one that counts."""
        return next((each for each in reversed(self.options) if each.name in names), None)

    def number(self, *names: str) -> int | None:
        """A whole number that an option gives (``8k`` is 8000, ``8K`` 8192); None without one."""
        option = self.value(*names)
        return whole_number(option.value) if option is not None and option.value else None

    def finding(
        self,
        rule: str,
        severity: Severity,
        message: str,
        remedy: str | None = None,
        at: Option | int | None = None,
        pointer: str = "/command",
    ) -> Finding:
        index = at.index if isinstance(at, Option) else at
        text = self.command.words[index] if index is not None and rule != "secret" else None
        # With a shell, words are no words of argv.
        token = index if self.command.argv == self.command.words else None
        return Finding(
            rule=rule, severity=severity, message=message, remedy=remedy, token=token, text=text, field=pointer
        )


def whole_number(text: str) -> int | None:
    """As vLLM reads numbers: ``1k`` is 1000, ``1K`` is 1024. (vLLM: human readable integers)"""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text.strip())
    if found is None:
        return None
    factor = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}[found[2]]
    return int(float(found[1]) * factor)
