"""Model pools on a cluster of the sandbox: made, handed out, moved safely, repaired, scaled and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.model_pools.load import under_way
from activities.registry import Activities
from contracts.catalogue import ASSIGN_MODEL_POOL, CREATE_MODEL_POOL, DELETE_MODEL_POOL, SCALE_MODEL_POOL
from contracts.model_pools import (
    APPLY_POOL,
    APPLY_POOL_SERVICES,
    ATTACH_POD,
    DETACH_POD,
    SCALE_POOL,
    SET_WISH,
    WAIT_FOR_DRAINED_POD,
    WAIT_FOR_WORKERS,
    WATCH_POOL,
    ApplyPool,
    ApplyPoolServices,
    MovePod,
    PoolState,
    ScalePool,
    SetWish,
    WatchPool,
    Wish,
)
from contracts.names import ANNOTATION_ASSIGNMENTS, ANNOTATION_LEFT
from contracts.plans import Action
from contracts.pool_moves import LEAVING, UNASSIGNED, Move, moves_for
from contracts.problem import ProblemCode
from tests.activities.conftest import Sandbox, problem
from tests.activities.pools import Pools, pools_of
from tests.activities.world import until


@pytest.fixture(scope="module")
def pools(sandbox: Sandbox, activities: Activities) -> Pools:
    return pools_of(sandbox)


@pytest.fixture(autouse=True)
def _calm(pools: Pools) -> Iterator[None]:
    yield
    pools.fortune()
    pools.sandbox.call("DELETE", "kubernetes/metrics")


def plan(pools: Pools, kind: str, **spec: object) -> list[tuple[str, str]]:
    return [(each.field, each.detail) for each in pools.plan(kind, spec).blockers]


def test_a_pool_is_made_once_and_all_of_it_is_free(pools: Pools) -> None:
    spec = pools.pool("made")
    planned = pools.plan(CREATE_MODEL_POOL.name, spec)
    assert (planned.blockers, planned.changes[0].action) == ([], Action.CREATE)
    with pools.given("made") as pool:
        again = pools.run(APPLY_POOL, ApplyPool(**pools.place, spec=spec))
        assert not again.changed
        view = pools.pools()["made"]
        assert (view.state, view.ready, view.unassigned, view.model) == (PoolState.READY, 2, 2, "Qwen/Qwen3-0.6B")
        assert {pod.business for pod in pools.read_pool(pool).pods} == {UNASSIGNED}
        # It is no deployment: nobody may update or delete it as one.
        assert "made" not in pools.list()
        assert pools.plan(CREATE_MODEL_POOL.name, spec).changes[0].action is Action.NOTHING
        other = pools.pool("made", shm_gib=9)
        assert "shm_gib" in pools.plan(CREATE_MODEL_POOL.name, other).blockers[0].detail
    assert pools.pools() == {}


def test_pods_are_handed_out_and_answer_for_their_service(pools: Pools) -> None:
    with pools.given("handed", 3) as pool:
        assert pools.hand_out(pool, chat=2, search=1) == {"chat": 2, "search": 1}
        view = pools.read_pool(pool).pool
        assert {each.service: each.ready for each in view.assignments} == {"chat": 2, "search": 1}
        assert {each.name: (each.of, each.ready) for each in view.services} == {
            "chat": ("handed", 2),
            "search": ("handed", 1),
        }
        assert len(pools.behind("chat")) == 2
        assert pools.behind("chat").isdisjoint(pools.behind("search"))


def test_a_move_takes_only_as_many_pods_as_it_must(pools: Pools) -> None:
    with pools.given("moving", 3) as pool:
        pools.hand_out(pool, chat=2)
        before = pools.behind("chat")
        assert pools.hand_out(pool, chat=1, search=1) == {"chat": 1, "search": 1, UNASSIGNED: 1}
        assert pools.behind("chat") < before


def test_a_pod_finishes_its_requests_before_it_moves(pools: Pools) -> None:
    with pools.given("busy", 1, grace_seconds=3600) as pool:
        pools.hand_out(pool, chat=1)
        pools.wish(pool, search=1)
        (move,) = moves_for({"search": 1}, pools.survey(pool).pods)
        pools.metric("busy", vllm__num_requests_running=3)
        pools.step(DETACH_POD, pool, move)
        until(lambda: pools.behind("chat") == set())
        asked = MovePod(**pool.model_dump(), move=move)
        with pytest.raises(ApplicationError) as caught:
            pools.run.once(WAIT_FOR_DRAINED_POD, asked, limit=WAIT_FOR_DRAINED_POD.limit + timedelta(seconds=10))
        assert "requests under way: 3" in problem(caught).detail
        pools.metric("busy", vllm__num_requests_running=None)
        assert pools.step(WAIT_FOR_DRAINED_POD, pool, move).detail == "no request is under way"
        assert pools.repair(pool) == {"search": 1}


def test_requests_that_never_end_are_waited_for_no_longer_than_the_grace(pools: Pools) -> None:
    with pools.given("stuck", 1, grace_seconds=0) as pool:
        pools.hand_out(pool, chat=1)
        pools.metric("stuck", vllm__num_requests_running=3)
        pools.wish(pool)
        (move,) = moves_for({}, pools.survey(pool).pods)
        pools.step(DETACH_POD, pool, move)
        with pools.api() as api:
            past = {"metadata": {"annotations": {ANNOTATION_LEFT: "2026-01-01T00:00:00+00:00"}}}
            client.CoreV1Api(api).patch_namespaced_pod(move.pod, "default", past)
        drained = pools.step(WAIT_FOR_DRAINED_POD, pool, move)
        assert drained.detail == "after its grace: requests under way: 3"


@pytest.mark.parametrize("done", range(4))
def test_whoever_is_killed_between_two_steps_leaves_a_pod_in_one_service_at_most(pools: Pools, done: int) -> None:
    with pools.given(f"killed-{done}", 1) as pool:
        pools.hand_out(pool, chat=1)
        pools.wish(pool, chat=0, search=1)
        (move,) = moves_for({"chat": 0, "search": 1}, pools.survey(pool).pods)
        pools.move(pool, move, done)
        listed = [name for name in ("chat", "search") if move.pod in pools.behind(name)]
        assert len(listed) <= 1
        # The same once more, and then by somebody who knows only what the cluster shows.
        pools.move(pool, move, done)
        assert pools.repair(pool) == {"search": 1}
        assert pools.behind("search") == {move.pod}
        assert pools.behind("chat") == set()


def test_the_answer_of_a_step_may_be_lost(pools: Pools) -> None:
    with pools.given("lost", 1) as pool:
        pools.hand_out(pool, chat=1)
        pools.wish(pool, search=1)
        (move,) = moves_for({"search": 1}, pools.survey(pool).pods)
        for signature in (DETACH_POD, ATTACH_POD):
            assert pools.step(signature, pool, move).changed
            assert not pools.step(signature, pool, move).changed
        # Begun anew after its end, nothing is undone.
        pools.move(pool, move)
        assert pools.behind("search") == {move.pod}


def test_a_pod_that_was_moved_by_somebody_else_is_left_to_them(pools: Pools) -> None:
    with pools.given("touched", 2) as pool:
        pools.hand_out(pool, chat=1)
        serving = next(pod for pod in pools.survey(pool).pods if pod.business == "chat")
        pools.label(serving.name, "theirs")
        move = Move(pod=serving.name, uid=serving.uid, source="chat", target=UNASSIGNED)
        for signature in (DETACH_POD, ATTACH_POD):
            moved = pools.step(signature, pool, move)
            assert moved.gone
            assert moved.detail == "somebody has moved it to theirs"
        assert pools.step(DETACH_POD, pool, move.model_copy(update={"uid": "another"})).gone


def test_a_pod_that_is_made_anew_is_handed_out_again(pools: Pools) -> None:
    with pools.given("repaired", 2) as pool:
        pools.hand_out(pool, chat=2)
        victim = sorted(pools.behind("chat"))[0]
        pools.end_pod(victim)
        news = pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known=""))
        assert (news.work, news.gone) == (True, False)
        assert "chat 1 of 2" in news.detail
        assert pools.repair(pool) == {"chat": 2}
        assert victim not in pools.behind("chat")


def test_the_watch_tells_of_a_pool_that_is_gone_and_of_nothing_new(pools: Pools) -> None:
    with pools.given("watched", 1) as pool:
        pools.hand_out(pool, chat=1)
        first = pools.run(WATCH_POOL, WatchPool(**pool.model_dump()))
        assert (first.work, first.gone, first.detail) == (False, False, "chat 1 of 1, 0 free")
        quiet = pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known=first.detail, patience_seconds=0))
        assert quiet == first
        assert pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known="chat 0 of 1, 1 free")) == first
        with pools.api() as api:
            client.CoreV1Api(api).delete_namespaced_service("chat", "default")
        assert "no Service chat" in pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known=first.detail)).detail
    assert pools.run(WATCH_POOL, WatchPool(**pool.model_dump())).gone


def annotate(pools: Pools, name: str, text: str) -> None:
    with pools.api() as api:
        client.AppsV1Api(api).patch_namespaced_deployment(
            name, "default", {"metadata": {"annotations": {ANNOTATION_ASSIGNMENTS: text}}}
        )


def test_a_wish_that_was_written_by_hand_is_carried_out(pools: Pools) -> None:
    with pools.given("manual", 2) as pool:
        pools.hand_out(pool, chat=1)
        annotate(pools, "manual", '{"assignments": {"chat": 2}}')
        assert pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known="chat 1 of 1, 1 free")).work
        assert pools.repair(pool) == {"chat": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not understood"), ('{"assignments": {"chat": 5}}', "asks for 5 pods, and the pool has 1")],
)
def test_a_wish_that_makes_no_sense_moves_nothing_and_is_told(pools: Pools, text: str, words: str) -> None:
    with pools.given("senseless", 1) as pool:
        pools.hand_out(pool, chat=1)
        annotate(pools, "senseless", text)
        seen = pools.survey(pool)
        assert words in (seen.wish_problem or "")
        assert not pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known="", patience_seconds=0)).work
        view = pools.pools()["senseless"]
        assert view.state is PoolState.DEGRADED
        assert words in view.detail
        with pytest.raises(ApplicationError) as caught:
            pools.run(WAIT_FOR_WORKERS, pool)
        assert problem(caught).field == "/assignments"
        assert len(pools.behind("chat")) == 1


def test_more_than_there_are_is_refused_with_the_numbers(pools: Pools) -> None:
    with pools.given("small", 2) as pool:
        words = "3 pods asked for (chat 2, search 1), and small has 2"
        found = plan(pools, ASSIGN_MODEL_POOL.name, name="small", assignments={"chat": 2, "search": 1})
        assert found == [("/assignments", words)]
        with pytest.raises(ApplicationError) as caught:
            pools.wish(pool, chat=2, search=1)
        assert (problem(caught).code, problem(caught).detail) == (ProblemCode.CONFLICT, words)


def test_fewer_than_are_assigned_is_refused_and_free_pods_go_first(pools: Pools) -> None:
    with pools.given("scaled", 3) as pool:
        pools.hand_out(pool, chat=2)
        kept = pools.behind("chat")
        found = plan(pools, SCALE_MODEL_POOL.name, name="scaled", replicas=1)
        assert found == [("/replicas", "2 of its pods are assigned (chat 2), which 1 cannot be")]
        with pytest.raises(ApplicationError) as caught:
            pools.run(SCALE_POOL, ScalePool(**pool.model_dump(), replicas=1))
        assert problem(caught).field == "/replicas"
        made = pools.run(SCALE_POOL, ScalePool(**pool.model_dump(), replicas=2))
        pools.settle(pools.pool("scaled"), made.generation)
        until(lambda: len(pools.survey(pool).pods) == 2)
        assert pools.behind("chat") == kept


def test_pods_that_were_labelled_by_hand_are_kept_as_well(pools: Pools) -> None:
    with pools.given("labelled", 2) as pool:
        chosen = sorted(pod.name for pod in pools.survey(pool).pods)[0]
        pools.label(chosen, "chat")
        made = pools.run(SCALE_POOL, ScalePool(**pool.model_dump(), replicas=1))
        pools.settle(pools.pool("labelled"), made.generation)
        until(lambda: len(pools.survey(pool).pods) == 1)
        assert pools.survey(pool).pods[0].name == chosen


def test_a_service_without_pods_is_deleted_or_kept_as_asked(pools: Pools) -> None:
    with pools.given("emptied", 1) as pool:
        pools.hand_out(pool, chat=1)
        planned = pools.plan(ASSIGN_MODEL_POOL.name, {"name": "emptied", "assignments": {}})
        assert [(each.kind, each.action) for each in planned.changes] == [
            ("pod", Action.CHANGE),
            ("Service", Action.DELETE),
        ]
        assert any("leaves chat" in warning for warning in planned.warnings)
        pools.hand_out(pool)
        assert pools.survey(pool).services == ["chat"]
        others = ApplyPoolServices(**pool.model_dump(), wish=Wish(), delete_others=True)
        assert pools.run(APPLY_POOL_SERVICES, others).removed == ["chat"]
        assert pools.run(APPLY_POOL_SERVICES, others).removed == []


def test_a_name_that_another_service_has_is_refused(pools: Pools) -> None:
    with pools.given("polite", 1) as pool, pools.api() as api:
        ports = [{"port": 80}]
        core = client.CoreV1Api(api)
        body: Any = {"metadata": {"name": "theirs"}, "spec": {"selector": {"app": "x"}, "ports": ports}}
        core.create_namespaced_service("default", body)
        found = plan(pools, ASSIGN_MODEL_POOL.name, name="polite", assignments={"theirs": 1})
        assert found == [("/assignments/theirs", "a Service theirs exists that is not this pool's")]
        with pytest.raises(ApplicationError) as caught:
            pools.run(APPLY_POOL_SERVICES, ApplyPoolServices(**pool.model_dump(), wish=Wish(assignments={"theirs": 1})))
        assert problem(caught).code is ProblemCode.FOREIGN
        core.delete_namespaced_service("theirs", "default")


def test_a_load_balancer_needs_its_controller(pools: Pools) -> None:
    with pools.given("public", 1):
        found = plan(pools, ASSIGN_MODEL_POOL.name, name="public", assignments={"chat": 1}, public={"chat": "internal"})
        assert [field for field, _ in found] == ["/public"]


def test_services_with_traffic_are_named_before_a_pool_is_deleted(pools: Pools) -> None:
    with pools.given("doomed", 2) as pool:
        pools.hand_out(pool, chat=1)
        pools.metric("doomed", vllm__num_requests_running=2)
        planned = pools.plan(DELETE_MODEL_POOL.name, {"name": "doomed"})
        assert planned.blockers == []
        assert planned.warnings == ["chat is served by 1 pod, with 2 requests under way now"]
    assert plan(pools, DELETE_MODEL_POOL.name, name="doomed")[0][0] == "/name"
    with pools.api() as api:
        assert client.CoreV1Api(api).list_namespaced_pod("default", label_selector="business").items == []


def test_the_wish_survives_the_pool_being_applied_again(pools: Pools) -> None:
    with pools.given("applied", 2) as pool:
        pools.hand_out(pool, chat=1)
        assert not pools.run(SET_WISH, SetWish(**pool.model_dump(), wish=Wish(assignments={"chat": 1}))).changed
        pools.run(APPLY_POOL, ApplyPool(**pools.place, spec=pools.pool("applied")))
        assert pools.survey(pool).wish.assignments == {"chat": 1}
        assert pools.behind("chat")


def test_a_pod_between_services_is_nobodys_for_good(pools: Pools) -> None:
    with pools.given("between", 1) as pool:
        (pod,) = pools.survey(pool).pods
        pools.label(pod.name, LEAVING)
        assert pools.run(WATCH_POOL, WatchPool(**pool.model_dump(), known="")).work
        assert pools.repair(pool) == {UNASSIGNED: 1}


@given(st.integers(0, 99), st.integers(0, 99))
def test_requests_that_run_and_wait_are_under_way(running: int, waiting: int) -> None:
    vllm = f'# TYPE x gauge\nvllm:num_requests_running{{engine="0"}} {running}.0\nvllm:num_requests_waiting {waiting}\n'
    assert under_way(vllm) == running + waiting
    assert under_way(f'sglang:num_running_reqs{{a="b"}} {running}\nother 7\n') == running
    assert under_way("vllm:num_requests_total 5\n") is None
