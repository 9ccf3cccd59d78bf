"""The skills as scripts: each follows the numbered steps of its SKILL.md, literally."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import ascii_lowercase
from typing import Any

from tests.skills.agent import Agent, Answer


@dataclass
class Finding:
    """What an investigation reports."""

    evidence: list[str] = field(default_factory=list)
    proposal: str = ""
    nodes: list[Answer] = field(default_factory=list)


async def instance_type(agent: Agent, said: str, **where: str) -> Answer:
    """The type that the user means, as the account offers it."""
    offers = await agent.call("cluster_get_available_instances", accelerator=said, **where)
    (only,) = offers["instance_types"]
    agent.tell(f"I take that as {only['instance_type']}; quota {only['quota']}.")
    found: Answer = only
    return found


async def create_cluster(agent: Agent, said: str) -> str:
    """Steps 1 and 3 to 7, for a user who wants ``said`` in a new cluster with any name. Returns the tag."""
    there = (await agent.call("cluster_list_all"))["clusters"]
    for each in there:
        agent.tell(f"There is {each['tag']} in {each['region']}.")
    await agent.call("operation_list", needs_attention=True)
    await agent.call("operation_list", kind="create-cluster", page_size=20)

    wanted = await instance_type(agent, said)
    count, zone = agent.user.ask("count", "availability_zone")
    assert zone in wanted["availability_zones"]
    group = {"instance_type": wanted["instance_type"], "count": count, "availability_zone": zone}
    assert count <= wanted["quota"]

    await agent.plan("create-cluster", _likely_tag({each["tag"] for each in there}), {"instance_groups": [group]})
    begun = await agent.call("cluster_create", instance_groups=[group])
    agent.tell(begun["next"])
    tag = str(begun["cluster"])
    agent.tell(f"The cluster's tag is {tag}.")
    await agent.done(begun["operation"])
    await report_cluster(agent, tag)
    return tag


def _likely_tag(taken: set[str]) -> str:
    """``hypd-``, month and day, and the first free letter."""
    today = f"hypd-{datetime.now(UTC):%m%d}"
    return next(today + letter for letter in ascii_lowercase if today + letter not in taken)


async def report_cluster(agent: Agent, tag: str) -> None:
    """Step 7 of create-cluster."""
    record = (await agent.call("cluster_get_status", cluster=tag))["record"]
    groups = (await agent.call("cluster_get_instance_groups", cluster=tag))["hyperpod"]["instance_groups"]
    for group in groups:
        assert group["current"] == group["target"]
        agent.tell(f"{record['hyperpod']['name']}: {group['name']} has {group['current']} of {group['target']}.")


async def go_on_with_a_creation(agent: Agent) -> str:
    """Steps 1, 2, 6 and 7 of create-cluster, for a user who says "go on". Returns the operation."""
    await agent.call("cluster_list_all")
    found = (await agent.call("operation_list", needs_attention=True))["operations"]
    found += (await agent.call("operation_list", kind="create-cluster", page_size=20))["operations"]
    begun = {each["id"]: each for each in found if each["kind"] == "create-cluster" and each["phase"] != "succeeded"}
    mine = [each for each in begun.values() if each["phase"] == "blocked"]
    (operation,) = [each["id"] for each in mine]

    now = (await agent.call("operation_get", operation=operation))["operation"]
    await agent.call("cluster_get_status", cluster=now["cluster"])
    for stage in now["stages"]:
        agent.tell(f"{stage['name']}: {stage['state']}")
    while now["phase"] == "blocked":
        stuck = next(stage for stage in now["stages"] if stage["state"] == "blocked")
        agent.tell(f"{stuck['problem']['detail']} {stuck['problem']['remedy']}")
        await agent.call("operation_retry", operation=operation, stage=stuck["name"], attempt=stuck["attempt"])
        now = await agent.follow(operation)
    assert now["phase"] == "succeeded", now
    await report_cluster(agent, now["cluster"])
    return str(operation)


async def add_capacity(agent: Agent, tag: str, said: str) -> Answer:
    """A group of another type beside those that are there. Returns the group."""
    before = (await agent.call("cluster_get_instance_groups", cluster=tag))["hyperpod"]["instance_groups"]
    await agent.call("operation_list", cluster=tag, needs_attention=True)
    wanted = await instance_type(agent, said, cluster=tag)
    assert wanted["instance_type"] not in [group["instance_type"] for group in before]
    count, zone = agent.user.ask("count", "availability_zone")
    asked = {"instance_type": wanted["instance_type"], "count": count, "availability_zone": zone}
    plan = await agent.plan("add-instance-group", tag, {"name": "g5-2", **asked})
    operation = await agent.start("hyperpod_add_instance_group", cluster=tag, group="g5-2", plan=plan["plan"], **asked)
    await agent.done(operation)
    after = (await agent.call("cluster_get_instance_groups", cluster=tag))["hyperpod"]["instance_groups"]
    (added,) = [group for group in after if group["name"] == "g5-2"]
    found: Answer = added
    return found


async def switch_on(agent: Agent, tag: str, **wanted: Answer) -> dict[str, str]:
    """All of ``wanted`` in one operation. Returns the states before, and after."""
    before = await _states(agent, tag)
    changes = {name: settings for name, settings in wanted.items() if before[name] in ("off", "degraded")}
    plan = await agent.plan("update-features", tag, changes)
    operation = await agent.start("hyperpod_update_advanced_features", cluster=tag, plan=plan["plan"], **changes)
    ended = await agent.done(operation)
    agent.tell("Done: " + ", ".join(stage["name"] for stage in ended["stages"]))
    return await _states(agent, tag)


async def _states(agent: Agent, tag: str) -> dict[str, str]:
    features = (await agent.call("hyperpod_get_advanced_features", cluster=tag))["features"]
    return {each["feature"]: each["state"] for each in features}


async def repair(agent: Agent, tag: str, after_reboot: Callable[[], Awaitable[Any]]) -> list[str]:
    """One unhealthy node, up the ladder. ``after_reboot``: what the hardware does meanwhile. Returns the rungs."""
    unhealthy = (await agent.call("node_list", cluster=tag, unhealthy=True))["nodes"]
    (node,) = [each["name"] for each in unhealthy]
    group = unhealthy[0]["group"]
    rungs = ["investigate"]
    looked = await agent.call("node_get", node=node, cluster=tag)
    agent.tell(f"{node}: {'; '.join(looked['node']['problems'])}; {len(looked['pods'])} pods live there.")
    diagnosis = await agent.call("diagnose_problem", kind="node", name=node, cluster=tag)
    agent.tell(diagnosis["next"])
    for kind in ("reboot-nodes", "replace-nodes"):
        assert not (await agent.call("operation_list", cluster=tag, kind=kind))["operations"]

    for rung in ("reboot", "replace"):
        plan = await agent.plan(f"{rung}-nodes", tag, {"nodes": [node]})
        operation = await agent.start(f"hyperpod_node_{rung}", nodes=[node], cluster=tag, plan=plan["plan"])
        await agent.done(operation)
        rungs.append(rung)
        if rung == "reboot":
            await after_reboot()
            again = await agent.call("node_get", node=node, cluster=tag)
            if again["node"]["healthy"]:
                break
            agent.tell("The reboot did not help. A replacement loses the instance and everything on its volumes.")
    after = (await agent.call("node_list", cluster=tag, group=group))["nodes"]
    assert all(each["healthy"] for each in after)
    agent.tell(f"{node} was replaced by {after[0]['name']}.")
    return rungs


async def tear_down(agent: Agent, tag: str) -> Answer:
    """Everything of a cluster that the user has named. Returns the operation's result."""
    assert [each["tag"] for each in (await agent.call("cluster_list_all", search=tag))["clusters"]] == [tag]
    await agent.call("cluster_get_status", cluster=tag)
    await agent.call("job_list_all", cluster=tag, state="running")
    plan = await agent.plan("delete-cluster", tag, {"level": "network"})
    operation = await agent.start("cluster_delete", cluster=tag, level="network", plan=plan["plan"])
    await agent.done(operation)
    result: Answer = (await agent.call("operation_get", operation=operation))["operation"]["result"]
    agent.tell(f"Left over: {result['remaining']}")
    await agent.call("cluster_list_all", search=tag)
    return result


