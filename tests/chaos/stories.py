"""What belongs together over several events: what others change and somebody settles, an experiment that is copied."""

from __future__ import annotations

from random import Random

from sandbox.credentials import ACCOUNT
from tests.chaos import wishes
from tests.chaos.schedule import Beside
from tests.chaos.wishes import FIRST, Draft, Plan

EXPERIMENT = "chaos"
"""The experiment that is copied."""
COMPONENTS = ("coredns", "cert-manager", "aws-mountpoint-s3-csi-driver")
"""Those that others take away."""
ONLY_ADOPTED = ("group",)


def besides(dice: Random, plan: Plan, place: str) -> list[Beside]:
    """One or two things that others change."""
    found = [_beside(dice, plan, f"{place}.beside{number}") for number in range(dice.choice((1, 1, 2)))]
    first = found[0]
    return [first, *(each for each in found[1:] if (each.what, each.thing) != (first.what, first.thing))]


def _beside(dice: Random, plan: Plan, name: str) -> Beside:
    def made(what: str, thing: str, value: object = None) -> Beside:
        return Beside(name, plan.tag, what, thing, value)

    extra = sorted((plan.standing & set(plan.groups)) - {FIRST, *plan.node_pools.values()})
    servers = sorted((plan.standing & set(plan.deployments)) - plan.autoscalers)
    whats = ["count", "labels", "group", "component", "node recovery", "bucket"]
    whats += ["count", "count", "labels"] if extra else []
    whats += ["image"] * 4 + ["replicas"] * 4 if servers else []
    match dice.choice(whats):
        case "count" if extra:
            group = dice.choice(extra)
            return made("count", group, dice.choice([n for n in range(4) if n != plan.groups[group]]))
        case "count":
            return made("count", FIRST, plan.groups[FIRST] + 1)
        case "labels":
            team = dice.choice(("green", "blue"))
            return made("labels", dice.choice([FIRST, *extra]), {"example.com/beside": team})
        case "group":
            return made("group", plan.name("b"), 1)
        case "component":
            return made("component", dice.choice(COMPONENTS))
        case "image":
            return made("image", dice.choice(servers), "vllm/vllm-openai:beside")
        case "replicas":
            return made("replicas", dice.choice(servers), 0)
        case "node recovery":
            return made("node recovery", f"hp-cluster-{plan.tag}", "None")
    return made("bucket", plan.tag)


def settlement(dice: Random, plan: Plan, changed: list[Beside], verb: str | None = None) -> Draft:
    """To adopt or to restore what others have changed; ``verb``: which; as a rule one that is possible."""
    more = any(each.what == "count" and each.value > plan.groups.get(each.thing, 0) for each in changed)
    possible = not more and not any(each.what in ONLY_ADOPTED for each in changed)
    if verb is None:
        verb = dice.choice(("restore", "restore", "adopt")) if possible or dice.random() < 0.1 else "adopt"
    if verb == "adopt":
        for each in changed:
            if each.what in ("count", "group"):
                plan.groups[each.thing] = each.value
    weaker = {"accept_weaker_security": True} if verb == "adopt" and any(e.what == "bucket" for e in changed) else {}
    names = tuple(each.name for each in changed)
    return Draft(f"{verb}-drift", "POST", f"/drift/{verb}", {"differences": [], **weaker}, settles=names)


def elsewhere(dice: Random, plan: Plan, changed: list[Beside]) -> Draft | None:
    """An operation on another instance group, which must not swallow what others changed."""
    entry = dice.choice((wishes.add_group, wishes.scale_group, wishes.update_group))
    busy = {each.thing for each in changed}
    kept = dict(plan.groups)
    draft = entry(dice, plan)
    if draft is None or any(f"/{name}" in draft.path for name in busy):
        plan.groups = kept
        return None
    return draft


def source(dice: Random, plan: Plan) -> str | None:
    """A tracking server whose experiment can be copied."""
    found = sorted(plan.servers & plan.standing)
    return dice.choice(found) if found else None


def copy(plan: Plan, server: str, destination: str) -> Draft:
    """An experiment of one tracking server to another."""
    arn = f"arn:aws:sagemaker:{plan.region}:{ACCOUNT}:mlflow-tracking-server/{destination}"
    body = {"source": server, "experiment": EXPERIMENT, "destination": arn}
    return Draft("sync-experiments", "POST", "/experiments/sync", body)
