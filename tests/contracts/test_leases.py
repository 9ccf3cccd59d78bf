"""Laws of the lease broker."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from contracts.lease import Lease, conflict, conflicts
from workflows.cluster import LeaseBroker

names = st.sampled_from(["*", "network", "eks", "eks/access", "hyperpod", "hyperpod/workers", "storage/a", "storage/b"])
sets = st.lists(names, max_size=3).map(tuple)


def lease(run: int, leases: tuple[str, ...]) -> Lease:
    return Lease(
        operation=f"op/{run}", run_id=str(run), kind="k", by="b", leases=leases, since=datetime(2026, 1, 1, tzinfo=UTC)
    )


@given(names, names)
def test_a_conflict_is_mutual(one: str, other: str) -> None:
    assert conflict(one, other) == conflict(other, one)


def test_a_part_conflicts_with_its_whole_and_not_with_its_sibling() -> None:
    assert conflict("hyperpod", "hyperpod/workers")
    assert not conflict("storage/a", "storage/b")
    assert not conflict("storage/a", "storage/ab")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), sets), max_size=40))
def test_holders_never_conflict_nobody_is_forgotten_and_nobody_waits_for_nothing(
    steps: list[tuple[bool, int, tuple[str, ...]]],
) -> None:
    broker = LeaseBroker([], [])
    alive: set[str] = set()
    for ask, run, leases in steps:
        if ask and str(run) not in alive:
            broker.request(lease(run, leases))
            alive.add(str(run))
        elif not ask:
            broker.release(str(run))
            alive.discard(str(run))
        held = broker.holding
        assert all(not conflicts(one.leases, other.leases) for n, one in enumerate(held) for other in held[:n])
        assert {each.run_id for each in (*held, *broker.queue)} == alive
        for position, waiting in enumerate(broker.queue):
            assert broker.blocker(waiting, broker.queue[:position]) is not None


def test_a_later_request_does_not_overtake_an_earlier_one_that_it_conflicts_with() -> None:
    broker = LeaseBroker([], [])
    assert broker.request(lease(1, ("eks",))).granted
    assert not broker.request(lease(2, ("*",))).granted
    assert broker.request(lease(3, ("storage/a",))).behind == "op/2"
    assert [each.run_id for each in broker.release("1")] == ["2"]
    assert [each.run_id for each in broker.release("2")] == ["3"]


def test_asking_twice_gives_one_place() -> None:
    broker = LeaseBroker([], [])
    broker.request(lease(1, ("*",)))
    first, second = broker.request(lease(2, ("*",))), broker.request(lease(2, ("*",)))
    assert first == second
    assert len(broker.queue) == 1
