"""Nodes of one cluster of the sandbox: read, planned, rebooted, replaced, deleted, and given other software."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.nodes import read
from activities.registry import Activities
from contracts.activity import Act
from contracts.catalogue import DELETE_NODES as DELETE
from contracts.catalogue import REBOOT_NODES as REBOOT
from contracts.catalogue import REPLACE_NODES as REPLACE
from contracts.catalogue import UPDATE_SOFTWARE as UPDATE
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, HyperPodCluster, WaitForHyperPod
from contracts.network import Scope
from contracts.node_views import READ_NODES, NodeKind, NodesRead, ReadNodes
from contracts.nodes import (
    ANNOTATION_CHECKPOINT,
    DELETE_NODES,
    OBSERVE_NODES,
    REBOOT_NODES,
    REPLACE_NODES,
    WAIT_FOR_NODES_BACK,
    WAIT_FOR_NODES_GONE,
    ActOnNodes,
    NodesAccepted,
    NodesBack,
    ObservedNodes,
    ObserveNodes,
    WaitForNodesBack,
    WaitForNodesGone,
)
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from contracts.software import (
    READ_SOFTWARE,
    UPDATE_SOFTWARE,
    WAIT_FOR_SOFTWARE,
    GroupSoftware,
    ReadSoftware,
    SoftwareUpdate,
    SoftwareUpdated,
    UpdateSoftware,
    UpdateSoftwareSpec,
    WaitForSoftware,
)
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World

GPU = "nvidia.com/gpu"
WORKERS, SPARE, CHECKED = "workers", "spare", "checked"


class Cluster:
    """A HyperPod cluster with Ready nodes: three workers, and one spare that must stay."""

    def __init__(self, world: World, activities: Activities) -> None:
        self.world, self.scope, self.run, self.activities = world, world.scope, world.run, activities
        self.eks = world.control_plane.name
        addon = EnsureAddon(scope=self.scope, eks_cluster=self.eks, name="vpc-cni", kubernetes_version="1.34")
        self.run(ENSURE_ADDON, addon)
        self.run(ENSURE_RELEASE, EnsureRelease(scope=self.scope, eks_cluster=self.eks, name="hyperpod-dependencies"))
        groups = [
            world.group(count=3),
            world.group(count=1, name=SPARE, min_count=1),
            world.group(count=1, name=CHECKED, deep_health_checks=["InstanceStress"]),
        ]
        self.made: HyperPodCluster = self.run(ENSURE_HYPERPOD, world.hyperpod(*groups))
        self.name = self.made.name
        self.settle()

    def settle(self) -> None:
        wanted = WaitForHyperPod(
            scope=self.scope, name=self.name, eks_cluster=self.eks, groups=[WORKERS, SPARE, CHECKED]
        )
        self.run(WAIT_FOR_HYPERPOD, wanted)

    @property
    def record(self) -> ClusterRecord:
        now = datetime.now(UTC)
        return ClusterRecord(
            tag=self.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            control_plane=self.world.control_plane,
            hyperpod=self.made,
        )

    def read(self, **question: Any) -> NodesRead:
        given = {"cluster": self.scope.cluster, "region": REGION, "hyperpod": self.name, "eks_cluster": self.eks}
        return self.run(READ_NODES, ReadNodes.model_validate(given | question))

    def names(self, group: str = WORKERS) -> list[str]:
        return [view.name for view in self.read(group=group).nodes]

    def observe(self, *names: str) -> ObservedNodes:
        wanted = ObserveNodes(scope=self.scope, name=self.name, eks_cluster=self.eks, nodes=list(names))
        return self.run(OBSERVE_NODES, wanted)

    def act(self, signature: Act[ActOnNodes, NodesAccepted], seen: ObservedNodes) -> NodesAccepted:
        wanted = ActOnNodes(scope=self.scope, name=self.name, eks_cluster=self.eks, nodes=seen.nodes)
        return self.run(signature, wanted)

    def back(self, action: str, seen: ObservedNodes) -> NodesBack:
        wanted = WaitForNodesBack.model_validate(
            {"scope": self.scope, "name": self.name, "eks_cluster": self.eks, "action": action}
            | {"nodes": seen.nodes, "others": seen.others}
        )
        return self.run(WAIT_FOR_NODES_BACK, wanted)

    def plan(self, kind: str, **spec: Any) -> PlanDraft:
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=self.record, spec=spec)).draft

    def software(self, group: str = WORKERS) -> GroupSoftware:
        found = self.run(READ_SOFTWARE, ReadSoftware(cluster="t", region=REGION, hyperpod=self.name))
        return next(each for each in found.groups if each.group == group)

    def update(self, before: list[GroupSoftware], **spec: Any) -> SoftwareUpdate:
        given = UpdateSoftwareSpec.model_validate(spec)
        return self.run(UPDATE_SOFTWARE, UpdateSoftware(scope=self.scope, name=self.name, spec=given, before=before))

    def updated(self, before: list[GroupSoftware], groups: list[str]) -> SoftwareUpdated:
        wanted = WaitForSoftware(scope=self.scope, name=self.name, eks_cluster=self.eks, groups=groups, before=before)
        return self.run(WAIT_FOR_SOFTWARE, wanted)

    def pod(self, name: str, node: str | None = None, gpus: int = 1) -> None:
        body: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": work(node, gpus)}
        with self.activities.kubernetes.connect(REGION, self.eks) as api:
            client.CoreV1Api(api).create_namespaced_pod("default", body)

    def job(self, name: str, node: str, **annotations: str) -> str:
        """The name of its pod."""
        template = {"metadata": {"annotations": annotations}, "spec": work(node) | {"restartPolicy": "Never"}}
        with self.activities.kubernetes.connect(REGION, self.eks) as api:
            body: Any = {"metadata": {"name": name}, "spec": {"template": template}}
            client.BatchV1Api(api).create_namespaced_job("default", body)
            for _ in range(100):
                pods: Any = client.CoreV1Api(api).list_namespaced_pod("default", label_selector=f"job-name={name}")
                if pods.items and pods.items[0].status.phase == "Running":
                    return str(pods.items[0].metadata.name)
                time.sleep(0.05)
        raise AssertionError(f"job {name} does not run")

    def clear(self) -> None:
        with self.activities.kubernetes.connect(REGION, self.eks) as api:
            client.BatchV1Api(api).delete_collection_namespaced_job("default", propagation_policy="Background")
            client.CoreV1Api(api).delete_collection_namespaced_pod("default", grace_period_seconds=0)


def work(node: str | None, gpus: int = 1) -> dict[str, Any]:
    """A pod's spec; without a node the scheduler looks for one."""
    spec: dict[str, Any] = {
        "containers": [{"name": "work", "image": "work", "resources": {"limits": {GPU: str(gpus)}}}]
    }
    return spec | ({"nodeName": node} if node else {})


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, activities: Activities) -> Cluster:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Cluster(World(Runner(activities, f"replace-nodes/{scope.cluster}/nodes"), scope), activities)


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> Iterator[None]:
    yield
    quiet.call("POST", "hyperpod", {"sick": {}, "broken_software": {}})