async def why_a_creation_fails(agent: Agent) -> Finding:
    """The blocked creation that there is."""
    found = (await agent.call("operation_list", needs_attention=True))["operations"]
    found += (await agent.call("operation_list", kind="create-cluster", page_size=20))["operations"]
    (operation,) = {each["id"] for each in found if each["phase"] == "blocked"}
    now = (await agent.call("operation_get", operation=operation))["operation"]
    spec = (await agent.call("operation_get_spec", operation=operation))["spec"]
    tag = now["cluster"]
    diagnosis = await agent.call("diagnose_problem", kind="operation", name=operation)
    await agent.call("cluster_get_status", cluster=tag)
    (stuck,) = [stage for stage in now["stages"] if stage["state"] == "blocked"]
    problem = stuck["problem"]
    stage = stuck["name"]
    finding = Finding([f"{stage} is blocked, attempt {stuck['attempt']}: {problem['code']}, {problem['detail']}"])
    finding.evidence += [f"{each['title']}, {each['confidence']}" for each in diagnosis["causes"]]
    if stage in ("access", "dependencies"):
        status = await agent.call("cluster_get_dependency_status", cluster=tag)
        finding.evidence.append(f"installed: {[each['name'] for each in status['components']]}")
    types = [group["instance_type"] for group in spec["instance_groups"]]
    offers = await agent.call("cluster_get_available_instances", cluster=tag, instance_types=types)
    assert offers["instance_types"], "it is not the type"
    finding.proposal = (
        f"{problem['remedy']} Then go on with the skill create-cluster; it retries {stuck['name']} alone."
    )
    agent.tell("\n".join([*finding.evidence, finding.proposal]))
    return finding


