"""A program as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .training import Trainer

VLLM, SGLANG, ROUTER, LMI, PROMETHEUS = "vllm", "sglang", "sglang-router", "lmi", "prometheus"
TRAINING, RAY = "training", "ray"

Line = tuple[float, str]
"""Seconds after the start, and what is printed then; ``{at}`` and ``{date}`` become the time."""


@dataclass(frozen=True)
class Surroundings:
    """What a container finds where it runs."""

    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """Paths at which something that can hold a model is mounted."""
    gpus: int = 0
    """Accelerators that the container sees."""
    namespace: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    """Of the pod; so are the annotations."""
    annotations: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """What is in the ConfigMaps that are mounted."""


@dataclass(frozen=True)
class Exit:
    """The end of a program by itself."""

    after: float
    code: int
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discovery:
    """Where a router finds its workers: the pods of a selector, or fixed addresses."""

    selector: str = ""
    namespace: str | None = None
    port: int = 80
    urls: tuple[str, ...] = ()
    policy: str = "cache_aware"


@dataclass(frozen=True)
class Server:
    """What answers once a program is loaded."""

    engine: str
    port: int
    reachable: bool = True
    """False where it listens on the pod's loopback interface only."""
    model: str = ""
    names: tuple[str, ...] = ()
    """What clients call the model."""
    context: int = 32_768
    """Tokens of prompt and answer together."""
    keyed: bool = False
    """Whether clients must show a key."""
    metrics: bool = True
    metrics_port: int | None = None
    """A port of its own for metrics, as the router has."""
    discovery: Discovery | None = None


@dataclass(frozen=True)
class Program:
    """One start of a container."""

    engine: str
    lines: tuple[Line, ...] = ()
    loads: float = 0.0
    """Sandbox seconds until the server answers."""
    server: Server | None = None
    exit: Exit | None = None
    trainer: Trainer | None = None