def test_the_list_joins_both_sides_and_counts_what_is_used_and_wanted(cluster: Cluster) -> None:
    first, *_ = cluster.names()
    cluster.pod("busy", first)
    cluster.pod("hopeless", gpus=64)
    try:
        page = cluster.read(size=2)
        assert (len(page.nodes), page.matching, page.summary.nodes) == (2, 5, 5)
        assert page.last is not None
        rest = cluster.read(size=3, after=page.last)
        assert rest.last is None
        views = [*page.nodes, *rest.nodes]
        assert [view.group for view in views] == [CHECKED, SPARE, WORKERS, WORKERS, WORKERS]
        view = next(view for view in views if view.name == first)
        assert (view.kind, view.status, view.ready, view.healthy) == (NodeKind.HYPERPOD, "Running", True, True)
        assert (view.instance_type, view.zone, view.capacity_type) == ("ml.g5.8xlarge", "us-west-2a", "on-demand")
        assert first == f"hyperpod-{view.instance_id}"
        assert None not in (view.logical_id, view.image_version)
        assert view.health == "Schedulable"
        gpu = next(each for each in view.resources if each.name == GPU)
        assert (gpu.capacity, gpu.allocatable, gpu.used) == (1, 1, 1)
        total = next(each for each in page.summary.resources if each.name == GPU)
        assert (total.allocatable, total.used, total.pending) == (5, 1, 64)
        for name in (view.instance_id, view.logical_id, first):
            detail = cluster.read(node=name)
            assert detail.nodes[0].name == first
            assert ("Pod", "busy") in {(pod.owner_kind, pod.owner) for pod in detail.pods}
        with pytest.raises(ApplicationError) as caught:
            cluster.read(node="i-0000000000000000f")
        assert problem(caught).code == "not_found"
    finally:
        cluster.clear()


