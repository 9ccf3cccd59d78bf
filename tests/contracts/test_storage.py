"""Claims and file systems: names that never meet, and sizes that FSx accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.fsx_storage import SMALLEST_GIB, STEP_GIB, DeploymentType, NewFileSystem, price_item
from contracts.names import KUBERNETES_NAME, ClusterNames
from contracts.storage import Claim, StorageType

OBJECT_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
CLAIMS = st.tuples(OBJECT_NAMES | st.just("default"), OBJECT_NAMES)


@given(st.lists(CLAIMS, unique=True, min_size=2, max_size=6))
def test_no_two_claims_share_a_volume_or_a_handle(claims: list[tuple[str, str]]) -> None:
    names = ClusterNames("demo")
    for derive in (names.persistent_volume, names.volume_handle):
        derived = [derive(claim, namespace) for namespace, claim in claims]
        assert len(set(derived)) == len(claims)
        assert [KUBERNETES_NAME.violation(name) for name in derived] == [None] * len(claims)


def test_hyphens_do_not_make_two_claims_one() -> None:
    names = ClusterNames("demo")
    assert names.persistent_volume("b-c", "a") != names.persistent_volume("c", "a-b")
    assert names.persistent_volume("s3-claim") == "demo-s3-claim", "volumes that exist keep their names"


@given(st.integers(-5000, 40000) | st.integers(0, 50).map(lambda n: n * STEP_GIB))
def test_a_capacity_is_the_smallest_or_a_multiple_of_the_step(gib: int) -> None:
    valid = gib == SMALLEST_GIB or (gib > 0 and gib % STEP_GIB == 0)
    try:
        assert (NewFileSystem(capacity_gib=gib).capacity_gib == gib) is valid
    except ValidationError as error:
        assert not valid
        offered = int(str(error.errors()[0]["msg"]).rpartition(" ")[2])
        assert NewFileSystem(capacity_gib=offered).capacity_gib >= gib, "what is offered holds as much"


def test_speed_and_price_follow_from_the_type() -> None:
    assert NewFileSystem().megabytes == 125
    assert NewFileSystem(deployment_type=DeploymentType.SCRATCH_2).megabytes == 200
    assert price_item("PERSISTENT_2", 500) == "fsx-lustre-persistent-2-500-gib"
    assert price_item("SCRATCH_2", 200) == price_item("SCRATCH_2", None) == "fsx-lustre-scratch-2-gib"


def test_a_claim_says_what_it_is_on() -> None:
    claim = Claim(claim="c", namespace="n", volume="v", bucket="b", prefix="p/", phase="Bound")
    assert claim.source == "s3://b/p/"
    lustre = claim.model_copy(update={"type": StorageType.FSX_LUSTRE, "file_system": "fs-1"})
    assert lustre.source == "FSx file system fs-1"
