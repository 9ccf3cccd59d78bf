"""What is drift and what is not, and what adopting makes of a record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from contracts.cluster import ClusterRecord, HistoryEntry
from contracts.dependencies import ComponentState, ComponentStatus
from contracts.drift import (
    AdoptDriftSpec,
    Change,
    Difference,
    DriftKind,
    DriftState,
    Member,
    RestoreDriftSpec,
    Sight,
    Unread,
    leases_for,
    leases_of,
)
from contracts.drift_adopt import adopted
from contracts.drift_choice import chosen_of
from contracts.drift_compare import INSIDE, judge
from contracts.drift_recorded import recorded
from contracts.eks import ControlPlane
from contracts.features import Feature, FeatureState, FeatureStatus
from contracts.hyperpod import HyperPodCluster, InstanceGroup
from contracts.identity import Identity
from contracts.lease import Lease
from contracts.names import ClusterNames
from contracts.network import NatGateway, Network, Subnet
from contracts.node_groups import NodeGroup
from contracts.node_pools import NodePool
from contracts.operation import Phase
from contracts.storage import Claim, StorageType
from workflows.drift_restore import RESTORERS

TAG, REGION, ACCOUNT = "demo", "us-west-2", "111122223333"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NAMES = ClusterNames(TAG)
EVERY = list(DriftKind)


def role(purpose: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/instantstart/{NAMES.role(purpose, REGION)}"


def group(name: str, target: int) -> InstanceGroup:
    return InstanceGroup(
        name=name,
        instance_type="ml.g5.12xlarge",
        alternative_types=["ml.g5.24xlarge"],
        current=target,
        target=target,
        status="InService",
        subnet_ids=["subnet-c1", "subnet-c2"],
        deep_health_checks=["InstanceStress", "InstanceConnectivity"],
        labels={"team": "research", "tier": "one"},
        taints=[{"key": "gpu", "value": "", "effect": "NoSchedule"}],
    )


def whole_record() -> ClusterRecord:
    """A cluster with something of every kind that a record tells."""
    bucket = NAMES.bucket(ACCOUNT, REGION)
    claims = [
        Claim(claim="s3-claim", namespace="default", volume="v1", bucket=bucket, phase="Bound"),
        Claim(
            claim="fsx",
            namespace="default",
            type=StorageType.FSX_LUSTRE,
            volume="v2",
            file_system="fs-0123456789abcdef0",
            phase="Bound",
        ),
    ]
    return ClusterRecord(
        tag=TAG,
        region=REGION,
        created_by="alice",
        created_at=NOW,
        updated_at=NOW,
        network=Network(
            vpc_id="vpc-1",
            vpc_cidrs=["10.90.0.0/16", "10.91.0.0/16"],
            owned=True,
            service_cidr="172.20.0.0/16",
            zones=["us-west-2a", "us-west-2b"],
            public_subnet_ids=["subnet-p1", "subnet-p2"],
            control_plane_subnet_ids=["subnet-k1", "subnet-k2"],
            security_group_id="sg-1",
            s3_endpoint_id="vpce-1",
            nat_gateways=[
                NatGateway(nat_gateway_id="nat-1", allocation_id="a", subnet_id="subnet-p1", zone="us-west-2a")
            ],
            compute_subnets=[Subnet(subnet_id="subnet-c1", cidr="10.90.16.0/20", zone="us-west-2a", zone_id="z")],
        ),
        identity=Identity(
            account=ACCOUNT,
            platform_principal_arn=f"arn:aws:iam::{ACCOUNT}:role/platform",
            cluster_role_arn=role("cluster"),
            execution_role_arn=role("hyperpod-execution"),
            bucket=bucket,
            lifecycle_scripts_uri=f"s3://{bucket}/lifecycle",
        ),
        control_plane=ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34"),
        dependencies=[
            ComponentStatus(name="vpc-cni", state=ComponentState.READY, version="v1.20.4-eksbuild.1"),
            ComponentStatus(name="aws-mountpoint-s3-csi-driver", state=ComponentState.READY, version="v2.0.0"),
            ComponentStatus(name="hyperpod-dependencies", state=ComponentState.READY, version="chart-0.1.0"),
        ],
        hyperpod=HyperPodCluster(
            name="hp",
            arn="arn:hp",
            status="InService",
            provisioning="Continuous",
            groups=[group("workers", 4), group("elastic", 2)],
        ),
        storage=claims,
        node_groups=[NodeGroup(name="cpu", status="ACTIVE", instance_types=["m6i.large"], desired=2, maximum=4)],
        node_pools=[NodePool(name="pool", node_class="pool", instance_groups=["elastic"], gpu_limit=16)],
        features=[
            FeatureStatus(feature=Feature.KEDA, state=FeatureState.ON),
            FeatureStatus(feature=Feature.KUBERAY, state=FeatureState.OFF),
        ],
    )


SERVED = [
    Member(kind=kind, name="default/chat", properties={"image": "vllm:1", "replicas": 2})
    for kind in (DriftKind.DEPLOYMENT, DriftKind.MODEL_POOL, DriftKind.ROUTER, DriftKind.ENDPOINT)
] + [Member(kind=DriftKind.TRACKING_SERVER, name="runs", properties={"size": "Small"})]


def whole(members: Sequence[Member]) -> list[Sight]:
    return [Sight(kinds=EVERY, members=list(members))]


def checked(record: ClusterRecord, members: Sequence[Member], **more: Any) -> DriftState:
    return judge(record, whole(members), now=more.pop("now", NOW), **more)


def with_state(record: ClusterRecord, state: DriftState) -> ClusterRecord:
    return record.model_copy(update={"drift": state})


MIRROR = [*recorded(whole_record()), *SERVED]
"""What a cluster is that is as recorded."""
SEEN = with_state(whole_record(), checked(whole_record(), MIRROR))
"""The record after its first check."""
LATER = NOW + timedelta(minutes=30)


def shuffled(draw: st.DrawFn, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: shuffled(draw, value[key]) for key in draw(st.permutations(sorted(value)))}
    return draw(st.permutations(value)) if isinstance(value, list) else value


@st.composite
def reordered(draw: st.DrawFn) -> list[Member]:
    """The same cluster as AWS may tell it another time: in another order, with defaults filled in, labels of services
    and things of others beside it, and other counts where an autoscaler sets them."""
    members = []
    for member in draw(st.permutations(MIRROR)):
        properties: dict[str, Any] = {key: shuffled(draw, value) for key, value in member.properties.items()}
        if member.kind is DriftKind.INSTANCE_GROUP:
            filled = {"min_count": draw(st.integers(0, 2)), "threads_per_core": 2, "network_interface": "efa"}
            properties |= {key: value for key, value in filled.items() if properties[key] is None}
            properties["labels"] = {**properties["labels"], "sagemaker.amazonaws.com/compute-type": "hyperpod"}
            if member.name == "elastic":
                properties["target"] = draw(st.integers(0, 50))
        if member.kind in (DriftKind.DEPLOYMENT, DriftKind.ENDPOINT):
            properties.pop("replicas")
        members.append(member.model_copy(update={"properties": properties}))
    others = [
        Member(kind=DriftKind.NODE_GROUP, name="theirs", owned=False),
        Member(kind=DriftKind.SUBNET, name="subnet-theirs", owned=False),
        Member(kind=DriftKind.STORAGE, name="default/theirs", owned=False),
    ]
    return [*members, *draw(st.lists(st.sampled_from(others), unique_by=lambda each: each.key))]


@given(reordered())
def test_order_filled_in_defaults_autoscaled_counts_and_others_things_are_no_drift(members: list[Member]) -> None:
    assert checked(SEEN, members, now=LATER).report.differences == []


COMPARED = [(n, path) for n, member in enumerate(MIRROR) for path in sorted(member.properties)]
NOT_COMPARED = {("instance-group/elastic", "target")}
"""Karpenter's to set."""