def test_the_summary_alone_comes_without_nodes_and_from_the_list_that_was_just_read(
    cluster: Cluster, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "KEEP_SECONDS", 3600.0)
    page = cluster.read(size=2)
    before = sandbox.mark()
    alone = cluster.read(size=0)
    assert (alone.nodes, alone.matching, alone.last) == ([], 5, None)
    assert (alone.summary, alone.read_at) == (page.summary, page.read_at)
    assert sandbox.call("GET", "ledger", since=before)["entries"] == []
    assert cluster.read(size=1).read_at > page.read_at


def test_the_plan_shows_who_lives_there_and_what_is_lost(cluster: Cluster) -> None:
    first, second, _ = cluster.names()
    ago = (datetime.now(UTC) - timedelta(minutes=40)).isoformat()
    pod = cluster.job("llama", first, **{ANNOTATION_CHECKPOINT: ago, "sandbox/run-seconds": "1000000"})
    try:
        draft = cluster.plan(REPLACE.name, nodes=[first.removeprefix("hyperpod-"), second, "i-0123456789abcdef0"])
        assert [change.name for change in draft.changes] == [first, second]
        assert f"default/{pod} (Job llama)" in str(draft.changes[0].detail)
        assert "all volumes are lost" in str(draft.changes[0].detail)
        assert any("last checkpoint is 40 min old" in text for text in draft.warnings)
        assert any("investigate first, then reboot; replace" in text for text in draft.warnings)
        (blocker,) = draft.blockers
        assert (blocker.field, blocker.code) == ("/nodes/2", "not_found")
        assert "i-0123456789abcdef0" in blocker.detail
        spare = cluster.names(SPARE)
        draft = cluster.plan(DELETE.name, nodes=spare)
        (blocker,) = draft.blockers
        assert "must have 1 (min_count)" in blocker.detail
        draft = cluster.plan(DELETE.name, nodes=[first])
        assert draft.changes[-1].detail == "target 3 → 2"
        assert [(each.instance_type, each.count) for each in draft.capacity] == [("ml.g5.8xlarge", -1)]
    finally:
        cluster.clear()


def test_nodes_that_are_not_hyperpods_are_named_as_what_they_are(cluster: Cluster) -> None:
    node: Any = {
        "metadata": {"name": "ip-10-0-0-7", "labels": {"eks.amazonaws.com/nodegroup": "cpu"}},
        "spec": {"providerID": "aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"},
    }
    with cluster.activities.kubernetes.connect(REGION, cluster.eks) as api:
        client.CoreV1Api(api).create_node(node)
        try:
            (view,) = cluster.read(group="cpu").nodes
            assert (view.kind, view.status) == (NodeKind.NODE_GROUP, None)
            (blocker,) = cluster.plan(REBOOT.name, nodes=["ip-10-0-0-7"]).blockers
            assert "EKS node group cpu" in blocker.detail
        finally:
            client.CoreV1Api(api).delete_node("ip-10-0-0-7")


def test_a_node_of_a_node_pool_is_left_to_karpenter(cluster: Cluster) -> None:
    first = cluster.names()[0]
    with cluster.activities.kubernetes.connect(REGION, cluster.eks) as api:
        core = client.CoreV1Api(api)
        core.patch_node(first, {"metadata": {"labels": {"karpenter.sh/nodepool": "gpus"}}})
        try:
            assert [view.name for view in cluster.read(group="gpus").nodes] == [first]
            (blocker,) = cluster.plan(DELETE.name, nodes=[first]).blockers
            assert (blocker.field, "node pool gpus" in blocker.detail) == ("/nodes/0", True)
            draft = cluster.plan(REPLACE.name, nodes=[first])
            assert (draft.blockers, any("node pool gpus" in text for text in draft.warnings)) == ([], True)
        finally:
            core.patch_node(first, {"metadata": {"labels": {"karpenter.sh/nodepool": None}}})


