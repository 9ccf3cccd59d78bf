"""What can be asked of a cluster itself, given what the wishes before have meant it to have; ``workloads`` has what
runs on it, ``menu`` the whole.

Each entry draws one operation with the dice, or None where the cluster has nothing to do it to. What an entry notes in
the plan is a wish too: the operation may yet be refused, blocked or aborted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

TYPE = "ml.g5.8xlarge"
"""One GPU."""
REGIONS = ("us-west-2", "us-east-1")
FIRST = "workers"
"""The group that a cluster begins with."""
MOST_WORKERS = 4
"""Its instances, at most."""


@dataclass
class Plan:
    """What a cluster is meant to have."""

    tag: str
    region: str
    groups: dict[str, int]
    node_groups: dict[str, int] = field(default_factory=dict)
    deployments: dict[str, int] = field(default_factory=dict)
    pools: dict[str, int] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    credentials: set[str] = field(default_factory=set)
    rays: set[str] = field(default_factory=set)
    servers: set[str] = field(default_factory=set)
    """Tracking servers."""
    connected: str | None = None
    """The tracking server that training may report to."""
    routers: set[str] = field(default_factory=set)
    endpoints: set[str] = field(default_factory=set)
    autoscalers: set[str] = field(default_factory=set)
    """By the deployments that they scale."""
    node_pools: dict[str, str] = field(default_factory=dict)
    """The instance group of each."""
    features: set[str] = field(default_factory=set)
    trainings: int = 0
    """Of this round."""
    made: int = 0
    standing: frozenset[str] = frozenset()
    """Names of what was asked for in earlier rounds: others can build on it."""

    def name(self, prefix: str) -> str:
        """A name that was not used yet."""
        self.made += 1
        return f"{prefix}{self.made}"

    @property
    def gpus_left(self) -> int:
        """Of the first group, which no wish makes smaller."""
        served = sum(self.deployments.values()) + sum(self.pools.values()) + len(self.endpoints)
        return self.groups[FIRST] - served - len(self.rays) - self.trainings

    def next_round(self) -> None:
        """What was asked for so far has ended or waits; runs have given their GPUs back."""
        self.trainings = 0
        names = (self.deployments, self.servers, self.groups, self.node_pools, self.endpoints, self.routers)
        self.standing = frozenset(name for each in names for name in each)


@dataclass(frozen=True)
class Draft:
    """An operation before it is known when and how it is asked for."""

    operation: str
    method: str
    path: str
    """Below the cluster's."""
    body: dict[str, Any] | None = None
    rival: dict[str, Any] | None = None
    """Another body for the same operation."""
    node_of: str | None = None
    settles: tuple[str, ...] = ()
    """What others changed, by the names of those events."""


Entry = Callable[[Random, Plan], Draft | None]


def deleting(operation: str, path: str, member: str) -> Entry:
    """The end of one of the things that the plan has as ``member``, which are below ``path``."""

    def draw(dice: Random, plan: Plan) -> Draft | None:
        names = getattr(plan, member)
        if not names:
            return None
        name = dice.choice(sorted(names))
        if isinstance(names, dict):
            del names[name]
        else:
            names.discard(name)
        return Draft(operation, "DELETE", f"{path}/{name}")

    return draw


def creation(dice: Random, plan: Plan, asks: bool) -> Draft:
    """The cluster itself; ``asks``: it leaves its capacity to a decision."""
    count = plan.groups[FIRST]
    body: dict[str, Any] = {"tag": plan.tag, "region": plan.region}
    if not asks:
        body["instance_groups"] = [{"name": FIRST, "instance_type": TYPE, "count": count}]
    rival = {**body, "kubernetes_version": "1.33"}
    return Draft("create-cluster", "POST", "", body, rival)


def capacity_answer(plan: Plan, zone: str, count: int) -> dict[str, Any]:
    """What a cluster that asks for its capacity is told."""
    answer = {"instance_type": TYPE, "count": count, "availability_zone": f"{plan.region}{zone}"}
    return {"answer": answer}


IMPORTED = "imp"
"""Tag of the cluster that others made."""


def importing() -> Draft:
    """Taking over what others made, without changing anything of it."""
    body = {"tag": IMPORTED, "region": REGIONS[0], "eks_cluster": "theirs-cluster", "grant_access": False}
    return Draft("import-cluster", "POST", "/import", body)


def deletion(plan: Plan) -> Draft:
    """The end of the cluster with everything that the platform made for it."""
    return Draft("delete-cluster", "DELETE", "", {"delete_bucket": True, "delete_file_systems": True})


def add_group(dice: Random, plan: Plan) -> Draft:
    name, count = plan.name("g"), dice.randint(0 if "autoscaling" in plan.features else 1, 2)
    plan.groups[name] = count
    body: dict[str, Any] = {"name": name, "instance_type": TYPE, "count": count}
    if dice.random() < 0.5:
        body["labels"] = {"example.com/pool": name}
    return Draft("add-instance-group", "POST", "/instance-groups", body, {**body, "count": count + 1})


