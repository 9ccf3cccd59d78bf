"""Model servers and claims while parts of the platform are killed: each effect happens once, nothing is left over.

One round for each victim: a crowd of operations, each caught at another point, then ``kill -9``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from tests.durability.runs import ENDS, POLL, entries, faults, finish, last_entry, states, wait_for
from tests.durability.serving import (
    AT_ONCE,
    BROKEN_IMAGE,
    CLAIMS,
    DEPLOYMENTS,
    FORMER_IMAGE,
    HOME,
    PODS,
    SERVICES,
    TAG,
    VOLUMES,
    Hold,
    Holding,
    Servers,
    furnished,
    server,
)
from tests.local_stack import local_stack

SPEED = 200.0
NODES = 6
SLOW = {"fault": "slow_load", "factor": 2000.0}
VICTIMS = {
    "worker": ("worker",),
    "gateway": ("gateway",),
    "temporal": ("temporal",),
    "all": ("temporal", "worker", "gateway"),
}
STAGES = {
    "checks": "checks",
    "apply": "deployment",
    "load": "deployment",
    "reach": "services",
    "address": "address",
    "answer": "answers",
}
"""Where the creation of each server is caught."""


@dataclass
class Round:
    """What came of one kill."""

    victim: str
    caught: dict[str, dict[str, Any]]
    """The operations when the victim was killed."""
    ended: dict[str, dict[str, Any]]
    effects: Counter[str]
    touched: set[str]
    former: Any
    """Pod template of the server that was updated in vain."""

    def name(self, role: str) -> str:
        return f"{self.victim}-{role}"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with (
        pytest.MonkeyPatch.context() as patch,
        local_stack(tmp_path_factory.mktemp("serving"), SPEED, {"INSTANTSTART_POLL_SECONDS": POLL}) as stack,
    ):
        patch.setenv("AWS_ENDPOINT_URL", stack.settings.sandbox_url)
        yield furnished(stack, NODES)


@pytest.fixture(scope="module", params=VICTIMS)
def after(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Round]:
    """A round: servers are created, updated (one in vain, one in vain without room for both), scaled and deleted, and
    claims are made, while the victim is killed."""
    victim, stack = request.param, servers.stack
    held = Holding(stack, _holds(victim))
    try:
        alike = [server(f"{victim}-{role}") for role in ("good", "bad", "gone", "many")]
        servers.serve(*alike, server(f"{victim}-back", strategy="recreate"))
        former = servers.deployment(f"{victim}-bad").spec.template
        began = last_entry(stack)
        for role in ("load", "back", "many"):
            servers.misfortune(**SLOW, deployment=f"{victim}-{role}", image=FORMER_IMAGE)
        servers.misfortune(fault="crash_loop", image=BROKEN_IMAGE)
        held.begin()
        asked = _ask(servers, victim)
        held.wait()
        # All three load: the former form of the second has come back.
        loading = {"load": {1: 1}, "back": {2: 0, 3: 1}, "many": {1: 2}}
        for role, revisions in loading.items():
            wait_for(partial(_has, servers, f"{victim}-{role}", revisions))
        caught = {role: stack.operation(operation) for role, operation in asked.items()}
        stack.kill(*VICTIMS[victim])
        stack.start(*VICTIMS[victim])
        held.end()
        scaling = servers.ask("POST", f"/deployments/{victim}-many/scale", {"replicas": 3})
        assert scaling == asked["many"]
        servers.no_misfortune()
        servers.misfortune(fault="crash_loop", image=BROKEN_IMAGE)
        ended = {
            role: stack.until(operation, lambda found: found["phase"] in ENDS) for role, operation in asked.items()
        }
        yield Round(victim, caught, ended, servers.effects(began), servers.touched(began), former)
    finally:
        held.end()
        servers.no_misfortune()
        servers.clear()


def _has(servers: Servers, name: str, revisions: dict[int, int]) -> bool:
    return servers.revisions(name) == revisions


def _holds(victim: str) -> dict[str, Hold]:
    """Each operation is caught in one call; ``load``, ``back`` and ``many`` by servers that load.

    The gateway looks at a request before it starts it: the first look is not the operation's.
    """
    return {
        "checks": Hold(f"GET {DEPLOYMENTS}/{victim}-checks", before=True, skip=1),
        "apply": Hold(f"PATCH {DEPLOYMENTS}/{victim}-apply"),
        "reach": Hold(f"PATCH {SERVICES}/{victim}-reach", before=True),
        "address": Hold(f"GET {SERVICES}/{victim}-address-public", skip=3),
        "answer": Hold(f"POST {SERVICES}/{victim}-answer(:[^/]*)?/proxy/v1/completions"),
        "good": Hold(f"PATCH {DEPLOYMENTS}/{victim}-good"),
        "bad": Hold(f"PATCH {DEPLOYMENTS}/{victim}-bad", match=FORMER_IMAGE),
        "gone": Hold(f"DELETE {DEPLOYMENTS}/{victim}-gone"),
        "claim": Hold(f"PATCH {CLAIMS}/{victim}-claim"),
        "tried": Hold(f"POST {PODS}", match=f"{victim}-tried"),
    }


def _ask(servers: Servers, victim: str) -> dict[str, str]:
    """Start the operations; their ids, by role."""
    with ThreadPoolExecutor(AT_ONCE) as crowd:
        asked = {
            role: crowd.submit(
                servers.create, f"{victim}-{role}", service="public" if role == "address" else "in_cluster"
            )
            for role in STAGES
        }
        asked["good"] = crowd.submit(servers.update, f"{victim}-good", env={"NEWER": "1"})
        asked["bad"] = crowd.submit(servers.update, f"{victim}-bad", image=BROKEN_IMAGE)
        asked["back"] = crowd.submit(servers.update, f"{victim}-back", image=BROKEN_IMAGE, strategy="recreate")
        asked["many"] = crowd.submit(servers.ask, "POST", f"/deployments/{victim}-many/scale", {"replicas": 2})
        asked["gone"] = crowd.submit(servers.ask, "DELETE", f"/deployments/{victim}-gone")
        for role in ("claim", "tried"):
            body = {"claim": f"{victim}-{role}", "prefix": f"{victim}/{role}/"}
            asked[role] = crowd.submit(servers.ask, "POST", "/storage", body)
        return {role: each.result() for role, each in asked.items()}


@pytest.mark.parametrize("role", STAGES)
def test_a_server_whose_creation_is_caught_by_a_kill_is_made_once(servers: Servers, after: Round, role: str) -> None:
    assert states(after.caught[role])[STAGES[role]] == "running"
    name = after.name(role)
    assert after.ended[role]["phase"] == "succeeded", after.ended[role]["problem"]
    services = [name, f"{name}-public"] if role == "address" else [name]
    assert after.ended[role]["result"]["services"] == services
    assert bool(after.ended[role]["result"]["address"]) == (role == "address")
    assert servers.services(name) == services
    assert (servers.deployment(name).metadata.generation, servers.revisions(name)) == (1, {1: 1})
    made = [f"PATCH {DEPLOYMENTS}/{name}", *(f"PATCH {SERVICES}/{each}" for each in services)]
    assert [after.effects[each] for each in made] == [1] * len(made)


def test_a_change_that_is_caught_by_a_kill_is_made_once(servers: Servers, after: Round) -> None:
    assert states(after.caught["good"])["deployment"] == "running"
    assert after.ended["good"]["phase"] == "succeeded", after.ended["good"]["problem"]
    found = servers.deployment(after.name("good"))
    assert {each.name for each in found.spec.template.spec.containers[0].env} >= {"NEWER"}
    assert (found.metadata.generation, servers.revisions(after.name("good"))) == (2, {1: 0, 2: 1})


@pytest.mark.parametrize("role", ["bad", "back"])
def test_a_change_that_does_not_serve_is_taken_back_also_when_the_way_back_is_caught_by_a_kill(
    servers: Servers, after: Round, role: str
) -> None:
    assert states(after.caught[role])["deployment"] == "running"
    ended = after.ended[role]
    assert (ended["phase"], states(ended)["deployment"]) == ("blocked", "blocked")
    problem = next(each["problem"] for each in ended["stages"] if each["name"] == "deployment")
    assert "The former form runs again." in problem["detail"]
    name = after.name(role)
    assert servers.image(name) == FORMER_IMAGE
    assert servers.deployment(name).status.ready_replicas == 1
    assert servers.revisions(name) == {2: 0, 3: 1}
    if role == "bad":
        assert servers.deployment(name).spec.template == after.former
        # And from there it goes on.
        path = f"/operations/{ended['id']}/retry"
        answer = servers.stack.gateway.post(path, json={"corrections": {"image": FORMER_IMAGE, "env": {"A": "1"}}})
        assert answer.status_code == 202, answer.text
        finish(servers.stack, ended["id"])
        assert servers.revisions(name) == {2: 0, 3: 0, 4: 1}
    else:
        assert servers.deployment(name).spec.strategy.type == "Recreate"
        servers.stack.gateway.post(f"/operations/{ended['id']}/abort", json={"reason": "enough"}).raise_for_status()
        servers.stack.until(ended["id"], lambda found: found["phase"] == "aborted")


def test_a_scaling_that_is_caught_by_a_kill_ends_at_what_was_asked_last(servers: Servers, after: Round) -> None:
    assert states(after.caught["many"])["replicas"] == "running"
    assert after.ended["many"]["phase"] == "succeeded", after.ended["many"]["problem"]
    assert after.ended["many"]["result"]["replicas"] == 3
    assert servers.deployment(after.name("many")).status.ready_replicas == 3
    assert servers.revisions(after.name("many")) == {1: 3}


def test_a_deletion_that_is_caught_by_a_kill_leaves_nothing(servers: Servers, after: Round) -> None:
    assert states(after.caught["gone"])["deployment"] == "running"
    assert after.ended["gone"]["phase"] == "succeeded", after.ended["gone"]["problem"]
    name = after.name("gone")
    assert servers.left(name) == []
    deleted = [f"DELETE {DEPLOYMENTS}/{name}", f"DELETE {SERVICES}/{name}"]
    assert [after.effects[each] for each in deleted] == [1, 1]


def test_a_claim_that_is_caught_by_a_kill_is_made_once_and_who_tried_it_is_gone(servers: Servers, after: Round) -> None:
    for role in ("claim", "tried"):
        assert states(after.caught[role])["storage"] == "running"
        ended = after.ended[role]
        assert ended["phase"] == "succeeded", ended["problem"]
        assert ended["result"]["verification"]["state"] == "verified"
        made = [f"PATCH {CLAIMS}/{after.name(role)}", f"PATCH {VOLUMES}/{ended['result']['volume']}"]
        assert [after.effects[each] for each in made] == [1, 1]
    assert [each for each in servers.pods() if each.startswith("instantstart-probe")] == []
    recorded = servers.stack.gateway.get(HOME).json()["record"]["storage"]
    assert {each["claim"] for each in recorded} >= {after.name("claim"), after.name("tried")}


def test_nothing_else_is_touched(after: Round) -> None:
    name = after.name
    served = [*STAGES, "good"]
    expected = {f"PATCH {DEPLOYMENTS}/{name(role)}" for role in (*served, "bad", "back")}
    expected |= {f"PATCH {SERVICES}/{name(role)}" for role in served} | {f"PATCH {SERVICES}/{name('address')}-public"}
    expected |= {f"PATCH {DEPLOYMENTS}/{name('many')}/scale"}
    expected |= {f"DELETE {place}/{name('gone')}" for place in (DEPLOYMENTS, SERVICES)}
    for role in ("claim", "tried"):
        volume = after.ended[role]["result"]["volume"]
        expected |= {f"PATCH {CLAIMS}/{name(role)}", f"PATCH {VOLUMES}/{volume}"}
        expected |= {f"POST {PODS}", f"DELETE {PODS}/instantstart-probe-{name(role)}"}
    assert after.touched == expected


@pytest.fixture
def calm(servers: Servers) -> Iterator[Servers]:
    try:
        yield servers
    finally:
        servers.stack.sandbox.delete("/faults").raise_for_status()
        servers.clear()


def test_lost_answers_of_kubernetes_leave_one_server_and_one_service(calm: Servers) -> None:
    began = last_entry(calm.stack)
    lost = {"api": "kubernetes", "phase": "after", "action": "drop", "times": 1}
    places = (f"PATCH {DEPLOYMENTS}/lossy", f"PATCH {SERVICES}/lossy")
    with faults(calm.stack, *({**lost, "operation": place} for place in places)):
        finish(calm.stack, calm.create("lossy"))
    assert calm.effects(began) == Counter(places)
    assert calm.touched(began) == set(places)
    assert (calm.deployment("lossy").metadata.generation, calm.revisions("lossy")) == (1, {1: 1})
    assert [row["operation"] for row in entries(calm.stack, TAG, began) if row["response_lost"]] == list(places)


def test_a_kubernetes_api_that_throttles_and_fails_for_a_while_is_waited_for(calm: Servers) -> None:
    began = last_entry(calm.stack)
    again: dict[str, Any] = {"api": "kubernetes", "headers": {"Retry-After": "1"}}
    storm = (
        {**again, "operation": f"PATCH {DEPLOYMENTS}/stormy", "status": 429, "code": "TooManyRequests", "times": 2},
        {**again, "operation": f"PATCH {SERVICES}/stormy", "status": 503, "code": "ServiceUnavailable", "times": 1},
        {**again, "operation": f"PATCH {SERVICES}/stormy", "status": 500, "code": "InternalError", "times": 1},
        {"api": "kubernetes", "operation": f"GET {DEPLOYMENTS}/stormy", "action": "drop", "skip": 1, "times": 1},
        {"api": "kubernetes", "operation": f"POST {SERVICES}/stormy.*/proxy/.*", "action": "http500", "times": 2},
    )
    with faults(calm.stack, *storm):
        finish(calm.stack, calm.create("stormy"))
    assert calm.effects(began) == Counter([f"PATCH {DEPLOYMENTS}/stormy", f"PATCH {SERVICES}/stormy"])
    assert calm.revisions("stormy") == {1: 1}


def test_two_clients_that_ask_at_once_start_one_operation_and_another_wish_is_refused_with_its_name(
    calm: Servers,
) -> None:
    stack, began = calm.stack, last_entry(calm.stack)
    path, body = f"{HOME}/deployments", server("wanted")
    clients = [
        httpx.Client(base_url=stack.gateway.base_url, headers=stack.gateway.headers, timeout=30) for _ in range(2)
    ]
    held = Holding(stack, {"wanted": Hold(f"PATCH {DEPLOYMENTS}/wanted")})
    held.begin()
    with ThreadPoolExecutor(8) as crowd:
        asked = [crowd.submit(clients[number % 2].post, path, json=body) for number in range(8)]
        answers = [each.result() for each in asked]
        held.wait()
        other = clients[1].post(path, json={**body, "replicas": 2})
    held.end()
    assert {answer.status_code for answer in answers} == {202}
    operation = "create-deployment/serve/wanted"
    ended = finish(stack, operation)
    assert {(answer.json()["id"], answer.json()["run_id"]) for answer in answers} == {(operation, ended["run_id"])}
    assert (other.status_code, other.json()["code"], other.json()["operation"]) == (409, "conflict", operation)
    assert calm.effects(began) == Counter([f"PATCH {DEPLOYMENTS}/wanted", f"PATCH {SERVICES}/wanted"])
    for each in clients:
        each.close()