async def how_healthy_the_nodes_are(agent: Agent, tag: str) -> Finding:
    """The cluster's unhealthy nodes, and the next rung for each."""
    whole = await agent.call("node_list", cluster=tag)
    finding = Finding([f"{whole['summary']['unhealthy']} of {whole['summary']['nodes']} nodes are unhealthy"])
    finding.nodes = (await agent.call("node_list", cluster=tag, unhealthy=True))["nodes"]
    for each in finding.nodes:
        node = (await agent.call("node_get", node=each["name"], cluster=tag))["node"]
        finding.evidence.append(f"{node['name']}: {node['status']}, {node['message']}, {'; '.join(node['problems'])}")
        diagnosis = await agent.call("diagnose_problem", kind="node", name=each["name"], cluster=tag)
        finding.evidence += [f"{cause['title']}, {cause['confidence']}" for cause in diagnosis["causes"]]
    rebooted = (await agent.call("operation_list", cluster=tag, kind="reboot-nodes"))["operations"]
    replaced = (await agent.call("operation_list", cluster=tag, kind="replace-nodes"))["operations"]
    await agent.call("operation_list", cluster=tag, needs_attention=True)
    await agent.call("cluster_get_instance_groups", cluster=tag)
    rung = "replace" if rebooted or replaced else "reboot"
    names = [each["name"] for each in finding.nodes]
    plan = await agent.call("plan_make", kind=f"{rung}-nodes", cluster=tag, spec={"nodes": names})
    finding.proposal = f"{rung} {', '.join(names)} with the skill repair-nodes, as {plan['operation']}"
    agent.tell("\n".join([*finding.evidence, finding.proposal]))
    return finding