@given(st.sampled_from(COMPARED))
def test_a_single_planted_change_is_found_exactly_once(planted: tuple[int, str]) -> None:
    position, path = planted
    member = MIRROR[position]
    assume((member.key, path) not in NOT_COMPARED)
    recorded_now = member.properties[path]
    # Where nothing was asked, what a service fills in is no change.
    assume(not (recorded_now is None and path in ("min_count", "threads_per_core", "network_interface", "gpu_limit")))
    changed = member.model_copy(update={"properties": {**member.properties, path: "planted"}})
    (found,) = checked(SEEN, [*MIRROR[:position], changed, *MIRROR[position + 1 :]], now=LATER).report.differences
    assert (found.kind, found.name, found.path) == (member.kind, member.name, path)
    assert (found.change, found.found) == (Change.CHANGED, "planted")
    assert found.recorded == recorded_now


@given(st.sampled_from([each for each in MIRROR if each.kind is not DriftKind.FEATURE]))
def test_what_is_gone_is_found_exactly_once_even_with_all_that_was_in_it(member: Member) -> None:
    lost = {member.kind}
    todo = [member.kind]
    while todo:
        inside = [each for each in INSIDE.get(todo.pop(), ()) if each not in lost]
        lost |= set(inside)
        todo += inside
    left = [each for each in MIRROR if each.key != member.key and (each.kind is member.kind or each.kind not in lost)]
    (found,) = checked(SEEN, left, now=LATER).report.differences
    assert (found.kind, found.name, found.change) == (member.kind, member.name, Change.GONE)


