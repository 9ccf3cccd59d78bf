"""The skills about models as scripts: each follows the numbered steps of its SKILL.md, literally."""

from __future__ import annotations

import pytest

from contracts.names import deployment_name
from tests.skills.agent import Agent, Answer, Refused


async def deploy_model(agent: Agent, tag: str, command: str) -> Answer:
    """Steps 1 to 6 of deploy-model, for a user who gave a command and no number of GPUs. Returns the model's reply."""
    there = (await agent.call("inference_list_services", cluster=tag))["services"]
    read = await agent.call("inference_parse_command", command=command, cluster=tag)
    assert not [each for each in read["findings"] if each["severity"] == "error"]
    name = deployment_name(read["command"]["model"])
    assert name not in [each["name"] for each in there]

    with pytest.raises(Refused) as refused:
        await agent.call("inference_deploy_container", command=command, cluster=tag)
    assert refused.value.problem["field"] == "/gpu_count"
    agent.tell(refused.value.problem["detail"])
    agent.tell(f"I would start {read['command']['model']} with {read['image']} as {name}, inside the cluster.")
    gpus, yes = agent.user.ask("gpu_count", "yes")
    assert yes

    spec = {"name": name, "command": command, "gpu_count": gpus}
    plan = await agent.plan("create-deployment", tag, spec)
    operation = await agent.start(
        "inference_deploy_container",
        command=command,
        gpu_count=gpus,
        cluster=tag,
        deployment=name,
        plan=plan["plan"],
    )
    await agent.done(operation)
    reply = await agent.call(
        "inference_call_model",
        service_name=name,
        prompt="Say hello in one sentence.",
        cluster=tag,
        max_tokens=64,
    )
    (service,) = [
        each for each in (await agent.call("inference_list_services", cluster=tag))["services"] if each["name"] == name
    ]
    agent.tell(f"{reply['text']} (http://{name}.{service['namespace']}.svc:{service['port']}/v1)")
    return reply


async def undeploy(agent: Agent, tag: str, name: str) -> Answer:
    """The last row of "Later" of deploy-model. Returns the operation."""
    operation = await agent.start("inference_undeploy", deployment=name, cluster=tag)
    return await agent.done(operation)


async def share_a_model(agent: Agent, tag: str, command: str, pool: str, wishes: list[dict[str, int]]) -> list[Answer]:
    """Steps 1 to 4 of model-pool, for a user who wants a pool, and then each of ``wishes`` of it. Returns the pool as
    it was listed after each."""
    assert not (await agent.call("model_pool_list", cluster=tag))["model_pools"]
    await agent.call("inference_parse_command", command=command, cluster=tag)
    with pytest.raises(Refused) as refused:
        await agent.call("model_pool_create", command=command, cluster=tag)
    agent.tell(refused.value.problem["detail"])
    gpus, pods, yes = agent.user.ask("gpu_count", "count", "yes")
    assert yes
    asked = {"command": command, "gpu_count": gpus, "replicas": pods}
    plan = await agent.plan("create-model-pool", tag, {"name": pool, **asked})
    begun = await agent.start("model_pool_create", cluster=tag, model_pool=pool, plan=plan["plan"], **asked)
    await agent.done(begun)

    seen = []
    for wish in wishes:
        plan = await agent.plan("assign-model-pool", tag, {"name": pool, "assignments": wish})
        assert agent.user.ask("yes") == [True]
        begun = await agent.start(
            "model_pool_assign", model_pool=pool, assignments=wish, cluster=tag, plan=plan["plan"]
        )
        await agent.done(begun)
        for service in wish:
            reply = await agent.call(
                "inference_call_model",
                service_name=service,
                prompt="Say hello in one sentence.",
                cluster=tag,
                max_tokens=64,
            )
            agent.tell(f"{service}: {reply['text']}")
        (now,) = (await agent.call("model_pool_list", cluster=tag))["model_pools"]
        seen.append(now)
    return seen


async def drop_pool(agent: Agent, tag: str, pool: str) -> Answer:
    """The last row of "Later" of model-pool. Returns the operation."""
    return await agent.done(await agent.start("model_pool_delete", model_pool=pool, cluster=tag))
