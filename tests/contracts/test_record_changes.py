"""Changes of a cluster's record: operations side by side keep what the others have put there."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from contracts.cluster import ClusterRecord, RecordChange
from contracts.features import Feature, FeatureState, FeatureStatus
from contracts.hyperpod import HyperPodCluster, InstanceGroup, brought_up_to_date
from contracts.storage import Claim

NAMES = ("one", "two", "three")
Claims = dict[str, str]
"""The bucket of each claim, by its name."""

CLAIMS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "b", "c"]))


def record(claims: Claims, **more: object) -> ClusterRecord:
    made = [
        Claim(claim=name, namespace="default", volume=f"v-{name}", phase="Bound", bucket=bucket)
        for name, bucket in claims.items()
    ]
    then = datetime(2026, 1, 1, tzinfo=UTC)
    base = ClusterRecord(tag="demo", region="us-west-2", created_by="a", created_at=then, updated_at=then)
    return base.model_copy(update={"storage": made, **more})


def amended(before: ClusterRecord, *changes: RecordChange) -> ClusterRecord:
    for change in changes:
        before = ClusterRecord.model_validate(change.applied(before))
    return before


def claims_of(found: ClusterRecord) -> Claims:
    return {each.claim: each.bucket or "" for each in found.storage}


@given(before=CLAIMS, after=CLAIMS)
def test_a_change_leads_to_what_the_operation_has_seen(before: Claims, after: Claims) -> None:
    change = RecordChange.between(record(before), record(after), ["storage"], "op")
    assert claims_of(amended(record(before), change)) == after


@given(before=CLAIMS, mine=st.none() | st.sampled_from("abc"), theirs=st.none() | st.sampled_from("abc"))
def test_operations_on_two_claims_side_by_side_keep_each_others_in_either_order(
    before: Claims, mine: str | None, theirs: str | None
) -> None:
    """Each knows the record as it was before both."""
    known = record(before)

    def changed(name: str, bucket: str | None) -> Claims:
        others = {key: value for key, value in before.items() if key != name}
        return others if bucket is None else {**others, name: bucket}

    one = RecordChange.between(known, record(changed("one", mine)), ["storage"], "one")
    two = RecordChange.between(known, record(changed("two", theirs)), ["storage"], "two")
    wanted = {key: value for key, value in before.items() if key == "three"}
    wanted |= {key: value for key, value in (("one", mine), ("two", theirs)) if value is not None}
    assert claims_of(amended(known, one, two)) == claims_of(amended(known, two, one)) == wanted


def test_members_that_are_no_lists_of_items_are_told_as_they_are() -> None:
    status = FeatureStatus(feature=Feature.KEDA, state=FeatureState.ON)
    after = record({"one": "a"}, kubernetes_version="1.34", features=[status])
    change = RecordChange.between(record({}), after, ["kubernetes_version", "features"], "op")
    found = amended(record({"two": "b"}), change)
    assert (found.kubernetes_version, found.features, claims_of(found)) == ("1.34", [status], {"two": "b"})


COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5))


def hyperpod(targets: dict[str, int], label: str) -> HyperPodCluster:
    groups = [
        InstanceGroup(
            name=name,
            instance_type="ml.g5.8xlarge",
            current=target,
            target=target,
            status=label,
            labels={"by": label},
        )
        for name, target in targets.items()
    ]
    return HyperPodCluster(name="hp", arn="arn:hp", status=label, groups=groups)


@given(were=COUNTS, are=COUNTS, touched=st.sets(st.sampled_from(NAMES)))
def test_an_operation_on_instance_groups_records_its_own_and_leaves_what_others_did_a_difference(
    were: dict[str, int], are: dict[str, int], touched: set[str]
) -> None:
    seen = hyperpod(are, "theirs")
    found = brought_up_to_date(hyperpod(were, "mine"), seen, touched)
    groups = {each.name: each for each in found.groups}
    assert len(groups) == len(found.groups)
    assert set(groups) == (set(were) - touched) | (set(are) & touched)
    for name, group in groups.items():
        own = name in touched
        assert (group.target, group.labels) == ((are if own else were)[name], {"by": "theirs" if own else "mine"})
        assert (group.current, group.status) == ((are[name], "theirs") if name in are else (were[name], "mine"))
    assert (found.status, found.arn) == ("theirs", "arn:hp")


@given(are=COUNTS)
def test_of_a_hyperpod_cluster_that_the_record_does_not_know_everything_is_recorded(are: dict[str, int]) -> None:
    seen = hyperpod(are, "theirs")
    assert brought_up_to_date(None, seen, []) == seen
    another = hyperpod({"one": 1}, "mine").model_copy(update={"arn": "arn:another"})
    assert brought_up_to_date(another, seen, []) == seen


def test_an_operation_on_instance_groups_leaves_another_way_of_provisioning_a_difference() -> None:
    known, seen = (
        hyperpod({"one": 1}, "mine").model_copy(update={"provisioning": way}) for way in ("Continuous", "Classic")
    )
    assert brought_up_to_date(known, seen, ["one"]).provisioning == "Continuous"
    unseen = known.model_copy(update={"provisioning": None})
    assert brought_up_to_date(unseen, seen, ["one"]).provisioning == "Classic"