def test_something_extra_with_our_tags_is_drift() -> None:
    extra = Member(kind=DriftKind.NODE_GROUP, name="more", properties={"desired": 3})
    (found,) = checked(SEEN, [*MIRROR, extra], now=LATER).report.differences
    assert (found.change, found.member) == (Change.EXTRA, "node-group/more")


@given(st.sampled_from(COMPARED), st.sampled_from(MIRROR))
def test_what_could_not_be_read_is_neither_gone_nor_changed(planted: tuple[int, str], lost: Member) -> None:
    kind = MIRROR[planted[0]].kind
    sights = [
        Sight(
            kinds=[each for each in EVERY if each not in (kind, lost.kind)],
            members=[each for each in MIRROR if each.kind not in (kind, lost.kind)],
            unread=[Unread(kinds=[kind, lost.kind], detail="throttled")],
        )
    ]
    state = judge(SEEN, sights, now=LATER)
    assert state.report.differences == []
    assert state.report.unread[0].detail == "throttled"


def test_an_earlier_difference_stays_while_it_cannot_be_looked_at() -> None:
    gone = [each for each in MIRROR if each.key != "component/vpc-cni"]
    before = with_state(SEEN, checked(SEEN, gone, now=LATER))
    blind = [Sight(unread=[Unread(kinds=EVERY, detail="no answer")])]
    after = judge(before, blind, now=LATER + timedelta(minutes=30))
    assert [each.member for each in after.report.differences] == ["component/vpc-cni"]
    assert after.report.differences[0].since == LATER


def lease(*leases: str) -> Lease:
    return Lease(operation="scale-instance-group/demo/workers", run_id="r", kind="k", by="a", leases=leases, since=NOW)


@given(st.sampled_from(COMPARED))
def test_members_that_a_running_operation_holds_are_left_out(planted: tuple[int, str]) -> None:
    position, path = planted
    member = MIRROR[position]
    changed = member.model_copy(update={"properties": {**member.properties, path: "planted"}})
    members = [*MIRROR[:position], changed, *MIRROR[position + 1 :]]
    state = checked(SEEN, members, now=LATER, held=[lease(*leases_of(member.kind, member.name))])
    assert state.report.differences == []
    assert f"{member.key}: scale-instance-group/demo/workers" in state.report.skipped


def ended(kind: str, target: str | None, at: datetime) -> HistoryEntry:
    return HistoryEntry(
        operation=f"{kind}/{TAG}" + (f"/{target}" if target else ""),
        run_id="r",
        kind=kind,
        by="alice",
        phase=Phase.SUCCEEDED,
        started_at=at,
        finished_at=at,
    )


def test_what_operations_did_since_the_last_check_is_no_drift() -> None:
    scaled = Member(kind=DriftKind.DEPLOYMENT, name="default/chat", properties={"image": "vllm:1", "replicas": 5})
    others = [each for each in MIRROR if each.key not in ("deployment/default/chat", "router/default/chat")]
    now = [*others, scaled, Member(kind=DriftKind.ENDPOINT, name="ns/new", properties={"replicas": 1})]
    at = NOW + timedelta(minutes=5)
    history = [
        ended("scale-deployment", "chat", at),
        ended("delete-router", "chat", at),
        ended("create-endpoint", "ns/new", at),
    ]
    state = checked(SEEN, now, now=LATER, history=history)
    assert state.report.differences == []
    assert state.known["deployment/default/chat"]["replicas"] == 5
    assert "router/default/chat" not in state.known
    later = checked(with_state(SEEN, state), [*others, now[-1]], now=LATER + timedelta(minutes=30), history=history)
    assert [each.detail for each in later.report.differences] == ["Deployment default/chat is gone"]


@pytest.mark.parametrize(
    ("member", "operation"),
    [
        ("hyperpod/hp", "scale-instance-group"),
        ("hyperpod/hp", "update-software"),
        ("hyperpod/hp", "update-features"),
        ("instance-group/workers", "update-software"),
        ("instance-group/workers", "create-node-pool"),
    ],
)
def test_an_operation_swallows_no_change_of_somebody_elses_to_what_it_does_not_set(member: str, operation: str) -> None:
    path = "node_recovery" if member.startswith("hyperpod") else "security_groups"
    before = [
        each.model_copy(update={"properties": {**each.properties, path: "mine"}}) if each.key == member else each
        for each in MIRROR
    ]
    after = [
        each.model_copy(update={"properties": {**each.properties, path: "theirs"}}) if each.key == member else each
        for each in MIRROR
    ]
    seen = with_state(whole_record(), checked(whole_record(), before))
    history = [ended(operation, "another", NOW + timedelta(minutes=5))]
    (found,) = checked(seen, after, now=LATER, history=history).report.differences
    assert (found.path, found.recorded, found.found) == (path, "mine", "theirs")


