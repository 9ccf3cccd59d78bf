"""What operations asked for, one after another, against what stands in the end. Pure, as ``invariants``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.chaos.done import Done, about
from tests.chaos.world import Group, Holdings


def as_asked(operations: Iterable[Done], holdings: Mapping[str, Holdings]) -> list[str]:
    """What was asked and done, in the order of its end, is what exists. What an operation was about that was not
    carried through is left out: half of it may be there."""
    faults = []
    done = sorted(operations, key=lambda each: each.finished)
    for tag, held in holdings.items():
        own = [each for each in done if each.cluster == tag]
        wanted, unsure = Holdings(), {about(each) for each in own if each.phase != "succeeded"}
        for each in own:
            if each.phase == "succeeded":
                _carry_out(each, wanted)
        if ("create-cluster", "") in unsure:
            continue
        free = _scaled(own)
        for kind in _NAMED:
            asked, existing = getattr(wanted, kind), getattr(held, kind)
            for name in sorted(set(asked) | set(existing)):
                if (kind, name) in unsure:
                    continue
                if isinstance(asked, set):
                    want, have = name in asked, name in existing
                else:
                    want, have = asked.get(name), existing.get(name)
                if (kind, name) in free and (want is None) == (have is None):
                    continue
                if not _fits(want, have):
                    faults.append(f"{kind} {name} of {tag}: asked {want}, there is {have}")
    return faults


def _scaled(operations: Iterable[Done]) -> set[tuple[str, str]]:
    """What an autoscaler, or Karpenter, has scaled: nobody has asked for its number."""
    found = set()
    for each in operations:
        if each.kind == "create-autoscaler":
            found.add(("deployments", str(each.spec.get("target"))))
        if each.kind == "create-node-pool":
            found |= {("groups", str(name)) for name in each.spec.get("instance_groups", ())}
    return found


def _fits(want: Any, have: Any) -> bool:
    if isinstance(want, Group) and isinstance(have, Group):
        return want.count == have.count and set(want.labels) <= set(have.labels)
    return bool(want == have)


def _carry_out(done: Done, held: Holdings) -> None:
    spec = done.spec
    kind, name = about(done)
    match done.kind:
        case "create-cluster":
            held.groups |= {each["name"]: _group(each) for each in spec["instance_groups"]}
            held.claims.add(spec["storage"]["claim"])
        case "add-instance-group":
            held.groups[name] = _group(spec)
        case "scale-instance-group" if name in held.groups:
            held.groups[name] = Group(spec["count"], held.groups[name].labels)
        case "update-instance-group" if name in held.groups and spec.get("labels") is not None:
            held.groups[name] = Group(held.groups[name].count, tuple(sorted(spec["labels"].items())))
        case "delete-nodes" if name in held.groups:
            held.groups[name] = Group(held.groups[name].count - len(spec["nodes"]), held.groups[name].labels)
        case "create-node-group":
            held.node_groups[name] = Group(spec["scaling"]["desired"])
        case "scale-node-group":
            held.node_groups[name] = Group(spec["desired"])
        case "create-deployment" | "update-deployment" | "create-model-pool":
            held.deployments[name] = spec["replicas"]
        case "scale-deployment" | "scale-model-pool":
            held.deployments[name] = spec["replicas"]
        case "beside":
            _carry_out_beside(spec, held)
        case _ if done.kind.startswith("delete-") and kind in _NAMED:
            _forget(getattr(held, kind), name)
        case _ if done.kind.startswith("disconnect-"):
            held.connections.discard(name)
        case _ if done.kind.startswith(("create-", "store-", "connect-")) and kind in _NAMED:
            getattr(held, kind).add(name)


def _carry_out_beside(spec: Mapping[str, Any], held: Holdings) -> None:
    """What others have changed, or what was before once it is restored."""
    thing, value = str(spec["thing"]), spec["value"]
    group = held.groups.get(thing)
    match spec["what"]:
        case "group":
            held.groups[thing] = Group(value)
        case "count" if group is not None:
            held.groups[thing] = Group(value, group.labels)
        case "labels" if group is not None:
            held.groups[thing] = Group(group.count, tuple(sorted(value.items())))
        case "replicas" if thing in held.deployments:
            held.deployments[thing] = value


_NAMED = (
    *("groups", "node_groups", "deployments", "claims", "credentials", "rays", "servers"),
    *("routers", "endpoints", "autoscalers", "node_pools", "connections"),
)


def _forget(held: Any, name: str) -> None:
    if isinstance(held, dict):
        held.pop(name, None)
    else:
        held.discard(name)


def _group(spec: Mapping[str, Any]) -> Group:
    return Group(spec["count"], tuple(sorted((spec.get("labels") or {}).items())))
