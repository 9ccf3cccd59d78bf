"""What runs on Ray have of their own, and which version of Ray an image has.

KubeRay: https://ray-project.github.io/kuberay/reference/api/ (ray.io/v1); Ray on Kubernetes:
https://docs.ray.io/en/latest/cluster/kubernetes/index.html
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from contracts.model import Model

DASHBOARD_PORT = 8265
"""Of a Ray cluster's head: its dashboard, and the API of its jobs, which ask nobody who they are."""

RayVersion = Annotated[str, Field(pattern=r"^\d{1,2}\.\d{1,3}\.\d{1,3}$", examples=["2.52.0"])]

_RAY_IMAGE = re.compile(r"(?:^|/)ray(?:-ml|-llm)?:(\d{1,2}\.\d{1,3}\.\d{1,3})(?![\d.])")
_RAY_TAG = re.compile(r":[\w.-]*?\bray[-_]?(\d{1,2}\.\d{1,3}\.\d{1,3})(?![\d.])", re.ASCII)


class RayOptions(Model):
    """How the Ray cluster of a run is made up."""

    ray_version: RayVersion | None = None
    """Ray's version in the image; null: told by the image's tag, where it tells."""
    head: Literal["works", "apart"] = "works"
    """``works``: the head is one of the run's nodes, with GPUs of its own. ``apart``: a pod without GPUs besides, so
    that nothing that trains takes memory from what holds the cluster together."""
    head_cpu: float = Field(4, gt=0, le=192)
    """Of a head apart."""
    head_memory_gib: float = Field(16, gt=0, le=2048)
    """Of a head apart."""
    linger_seconds: int = Field(120, ge=30, le=24 * 3600)
    """How long the Ray cluster stays when its job has ended: so long there are logs of it to be read, and its nodes
    are taken."""


def ray_version_of(image: str | None) -> str | None:
    """Ray's version as an image's name tells it: Ray's own images, and tags with ``ray2.52.0`` in them. None where it
    tells nothing."""
    if image is None:
        return None
    found = _RAY_IMAGE.search(image) or _RAY_TAG.search(image)
    return found.group(1) if found else None


def version_conflict(told: str | None, image: str | None) -> str | None:
    """Why a version cannot be that of an image; None where it may be."""
    has = ray_version_of(image)
    if told is None or has is None or told == has:
        return None
    return f"the image {image} has Ray {has}, not {told}: the parts of a Ray cluster must have one version"
