"""A cluster's life after its creation, killed at every turn: each effect happens once, nothing is left in the end."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.durability.runs import ENDS, POLL, create, effects, finish, last_entry, raise_quotas, states, wait_for
from tests.local_stack import LocalStack, local_stack

SPEED = 200.0
TURNS = (("worker",), ("gateway",), ("temporal",), ("worker",), ("temporal", "worker", "gateway"))
"""Who is killed next."""

Steps = list[tuple[str, str, str, Any]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Two clusters, alike but for their region."""
    with local_stack(tmp_path_factory.mktemp("day-two"), SPEED, {"INSTANTSTART_POLL_SECONDS": POLL}) as running:
        raise_quotas(running)
        with ThreadPoolExecutor(2) as both:
            asked = [
                both.submit(create, running, "calm", region="us-west-2"),
                both.submit(create, running, "rough", region="us-east-1"),
            ]
            for answer in asked:
                finish(running, answer.result())
        yield running


def life(stack: LocalStack, tag: str) -> Steps:
    """What is done to a cluster, one after the other: method, path, the operation that it starts, body."""
    node = stack.gateway.get(f"/clusters/{tag}/nodes").json()["nodes"][0]["name"]
    group = {"name": "more", "instance_type": "ml.g5.8xlarge", "count": 1, "labels": {"example.com/pool": "more"}}
    features = {"metrics_server": {"enabled": True}, "kuberay": {"enabled": True}}
    return [
        ("POST", "instance-groups", f"add-instance-group/{tag}/more", group),
        ("POST", "instance-groups/more/scale", f"scale-instance-group/{tag}/more", {"count": 2}),
        ("PATCH", "features", f"update-features/{tag}/kuberay+metrics_server", features),
        ("POST", "nodes/replace", f"replace-nodes/{tag}/{node.removeprefix('hyperpod-')}", {"nodes": [node]}),
        ("DELETE", "instance-groups/more", f"delete-instance-group/{tag}/more", None),
        ("DELETE", "", f"delete-cluster/{tag}", {"delete_bucket": True}),
    ]


def ask(stack: LocalStack, tag: str, method: str, path: str, body: Any) -> None:
    url = f"/clusters/{tag}" + (f"/{path}" if path else "")
    answer = stack.gateway.request(method, url, json=body) if body is not None else stack.gateway.request(method, url)
    assert answer.status_code == 202, answer.text


def done_to(stack: LocalStack, tag: str, since: int) -> Counter[str]:
    """Effects without what names no two runs share: nodes, volumes and the like carry identifiers of their own."""
    return Counter(
        {name: count for name, count in effects(stack, tag, since).items() if not name.startswith("kubernetes")}
    )


def test_a_life_with_kills_at_every_stage_boundary_has_the_effects_of_an_undisturbed_one_and_leaves_nothing(
    stack: LocalStack,
) -> None:
    began = last_entry(stack)
    for method, path, operation, body in life(stack, "calm"):
        ask(stack, "calm", method, path, body)
        finish(stack, operation)

    victims = itertools.cycle(TURNS)
    kills = 0
    for method, path, operation, body in life(stack, "rough"):
        ask(stack, "rough", method, path, body)
        reached: set[tuple[str, str]] = set()
        while (found := stack.operation(operation))["phase"] not in ENDS:
            now = {(name, state) for name, state in states(found).items() if state == "running"}
            if now - reached:
                reached |= now
                names = next(victims)
                stack.kill(*names)
                stack.start(*names)
                kills += 1
        assert found["phase"] == "succeeded", found["problem"]
    assert kills >= 6
    assert done_to(stack, "rough", began) == done_to(stack, "calm", began)

    for tag in ("calm", "rough"):
        assert stack.operation(f"delete-cluster/{tag}")["result"]["remaining"] == []
        wait_for(lambda tag=tag: stack.gateway.get(f"/clusters/{tag}").status_code == 404)
