"""Laws of the address plan."""

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.network import (
    NetworkSpec,
    choose_service_cidr,
    choose_vpc_cidr,
    free_subnet,
    overlap,
    parse_cidr,
    plan_subnets,
)

blocks = st.builds(
    lambda address, prefix: IPv4Network((0x0A000000 | address, prefix), strict=False),
    st.integers(0, 2**24 - 1),
    st.integers(12, 28),
)


@given(st.lists(blocks, max_size=12))
def test_a_chosen_vpc_overlaps_nothing_or_the_choice_fails_loudly(taken: list[IPv4Network]) -> None:
    try:
        chosen = choose_vpc_cidr(taken)
    except ValueError:
        assert all(
            any(IPv4Network(f"10.{n}.0.0/16").overlaps(t) for t in taken) for n in (*range(90, 100), *range(101, 256))
        )
    else:
        assert chosen.prefixlen == 16
        assert overlap(chosen, taken) is None


@given(st.lists(blocks, max_size=6))
def test_a_chosen_service_block_overlaps_no_vpc(taken: list[IPv4Network]) -> None:
    assert overlap(choose_service_cidr(taken), taken) is None


@given(st.integers(16, 20), st.integers(0, 15), st.integers(20, 24))
def test_planned_subnets_are_disjoint_inside_the_vpc_and_leave_room_for_compute(
    prefix: int, second: int, compute: int
) -> None:
    vpc = IPv4Network(f"10.{second}.0.0/{prefix}")
    try:
        public, control_plane = plan_subnets([vpc], [], compute)
    except ValueError:
        assert compute <= prefix
        return
    subnets = [*public, *control_plane]
    room = free_subnet([vpc], subnets, compute)
    assert room is not None
    everything = [*subnets, room]
    assert all(block.subnet_of(vpc) for block in everything)
    assert all(overlap(block, everything[:n]) is None for n, block in enumerate(everything))


@given(st.lists(blocks, max_size=8), st.integers(20, 26))
def test_a_free_subnet_is_aligned_and_free(taken: list[IPv4Network], prefix: int) -> None:
    vpc = IPv4Network("10.7.0.0/16")
    found = free_subnet([vpc], taken, prefix)
    if found is None:
        assert all(overlap(block, taken) is not None for block in vpc.subnets(new_prefix=prefix))
    else:
        assert found.prefixlen == prefix
        assert found.subnet_of(vpc)
        assert overlap(found, taken) is None


def test_a_block_with_host_bits_is_refused_with_the_block_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"write 10\.0\.128\.0/17"):
        parse_cidr("10.0.128.7/17")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"vpc_cidr": "10.0.0.0/24"}, "/16 to /20"),
        ({"vpc_cidr": "8.8.0.0/16"}, "not a private block"),
        ({"vpc_cidr": "10.0.0.0/16", "vpc_id": "vpc-12345678"}, "not both"),
        ({"vpc_cidr": "10.0.0.0/16", "public_subnet_cidrs": ["10.1.0.0/24", "10.0.1.0/24"]}, "outside"),
        ({"vpc_cidr": "10.0.0.0/16", "public_subnet_cidrs": ["10.0.0.0/24", "10.0.0.128/25"]}, "overlaps"),
        ({"vpc_cidr": "10.100.0.0/16", "service_cidr": "10.100.0.0/20"}, "overlaps"),
        ({"vpc_cidr": "10.0.0.0/20", "compute_subnet_prefix": 20}, "smaller than the VPC"),
    ],
)
def test_a_network_that_cannot_work_is_refused_before_anything_is_asked(spec: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        NetworkSpec.model_validate(spec)
