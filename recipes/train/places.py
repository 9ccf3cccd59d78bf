"""Which node of the job this one is.

SageMaker training jobs write it to resourceconfig.json, and their toolkit to SM_HOSTS and SM_CURRENT_HOST. HyperPod's
operator tells the agent itself, and Ray's head has no other nodes to care about.
(SageMaker Developer Guide: Distributed training configuration; sagemaker-training-toolkit: environment variables)
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from endings import MISSING_FILE, Stop

RESOURCES = "/opt/ml/input/config/resourceconfig.json"


@dataclass(frozen=True)
class Place:
    """This node's, among all. ``environment``: what follows from it for the program."""

    rank: int = 0
    nodes: int = 1
    master: str = "127.0.0.1"
    environment: dict[str, str] = field(default_factory=dict)


def place(environment: dict[str, str], nodes: int) -> Place:
    """Raises Stop where a training job's own description cannot be read."""
    resources = environment.get("RESOURCE_CONFIG", RESOURCES)
    if os.path.isfile(resources):
        return _of_training_job(_read(resources), environment)
    if environment.get("SM_HOSTS") and environment.get("SM_CURRENT_HOST"):
        told = {"hosts": json.loads(environment["SM_HOSTS"]), "current_host": environment["SM_CURRENT_HOST"]}
        return _of_training_job({**told, "network_interface_name": environment.get("SM_NETWORK_INTERFACE_NAME")}, {})
    return Place(nodes=nodes)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as error:
        raise Stop(MISSING_FILE, f"{path} cannot be read: {error}") from None
    return found


def _of_training_job(told: dict[str, Any], environment: dict[str, str]) -> Place:
    # Every node must come to the same order. Names are algo-1 to algo-N, so the shorter come first.
    hosts = sorted(map(str, told.get("hosts") or []), key=lambda host: (len(host), host))
    current = str(told.get("current_host") or environment.get("SM_CURRENT_HOST") or "")
    if current not in hosts:
        raise Stop(MISSING_FILE, f"this node, {current or 'without a name'}, is none of the job's: {', '.join(hosts)}")
    interface = told.get("network_interface_name")
    more = {"NCCL_SOCKET_IFNAME": str(interface)} if interface else {}
    return Place(hosts.index(current), len(hosts), hosts[0], more)