BLIND = [
    Sight(
        kinds=[each for each in EVERY if each is not DriftKind.DEPLOYMENT],
        members=[each for each in MIRROR if each.kind is not DriftKind.DEPLOYMENT],
        unread=[Unread(kinds=[DriftKind.DEPLOYMENT], detail="no answer")],
    )
]
"""A check that cannot look at model servers."""


def test_what_the_first_check_could_not_look_at_is_seen_by_the_next_and_is_no_drift() -> None:
    first = with_state(whole_record(), judge(whole_record(), BLIND, now=NOW))
    state = checked(first, MIRROR, now=LATER)
    assert state.report.differences == []
    more = Member(kind=DriftKind.DEPLOYMENT, name="default/more", properties={"replicas": 1})
    (found,) = checked(with_state(first, state), [*MIRROR, more], now=LATER + timedelta(minutes=30)).report.differences
    assert (found.change, found.name) == (Change.EXTRA, "default/more")


def test_what_was_left_out_at_first_is_seen_by_the_next_check_and_is_no_drift() -> None:
    first = with_state(whole_record(), checked(whole_record(), MIRROR, held=[lease("*")]))
    assert first.drift is not None
    assert first.drift.left_out["deployment/default/chat"] is None
    again = with_state(first, checked(first, MIRROR, now=LATER, held=[lease("deployments/default/chat")]))
    state = checked(again, MIRROR, now=LATER + timedelta(minutes=30))
    assert (state.report.differences, state.left_out) == ([], {})
    assert state.known["deployment/default/chat"]["replicas"] == 2


@pytest.mark.parametrize("blind", [True, False])
def test_what_an_operation_did_is_no_drift_though_a_check_in_between_did_not_see_it(blind: bool) -> None:
    scaled = Member(kind=DriftKind.DEPLOYMENT, name="default/chat", properties={"image": "vllm:1", "replicas": 5})
    now = [*(each for each in MIRROR if each.key != scaled.key), scaled]
    history = [ended("scale-deployment", "chat", NOW + timedelta(minutes=5))]
    between = (
        judge(SEEN, BLIND, now=LATER, history=history)
        if blind
        else checked(SEEN, now, now=LATER, history=history, held=[lease("*")])
    )
    after = LATER + timedelta(minutes=30)
    state = checked(with_state(SEEN, between), now, now=after, history=history)
    assert state.report.differences == []
    changed = scaled.model_copy(update={"properties": {"image": "vllm:1", "replicas": 6}})
    once_more = [*(each for each in now if each.key != scaled.key), changed]
    (found,) = checked(with_state(SEEN, state), once_more, now=after, history=history).report.differences
    assert (found.recorded, found.found) == (5, 6)


def test_endpoints_of_others_are_not_looked_after() -> None:
    theirs = Member(kind=DriftKind.ENDPOINT, name="ns/theirs", properties={"replicas": 1}, owned=False)
    state = checked(whole_record(), [*MIRROR, theirs])
    assert theirs.key not in state.known
    assert checked(with_state(SEEN, state), MIRROR, now=LATER).report.differences == []


def other(member: Member, path: str) -> JsonValue:
    """Another value of a property, such as it can have."""
    words: dict[str, JsonValue] = {
        "state": "off" if member.kind is DriftKind.FEATURE else "failed",
        "capacity": "spot",
        "deep_health_checks": [],
        "taints": [],
        "type": "fsx_lustre" if member.properties[path] == "s3" else "s3",
        "labels": {"team": "ops"},
    }
    if path in words:
        return words[path]
    match member.properties[path]:
        case bool(value):
            return not value
        case int(value):
            return value + 1
        case list():
            return ["planted"]
    return 7 if path == "gpu_limit" else "planted"


