"""KubeRay's custom resources, and what every pod of a Ray cluster has.

https://ray-project.github.io/kuberay/reference/api/ (ray.io/v1); https://docs.ray.io/en/latest/cluster/kubernetes/
"""

from __future__ import annotations

import math
from typing import Any

from activities.custom import Kind
from contracts.ray_parts import DASHBOARD_PORT

Manifest = dict[str, Any]

GROUP, VERSION = "ray.io", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
RAY_CLUSTER = Kind(GROUP, VERSION, "RayCluster", "rayclusters")
RAY_JOB = Kind(GROUP, VERSION, "RayJob", "rayjobs")
LABEL_NODE_TYPE = "ray.io/node-type"
"""KubeRay's on pods: ``head`` or ``worker``."""
LABEL_CLUSTER_OF = "ray.io/cluster"
"""KubeRay's on pods: their RayCluster's name."""
WORKERS = "workers"
"""The one group of workers."""
HEAD_PORTS = (("gcs-server", 6379), ("dashboard", DASHBOARD_PORT), ("client", 10_001))
"""By these names KubeRay finds them. (KubeRay: config/samples/ray-cluster.sample.yaml)"""


def head_group(template: Manifest, cpus: float, gpus: int) -> Manifest:
    """``template`` is the head's pod. ``cpus``: what Ray may hand out of it; 0: nothing is scheduled there."""
    return {
        # Nobody is asked who they are: the head is reached inside the cluster only.
        "serviceType": "ClusterIP",
        "enableIngress": False,
        "rayStartParams": {"dashboard-host": "0.0.0.0", **start_params(cpus, gpus)},
        "template": template,
    }


def worker_groups(template: Manifest, number: int, cpus: float, gpus: int) -> list[Manifest]:
    """As many workers as asked, no more and no fewer; no group where there are none."""
    if not number:
        return []
    return [
        {
            "groupName": WORKERS,
            "replicas": number,
            "minReplicas": number,
            "maxReplicas": number,
            "rayStartParams": start_params(cpus, gpus),
            "template": template,
        }
    ]


def start_params(cpus: float, gpus: int) -> dict[str, str]:
    """What Ray may hand out of a pod: said, and not left to be told from its limits, which name no CPUs."""
    return {"num-cpus": str(math.floor(cpus)), "num-gpus": str(gpus)}


def head_container_ports() -> list[Manifest]:
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in HEAD_PORTS]


def is_head(pod: Manifest) -> bool:
    return (pod["metadata"].get("labels") or {}).get(LABEL_NODE_TYPE) == "head"
