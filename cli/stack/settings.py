"""What can be chosen about a local stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cli.stack.folder import DataFolder
from cli.stack.ports import HOST, free_port, holder, is_free


@dataclass(frozen=True)
class Port:
    """A port that a service listens on, and how to choose another."""

    setting: str
    """Field of ``Ports``."""
    number: int
    wanted_by: str

    @property
    def option(self) -> str:
        return f"--{self.setting.replace('_', '-')}-port"

    @property
    def variable(self) -> str:
        return f"INSTANTSTART_{self.setting.upper()}_PORT"


WANTED_BY = {
    "gateway": "the gateway",
    "temporal": "Temporal",
    "temporal_ui": "Temporal's Web UI",
    "sandbox": "the sandbox's AWS APIs",
    "kubernetes": "the sandbox's Kubernetes API",
}


@dataclass(frozen=True)
class Ports:
    gateway: int = 3099
    temporal: int = 7233
    temporal_ui: int = 8233
    sandbox: int = 5566
    kubernetes: int = 5567

    def each(self) -> Iterator[Port]:
        for setting, wanted_by in WANTED_BY.items():
            yield Port(setting, getattr(self, setting), wanted_by)

    def taken(self) -> list[Port]:
        """The ports that another process listens on."""
        return [port for port in self.each() if not is_free(port.number)]

    def moved(self) -> Ports:
        """These ports, with a free one for each that is taken."""
        return replace(self, **{port.setting: free_port() for port in self.taken()})


@dataclass(frozen=True)
class StackSettings:
    folder: DataFolder
    ports: Ports = field(default_factory=Ports)
    speed: float = 30.0
    """Sandbox seconds in a real second."""
    region: str = "us-west-2"

    @property
    def gateway_url(self) -> str:
        return f"http://{HOST}:{self.ports.gateway}"

    @property
    def temporal_ui_url(self) -> str:
        return f"http://{HOST}:{self.ports.temporal_ui}"

    @property
    def sandbox_url(self) -> str:
        return f"http://{HOST}:{self.ports.sandbox}"


def taken_message(ports: list[Port]) -> str:
    """What to tell a person about ports that are taken."""
    lines = []
    for port in ports:
        by = holder(port.number)
        lines.append(f"port {port.number}, wanted by {port.wanted_by}, is taken" + (f" by {by}" if by else ""))
    first = ports[0]
    lines.append(f"Stop what holds it, or choose another port ({first.option} or {first.variable}).")
    lines.append("Nothing was started.")
    return "\n".join(lines)