def test_a_reboot_whose_answer_is_lost_happens_once(cluster: Cluster, quiet: Sandbox) -> None:
    first, second, _ = cluster.names()
    seen, mark = cluster.observe(first, second), quiet.mark()
    quiet.lose_response("BatchRebootClusterNodes")
    accepted = cluster.act(REBOOT_NODES, seen)
    assert (accepted.accepted, accepted.failed) == ([first, second], [])
    assert len(quiet.effects("BatchRebootClusterNodes", since=mark)) == 1
    back = cluster.back("reboot", seen)
    assert [(each.before, each.now) for each in back.outcomes] == [(first, first), (second, second)]
    after = cluster.observe(first, second)
    assert all(a.boot_id != b.boot_id for a, b in zip(after.nodes, seen.nodes, strict=True))
    assert cluster.act(REBOOT_NODES, seen).changed is False, "its nodes have booted anew already"
    assert len(quiet.effects("BatchRebootClusterNodes", since=mark)) == 1


def test_a_node_that_is_being_rebooted_counts_as_accepted(cluster: Cluster, quiet: Sandbox) -> None:
    seen = cluster.observe(cluster.names()[0])
    quiet.call("POST", "clock", {"paused": True})
    try:
        cluster.act(REBOOT_NODES, seen)
        again = cluster.act(REBOOT_NODES, cluster.observe(seen.nodes[0].name))
    finally:
        quiet.call("POST", "clock", {"paused": False})
    assert (again.accepted, again.already, again.failed) == ([seen.nodes[0].name], [seen.nodes[0].name], [])
    cluster.back("reboot", seen)


def test_a_replacement_whose_answer_is_lost_happens_once_and_names_the_new_node(
    cluster: Cluster, quiet: Sandbox
) -> None:
    first, second, third = cluster.names()
    seen, mark = cluster.observe(first), quiet.mark()
    quiet.lose_response("BatchReplaceClusterNodes")
    cluster.act(REPLACE_NODES, seen)
    assert len(quiet.effects("BatchReplaceClusterNodes", since=mark)) == 1
    (outcome,) = cluster.back("replace", seen).outcomes
    assert outcome.before == first
    assert outcome.now not in (None, first, second, third)
    assert set(cluster.names()) == {outcome.now, second, third}
    assert cluster.act(REPLACE_NODES, seen).changed is False, "it has been replaced already"


def test_a_deletion_whose_answer_is_lost_happens_once_and_lowers_the_target_once(
    cluster: Cluster, quiet: Sandbox
) -> None:
    first, *others = cluster.names()
    seen, mark = cluster.observe(first), quiet.mark()
    quiet.lose_response("BatchDeleteClusterNodes")
    cluster.act(DELETE_NODES, seen)
    assert len(quiet.effects("BatchDeleteClusterNodes", since=mark)) == 1
    wanted = WaitForNodesGone(scope=cluster.scope, name=cluster.name, eks_cluster=cluster.eks, nodes=seen.nodes)
    gone = cluster.run(WAIT_FOR_NODES_GONE, wanted)
    assert [each.before for each in gone.outcomes] == [first]
    assert cluster.names() == others
    assert next(group.target for group in gone.cluster.groups if group.name == WORKERS) == 2
    assert cluster.act(DELETE_NODES, seen).changed is False
    cluster.run(ENSURE_HYPERPOD, cluster.world.hyperpod(cluster.world.group(count=3)))
    cluster.settle()


def test_names_that_no_node_has_are_told(cluster: Cluster) -> None:
    with pytest.raises(ApplicationError) as caught:
        cluster.observe(cluster.names()[0], "i-0123456789abcdef0")
    assert problem(caught).code == "not_found"
    assert "i-0123456789abcdef0" in problem(caught).detail