@given(st.sampled_from(COMPARED))
def test_what_was_adopted_is_no_drift_any_more(planted: tuple[int, str]) -> None:
    position, path = planted
    member = MIRROR[position]
    # A claim on another file system makes that one the cluster's, and it would have to be there, too.
    assume(path != "file_system")
    changed = member.model_copy(update={"properties": {**member.properties, path: other(member, path)}})
    members = [*MIRROR[:position], changed, *MIRROR[position + 1 :]]
    state = checked(SEEN, members, now=LATER)
    assume(bool(state.report.differences) and state.report.differences[0].adopt.possible)
    after = adopted(with_state(SEEN, state), state.report.differences, LATER)
    assert after.drift is not None
    assert after.drift.report.differences == []
    again = checked(after, members, now=LATER + timedelta(minutes=30))
    assert again.report.differences == []


@given(st.sampled_from([each for each in MIRROR if each.kind is not DriftKind.FEATURE]))
def test_what_was_adopted_as_gone_is_no_drift_any_more(member: Member) -> None:
    lost = {member.kind, *INSIDE.get(member.kind, ())}
    left = [each for each in MIRROR if each.key != member.key and (each.kind is member.kind or each.kind not in lost)]
    state = checked(SEEN, left, now=LATER)
    assume(state.report.differences[0].adopt.possible)
    after = adopted(with_state(SEEN, state), state.report.differences, LATER)
    assert checked(after, left, now=LATER + timedelta(minutes=30)).report.differences == []


def test_what_was_adopted_is_forgotten_once_it_is_as_it_should_be_again() -> None:
    open_group = Member(
        kind=DriftKind.SECURITY_GROUP,
        name="sg-1",
        properties={"traffic_within": "open", "traffic_out": "open", "open_to": ["tcp 22-22 from 0.0.0.0/0"]},
    )
    opened = [open_group if each.kind is DriftKind.SECURITY_GROUP else each for each in MIRROR]
    state = checked(SEEN, opened, now=LATER)
    after = adopted(with_state(SEEN, state), state.report.differences, LATER)
    closed = with_state(after, checked(after, MIRROR, now=LATER + timedelta(minutes=30)))
    (found,) = checked(closed, opened, now=LATER + timedelta(minutes=60)).report.differences
    assert found.path == "open_to"


def one(found: list[Difference], member: str) -> Difference:
    return next(each for each in found if each.member == member)


def test_a_difference_that_has_changed_since_is_refused_with_what_it_is_now() -> None:
    def replicas(count: int) -> list[Member]:
        now = Member(kind=DriftKind.DEPLOYMENT, name="default/chat", properties={"image": "vllm:1", "replicas": count})
        return [now if each.key == now.key else each for each in MIRROR]

    before = one(checked(SEEN, replicas(1), now=LATER).report.differences, "deployment/default/chat")
    report = checked(SEEN, replicas(0), now=LATER).report
    chosen, (fault,) = chosen_of(report, RestoreDriftSpec(differences=[before.id]))
    assert chosen == []
    assert "replicas is 0" in fault.detail
    assert report.differences[0].id in (fault.remedy or "")


def test_adopting_a_hole_in_security_needs_a_word() -> None:
    opened = [
        each.model_copy(update={"properties": {**each.properties, "public_access": "not blocked"}})
        if each.kind is DriftKind.BUCKET
        else each
        for each in MIRROR
    ]
    report = checked(SEEN, opened, now=LATER).report
    named = [report.differences[0].id]
    assert chosen_of(report, AdoptDriftSpec(differences=named))[1][0].field == "/accept_weaker_security"
    accepted = chosen_of(report, AdoptDriftSpec(differences=named, accept_weaker_security=True))
    assert accepted == ([report.differences[0]], [])


def every_difference() -> list[Difference]:
    found: list[Difference] = []
    for position, path in COMPARED:
        values: list[JsonValue] = ["planted", 0, [], "off", "degraded"]
        for value in values:
            member = MIRROR[position]
            changed = member.model_copy(update={"properties": {**member.properties, path: value}})
            found += checked(SEEN, [*MIRROR[:position], changed, *MIRROR[position + 1 :]], now=LATER).report.differences
    for member in MIRROR:
        found += checked(SEEN, [each for each in MIRROR if each.key != member.key], now=LATER).report.differences
    return found


def test_every_difference_can_be_settled_or_says_how_else() -> None:
    found = every_difference()
    assert {each.kind for each in found} == {*DriftKind}
    for each in found:
        assert each.adopt.why, each.id
        assert each.restore.why, each.id
        assert leases_for([each.id]), each.id
        if each.restore.possible:
            assert each.kind in RESTORERS, each.id


@pytest.mark.parametrize(
    "text", ["", "workers", "instance-group/workers", "nothing/workers~01234567", "instance-group/w~0123"]
)
def test_what_is_no_id_of_a_difference_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        RestoreDriftSpec(differences=[text])