def _extra(dice: Random, plan: Plan) -> str | None:
    extra = sorted(set(plan.groups) - {FIRST, *plan.node_pools.values()})
    return dice.choice(extra) if extra else None


def scale_group(dice: Random, plan: Plan) -> Draft | None:
    name = _extra(dice, plan) or FIRST
    low = plan.groups[FIRST] + 1 if name == FIRST else 0
    count = dice.choice([n for n in range(low, low + 4) if n != plan.groups[name]])
    plan.groups[name] = count
    rival = {"count": count + 1} if name == FIRST else None
    if rival:
        plan.groups[name] = count + 1
    return Draft("scale-instance-group", "POST", f"/instance-groups/{name}/scale", {"count": count}, rival)


def update_group(dice: Random, plan: Plan) -> Draft:
    name = dice.choice(sorted(plan.groups))
    labels = {"example.com/turn": str(plan.made), "example.com/team": dice.choice(["red", "blue"])}
    plan.made += 1
    return Draft("update-instance-group", "PATCH", f"/instance-groups/{name}", {"labels": labels})


def delete_group(dice: Random, plan: Plan) -> Draft | None:
    name = _extra(dice, plan)
    if name is None:
        return None
    del plan.groups[name]
    return Draft("delete-instance-group", "DELETE", f"/instance-groups/{name}")


def on_node(operation: str, verb: str) -> Entry:
    def draw(dice: Random, plan: Plan) -> Draft | None:
        having = sorted(name for name, count in plan.groups.items() if count)
        name = dice.choice(having)
        return Draft(operation, "POST", f"/nodes/{verb}", {"nodes": ["{node}"]}, node_of=name)

    return draw


def delete_node(dice: Random, plan: Plan) -> Draft | None:
    name = _extra(dice, plan)
    if name is None or plan.groups[name] < 2:
        return None
    plan.groups[name] -= 1
    return Draft("delete-nodes", "POST", "/nodes/delete", {"nodes": ["{node}"]}, node_of=name)


def create_storage(dice: Random, plan: Plan) -> Draft:
    name = plan.name("claim")
    plan.claims.add(name)
    body = {"claim": name, "prefix": f"{name}/"}
    return Draft("create-storage", "POST", "/storage", body, {**body, "prefix": "elsewhere/"})


def create_fsx(dice: Random, plan: Plan) -> Draft | None:
    if "fsx_csi" not in plan.features:
        return None
    name = plan.name("lustre")
    plan.claims.add(name)
    return Draft("create-fsx-storage", "POST", "/fsx-storage", {"claim": name, "create": {}})


def create_node_group(dice: Random, plan: Plan) -> Draft:
    name = plan.name("cpu")
    plan.node_groups[name] = dice.randint(1, 2)
    body = {"name": name, "instance_types": ["m6i.2xlarge"], "scaling": {"desired": plan.node_groups[name]}}
    return Draft("create-node-group", "POST", "/node-groups", body, {**body, "volume_gib": 300})


def scale_node_group(dice: Random, plan: Plan) -> Draft | None:
    if not plan.node_groups:
        return None
    name = dice.choice(sorted(plan.node_groups))
    plan.node_groups[name] = dice.choice([n for n in range(4) if n != plan.node_groups[name]])
    body = {"desired": plan.node_groups[name]}
    return Draft("scale-node-group", "POST", f"/node-groups/{name}/scale", body)


def store_credential(dice: Random, plan: Plan) -> Draft:
    name = plan.name("token")
    plan.credentials.add(name)
    return Draft("store-credential", "PUT", f"/credentials/{name}", {"token": "hf_sandboxReaderOfPublicThings000"})


def download(dice: Random, plan: Plan) -> Draft:
    body = {"repository": "Qwen/Qwen3-0.6B", "path": f"models/{plan.name('m')}", "deadline_hours": 168}
    return Draft("download-model", "POST", "/models/downloads", body)


def plain(operation: str, path: str) -> Entry:
    def draw(dice: Random, plan: Plan) -> Draft | None:
        return Draft(operation, "POST", path)

    return draw


def create_node_pool(dice: Random, plan: Plan) -> Draft | None:
    """Karpenter scales a group that nobody else does then."""
    free = sorted((plan.standing & set(plan.groups)) - {FIRST, *plan.node_pools.values()})
    if "autoscaling" not in plan.features or not free:
        return None
    name, group = plan.name("elastic"), dice.choice(free)
    plan.node_pools[name] = group
    body = {"name": name, "instance_groups": [group], "accept_scale_down": True}
    return Draft("create-node-pool", "POST", "/node-pools", body, {**body, "weight": 7})


def delete_node_pool(dice: Random, plan: Plan) -> Draft | None:
    if not plan.node_pools:
        return None
    name = dice.choice(sorted(plan.node_pools))
    del plan.groups[plan.node_pools.pop(name)]  # Nobody says how many instances it has now.
    return Draft("delete-node-pool", "DELETE", f"/node-pools/{name}")


delete_storage = deleting("delete-storage", "/storage", "claims")
delete_node_group = deleting("delete-node-group", "/node-groups", "node_groups")
delete_credential = deleting("delete-credential", "/credentials", "credentials")