def test_what_hyperpod_replaces_by_itself_is_followed_to_the_new_node(cluster: Cluster, quiet: Sandbox) -> None:
    first = cluster.names()[0]
    seen = cluster.observe(first)
    quiet.call("POST", "clock", {"paused": True})
    quiet.call("POST", "hyperpod", {"fail_node": {"cluster": cluster.name, "node": first, "message": "XID 79"}})
    sick = cluster.read(unhealthy=True)
    assert [view.name for view in sick.nodes] == [first]
    assert any("XID 79" in text for text in sick.nodes[0].problems)
    quiet.call("POST", "clock", {"paused": False})
    (outcome,) = cluster.back("reboot", seen).outcomes
    assert outcome.now not in (first, None)
    assert first not in cluster.names()


def test_new_nodes_that_fail_their_deep_health_checks_block_with_what_the_events_say(
    cluster: Cluster, quiet: Sandbox
) -> None:
    seen = cluster.observe(*cluster.names(CHECKED))
    quiet.call("POST", "hyperpod", {"sick": {CHECKED: 2}})
    cluster.act(REPLACE_NODES, seen)
    with pytest.raises(ApplicationError) as caught:
        cluster.back("replace", seen)
    found = problem(caught)
    assert (found.code, found.retryable) == ("not_ready", True)
    assert f"2 new nodes of instance group {CHECKED} failed their deep health check" in found.detail
    assert "InstanceStress deep health check failed" in found.detail
    (outcome,) = cluster.back("replace", seen).outcomes
    assert outcome.before != outcome.now, "HyperPod has gone on by itself, and a retry waits on"


def test_an_update_whose_answer_is_lost_happens_once(cluster: Cluster, quiet: Sandbox) -> None:
    before = cluster.software()
    assert cluster.update([before], groups=[WORKERS], release_version=before.current_version).groups == []
    quiet.call("POST", "hyperpod", {"release": "1.0.9"})
    draft = cluster.plan(UPDATE.name, groups=[WORKERS, "nobody"])
    assert [(change.name, change.action) for change in draft.changes] == [(WORKERS, "change")]
    assert [blocker.field for blocker in draft.blockers] == ["/groups/1"]
    before, mark = cluster.software(), quiet.mark()
    assert before.image_status == "UpdateAvailable"
    quiet.lose_response("UpdateClusterSoftware")
    rolling = {"maximum_batch": {"type": "INSTANCE_COUNT", "value": 2}}
    asked = cluster.update([before], groups=[WORKERS], rolling=rolling)
    assert (asked.groups, asked.changed) == ([WORKERS], True)
    (effect,) = quiet.effects("UpdateClusterSoftware", since=mark)
    size = effect["parameters"]["DeploymentConfig"]["RollingUpdatePolicy"]["MaximumBatchSize"]
    assert size == {"Type": "INSTANCE_COUNT", "Value": 2}
    (group,) = cluster.updated([before], [WORKERS]).groups
    assert (group.current_version, group.update_status, group.versions) == ("1.0.9", "Succeeded", {"1.0.9": 3})
    assert cluster.software(SPARE).current_version != "1.0.9"


def test_an_update_that_was_rolled_back_is_no_success(cluster: Cluster, quiet: Sandbox) -> None:
    before = cluster.software(SPARE)
    quiet.call("POST", "hyperpod", {"broken_software": {SPARE: 1}})
    asked = cluster.update([before], groups=[SPARE], release_version="1.0.9")
    with pytest.raises(ApplicationError) as caught:
        cluster.updated([before], asked.groups)
    found = problem(caught)
    assert found.code == "not_ready"
    assert f"instance group {SPARE} was rolled back" in found.detail
    assert "did not start with the new image" in found.detail


def test_nothing_is_planned_on_a_cluster_that_failed(cluster: Cluster, quiet: Sandbox) -> None:
    """The last one: the cluster does not come back."""
    first = cluster.names()[0]
    quiet.call("POST", "hyperpod", {"fail_cluster": {"cluster": cluster.name, "message": "no way back"}})
    plans = [cluster.plan(kind.name, nodes=[first]) for kind in (REBOOT, REPLACE, DELETE)]
    plans.append(cluster.plan(UPDATE.name, groups=[WORKERS], release_version="9.9.9"))
    for draft in plans:
        assert [blocker.code for blocker in draft.blockers] == ["not_ready"]
        assert "delete-cluster" in str(draft.blockers[0].remedy)
