"""The skills about training, played on a real stack: a run fails, is investigated, tried again, kept and stopped."""

from __future__ import annotations

from contracts.catalogue import UPDATE_FEATURES
from tests.durability.runs import create
from tests.skills import training_scripts as scripts
from tests.skills.agent import User
from tests.skills.conftest import World
from tests.skills.talks import talk

TAG = "lessons"
RUN = "qwen3-sft"
OPERATION = f"run-training/{TAG}/{RUN}"
TWO_NODES = [{"name": "workers", "instance_type": "ml.g5.8xlarge", "count": 2}]
RECIPE = {"kind": "pytorch", "script_path": "/s3/code/train.py", "arguments": ["--max-steps=60"]}
OUT_OF_MEMORY = {"fault": "crash", "cause": "cuda_oom", "deployment": RUN, "step": 20}


async def test_a_run_that_fails_is_explained_tried_again_at_the_users_word_kept_and_stopped_by_a_person(
    world: World,
) -> None:
    create(world.stack, TAG, instance_groups=TWO_NODES)
    await world.until(f"create-cluster/{TAG}", "succeeded")
    on = {"training_operator": {"enabled": True}}
    world.stack.gateway.patch(f"/clusters/{TAG}/features", json=on).raise_for_status()
    await world.until(f"{UPDATE_FEATURES.name}/{TAG}/training_operator", "succeeded")
    world.stack.sandbox.post("/kubernetes/pods", json={"add": [OUT_OF_MEMORY]}).raise_for_status()

    user = User({"gpu_count": 1, "yes": True})
    begun = await talk(world, "train-model", user, lambda agent: scripts.train_model(agent, TAG, RUN, RECIPE))
    assert begun.came_of_it == OPERATION
    assert user.asked == ["gpu_count", "yes"]
    assert user.has_heard("ml.g5.8xlarge: 2 of 2 GPUs free on 2 nodes, at most 1 on one")
    assert begun.approved == []

    await world.until(OPERATION, "blocked")
    before = world.last_entry()
    examined = await talk(
        world, "investigate-nccl", User(), lambda agent: scripts.why_training_fails(agent, TAG, RUN), "reader"
    )
    finding = examined.came_of_it
    assert finding.evidence[1].startswith("cuda-oom ")
    assert any("CUDA out of memory" in each for each in finding.evidence)
    assert "propose" in finding.proposal
    # The run itself may still keep its logs and its record.
    assert set(world.effects_on(TAG, before)) <= {"s3 PutObject"}

    world.stack.sandbox.delete("/kubernetes/pods").raise_for_status()
    user = User({"yes": True})
    over = await talk(world, "train-model", user, lambda agent: scripts.follow(agent, TAG, RUN, OPERATION))
    assert user.has_heard("A GPU has too little memory")
    assert user.has_heard(f"Kept as {RUN}, version 1.")
    assert (over.came_of_it["run"]["state"], over.came_of_it["spec"]["gpus_per_node"]) == ("succeeded", 1)

    again = await talk(
        world,
        "train-model",
        User(),
        lambda agent: scripts.train_again(agent, TAG, RUN, 1, arguments=["--max-steps=10"]),
    )
    assert again.came_of_it["spec"]["recipe"] == {**again.came_of_it["spec"]["recipe"], "arguments": ["--max-steps=10"]}
    assert again.came_of_it["run"]["state"] == "succeeded"

    ended = await talk(world, "train-model", User(), lambda agent: scripts.stop(agent, TAG, RUN))
    assert ended.approved == [f"stop-training/{TAG}/{RUN}"]
    runs = world.stack.gateway.get(f"/clusters/{TAG}/training-runs").json()["runs"]
    assert [each["name"] for each in runs] == [f"{RUN}-2"]
