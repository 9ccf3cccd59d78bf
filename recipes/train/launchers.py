"""The command line of each launcher.

hyperpodrun is torchrun with a server that HyperPod's training operator steers it by; operator and agent part the work
of finding each other, so no rendezvous is given. (hyperpod-elastic-agent 1.1: hyperpod_elastic_agent/run.py)
torchrun meets at the first node. (torch.distributed.run)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from places import Place

PORT = 29500
"""Where torchrun's nodes meet."""
AGENT_LOGS = "/tmp/hyperpod"
"""Where hyperpodrun keeps each process's output besides printing it: the operator's log monitoring reads it there."""


@dataclass(frozen=True)
class Asked:
    """What the job's specification says."""

    launcher: str
    nodes: int
    processes: int
    """On each node."""


def command(asked: Asked, place: Place, program: list[str], environment: dict[str, str]) -> list[str]:
    """Every word of what takes this script's place. ``program`` is a script's path, or ``-m`` and a module, with its
    arguments."""
    if asked.launcher == "none":
        return [sys.executable, *program]
    if asked.launcher == "hyperpodrun":
        return [
            "hyperpodrun",
            f"--server-host={environment.get('AGENT_HOST') or '0.0.0.0'}",
            f"--server-port={environment.get('AGENT_PORT') or '8080'}",
            "--tee=3",
            f"--log_dir={AGENT_LOGS}",
            f"--nnodes={_count(environment.get('NNODES'), asked.nodes)}",
            f"--nproc-per-node={_count(environment.get('NPROC_PER_NODE'), asked.processes)}",
            *program,
        ]
    return [
        "torchrun",
        f"--nnodes={place.nodes}",
        f"--node-rank={place.rank}",
        f"--nproc-per-node={asked.processes}",
        f"--master-addr={place.master}",
        f"--master-port={PORT}",
        *program,
    ]


def _count(told: str | None, asked: int) -> int:
    """What the operator tells the container, where it does: an elastic job has other numbers than were asked."""
    return int(told) if told and told.isdigit() and int(told) else asked
