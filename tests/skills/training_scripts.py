"""The skills about training as scripts: each follows the numbered steps of its SKILL.md, literally."""

from __future__ import annotations

from typing import Any

import pytest

from tests.skills.agent import Agent, Answer, Refused
from tests.skills.scripts import Finding


async def train_model(agent: Agent, tag: str, run: str, recipe: Answer) -> str:
    """Steps 1 to 4 of train-model, for a user who has a script and says no number of GPUs. Returns the operation."""
    groups = (await agent.call("cluster_get_instance_groups", cluster=tag))["hyperpod"]["instance_groups"]
    assert not [each for each in (await agent.call("training_list", cluster=tag))["runs"] if each["name"] == run]
    assert recipe["kind"] in [each["kind"] for each in (await agent.call("recipe_list"))["recipes"]]
    features = (await agent.call("hyperpod_get_advanced_features", cluster=tag))["features"]
    assert {each["feature"]: each["state"] for each in features}["training_operator"] == "on"
    await agent.call("tracking_server_list", cluster=tag)

    wanted = {"recipe": recipe, "instance_types": [groups[0]["instance_type"]], "nodes": groups[0]["current"]}
    with pytest.raises(Refused) as refused:
        await agent.call("training_submit", run=run, cluster=tag, **wanted)
    assert refused.value.problem["field"] == "/gpus_per_node"
    agent.tell(refused.value.problem["detail"])
    gpus, yes = agent.user.ask("gpu_count", "yes")
    assert yes

    wanted["gpus_per_node"] = gpus
    plan = await agent.plan("run-training", tag, {"name": run, **wanted})
    return await agent.start("training_submit", run=run, cluster=tag, plan=plan["plan"], **wanted)


async def follow(agent: Agent, tag: str, run: str, operation: str) -> Answer:
    """Steps 5 to 7: until the run has succeeded, with one failure on the way that the user wants tried again. Returns
    the run."""
    now = await agent.follow(operation)
    if now["phase"] == "blocked":
        diagnosis = await agent.call("diagnose_problem", kind="training-run", name=run, cluster=tag)
        agent.tell(f"{diagnosis['causes'][0]['title']}: {diagnosis['causes'][0]['fix']} {diagnosis['next']}")
        assert agent.user.ask("yes") == [True]
        await agent.call("operation_retry", operation=operation)
        now = await agent.done(operation)
    assert now["phase"] == "succeeded"
    shown = await agent.call("training_logs", run=run, cluster=tag, rank=0, lines=20)
    agent.tell(shown["lines"][-1])
    found: Answer = await agent.call("training_get", run=run, cluster=tag)
    document = {name: value for name, value in found["spec"].items() if name != "name"}
    kept = await agent.call("preset_save", preset=run, document=document, comment="first good run")
    agent.tell(f"Kept as {kept['preset']['name']}, version {kept['preset']['version']}.")
    return found


async def train_again(agent: Agent, tag: str, preset: str, gpus: int, **changes: Any) -> Answer:
    """The row "the same again, changed" of "Later", to its end."""
    run = f"{preset}-2"
    operation = await agent.start(
        "training_submit", run=run, cluster=tag, preset=preset, recipe=changes, gpus_per_node=gpus
    )
    await agent.done(operation)
    found: Answer = await agent.call("training_get", run=run, cluster=tag)
    return found


async def stop(agent: Agent, tag: str, run: str) -> Answer:
    """The row "the end of it" of "Later"."""
    operation = await agent.start("training_stop", run=run, cluster=tag, reason="loss has diverged")
    return await agent.done(operation)


async def why_training_fails(agent: Agent, tag: str, run: str) -> Finding:
    """Steps 1 to 5 of investigate-nccl."""
    runs = (await agent.call("training_list", cluster=tag))["runs"]
    assert run in [each["name"] for each in runs]
    seen = await agent.call("training_get", run=run, cluster=tag)
    diagnosis = await agent.call("diagnose_problem", kind="training-run", name=run, cluster=tag)
    finding = Finding([f"restarts {seen['run']['restarts']['job']}"])
    finding.evidence += [f"{each['rule']} {each['confidence']}" for each in diagnosis["causes"]]
    errors = await agent.call("training_logs", run=run, cluster=tag, level="error", lines=40)
    finding.evidence += errors["lines"]
    for kind in ("reboot-nodes", "replace-nodes"):
        await agent.call("operation_list", cluster=tag, kind=kind)
    finding.proposal = diagnosis["next"]
    agent.tell("\n".join([*finding.evidence, finding.proposal]))
    return finding
