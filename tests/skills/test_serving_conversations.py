"""The skills about models, played on a real stack: on a cluster with one node that has one GPU, and on one with two."""

from __future__ import annotations

from tests.durability.runs import create
from tests.skills import serving_scripts
from tests.skills.agent import User
from tests.skills.conftest import World
from tests.skills.talks import talk

TAG = "models"
COMMAND = "vllm serve Qwen/Qwen3-0.6B --max-model-len 1280 --tensor-parallel-size 1"
NAME = "qwen3-0-6b"
POOLS = "pools"
POOL = "qwen3-pool"
TWO_NODES = [{"name": "workers", "instance_type": "ml.g5.8xlarge", "count": 2}]


async def test_a_model_is_deployed_on_the_gpus_that_the_user_says_tried_and_undeployed(world: World) -> None:
    create(world.stack, TAG)
    await world.until(f"create-cluster/{TAG}", "succeeded")

    user = User({"gpu_count": 1, "yes": True})
    over = await talk(world, "deploy-model", user, lambda agent: serving_scripts.deploy_model(agent, TAG, COMMAND))
    assert user.asked == ["gpu_count", "yes"]
    assert user.has_heard("ml.g5.8xlarge: 1 of 1 GPUs free on 1 node, at most 1 on one")
    assert over.approved == []
    reply = over.came_of_it
    assert reply["text"]
    assert user.has_heard(f"{reply['text']} (http://{NAME}.default.svc:8000/v1)")
    (server,) = world.stack.gateway.get(f"/clusters/{TAG}/deployments").json()["deployments"]
    assert (server["name"], server["state"], server["gpu_count"], server["ready"]) == (NAME, "ready", 1, 1)
    assert [each["public"] for each in server["services"]] == [False]

    gone = await talk(world, "deploy-model", User(), lambda agent: serving_scripts.undeploy(agent, TAG, NAME))
    assert gone.approved == [f"delete-deployment/{TAG}/{NAME}"]
    assert world.stack.gateway.get(f"/clusters/{TAG}/deployments").json()["deployments"] == []
    assert world.stack.gateway.get(f"/clusters/{TAG}/services").json()["services"] == []


async def test_a_pool_is_made_and_its_pods_move_to_where_the_user_wants_them(world: World) -> None:
    create(world.stack, POOLS, instance_groups=TWO_NODES)
    await world.until(f"create-cluster/{POOLS}", "succeeded")

    user = User({"gpu_count": 1, "count": 2, "yes": True})
    wishes = [{"chat": 2}, {"chat": 1, "search": 1}]
    over = await talk(
        world, "model-pool", user, lambda agent: serving_scripts.share_a_model(agent, POOLS, COMMAND, POOL, wishes)
    )
    assert user.has_heard("ml.g5.8xlarge: 2 of 2 GPUs free on 2 nodes, at most 1 on one")
    assert over.approved == []
    had = [{each["service"]: each["ready"] for each in pool["assignments"]} for pool in over.came_of_it]
    assert had == wishes
    for service in ("chat", "search"):
        assert user.has_heard(f"{service}: ")

    gone = await talk(world, "model-pool", User(), lambda agent: serving_scripts.drop_pool(agent, POOLS, POOL))
    assert gone.approved == [f"delete-model-pool/{POOLS}/{POOL}"]
    assert world.stack.gateway.get(f"/clusters/{POOLS}/model-pools").json()["model_pools"] == []
