"""Diagnoses of one cluster of the sandbox, which has two nodes with accelerators: what is read, and what follows."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.diagnostics.diagnose import NOTHING_WRONG
from activities.diagnostics.reading import Reading
from activities.logs.chunks import Chunks, Told
from activities.registry import Activities
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.diagnostics import DIAGNOSE, Cause, Diagnose, Diagnosis, Source, Subject, TimelineEntry
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, HyperPodCluster, WaitForHyperPod
from contracts.log_lines import Line, Position, StreamKey
from contracts.logs import KeptPlace
from contracts.names import LABEL_TRAINING
from contracts.network import Scope
from contracts.nodes import OBSERVE_NODES, ObserveNodes
from contracts.problem import ProblemCode
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World, until

OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7 GiB. token=hf_abcdefghijklmnopqrstuv"
TIMEOUT = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 600060 ms before timing out."
)


class Cluster:
    def __init__(self, sandbox: Sandbox, world: World, activities: Activities) -> None:
        self.sandbox, self.scope, self.run, self.activities = sandbox, world.scope, world.run, activities
        self.eks = world.control_plane.name
        addon = EnsureAddon(scope=self.scope, eks_cluster=self.eks, name="vpc-cni", kubernetes_version="1.34")
        self.run(ENSURE_ADDON, addon)
        self.run(ENSURE_RELEASE, EnsureRelease(scope=self.scope, eks_cluster=self.eks, name="hyperpod-dependencies"))
        made: HyperPodCluster = self.run(ENSURE_HYPERPOD, world.hyperpod(world.group(count=2)))
        self.name = made.name
        wanted = WaitForHyperPod(scope=self.scope, name=self.name, eks_cluster=self.eks, groups=["workers"])
        self.run(WAIT_FOR_HYPERPOD, wanted)

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.eks)

    def diagnose(self, kind: str, name: str = "", **more: Any) -> Diagnosis:
        subject = Subject.model_validate({"kind": kind, "name": name})
        given = {"cluster": self.scope.cluster, "region": REGION, "eks_cluster": self.eks, "hyperpod": self.name}
        return self.run(DIAGNOSE, Diagnose.model_validate(given | {"subject": subject} | more))

    def nodes(self) -> list[str]:
        with self.api() as api:
            return sorted(node.metadata.name for node in client.CoreV1Api(api).list_node().items)

    def pod(self, name: str, log: str = "", exit: int = 1, run: float = 1, **more: Any) -> None:
        """A pod of the training ``<name before the last dash>``, which ends after ``run`` seconds."""
        annotations = {"sandbox/run-seconds": str(run), "sandbox/exit-code": str(exit), "sandbox/log": log}
        container = {
            "name": "pytorch",
            "image": more.pop("image", "trainer:1"),
            "command": ["train", "--key", "s3cret"],
        }
        container |= {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if (gpus := more.pop("gpus", 0)) else {}
        labels = {LABEL_TRAINING: name.rpartition("-")[0]}
        metadata = {"name": name, "annotations": annotations | more.pop("annotations", {}), "labels": labels}
        body: Any = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container], **more}}
        with self.api() as api:
            client.CoreV1Api(api).create_namespaced_pod("default", body)

    def until_phase(self, name: str, phase: str) -> None:
        with self.api() as api:
            until(lambda: client.CoreV1Api(api).read_namespaced_pod(name, "default").status.phase == phase)

    def strike(self, node: str, fault: str | None) -> None:
        self.sandbox.call("POST", "kubernetes/nodes", {"node": node, "fault": fault} if fault else {"node": node})


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, activities: Activities) -> Iterator[Cluster]:
    sandbox.call("POST", "reset")
    activities.lookup.forget()
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    yield Cluster(sandbox, World(Runner(activities, f"diagnose/{scope.cluster}"), scope), activities)
    sandbox.call("POST", "reset")


def named(found: Diagnosis, rule: str) -> Cause:
    return next(cause for cause in found.causes if cause.rule == rule)


def test_the_rank_that_ran_out_of_memory_comes_before_those_that_waited_for_it(cluster: Cluster) -> None:
    cluster.pod("oom-1", OOM)
    cluster.until_phase("oom-1", "Failed")
    cluster.pod("oom-0", TIMEOUT)
    cluster.until_phase("oom-0", "Failed")
    found = cluster.diagnose("training-run", "oom")
    first = found.causes[0]
    assert (first.rule, first.evidence[0].subject, first.evidence[0].source) == ("cuda-oom", "pod oom-1", Source.LOG)
    assert named(found, "collective-timeout").explained_by == "cuda-oom"
    assert first.next_step is not None
    assert first.next_step.level == "correct"
    assert "hf_" not in found.model_dump_json()
    assert "s3cret" not in found.model_dump_json()
    times = [entry.at for entry in found.timeline if entry.at is not None]
    assert times == sorted(times)
    assert {each.source for each in found.read} >= {Source.POD, Source.NODE, Source.LOG, Source.KUBERNETES_EVENT}
    assert all(each.ok for each in found.read)


def test_a_lost_gpu_of_the_node_explains_the_run_and_its_node_is_to_be_replaced(cluster: Cluster) -> None:
    node = cluster.nodes()[0]
    cluster.pod("xid-0", TIMEOUT, nodeName=node)
    cluster.until_phase("xid-0", "Failed")
    cluster.strike(node, "xid_79")
    found = cluster.diagnose("training-run", "xid")
    first = found.causes[0]
    assert first.rule == "gpu-off-bus"
    assert first.next_step is not None
    assert (first.next_step.operation, first.next_step.spec) == ("replace-nodes", {"nodes": [node]})
    by_instance = cluster.diagnose("node", node.removeprefix("hyperpod-"))
    assert by_instance.causes[0].rule == "gpu-off-bus"
    assert "gpu-off-bus" in {cause.rule for cause in cluster.diagnose("cluster").causes}


def test_a_pod_that_no_node_takes_is_told_in_the_schedulers_words(cluster: Cluster) -> None:
    cluster.pod("big-0", gpus=64)
    with cluster.api() as api:
        core = client.CoreV1Api(api)
        until(lambda: any(event.reason == "FailedScheduling" for event in core.list_namespaced_event("default").items))
    found = cluster.diagnose("pod", "big-0")
    assert found.causes[0].rule == "request-too-large"
    assert found.causes[0].evidence[0].text == "asks for 64 nvidia.com/gpu, and the largest node has 1"
    consequence = named(found, "no-free-accelerators")
    assert consequence.explained_by
    assert "Insufficient nvidia.com/gpu" in consequence.evidence[0].text


def test_a_pod_that_waits_because_a_node_is_out_of_service(cluster: Cluster) -> None:
    cluster.strike(cluster.nodes()[0], "xid_79")
    for number in range(2):
        cluster.pod(f"wide-{number}", gpus=1, run=10_000)
    with cluster.api() as api:
        core = client.CoreV1Api(api)
        until(
            lambda: any(
                (e.involved_object.name or "").startswith("wide-") and e.reason == "FailedScheduling"
                for e in core.list_namespaced_event("default").items
            )
        )
    found = cluster.diagnose("training-run", "wide")
    assert found.causes[0].rule == "gpu-off-bus"
    assert named(found, "no-free-accelerators").explained_by == "gpu-off-bus"


def test_logs_that_were_kept_of_pods_that_are_gone_are_evidence(cluster: Cluster) -> None:
    bucket, prefix = f"sagemaker-{cluster.scope.cluster}-kept", "training/default/gone"
    s3 = cluster.activities.aws.act.s3(REGION)
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    at = int(datetime(2026, 11, 2, 12, tzinfo=UTC).timestamp() * 1_000_000_000)
    chunks = Chunks(cluster.activities.aws, REGION, bucket, f"{prefix}/run-1")
    for pod, text in (("gone-0", TIMEOUT), ("gone-1", OOM), ("live-0", "No space left on device")):
        position = Position(0, at, 0)
        line = Line(StreamKey(pod, "pytorch", "u"), position, text)
        chunks.write(pod, "pytorch", 1, [line], Told("u", 0, position, position, 1, 0, 0))
    chunks.write_index({})
    place = KeptPlace(bucket=bucket, prefix=prefix)
    focus = Subject(kind="training-run", name="gone")
    found = cluster.diagnose("operation", "run-training/t/gone", focus=focus, kept=place, run="run-1")
    assert found.causes[0].rule == "cuda-oom"
    assert found.causes[0].evidence[0].subject == "pod gone-1"
    assert "hf_" not in found.model_dump_json()
    newest = cluster.diagnose("training-run", "gone", kept=place)
    assert [cause.rule for cause in newest.causes] == [cause.rule for cause in found.causes]
    assert cluster.diagnose("operation", "run-training/t/gone", focus=focus, kept=place, run="run-2").causes == []


def test_what_was_kept_of_a_pod_that_is_there_is_not_read_twice_but_of_its_predecessor(cluster: Cluster) -> None:
    cluster.pod("again-0", "all is well", exit=3)
    cluster.until_phase("again-0", "Failed")
    with cluster.api() as api:
        live = client.CoreV1Api(api).read_namespaced_pod("again-0", "default").metadata.uid
    bucket, prefix = f"sagemaker-{cluster.scope.cluster}-again", "training/default/again"
    s3 = cluster.activities.aws.act.s3(REGION)
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    chunks = Chunks(cluster.activities.aws, REGION, bucket, f"{prefix}/run-1")
    position = Position(0, int(datetime(2026, 11, 2, 12, tzinfo=UTC).timestamp() * 1_000_000_000), 0)
    for number, (uid, text) in enumerate(((live, "No space left on device"), ("old", OOM)), 1):
        line = Line(StreamKey("again-0", "pytorch", uid), position, text)
        chunks.write("again-0", "pytorch", number, [line], Told(uid, 0, position, position, 1, 0, 0))
    place = KeptPlace(bucket=bucket, prefix=prefix)
    found = cluster.diagnose("training-run", "again", kept=place, run="run-1")
    assert [cause.rule for cause in found.causes] == ["cuda-oom"]


def test_an_image_that_cannot_be_pulled(cluster: Cluster) -> None:
    cluster.pod("image-0", annotations={"sandbox/image-error": "true"})
    until(lambda: any(cause.rule == "image-pull" for cause in cluster.diagnose("training-run", "image").causes))


def test_unknown_stays_unknown(cluster: Cluster) -> None:
    cluster.pod("silent-0", "all is well", exit=3)
    cluster.until_phase("silent-0", "Failed")
    found = cluster.diagnose("pod", "silent-0")
    assert found.causes == []
    assert any("exit code 3" in entry.text for entry in found.timeline)
    assert "all is well" not in found.model_dump_json()
    assert found.note is None


def test_what_is_well_is_said_to_be_well(cluster: Cluster) -> None:
    cluster.pod("fine-0", exit=0)
    cluster.until_phase("fine-0", "Succeeded")
    found = cluster.diagnose("pod", "fine-0")
    assert (found.causes, found.note) == ([], NOTHING_WRONG)


@pytest.mark.parametrize("kind", ["training-run", "deployment", "pod", "node"])
def test_what_is_not_there_is_said_so(cluster: Cluster, kind: str) -> None:
    with pytest.raises(ApplicationError) as error:
        cluster.diagnose(kind, "nowhere")
    assert problem(error).code is ProblemCode.NOT_FOUND
    assert problem(error).field == "/subject/name"


def test_an_operation_whose_thing_is_gone_is_told_by_its_stages(cluster: Cluster) -> None:
    stage = TimelineEntry(
        source=Source.STAGE,
        severity="error",
        subject="operation run-training/t/gone",
        text="Training is blocked, capacity: InsufficientInstanceCapacity",
    )
    focus = Subject(kind="training-run", name="gone")
    found = cluster.diagnose("operation", "run-training/t/gone", focus=focus, stages=[stage])
    assert [cause.rule for cause in found.causes] == ["capacity"]
    assert found.subject.kind == "operation"


def test_sources_that_refuse_are_told_and_the_others_count(cluster: Cluster) -> None:
    cluster.pod("denied-0", OOM)
    cluster.until_phase("denied-0", "Failed")
    rule = {"service": "sagemaker", "operation": "DescribeCluster", "action": "error"}
    cluster.sandbox.fault({**rule, "code": "AccessDeniedException", "message": "no", "status": 403})
    try:
        found = cluster.diagnose("training-run", "denied")
    finally:
        cluster.sandbox.call("DELETE", "faults")
    unread = [each for each in found.read if not each.ok]
    assert [each.source for each in unread] == [Source.CLUSTER]
    assert unread[0].problem
    assert found.causes[0].rule == "cuda-oom"


def test_a_cluster_without_kubernetes_or_hyperpod_is_read_as_far_as_it_goes(cluster: Cluster) -> None:
    found = cluster.diagnose("cluster", eks_cluster="nowhere", hyperpod=None)
    assert found.causes == []
    assert any(each.problem and "nowhere" in each.problem for each in found.read)
    assert cluster.diagnose("cluster", eks_cluster=None, hyperpod=None).timeline == []


def test_nothing_is_changed_by_a_diagnosis(cluster: Cluster) -> None:
    before = cluster.sandbox.mark()
    for kind, name in (("cluster", ""), ("node", cluster.nodes()[0])):
        cluster.diagnose(kind, name)
    assert cluster.sandbox.effects(since=before) == []


def test_the_node_of_a_pod_that_is_gone_is_the_one_that_it_was_assigned_to(cluster: Cluster) -> None:
    cluster.pod("lost-pods-0", TIMEOUT)
    cluster.until_phase("lost-pods-0", "Failed")
    with cluster.api() as api:
        core = client.CoreV1Api(api)
        node = core.read_namespaced_pod("lost-pods-0", "default").spec.node_name
        core.delete_namespaced_pod("lost-pods-0", "default", grace_period_seconds=0)
        until(lambda: all(pod.metadata.name != "lost-pods-0" for pod in core.list_namespaced_pod("default").items))
    cluster.strike(node, "xid_79")
    found = cluster.diagnose("training-run", "lost")
    cluster.strike(node, None)
    assert found.causes[0].rule == "gpu-off-bus"
    assert found.causes[0].next_step is not None
    assert (found.causes[0].next_step.operation, found.causes[0].next_step.spec) == ("replace-nodes", {"nodes": [node]})


def test_a_disk_that_was_full_is_told_by_the_nodes_event_when_its_condition_is_good_again(cluster: Cluster) -> None:
    node = cluster.nodes()[0]
    cluster.strike(node, "disk")
    assert named(cluster.diagnose("node", node), "node-disk").evidence
    assert named(cluster.diagnose("cluster"), "node-disk").evidence


def test_what_ails_a_node_before_a_repair_is_noted_to_tell_later_what_it_was_for(cluster: Cluster) -> None:
    node = cluster.nodes()[0]
    cluster.strike(node, "ecc")
    asked = ObserveNodes(scope=cluster.scope, name=cluster.name, eks_cluster=cluster.eks, nodes=[node])
    (seen,) = cluster.run(OBSERVE_NODES, asked).nodes
    assert any("NvidiaErrorTerminate=True" in text and "ECC" in text for text in seen.faults)


def test_a_source_that_does_not_answer_in_time_is_told_and_nobody_waits_for_it() -> None:
    held = threading.Event()
    reading = Reading(0.05)
    reading.ask(Source.LOG, "a log", lambda: [None] if held.wait(30) else [])
    reading.add(Source.POD, "pods", [])
    entries, read = reading.end()
    held.set()
    assert entries == []
    assert {each.what: each.ok for each in read} == {"a log": False, "pods": True}


def test_a_source_that_breaks_is_told_without_a_word_of_its_secrets() -> None:
    def broken() -> list[TimelineEntry]:
        raise ValueError("Bearer abcdef.ghijkl is wrong")

    reading = Reading(5)
    reading.ask(Source.LOG, "a log", broken)
    _, (read,) = reading.end()
    assert not read.ok
    assert read.problem is not None
    assert "abcdef" not in read.problem
