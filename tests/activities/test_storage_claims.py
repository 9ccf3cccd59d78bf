"""Claims that are tried by a pod, planned, and deleted: what is behind them stays."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.catalogue import CREATE_STORAGE, DELETE_STORAGE
from contracts.names import ClusterNames
from contracts.network import Scope
from contracts.plans import Action
from contracts.storage import (
    DELETE_CLAIM,
    ENSURE_PROBE,
    REMOVE_PROBE,
    WAIT_FOR_PROBE,
    ProbeState,
    ProbeStorage,
)
from tests.activities.claims import Cluster, blockers
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World, until


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, activities: Activities) -> Cluster:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Cluster(World(Runner(activities, f"create-storage/{scope.cluster}"), scope), activities)


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> None:
    """No fault is left of another test."""


# Making


@pytest.mark.parametrize("kind", ["persistentvolumes", "persistentvolumeclaims"])
def test_a_lost_answer_to_a_claim_costs_one_more_look(cluster: Cluster, quiet: Sandbox, kind: str) -> None:
    mark = quiet.mark()
    quiet.lose_response(f"PATCH .*/{kind}/.*")
    assert cluster.ensure(f"once-{kind}").phase == "Bound"
    paths = [each["resource"] for each in quiet.effects(since=mark) if each["operation"].startswith("PATCH")]
    assert len(paths) == len(set(paths)) == 2


# Trying


@pytest.mark.parametrize("read_only", [False, True])
def test_a_claim_is_used_by_a_pod_and_no_pod_is_left(cluster: Cluster, read_only: bool) -> None:
    name = f"tried-{read_only}".lower()
    cluster.ensure(name, read_only=read_only)
    probe = cluster.tried(name, read_only=read_only)
    assert (probe.state, bool(probe.node)) == (ProbeState.VERIFIED, True)
    pod = cluster.core(lambda core: core.read_namespaced_pod(probe.pod, "default"))
    command = " ".join(pod.spec.containers[0].command)
    assert ("rm -f" in command) is not read_only
    assert pod.spec.automount_service_account_token is False
    cluster.run(REMOVE_PROBE, cluster.probe(name))
    until(lambda: probe.pod not in cluster.pods())
    cluster.run(REMOVE_PROBE, cluster.probe(name))


def test_a_lost_answer_does_not_make_a_second_pod(cluster: Cluster, quiet: Sandbox) -> None:
    cluster.ensure("lost")
    mark = quiet.mark()
    quiet.lose_response("POST .*/pods")
    assert cluster.tried("lost").state is ProbeState.VERIFIED
    made = [each for each in quiet.effects(since=mark) if each["operation"].endswith("/pods")]
    assert [each["response_lost"] for each in made] == [True]
    cluster.run(REMOVE_PROBE, cluster.probe("lost"))


def test_a_pod_of_an_earlier_operation_is_replaced(cluster: Cluster, activities: Activities) -> None:
    cluster.ensure("earlier")
    question = cluster.probe("earlier")
    Runner(activities, "create-storage/earlier")(ENSURE_PROBE, question)
    first = cluster.core(lambda core: core.read_namespaced_pod("instantstart-probe-earlier", "default"))
    until(lambda: _made_anew(cluster, question, first.metadata.uid))
    assert cluster.run(WAIT_FOR_PROBE, question).state is ProbeState.VERIFIED
    cluster.run(REMOVE_PROBE, question)


def _made_anew(cluster: Cluster, question: ProbeStorage, uid: str) -> bool:
    try:
        cluster.run(ENSURE_PROBE, question, attempts=1)
    except ApplicationError as error:
        if error.type != "busy":
            raise
        return False
    pod = cluster.core(lambda core: core.read_namespaced_pod("instantstart-probe-earlier", "default"))
    return bool(pod.metadata.uid != uid)


def test_a_mount_that_fails_is_told_in_the_drivers_words(cluster: Cluster) -> None:
    volume = cluster.ensure("broken").volume
    words = {"metadata": {"annotations": {"sandbox/mount-error": "Access Denied for bucket x"}}}
    cluster.core(lambda core: core.patch_persistent_volume(volume, words))
    with pytest.raises(ApplicationError) as caught:
        cluster.tried("broken")
    found = problem(caught)
    assert (found.code, found.retryable) == ("not_ready", True)
    assert "Access Denied for bucket x" in found.detail
    cluster.run(REMOVE_PROBE, cluster.probe("broken"))
    mended: Any = {"metadata": {"annotations": {"sandbox/mount-error": None}}}
    cluster.core(lambda core: core.patch_persistent_volume(volume, mended))
    until(lambda: "instantstart-probe-broken" not in cluster.pods())
    assert cluster.tried("broken").state is ProbeState.VERIFIED
    cluster.run(REMOVE_PROBE, cluster.probe("broken"))


def test_without_a_node_a_claim_is_not_verified_and_no_pod_waits_for_one(cluster: Cluster) -> None:
    cluster.ensure("nodeless")
    (node,) = cluster.core(lambda core: core.list_node()).items

    def cordon(off: bool) -> None:
        cluster.core(lambda core: core.patch_node(node.metadata.name, {"spec": {"unschedulable": off}}))

    cordon(True)
    try:
        probe = cluster.tried("nodeless")
        assert (probe.state, "no Ready node" in (probe.detail or "")) == (ProbeState.NOT_VERIFIED, True)
        assert probe.pod not in cluster.pods()
    finally:
        cordon(False)


# Names


def test_claims_of_one_name_in_two_namespaces_have_volumes_of_their_own(cluster: Cluster) -> None:
    cluster.core(lambda core: core.create_namespace({"metadata": {"name": "ml"}}))
    ours, theirs = cluster.ensure("same"), cluster.ensure("same", namespace="ml", prefix="ml/")
    assert ours.volume != theirs.volume
    handles = [
        cluster.core(lambda core, name=each.volume: core.read_persistent_volume(name)).spec.csi.volume_handle
        for each in (ours, theirs)
    ]
    assert len(set(handles)) == 2
    found = cluster.claims()
    assert (found["default/same"].prefix, found["ml/same"].prefix) == (None, "ml/")
    assert cluster.tried("same", namespace="ml").state is ProbeState.VERIFIED
    cluster.run(REMOVE_PROBE, cluster.probe("same", namespace="ml"))


# Plans of claims


def test_a_plan_of_the_clusters_own_bucket_has_nothing_to_say(cluster: Cluster) -> None:
    plan = cluster.plan(CREATE_STORAGE.name, claim="planned")
    assert (plan.blockers, plan.warnings) == ([], [])
    assert [(each.action, each.kind) for each in plan.changes] == [
        (Action.CREATE, "PersistentVolume"),
        (Action.CREATE, "PersistentVolumeClaim"),
    ]
    assert cluster.plan(CREATE_STORAGE.name, claim="planned", bucket=cluster.world.bucket.name).warnings == []


def test_a_bucket_of_others_is_looked_at_first(cluster: Cluster, quiet: Sandbox) -> None:
    s3: Any = cluster.activities.aws.act.s3(REGION)
    s3.create_bucket(Bucket="of-others-here", CreateBucketConfiguration={"LocationConstraint": REGION})
    near = cluster.plan(CREATE_STORAGE.name, claim="near", bucket="of-others-here")
    assert near.blockers == []
    assert any("s3:PutObject" in each for each in near.warnings)
    read = cluster.plan(CREATE_STORAGE.name, claim="near", bucket="of-others-here", read_only=True)
    assert not any("s3:PutObject" in each for each in read.warnings)
    assert blockers(cluster.plan(CREATE_STORAGE.name, claim="x", bucket="nobody-has-this-one")) == {
        "/bucket": "not_found"
    }
    quiet.fault({"operation": "ListObjectsV2", "service": "s3", "code": "AccessDenied", "status": 403})
    unseen = cluster.plan(CREATE_STORAGE.name, claim="near", bucket="of-others-here")
    assert unseen.blockers == []
    assert any("may not list" in each for each in unseen.warnings)


def test_a_bucket_of_another_region_is_refused(cluster: Cluster) -> None:
    far = cluster.activities.aws.act.s3("eu-west-1")
    far.create_bucket(Bucket="far-away-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    plan = cluster.plan(CREATE_STORAGE.name, claim="far", bucket="far-away-bucket")
    assert blockers(plan) == {"/bucket": "invalid"}
    assert "eu-west-1" in plan.blockers[0].detail


def test_a_bucket_that_may_not_be_seen_is_refused_unless_it_is_meant(cluster: Cluster, quiet: Sandbox) -> None:
    quiet.fault({"operation": "HeadBucket", "service": "s3", "code": "403", "status": 403})
    assert blockers(cluster.plan(CREATE_STORAGE.name, claim="x", bucket="their-bucket")) == {"/bucket": "denied"}
    meant = cluster.plan(CREATE_STORAGE.name, claim="x", bucket="their-bucket", allow_foreign_bucket=True)
    assert meant.blockers == []
    assert any("mounted unseen" in each for each in meant.warnings)


def test_a_plan_finds_what_is_there_what_differs_and_what_is_missing(cluster: Cluster) -> None:
    cluster.ensure("there", prefix="a/")
    same = cluster.plan(CREATE_STORAGE.name, claim="there", prefix="a/")
    assert {each.action for each in same.changes} == {Action.NOTHING}
    other = cluster.plan(CREATE_STORAGE.name, claim="there", prefix="b/")
    assert blockers(other) == {"/claim": "conflict"}
    assert "prefix is a/, asked was b/" in other.blockers[0].detail
    assert blockers(cluster.plan(CREATE_STORAGE.name, claim="x", namespace="nowhere")) == {"/namespace": "not_found"}


def test_without_the_driver_there_is_no_storage(cluster: Cluster) -> None:
    with cluster.activities.kubernetes.connect(REGION, cluster.name) as api:
        storage = client.StorageV1Api(api)
        driver = storage.read_csi_driver("s3.csi.aws.com")
        storage.delete_csi_driver("s3.csi.aws.com")
        try:
            plan = cluster.plan(CREATE_STORAGE.name, claim="x")
        finally:
            body: Any = {"metadata": {"name": "s3.csi.aws.com"}, "spec": driver.spec}
            storage.create_csi_driver(body)
    assert [each.passed for each in plan.checks] == [False]
    assert "install-dependencies" in (plan.blockers[0].remedy or "")


# Deleting


def test_a_claim_goes_with_its_volume_and_its_data_stays(cluster: Cluster, quiet: Sandbox) -> None:
    claim = cluster.ensure("going", prefix="keep/")
    s3 = cluster.activities.aws.act.s3(REGION)
    s3.put_object(Bucket=claim.bucket, Key="keep/data.txt", Body=b"1")
    plan = cluster.plan(DELETE_STORAGE.name, claim="going")
    assert plan.blockers == []
    assert [(each.action, each.kind) for each in plan.changes] == [
        (Action.DELETE, "PersistentVolumeClaim"),
        (Action.DELETE, "PersistentVolume"),
        (Action.KEEP, "S3 bucket"),
    ]
    deleted = cluster.delete("going")
    assert (deleted.volume, deleted.bucket) == (claim.volume, claim.bucket)
    assert "default/going" not in cluster.claims()
    until(lambda: claim.volume not in cluster.volumes())
    assert s3.get_object(Bucket=claim.bucket, Key="keep/data.txt")["Body"].read() == b"1"
    mark = quiet.mark()
    assert cluster.delete("going").volume is None
    assert quiet.effects(since=mark) == []
    assert blockers(cluster.plan(DELETE_STORAGE.name, claim="going")) == {"/claim": "not_found"}


def test_a_volume_that_an_earlier_attempt_has_left_goes(cluster: Cluster) -> None:
    volume = cluster.ensure("half").volume
    cluster.core(lambda core: core.delete_namespaced_persistent_volume_claim("half", "default"))
    until(lambda: "default/half" not in cluster.claims())
    plan = cluster.plan(DELETE_STORAGE.name, claim="half")
    assert [(each.action, each.kind) for each in plan.changes] == [
        (Action.NOTHING, "PersistentVolumeClaim"),
        (Action.DELETE, "PersistentVolume"),
    ]
    assert cluster.delete("half").volume == volume
    until(lambda: volume not in cluster.volumes())


def test_a_claim_in_use_is_refused_with_its_pods(cluster: Cluster) -> None:
    cluster.ensure("used")
    cluster.use("worker-1", "used")
    assert cluster.claims()["default/used"].used_by == 1
    plan = cluster.plan(DELETE_STORAGE.name, claim="used")
    assert blockers(plan) == {"/claim": "conflict"}
    assert "worker-1" in plan.blockers[0].detail
    with pytest.raises(ApplicationError) as caught:
        cluster.run(DELETE_CLAIM, cluster.ref("used"))
    assert "worker-1" in problem(caught).detail
    assert cluster.claims()["default/used"].phase == "Bound"
    cluster.core(lambda core: core.delete_namespaced_pod("worker-1", "default"))
    until(lambda: "worker-1" not in cluster.pods())
    assert cluster.plan(DELETE_STORAGE.name, claim="used").blockers == []


def test_who_would_mount_the_claim_later_is_warned_of(cluster: Cluster) -> None:
    cluster.ensure("later")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "later"}}]
    labels = {"app": "idle"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "volumes": volumes},
    }
    body: Any = {
        "metadata": {"name": "idle"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    with cluster.activities.kubernetes.connect(REGION, cluster.name) as api:
        client.AppsV1Api(api).create_namespaced_deployment("default", body)
    plan = cluster.plan(DELETE_STORAGE.name, claim="later")
    assert plan.blockers == []
    assert any("Deployment idle" in each for each in plan.warnings)


def test_a_claim_of_others_goes_only_where_it_is_meant_and_its_data_stays(cluster: Cluster) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    csi = {"driver": "s3.csi.aws.com", "volumeHandle": "x", "volumeAttributes": {"bucketName": "theirs"}}
    reference = {"namespace": "default", "name": "theirs"}
    volume = {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete", "csi": csi, **spec}
    body = {"metadata": {"name": "theirs"}, "spec": {**volume, "claimRef": reference}}
    cluster.core(lambda core: core.create_persistent_volume(body))
    claim = {"volumeName": "theirs", "resources": {"requests": {"storage": "1Gi"}}, **spec}
    wanted = {"metadata": {"name": "theirs"}, "spec": claim}
    cluster.core(lambda core: core.create_namespaced_persistent_volume_claim("default", wanted))
    until(lambda: cluster.claims()["default/theirs"].phase == "Bound")
    assert blockers(cluster.plan(DELETE_STORAGE.name, claim="theirs")) == {"/foreign": "foreign"}
    assert cluster.plan(DELETE_STORAGE.name, claim="theirs", foreign=True).blockers == []
    cluster.run(DELETE_CLAIM, cluster.ref("theirs"))
    kept = cluster.core(lambda core: core.read_persistent_volume("theirs"))
    assert kept.spec.persistent_volume_reclaim_policy == "Retain", "its driver must not delete what is behind it"


def test_a_claim_on_s3_has_no_file_system_to_delete(cluster: Cluster) -> None:
    cluster.ensure("flat")
    plan = cluster.plan(DELETE_STORAGE.name, claim="flat", delete_file_system=True)
    assert blockers(plan) == {"/delete_file_system": "invalid"}
    assert ClusterNames(cluster.scope.cluster).persistent_volume("flat") in [each.name for each in plan.changes]
