"""The activities of a deletion: each begins the deletion of one part, or watches it go."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from activities.teardown.clusters import HyperPodDeleter, NodeGroupDeleter
from activities.teardown.interfaces import InterfaceDeleter
from activities.teardown.lookup import find_clusters
from activities.teardown.survey import Surveyor
from activities.teardown.vpc import SecurityGroupDeleter
from activities.teardown.workloads import ObjectDeleter
from contracts.teardown import (
    DELETE_OBJECTS,
    DELETE_PART,
    KUBERNETES_PARTS,
    SURVEY,
    SWEEP,
    WAIT_UNTIL_GONE,
    WAIT_UNTIL_SETTLED,
    DeletedPart,
    GonePart,
    Inventory,
    Kept,
    Part,
    Resource,
    Settled,
    Teardown,
    TeardownPart,
)
from contracts.words import some

SHOWN = 4
"""So many of what is still there are named in a wait's detail."""
LIMITS_OF_OBJECTS = 1 / 6
"""Objects that no controller lets go of are waited for so much of the whole limit: half an hour."""


class TeardownActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._poll = aws, settings.poll_seconds
        self._surveyor = Surveyor(aws, kubernetes)
        self._objects: ObjectDeleter = self._surveyor.objects

    @activity.defn(name=SURVEY.name)
    def survey(self, request: Teardown) -> Inventory:
        """What there is of the cluster, what goes, what stays, and what stands in the way. Changes nothing."""
        return self._surveyor.survey(request)

    @activity.defn(name=SWEEP.name)
    def sweep(self, request: Teardown) -> Inventory:
        """The survey, and what carries the cluster's tag in any other service. Changes nothing."""
        return self._surveyor.sweep(request)

    @activity.defn(name=WAIT_UNTIL_SETTLED.name)
    async def wait_until_settled(self, request: Teardown) -> Settled:
        """Until no EKS cluster of the cluster is being made or updated: EKS would refuse to delete it."""

        def look(memory: Memory) -> Seen[Settled]:
            eks = find_clusters(self._aws, request).eks
            detail = ", ".join(f"{each['name']} {each['status']}" for each in eks) or "no EKS cluster"
            if any(each["status"] in ("CREATING", "UPDATING", "PENDING") for each in eks):
                return Seen(detail)
            return Seen(detail, Settled(active=[each["name"] for each in eks if each["status"] == "ACTIVE"]))

        limit = WAIT_UNTIL_SETTLED.limit
        return await wait_until(look, what="a settled EKS cluster", limit=limit, poll_seconds=self._poll)

    @activity.defn(name=DELETE_OBJECTS.name)
    def delete_objects(self, request: TeardownPart) -> DeletedPart:
        """Begin the deletion of workloads or node pools, in every EKS cluster whose Kubernetes API can be reached."""
        found: list[Resource] = []
        kept: list[Kept] = []
        for eks in find_clusters(self._aws, request).eks:
            if eks["status"] == "ACTIVE":
                deleted, stay = self._objects.delete(request, request.part, eks["name"])
                found, kept = [*found, *deleted], [*kept, *stay]
        return DeletedPart(resources=found, kept=kept, changed=bool(found))

    @activity.defn(name=DELETE_PART.name)
    def delete_part(self, request: TeardownPart) -> DeletedPart:
        """Begin the deletion of everything of a part. Raises FOREIGN where something of others is in the way."""
        deleter = self._surveyor.deleters[request.part]
        if request.part in (Part.SUBNETS, Part.SECURITY_GROUPS, Part.VPC):
            self._surveyor.refuse_leftovers(request)
        found = deleter.find(request)
        for resource in found:
            deleter.delete(request, resource)
        if isinstance(deleter, SecurityGroupDeleter):
            for resource in found:
                deleter.finish(request, resource)
        return DeletedPart(resources=found, changed=bool(found))

    @activity.defn(name=WAIT_UNTIL_GONE.name)
    async def wait_until_gone(self, request: TeardownPart) -> GonePart:
        """Until nothing of the part is there any more. Raises FOREIGN or NOT_READY where that cannot come true."""

        def look(memory: Memory) -> Seen[GonePart]:
            left = self._left(request)
            if left:
                return Seen(some(left, SHOWN))
            return Seen(f"{request.part.value}: gone", GonePart(part=request.part))

        limit = WAIT_UNTIL_GONE.limit
        if request.part in KUBERNETES_PARTS:
            limit *= LIMITS_OF_OBJECTS
        return await wait_until(look, what=f"the end of {request.part.value}", limit=limit, poll_seconds=self._poll)

    def _left(self, request: TeardownPart) -> list[str]:
        """What is still there, in words."""
        if request.part in KUBERNETES_PARTS:
            left: list[Any] = [
                resource
                for eks in find_clusters(self._aws, request).eks
                if eks["status"] == "ACTIVE"
                for resource, _ in self._objects.find(request, request.part, eks["name"])
            ]
            shown = [f"{each.label} ({each.detail})" if each.detail else each.label for each in left]
            return shown or (self._surveyor.balancers(request) if request.part is Part.WORKLOADS else [])
        deleter = self._surveyor.deleters[request.part]
        if isinstance(deleter, InterfaceDeleter):
            return deleter.rest(request)
        left = deleter.find(request)
        if isinstance(deleter, HyperPodDeleter | NodeGroupDeleter):
            deleter.check(request, left)
        return [f"{each.label} ({each.detail})" if each.detail else each.label for each in left]
