"""Every skill played by a scripted agent, through real MCP clients, on a real stack in front of the sandbox.

The conversations go on side by side, each on a cluster of its own; every test looks at one of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.durability.runs import create, effects
from tests.skills import scripts
from tests.skills.agent import Agent, User
from tests.skills.conftest import World
from tests.skills.scripts import Finding
from tests.skills.talks import Talk, talk

EXISTING = ("train", "serve")
FORBIDDEN = {
    "id": "no-secrets",
    "api": "kubernetes",
    "service": "eks-cluster-halfway",
    "operation": "POST /api/v1/namespaces/.*/secrets",
    "code": "Forbidden",
    "status": 403,
    "message": "secrets is forbidden",
}
"""Helm cannot keep its release in this cluster: installing dependencies fails."""


class Conversations:
    """All of them, as they depend on each other."""

    def __init__(self, world: World) -> None:
        self.world = world
        for tag in EXISTING:
            create(world.stack, tag, hyperpod={"node_recovery": "None"} if tag == "serve" else {})
        self.created = asyncio.create_task(self._created())
        self.grown = asyncio.create_task(self._grown())
        self.switched = asyncio.create_task(self._switched())
        self.torn_down = asyncio.create_task(self._torn_down())
        self.examined = asyncio.create_task(self._examined())
        self.repaired = asyncio.create_task(self._repaired())
        self.broken_off = asyncio.create_task(self._broken_off())
        self.explained = asyncio.create_task(self._explained())
        self.resumed = asyncio.create_task(self._resumed())

    async def stop(self) -> None:
        tasks = [each for each in vars(self).values() if isinstance(each, asyncio.Task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _created(self) -> Talk:
        await self.world.listed(*EXISTING)
        user = User({"count": 1, "availability_zone": "us-west-2c"})
        return await talk(self.world, "create-cluster", user, lambda agent: scripts.create_cluster(agent, "g6.4xl"))

    async def _grown(self) -> Talk:
        tag = (await self.created).came_of_it
        user = User({"count": 1, "availability_zone": "us-west-2a"})
        return await talk(self.world, "add-capacity", user, lambda agent: scripts.add_capacity(agent, tag, "g5.8xl"))

    async def _switched(self) -> Talk:
        await self.world.until("create-cluster/train", "succeeded")
        on = {"enabled": True}
        return await talk(
            self.world,
            "manage-features",
            User(),
            lambda agent: scripts.switch_on(agent, "train", tiered_checkpointing=on, training_operator=on),
        )

    async def _torn_down(self) -> Talk:
        await self.switched
        return await talk(self.world, "teardown", User(), lambda agent: scripts.tear_down(agent, "train"))

    async def _examined(self) -> Talk:
        await self.world.until("create-cluster/serve", "succeeded")
        (node,) = self.world.stack.gateway.get("/clusters/serve/nodes").json()["nodes"]
        self.world.make_fail("serve", node["name"])
        before = self.world.last_entry()
        over = await talk(
            self.world,
            "investigate-node-health",
            User(),
            lambda agent: scripts.how_healthy_the_nodes_are(agent, "serve"),
            "reader",
        )
        over.effects = self.world.effects_on("serve", before)
        return over

    async def _repaired(self) -> Talk:
        (node,) = (await self.examined).came_of_it.nodes

        async def breaks_again() -> None:
            self.world.make_fail("serve", node["name"])

        return await talk(
            self.world, "repair-nodes", User(), lambda agent: scripts.repair(agent, "serve", breaks_again)
        )

    async def _broken_off(self) -> str:
        """A creation whose agent leaves in the middle of the dependencies. Returns the operation."""
        await self.world.listed(*EXISTING)
        self.world.stack.sandbox.post("/faults", json=[FORBIDDEN]).raise_for_status()
        user = User()
        group = {"instance_type": "ml.g5.8xlarge", "count": 1}

        async def leaves(agent: Agent) -> str:
            operation = await agent.start("cluster_create", tag="halfway", instance_groups=[group])
            while True:
                seen = await agent.call("operation_wait", operation=operation, timeout_seconds=1)
                states = {stage["name"]: stage["state"] for stage in seen["operation"]["stages"]}
                if states.get("dependencies") in ("running", "blocked"):
                    return operation

        return str((await talk(self.world, "create-cluster", user, leaves)).came_of_it)

    async def _explained(self) -> Talk:
        await self.world.until(await self.broken_off, "blocked")
        before = self.world.last_entry()
        over = await talk(
            self.world,
            "investigate-creation-failure",
            User(),
            lambda agent: scripts.why_a_creation_fails(agent),
            "reader",
        )
        over.effects = self.world.effects_on("halfway", before)
        return over

    async def _resumed(self) -> Talk:
        await self.explained
        self.world.stack.sandbox.delete("/faults").raise_for_status()
        before = self.world.last_entry()
        over = await talk(self.world, "create-cluster", User(), lambda agent: scripts.go_on_with_a_creation(agent))
        over.effects = self.world.effects_on("halfway", before)
        return over


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def conversations(world: World) -> AsyncIterator[Conversations]:
    held = Conversations(world)
    try:
        yield held
    finally:
        await held.stop()


async def test_a_cluster_with_any_name_and_one_g6_4xl_in_one_zone_is_created_beside_two_others(
    conversations: Conversations,
) -> None:
    over = await conversations.created
    tag = over.came_of_it
    assert re.fullmatch(r"hypd-\d{4}[a-z]+", tag)
    for existing in EXISTING:
        assert over.user.has_heard(f"There is {existing} in us-west-2")
    assert over.user.has_heard("I take that as ml.g6.4xlarge")
    assert sorted(over.user.asked) == ["availability_zone", "count"]
    assert over.approved == [f"create-cluster/{tag}"]
    (node,) = conversations.world.stack.gateway.get(f"/clusters/{tag}/nodes").json()["nodes"]
    assert (node["instance_type"], node["zone"], node["healthy"]) == ("ml.g6.4xlarge", "us-west-2c", True)


async def test_a_cluster_grows_by_a_group_of_another_type(conversations: Conversations) -> None:
    over = await conversations.grown
    assert (over.came_of_it["instance_type"], over.came_of_it["current"]) == ("ml.g5.8xlarge", 1)
    assert len(over.approved) == 1


async def test_tiered_storage_and_training_operator_come_together_where_neither_was_on(
    conversations: Conversations,
) -> None:
    over = await conversations.switched
    states = over.came_of_it
    assert (states["tiered_checkpointing"], states["training_operator"]) == ("on", "on")
    assert {state for name, state in states.items() if name not in ("tiered_checkpointing", "training_operator")} == {
        "off"
    }
    assert over.approved == ["update-features/train/tiered_checkpointing+training_operator"]
    assert not over.user.asked


async def test_a_teardown_waits_for_a_person_and_leaves_nothing(conversations: Conversations) -> None:
    over = await conversations.torn_down
    assert over.approved == ["delete-cluster/train"]
    assert over.came_of_it["remaining"] == []
    assert conversations.world.stack.gateway.get("/clusters/train/nodes").status_code == 404


async def test_sick_nodes_are_examined_without_changing_anything(conversations: Conversations) -> None:
    over = await conversations.examined
    finding: Finding = over.came_of_it
    assert len(finding.nodes) == 1
    assert "XID 79" in "".join(finding.evidence)
    assert finding.proposal.startswith("reboot ")
    assert over.effects == []
    assert over.approved == []


async def test_a_node_that_a_reboot_does_not_mend_is_replaced(conversations: Conversations) -> None:
    over = await conversations.repaired
    assert over.came_of_it == ["investigate", "reboot", "replace"]
    assert [each.split("/")[0] for each in over.approved] == ["reboot-nodes", "replace-nodes"]
    assert over.user.has_heard("The reboot did not help")
    done = effects(conversations.world.stack, "serve")
    assert done["aws sagemaker BatchRebootClusterNodes"] == done["aws sagemaker BatchReplaceClusterNodes"] == 1


async def test_a_failed_creation_is_explained_without_changing_anything(conversations: Conversations) -> None:
    over = await conversations.explained
    finding: Finding = over.came_of_it
    assert finding.evidence[0].startswith("dependencies is blocked, attempt 1: denied")
    assert "create-cluster" in finding.proposal
    assert over.effects == []
    assert over.approved == []


async def test_a_creation_that_broke_off_in_the_dependencies_is_found_and_ends_well(
    conversations: Conversations,
) -> None:
    over = await conversations.resumed
    assert over.came_of_it == await conversations.broken_off
    assert over.user.has_heard("control_plane: done")
    assert over.agent.calls["cluster_create"] == 0
    assert over.effects  # The ledger shows what a retry does, as it would show what an investigation did.
    assert not [each for each in over.effects if each.endswith(("CreateVpc", "eks CreateCluster", "CreateNatGateway"))]
    done = effects(conversations.world.stack, "halfway")
    assert done["aws eks CreateCluster"] == done["aws sagemaker CreateCluster"] == 1


async def test_who_only_investigates_asks_for_plans_and_starts_nothing(conversations: Conversations) -> None:
    await asyncio.gather(conversations.examined, conversations.explained)
    world = conversations.world
    assert {(entry["path"], entry["operation"]) for entry in world.audited("reader")} == {("/api/v1/plans", None)}
    assert world.started_by("reader") == []
    assert f"create-cluster/{(await conversations.created).came_of_it}" in world.started_by("bot")


async def test_an_agent_approves_nothing(conversations: Conversations, world: World) -> None:
    await conversations.created
    async with world.connected("bot") as client:
        result = await client.call_tool("operation_approve", {"operation": "create-cluster/x", "plan_hash": "0" * 8})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["problem"]["code"] == "denied"
