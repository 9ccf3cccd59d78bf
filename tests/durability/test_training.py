"""Training runs while parts of the platform are killed: each job is made once, its record is right, no line is lost.

One round for each victim: runs, each caught at another point, then ``kill -9``. Afterwards what happens to runs while
nobody watches them.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from tests.durability.runs import POLL, finish, last_entry, states, wait_for
from tests.durability.serving import AT_ONCE, GPUS, Hold, Holding
from tests.durability.training import EKS, HOME, JOBS, RAY_JOBS, SINGLE, TAG, Trainings, ray_spec, run_spec, school
from tests.local_stack import LocalStack, local_stack

SPEED, SLOW, FAST = 200.0, 25.0, 400.0
VICTIMS = {
    "worker": ("worker",),
    "gateway": ("gateway",),
    "temporal": ("temporal",),
    "all": ("temporal", "worker", "gateway"),
}
STEPS = {"submitted": 120, "running": 400, "queued": 120, "restarting": 400, "ending": 5}
"""Of the runs that end well, by where they are caught."""
LONG = 1_000_000
RAY_STEPS = 1500
_STEP = re.compile(r"Batch (\d+) Loss")


@dataclass
class Round:
    """What came of one kill."""

    victim: str
    caught: dict[str, dict[str, Any]]
    """The operations when the victim was killed."""
    ended: dict[str, dict[str, Any]]
    made: Counter[str]

    def name(self, role: str) -> str:
        return f"{self.victim}-{role}"


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainings]:
    with (
        pytest.MonkeyPatch.context() as patch,
        local_stack(tmp_path_factory.mktemp("training"), SPEED, {"INSTANTSTART_POLL_SECONDS": POLL}) as stack,
    ):
        patch.setenv("AWS_ENDPOINT_URL", stack.settings.sandbox_url)
        yield school(stack)


@pytest.fixture(scope="module", params=VICTIMS)
def after(trainings: Trainings, request: pytest.FixtureRequest) -> Iterator[Round]:
    """A round: runs are submitted, wait, train, start again, end, are suspended and stopped, while the victim is
    killed."""
    victim, stack = request.param, trainings.stack
    began = last_entry(stack)
    trainings.speed(SLOW)
    held = Holding(stack, _holds(victim))
    try:
        with ThreadPoolExecutor(AT_ONCE) as crowd:
            first = {role: crowd.submit(_submit, trainings, victim, role) for role in ("running", "restarting")}
            first |= {role: crowd.submit(_submit, trainings, victim, role) for role in ("suspended", "stopped")}
            asked = {role: each.result() for role, each in first.items()}
            for operation in asked.values():
                wait_for(partial(trainings.says, operation, "1 of 1 pods run, step"))
            held.begin()
            more = {role: crowd.submit(_submit, trainings, victim, role) for role in ("queued", "submitted", "ending")}
            more |= {
                "suspend": crowd.submit(trainings.ask, f"/{victim}-suspended/suspend", {"reason": "makes room"}),
                "stop": crowd.submit(trainings.ask, f"/{victim}-stopped/stop", {"reason": "diverged"}),
            }
            asked |= {role: each.result() for role, each in more.items()}
        held.wait()
        wait_for(partial(trainings.says, asked["queued"], "queued"))
        trainings.speed(1)
        trainings.misfortune(fault="crash", cause="nccl_error", deployment=f"{victim}-restarting", times=1)
        # The processes have ended, and are started again in eight seconds.
        wait_for(partial(trainings.says, asked["restarting"], "restarts 1 of 5"))
        assert _running(trainings.job(f"{victim}-restarting")) == "False"
        caught = {role: stack.operation(operation) for role, operation in asked.items()}
        stack.kill(*VICTIMS[victim])
        trainings.speed(SLOW)
        stack.start(*VICTIMS[victim])
        held.end()
        trainings.speed(FAST)
        ended = {role: trainings.ended(asked[role]) for role in ("suspend", "stop")}
        asked["resume"] = trainings.ask(f"/{victim}-suspended/resume")
        ended |= {role: trainings.ended(operation) for role, operation in asked.items() if role not in ended}
        yield Round(victim, caught, ended, trainings.made(began))
    finally:
        held.end()
        trainings.no_misfortune()
        trainings.speed(SPEED)


def _submit(trainings: Trainings, victim: str, role: str) -> str:
    single = role in ("running", "queued")
    steps = LONG if role == "stopped" else STEPS.get(role, 400)
    return trainings.submit(f"{victim}-{role}", steps, instance_types=[SINGLE if single else GPUS])


def _holds(victim: str) -> dict[str, Hold]:
    written = f'"name": "{victim}-ending"'
    return {
        "submitted": Hold(f"PATCH {JOBS}/{victim}-submitted", service=EKS),
        "suspend": Hold(f"PATCH {JOBS}/{victim}-suspended", service=EKS),
        "stop": Hold(f"DELETE {JOBS}/{victim}-stopped", before=True, service=EKS),
        "ending": Hold("PutObject", before=True, match=written, api="aws", service="s3"),
    }


def _running(job: dict[str, Any]) -> str:
    return str(next(each["status"] for each in job["status"]["conditions"] if each["type"] == "Running"))


@pytest.mark.parametrize("role", STEPS)
def test_a_run_that_is_caught_by_a_kill_has_one_job_and_a_right_record(
    trainings: Trainings, after: Round, role: str
) -> None:
    stage = {"submitted": "submitted", "ending": "record"}.get(role, "run")
    assert states(after.caught[role])[stage] == "running"
    ended, name = after.ended[role], after.name(role)
    assert ended["phase"] == "succeeded", ended
    assert after.made[f"PATCH {JOBS}/{name} 201"] == 1
    assert not [call for call in after.made if call.startswith(f"DELETE {JOBS}/{name} ")]
    record = trainings.record(ended)
    assert (record["state"], record["run"], len(record["attempts"])) == ("succeeded", ended["run_id"], 1)
    [attempt] = record["attempts"]
    assert (attempt["state"], attempt["reported"]["step"]) == ("succeeded", STEPS[role])
    assert attempt["restarts"]["job"] == (role == "restarting")
    history = [change["state"] for change in attempt["history"]]
    assert history[-1] == "succeeded"
    assert ("restarting" in history) == (role == "restarting"), history
    assert history.count("succeeded") == 1


@pytest.mark.parametrize("role", STEPS)
def test_every_line_of_a_run_that_is_caught_by_a_kill_is_kept_once(
    trainings: Trainings, after: Round, role: str
) -> None:
    ended, [pod] = after.ended[role], trainings.pods(after.name(role))
    printed = trainings.printed(pod.metadata.name)
    assert len([line for line in printed if _STEP.search(line)]) >= STEPS[role]
    kept = trainings.kept(ended)
    assert kept == {pod.metadata.name: printed}
    logs = ended["result"]["logs"]
    assert (logs["lines"], logs["gaps"], logs["pods"]) == (len(printed), 0, 1)


def test_a_suspension_that_is_caught_by_a_kill_takes_effect_and_the_run_goes_on_afterwards(
    trainings: Trainings, after: Round
) -> None:
    assert states(after.caught["suspend"])["job"] == "running"
    assert after.ended["suspend"]["phase"] == "succeeded", after.ended["suspend"]
    assert after.ended["resume"]["phase"] == "succeeded", after.ended["resume"]
    ended, name = after.ended["suspended"], after.name("suspended")
    assert ended["phase"] == "succeeded", ended
    assert after.made[f"PATCH {JOBS}/{name} 201"] == 1
    record = trainings.record(ended)
    assert [each["action"] for each in record["told"]] == ["suspend", "resume"]
    history = [change["state"] for change in record["attempts"][0]["history"]]
    assert history.count("suspended") == 1, history
    assert history[-1] == "succeeded"
    for lines in trainings.kept(ended).values():
        assert lines == sorted(set(lines))


def test_a_stop_that_is_caught_by_a_kill_ends_the_run_and_leaves_no_pod(trainings: Trainings, after: Round) -> None:
    assert states(after.caught["stop"])["job"] == "running"
    assert after.ended["stop"]["phase"] == "succeeded", after.ended["stop"]
    ended, name = after.ended["stopped"], after.name("stopped")
    assert (ended["phase"], ended["detail"]) == ("aborted", "stopped by launcher: diverged")
    assert (trainings.job(name), trainings.pods(name)) == (None, [])
    assert after.made[f"PATCH {JOBS}/{name} 201"] == 1
    assert [after.made[call] for call in after.made if call.startswith(f"DELETE {JOBS}/{name} ")] == [1]
    record = trainings.record(ended)
    assert (record["state"], record["detail"]) == ("stopped", "stopped by launcher: diverged")
    [lines] = trainings.kept(ended).values()
    assert lines == sorted(set(lines))


CANARY = "c4n4ry-5b1e0f7a9d3c42e8"
LITERAL = "hf_" + "Zx9Kq2Lm" * 4
"""What looks like a token where none belongs."""


@dataclass
class Storm:
    """Runs that went on while nobody watched."""

    ended: dict[str, dict[str, Any]]
    blocked: dict[str, Any]
    """Of the run that failed: the operation before it was retried."""
    crowd: list[httpx.Response]
    """Answers to those who asked for the same run, half of them with one Idempotency-Key."""
    other: httpx.Response
    """The answer to another wish of that name."""
    refused: httpx.Response
    node: str
    """The node that was lost."""
    made: Counter[str]
    said: list[str]
    """All that the gateway answered."""
    driver: tuple[str, list[str]]
    """The pod that prints what the driver of the RayJob prints, and its log."""


@pytest.fixture(scope="module")
def storm(trainings: Trainings) -> Iterator[Storm]:
    """Runs are asked for by many, lose a node, use up their budget, are stopped and torn down while the worker is
    dead."""
    stack, began = trainings.stack, last_entry(trainings.stack)
    said: list[str] = []
    stack.gateway.event_hooks["response"].append(lambda answer: said.append(_text(answer)))
    trainings.speed(SLOW)
    secret = run_spec("secret", 60, secret_env={"WANDB_API_KEY": "wandb"})
    wanted = run_spec("wanted", 60)
    try:
        finish(stack, _stored(stack, "wandb", CANARY))
        refused = stack.gateway.post(f"{HOME}/training-runs", json=run_spec("leaky", 5, env={"TOKEN": LITERAL}))
        asked = {"lost": trainings.submit("lost", 900, gpus_per_node=4)}
        trainings.misfortune(fault="crash", cause="cuda_oom", deployment="beyond", step=3)
        budget = {"in_place_restarts": 1, "full_restarts": 0, "clean_pods": "None"}
        asked |= {
            "beyond": trainings.submit("beyond", 60, recovery=budget),
            "unwatched": trainings.submit("unwatched", LONG),
            "secret": trainings.ask("", secret),
            "grpo": trainings.ask("", ray_spec("grpo", RAY_STEPS)),
        }
        with ThreadPoolExecutor(AT_ONCE) as threads:
            keys = [{"Idempotency-Key": "wanted-once"} if number % 2 else {} for number in range(8)]
            path = f"{HOME}/training-runs"
            posts = [threads.submit(stack.gateway.post, path, json=wanted, headers=key) for key in keys]
            crowd = [each.result() for each in posts]
        other = stack.gateway.post(f"{HOME}/training-runs", json={**wanted, "shm_gib": 9})
        asked["wanted"] = "run-training/train/wanted"
        for role in ("lost", "unwatched"):
            wait_for(partial(trainings.says, asked[role], "1 of 1 pods run, step"))
        wait_for(partial(trainings.says, asked["grpo"], "step"))
        blocked = trainings.ended(asked["beyond"])
        [pod] = trainings.pods("lost")
        node = str(pod.spec.node_name)
        stack.kill("worker")
        body = {"fail_node": {"cluster": f"hp-cluster-{TAG}", "node": node.removeprefix("hyperpod-")}}
        stack.sandbox.post("/hyperpod", json=body).raise_for_status()
        asked["stop"] = trainings.ask("/unwatched/stop", {"reason": "too dear"})
        wait_for(lambda: trainings.job("lost")["status"].get("restartCount") == 1)
        [driver] = [each.metadata.name for each in trainings.pods("grpo") if each.metadata.labels.get("job-name")]
        printed = trainings.printed(driver)
        stack.start("worker")
        trainings.no_misfortune()
        running = stack.operation(asked["grpo"])
        wait_for(lambda: len(trainings.kept(running).get(driver, ())) > len(printed))
        trainings.speed(FAST)
        correction = {"corrections": {"env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}}
        stack.gateway.post(f"/operations/{asked['beyond']}/retry", json=correction).raise_for_status()
        stack.until(asked["beyond"], lambda found: found["phase"] != "blocked")
        ended = {role: trainings.ended(operation) for role, operation in asked.items()}
        for path in (HOME, f"{HOME}/training-runs", f"{HOME}/training-runs/secret", "/audit"):
            stack.gateway.get(path).raise_for_status()
        made, printed = trainings.made(began), trainings.printed(driver)
        yield Storm(ended, blocked, crowd, other, refused, node, made, said, (driver, printed))
    finally:
        trainings.no_misfortune()
        stack.gateway.event_hooks["response"].clear()


def _text(answer: httpx.Response) -> str:
    answer.read()
    return f"{answer.request.url}\n{answer.headers}\n{answer.text}"


def _stored(stack: LocalStack, name: str, token: str) -> str:
    answer = stack.gateway.put(f"{HOME}/credentials/{name}", json={"token": token})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def test_a_run_that_loses_a_node_while_nobody_watches_goes_on_on_another_and_its_budget_is_counted(
    trainings: Trainings, storm: Storm
) -> None:
    ended = storm.ended["lost"]
    assert ended["phase"] == "succeeded", ended
    assert storm.made[f"PATCH {JOBS}/lost 201"] == 1
    [pod] = trainings.pods("lost")
    assert pod.spec.node_name != storm.node
    [attempt] = trainings.record(ended)["attempts"]
    assert (attempt["restarts"]["job"], attempt["restarts"]["in_place"]) == (1, 1)
    assert attempt["reported"]["step"] == 900
    [kept] = trainings.kept(ended).values()
    assert kept == sorted(set(kept))
    printed = trainings.printed(pod.metadata.name)
    assert kept[-len(printed) :] == printed
    # What the lost pod printed after the worker's death is gone, and said to be.
    streams = trainings.index(ended)["streams"]
    assert [(each["uid"] == pod.metadata.uid, each["gaps"]) for each in streams] == [(False, 1), (True, 0)]


def test_a_run_whose_budget_is_used_up_blocks_with_the_cause_and_a_correction_makes_one_more_job(
    trainings: Trainings, storm: Storm
) -> None:
    blocked, ended = storm.blocked, storm.ended["beyond"]
    assert (blocked["phase"], states(blocked)["run"]) == ("blocked", "blocked")
    problem = next(each["problem"] for each in blocked["stages"] if each["name"] == "run")
    assert "out of memory" in problem["detail"], problem
    assert ended["phase"] == "succeeded", ended
    assert storm.made[f"PATCH {JOBS}/beyond 201"] == 2
    record = trainings.record(ended)
    assert [(each["state"], each["restarts"]["job"]) for each in record["attempts"]] == [
        ("failed", 1),
        ("succeeded", 0),
    ]
    assert record["attempts"][0]["problem"]["detail"] == problem["detail"]
    assert record["spec"]["env"] == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    [kept] = trainings.kept(ended).values()
    assert kept == sorted(set(kept))
    [pod] = trainings.pods("beyond")
    printed = trainings.printed(pod.metadata.name)
    assert kept[-len(printed) :] == printed


def test_a_stop_while_no_worker_runs_ends_the_run_as_stopped(trainings: Trainings, storm: Storm) -> None:
    assert storm.ended["stop"]["phase"] == "succeeded", storm.ended["stop"]
    ended = storm.ended["unwatched"]
    assert (ended["phase"], ended["detail"]) == ("aborted", "stopped by launcher: too dear")
    assert (trainings.job("unwatched"), trainings.pods("unwatched")) == (None, [])
    record = trainings.record(ended)
    assert (record["state"], [each["action"] for each in record["told"]]) == ("stopped", ["stop"])


def test_many_who_ask_for_the_same_run_start_one_and_another_wish_is_refused_with_its_name(storm: Storm) -> None:
    ended = storm.ended["wanted"]
    assert ended["phase"] == "succeeded", ended
    assert {answer.status_code for answer in storm.crowd} == {202}
    assert {(each.json()["id"], each.json()["run_id"]) for each in storm.crowd} == {(ended["id"], ended["run_id"])}
    assert (storm.other.status_code, storm.other.json()["operation"]) == (409, ended["id"])
    assert storm.made[f"PATCH {JOBS}/wanted 201"] == 1


def test_the_logs_of_a_ray_job_are_kept_before_it_is_torn_down_although_the_worker_was_killed(
    trainings: Trainings, storm: Storm
) -> None:
    ended = storm.ended["grpo"]
    assert ended["phase"] == "succeeded", ended
    assert storm.made[f"PATCH {RAY_JOBS}/grpo 201"] == 1
    driver, printed = storm.driver
    assert len(printed) > RAY_STEPS
    kept = trainings.kept(ended)
    assert kept[driver] == printed
    streams = trainings.index(ended)["streams"]
    assert [(each["ended"], each["gaps"]) for each in streams] == [(True, 0)] * len(streams)
    assert len({each["pod"] for each in streams}) == 3
    [attempt] = trainings.record(ended)["attempts"]
    assert (attempt["state"], attempt["reported"]["step"]) == ("succeeded", RAY_STEPS)


def test_a_secret_of_a_run_is_nowhere_but_in_its_secret(trainings: Trainings, storm: Storm) -> None:
    stack = trainings.stack
    assert (storm.refused.status_code, storm.refused.json()["field"]) == (422, "/env/TOKEN")
    assert storm.ended["secret"]["phase"] == "succeeded", storm.ended["secret"]
    folder = stack.settings.folder.path
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {str(path): path.read_bytes() for path in paths if "sandbox" not in path.relative_to(folder).parts}
    files |= trainings.objects()
    for number, text in enumerate((*storm.said, stack.sandbox.get("/ledger").text)):
        files[f"answer {number}"] = text.encode()
    # What is looked for would be found: the name of the credential is in all these places.
    for place in ("temporal.db", "run.json", "answer"):
        assert [name for name, content in files.items() if place in name and b"wandb" in content]
    for form in (CANARY, base64.b64encode(CANARY.encode()).decode().rstrip("="), LITERAL):
        assert not [name for name, content in files.items() if form.encode() in content]
