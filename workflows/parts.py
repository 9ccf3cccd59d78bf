"""The parts of a cluster that an operation builds on, by what its record says."""

from __future__ import annotations

from typing import Any, TypeVar

from contracts.catalogue import CREATE_CONTROL_PLANE, CREATE_HYPERPOD
from contracts.eks import ControlPlane
from contracts.feature_site import site_of
from contracts.features import Site
from contracts.hyperpod import HyperPodCluster
from contracts.identity import Identity
from contracts.network import Network
from contracts.problem import ProblemCode, problem
from workflows.engine import Operation
from workflows.engine.failures import Aborted

T = TypeVar("T")


def control_plane_of(operation: Operation[Any]) -> ControlPlane:
    """The EKS cluster. Raises Aborted where there is none."""
    return present(operation, operation.record.control_plane, "control plane", CREATE_CONTROL_PLANE.name)


def network_of(operation: Operation[Any]) -> Network:
    """VPC, subnets and security group. Raises Aborted where there are none."""
    return present(operation, operation.record.network, "network", CREATE_CONTROL_PLANE.name)


def identity_of(operation: Operation[Any]) -> Identity:
    """The cluster's roles. Raises Aborted where there are none."""
    return present(operation, operation.record.identity, "roles", CREATE_CONTROL_PLANE.name)


def hyperpod_of(operation: Operation[Any]) -> HyperPodCluster:
    """The HyperPod cluster. Raises Aborted where there is none."""
    return present(operation, operation.record.hyperpod, "HyperPod cluster", CREATE_HYPERPOD.name)


def feature_site_of(operation: Operation[Any]) -> Site:
    """Where features are switched: the EKS cluster, with what else of the record they use. Raises Aborted as
    :func:`control_plane_of`."""
    site = site_of(operation.record, operation.scope)
    return present(operation, site, "control plane", CREATE_CONTROL_PLANE.name)


def present(operation: Operation[Any], value: T | None, what: str, made_by: str) -> T:
    """A part of the cluster that must exist already. Raises Aborted where it does not: nothing was begun."""
    if value is None:
        tag, record = operation.start.cluster, operation.record
        if record.network is None and record.identity is None and record.control_plane is None:
            raise Aborted(f"cluster {tag} is gone, or was never made. Nothing has been done.")
        found = problem(
            ProblemCode.NOT_FOUND,
            f"cluster {tag} has no {what} yet",
            remedy=f"Start {made_by} for {tag} first.",
        )
        raise Aborted(found.detail + ". " + (found.remedy or ""))
    return value
