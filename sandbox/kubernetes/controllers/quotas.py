"""The quota of Kueue's ClusterQueues: what is used of it, whether a Workload fits, and who must go that it does.

https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/ . Messages are Kueue's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from sandbox.kubernetes.objects import clone, dig
from sandbox.kubernetes.quantities import format_quantity, parse_quantity
from sandbox.kubernetes.resources import Json

from . import placement

Flavors = dict[tuple[str, str], Decimal]
"""By flavor and resource."""


@dataclass
class Quota:
    """A ClusterQueue and what is used of it."""

    obj: Json
    nominal: Flavors = field(default_factory=dict)
    limits: Flavors = field(default_factory=dict)
    """So much may be borrowed beside."""
    used: Flavors = field(default_factory=dict)
    admitted: list[Json] = field(default_factory=list)
    pending: int = 0

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def cohort(self) -> str:
        return str(dig(self.obj, "spec.cohortName") or dig(self.obj, "spec.cohort") or "")

    @classmethod
    def of(cls, obj: Json) -> Quota:
        found = cls(obj)
        for group in dig(obj, "spec.resourceGroups", []):
            for flavor in group.get("flavors") or []:
                for resource in flavor.get("resources") or []:
                    place = flavor["name"], resource["name"]
                    found.nominal[place] = parse_quantity(str(resource.get("nominalQuota", 0)))
                    if "borrowingLimit" in resource:
                        found.limits[place] = parse_quantity(str(resource["borrowingLimit"]))
        return found

    def take(self, usage: Flavors, sign: int = 1) -> None:
        for place, amount in usage.items():
            self.used[place] = self.used.get(place, Decimal(0)) + sign * amount

    def fits(self, queues: dict[str, Quota], workload: Json) -> tuple[str, Flavors]:
        """Why a workload does not fit, and what it takes if it does."""
        usage: Flavors = {}
        for pods in workload["spec"]["podSets"]:
            for resource, amount in requests(pods).items():
                wanted = amount * int(pods["count"])
                flavors = [flavor for flavor, name in self.nominal if name == resource]
                if not wanted or (resource == "pods" and not flavors):
                    continue
                lead = f"couldn't assign flavors to pod set {pods['name']}: "
                if not flavors:
                    return f"{lead}resource {resource} unavailable in ClusterQueue", {}
                reasons = []
                for flavor in flavors:
                    place = flavor, resource
                    left, most = self._left(queues, place)
                    needed = wanted + usage.get(place, Decimal(0))
                    if needed > most:
                        compared = f"maximum capacity ({format_quantity(needed)} > {format_quantity(most)})"
                        reasons.append(f"insufficient quota for {resource} in flavor {flavor}, request > {compared}")
                    elif needed > left:
                        more = format_quantity(needed - left)
                        reasons.append(
                            f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
                        )
                    else:
                        usage[place] = needed
                        break
                else:
                    return lead + ", ".join(reasons), {}
        return "", usage

    def _left(self, queues: dict[str, Quota], place: tuple[str, str]) -> tuple[Decimal, Decimal]:
        """What is free of a resource, and what there would be if nothing were used."""
        zero = Decimal(0)
        own = self.nominal[place]
        if not self.cohort:
            return own - self.used.get(place, zero), own
        members = [each for each in queues.values() if each.cohort == self.cohort]
        total = sum((each.nominal.get(place, zero) for each in members), zero)
        used = sum((each.used.get(place, zero) for each in members), zero)
        most = min(total, own + self.limits[place]) if place in self.limits else total
        return min(total - used, most - self.used.get(place, zero)), most

    def victims(self, queues: dict[str, Quota], workload: Json) -> list[Json]:
        """The workloads of lower priority that must go, the least first; none if that would not help."""
        if dig(self.obj, "spec.preemption.withinClusterQueue", "Never") == "Never":
            return []
        priority = int(dig(workload, "spec.priority", 0))
        lower = sorted(
            (each for each in self.admitted if int(dig(each, "spec.priority", 0)) < priority),
            key=lambda each: (int(dig(each, "spec.priority", 0)), each["metadata"]["creationTimestamp"]),
        )
        chosen: list[Json] = []
        for victim in lower:
            self.take(usage_of(victim), -1)
            chosen.append(victim)
            if not self.fits(queues, workload)[0]:
                break
        fits = not self.fits(queues, workload)[0]
        for victim in chosen:
            self.take(usage_of(victim))
        return chosen if fits else []


def requests(pods: Json) -> placement.Resources:
    """What a pod of a set asks for; where it only has limits, those."""
    spec = clone(dig(pods, "template.spec", {"containers": []}))
    for container in [*dig(spec, "initContainers", []), *dig(spec, "containers", [])]:
        resources = container.setdefault("resources", {})
        resources["requests"] = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return placement.requests(spec)


def usage_of(workload: Json) -> Flavors:
    """What an admitted workload takes."""
    found: Flavors = {}
    for assignment in dig(workload, "status.admission.podSetAssignments", []):
        for resource, flavor in assignment["flavors"].items():
            amount = parse_quantity(assignment["resourceUsage"][resource])
            found[flavor, resource] = found.get((flavor, resource), Decimal(0)) + amount
    return found
