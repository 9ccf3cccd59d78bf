"""Which pods of a pool move: laws that hold for every wish and every pool."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from contracts.pool_moves import LEAVING, UNASSIGNED, Move, PoolPod, counted, moves_for, reached

SERVICES = ("a", "b", "c")
PODS = st.lists(
    st.tuples(
        st.sampled_from([*SERVICES, "stray", UNASSIGNED, LEAVING]), st.booleans(), st.sampled_from([False, False, True])
    ),
    max_size=12,
).map(
    lambda rows: [
        PoolPod(name=f"p{n}", uid=f"u{n}", business=business, ready=ready, ending=ending)
        for n, (business, ready, ending) in enumerate(rows)
    ]
)
WISHES = st.dictionaries(st.sampled_from(SERVICES), st.integers(0, 5))


def carried_out(pods: list[PoolPod], moves: list[Move]) -> list[PoolPod]:
    targets = {move.pod: move.target for move in moves}
    return [pod.model_copy(update={"business": targets.get(pod.name, pod.business)}) for pod in pods]


@given(WISHES, PODS)
def test_services_have_their_numbers_as_far_as_there_are_ready_pods(wish: dict[str, int], pods: list[PoolPod]) -> None:
    after = carried_out(pods, moves_for(wish, pods))
    usable = sum(pod.ready and not pod.ending for pod in pods)
    have = counted(after)
    assert sum(have.get(service, 0) for service in wish) == min(usable, sum(wish.values()))
    assert all(have.get(service, 0) <= count for service, count in wish.items())
    assert reached(wish, after) is (usable >= sum(wish.values()))


@given(WISHES, PODS)
def test_a_pod_moves_once_and_only_while_it_stays(wish: dict[str, int], pods: list[PoolPod]) -> None:
    moves = moves_for(wish, pods)
    assert max(Counter(move.pod for move in moves).values(), default=1) == 1
    known = {pod.name: pod for pod in pods}
    for move in moves:
        pod = known[move.pod]
        assert not pod.ending
        assert (move.uid, move.source) == (pod.uid, pod.business)
        assert move.source != move.target
        assert move.target == UNASSIGNED or (pod.ready and wish[move.target] > 0)


@given(WISHES, PODS)
def test_no_service_gives_or_takes_more_than_it_must(wish: dict[str, int], pods: list[PoolPod]) -> None:
    moves, have = moves_for(wish, pods), counted(pods)
    for service, count in wish.items():
        came = sum(move.target == service for move in moves)
        left = [move for move in moves if move.source == service]
        ready = {pod.name for pod in pods if pod.ready}
        assert came <= max(count - have.get(service, 0), 0)
        assert sum(move.pod in ready for move in left) == max(have.get(service, 0) - count, 0)


@given(WISHES, PODS)
def test_once_carried_out_nothing_is_left_to_do(wish: dict[str, int], pods: list[PoolPod]) -> None:
    assert moves_for(wish, carried_out(pods, moves_for(wish, pods))) == []


@given(WISHES, PODS)
def test_a_free_pod_comes_before_one_that_serves(wish: dict[str, int], pods: list[PoolPod]) -> None:
    moves = moves_for(wish, pods)
    idle = {pod.name for pod in pods if pod.ready and not pod.ending and pod.business == UNASSIGNED}
    if any(move.source != UNASSIGNED and move.target != UNASSIGNED for move in moves):
        assert idle <= {move.pod for move in moves}


@given(WISHES, PODS)
def test_nobody_is_left_between_services(wish: dict[str, int], pods: list[PoolPod]) -> None:
    after = carried_out(pods, moves_for(wish, pods))
    assert {pod.business for pod in after if not pod.ending} <= {*wish, UNASSIGNED}


def test_a_pod_that_is_not_ready_keeps_its_place_while_no_other_can_take_it() -> None:
    ill = PoolPod(name="p0", uid="u0", business="a", ready=False)
    assert moves_for({"a": 1}, [ill]) == []
    free = PoolPod(name="p1", uid="u1", ready=True)
    moves = [(move.pod, move.target) for move in moves_for({"a": 1}, [ill, free])]
    assert moves == [("p1", "a"), ("p0", UNASSIGNED)]
