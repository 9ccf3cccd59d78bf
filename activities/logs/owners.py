"""Whether the object that pods work for has finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from activities.logs.api import LogApi
from contracts.logs import OwnerRef
from contracts.names import ANNOTATION_RUN

_ENDINGS = frozenset({"Completed", "Complete", "Succeeded", "Failed"})
"""Conditions of HyperPodPyTorchJobs, Jobs and PyTorchJobs."""
_RAY_ENDINGS = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
"""(KubeRay: RayJob status.jobStatus)"""


@dataclass(frozen=True)
class Owner:
    """What pods work for, as it is in the cluster."""

    run: str | None
    """The run of the operation that made it."""
    finished: bool
    most_pods: int | None
    """So many it may have at a time, each with a number below that; null: its pods are not numbered."""


async def ended(api: LogApi, namespace: str, owners: list[OwnerRef]) -> str | None:
    """``gone`` where none of ``owners`` is there, ``finished`` where all that are have; None while one goes on.

    Raises as the API does.
    """
    found = [each for owner in owners if (each := await _read(api, namespace, owner)) is not None]
    if not found:
        return "gone"
    return "finished" if all(has_finished(each) for each in found) else None


async def owners_of(api: LogApi, namespace: str, owners: list[OwnerRef]) -> list[Owner]:
    """Those of ``owners`` that are there. Raises as the API does."""
    found = [await _read(api, namespace, owner) for owner in owners]
    return [_seen(each) for each in found if each is not None]


async def runs_of(api: LogApi, namespace: str, owners: list[OwnerRef]) -> set[str]:
    """The runs of operations that made those of ``owners`` that are there. Raises as the API does."""
    return {each.run for each in await owners_of(api, namespace, owners) if each.run is not None}


def _seen(found: dict[str, Any]) -> Owner:
    told = ((found.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION_RUN)
    sets = (found.get("spec") or {}).get("replicaSpecs") or ()
    most = sum(
        max(each.get("replicas") or 0, each.get("maxReplicas") or 0) + (each.get("spares") or 0) for each in sets
    )
    return Owner(
        # An operation may have made one after another: its run, and how many it made before.
        run=told.partition("/")[0] if told is not None else None,
        finished=has_finished(found),
        most_pods=most or None,
    )


async def _read(api: LogApi, namespace: str, owner: OwnerRef) -> Any:
    group = "api" if "/" not in owner.api_version else "apis"
    path = f"/{group}/{owner.api_version}/namespaces/{quote(namespace)}/{owner.plural}/{quote(owner.name)}"
    return await api.get(path)


def has_finished(found: dict[str, Any]) -> bool:
    status = found.get("status") or {}
    if status.get("jobStatus") in _RAY_ENDINGS:
        return True
    return any(each.get("type") in _ENDINGS and each.get("status") == "True" for each in status.get("conditions") or ())
