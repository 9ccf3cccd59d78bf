"""Jobs of one cluster of the sandbox, which has one node: listed by state and page by page, and read with their
pods."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.jobs import LIST_JOBS, READ_JOB, JobDetail, JobsRead, JobState, JobView, ListJobs, ReadJob
from contracts.network import Scope
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World, until

SECRET = "do-not-tell"
OTHERS = 5
"""Jobs of the second namespace, all suspended."""


class Jobs:
    """A cluster with two namespaces: ``one`` has a Job in every state, ``two`` only suspended ones."""

    def __init__(self, world: World, activities: Activities) -> None:
        self.run, self.scope, self.activities = world.run, world.scope, activities
        self.eks = world.control_plane.name
        with self.api() as api:
            core = client.CoreV1Api(api)
            core.create_node({"metadata": {"name": "node-1", "labels": {"kubernetes.io/os": "linux"}}})
            for namespace in ("one", "two"):
                core.create_namespace({"metadata": {"name": namespace}})
        self.make("ends-well", run=1, completions=2, parallelism=2)
        self.make("ends-badly", run=1, exit=3, backoffLimit=1)
        self.make("too-long", run=100_000, activeDeadlineSeconds=60)
        self.make("at-work", run=100_000)
        self.make("too-big", resources={"limits": {"nvidia.com/gpu": "8"}}, parallelism=2)
        self.make("no-image", annotations={"sandbox/image-error": "true"})
        self.make("held", suspend=True)
        for number in range(OTHERS):
            queue = {"kueue.x-k8s.io/queue-name": "research"}
            self.make(f"waits-{number}", namespace="two", labels=queue, suspend=True)
        self.until("ends-well", JobState.SUCCEEDED)
        self.until("ends-badly", JobState.FAILED)
        self.until("too-long", JobState.FAILED)
        self.until("at-work", JobState.RUNNING)

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.eks)

    def make(
        self,
        name: str,
        namespace: str = "one",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        run: int = 1,
        exit: int = 0,
        resources: dict[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        container = {
            "name": "main",
            "image": f"registry/{name}:1",
            "resources": resources or {},
            "command": ["train", "--token", SECRET],
            "env": [{"name": "TOKEN", "value": SECRET}],
        }
        given = {"sandbox/run-seconds": str(run), "sandbox/exit-code": str(exit), **(annotations or {})}
        pod = {"restartPolicy": "Never", "containers": [container]}
        body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"template": {"metadata": {"annotations": given}, "spec": pod}, **spec},
        }
        with self.api() as api:
            client.BatchV1Api(api).create_namespaced_job(namespace, body)

    def list(self, **question: Any) -> JobsRead:
        given = {"cluster": self.scope.cluster, "region": REGION, "eks_cluster": self.eks}
        return self.run(LIST_JOBS, ListJobs.model_validate(given | question))

    def pages(self, **question: Any) -> list[list[str]]:
        """Names on each page."""
        found, position = [], None
        while True:
            read = self.list(position=position, **question)
            found.append([job.name for job in read.jobs])
            position = read.position
            if position is None:
                return found

    def one(self, name: str) -> JobView:
        return next(job for job in self.list(namespace="one").jobs if job.name == name)

    def read(self, name: str, namespace: str = "one") -> JobDetail:
        about = {"cluster": self.scope.cluster, "region": REGION, "eks_cluster": self.eks}
        return self.run(READ_JOB, ReadJob.model_validate(about | {"namespace": namespace, "name": name}))

    def until(self, name: str, state: JobState) -> None:
        until(lambda: self.one(name).state is state)


@pytest.fixture(scope="module")
def jobs(sandbox: Sandbox, activities: Activities) -> Jobs:
    sandbox.call("POST", "reset")
    activities.lookup.forget()
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Jobs(World(Runner(activities, f"list-jobs/{scope.cluster}"), scope), activities)


def test_a_job_that_succeeded_tells_its_pods_and_times(jobs: Jobs) -> None:
    found = jobs.one("ends-well")
    assert (found.active, found.succeeded, found.failed) == (0, 2, 0)
    assert (found.completions, found.parallelism, found.images) == (2, 2, ["registry/ends-well:1"])
    assert found.started_at is not None
    assert found.finished_at is not None
    assert found.started_at < found.finished_at


@pytest.mark.parametrize(
    ("name", "words"), [("ends-badly", "BackoffLimitExceeded: "), ("too-long", "DeadlineExceeded: ")]
)
def test_a_job_that_failed_says_why_and_when(jobs: Jobs, name: str, words: str) -> None:
    found = jobs.one(name)
    assert found.reason is not None
    assert found.reason.startswith(words)
    assert found.finished_at is not None


def test_a_job_whose_pods_find_no_node_is_pending_and_its_pods_say_why(jobs: Jobs) -> None:
    until(lambda: all(pod.reason == "Unschedulable" for pod in jobs.read("too-big").pods))
    found = jobs.read("too-big")
    assert (found.job.state, found.job.reason) == (JobState.PENDING, "2 pods without a node, or not Ready yet")
    assert [pod.phase for pod in found.pods] == ["Pending", "Pending"]
    assert all(pod.node is None and "nvidia.com/gpu" in (pod.message or "") for pod in found.pods)


def test_a_pod_whose_image_cannot_be_pulled_says_so(jobs: Jobs) -> None:
    until(lambda: jobs.read("no-image").pods[0].reason == "ImagePullBackOff")
    (pod,) = jobs.read("no-image").pods
    assert "registry/no-image:1" in (pod.message or "")
    assert (pod.node, pod.exit_code) == ("node-1", None)


def test_pods_that_ended_tell_their_exit_codes_and_nothing_of_other_jobs(jobs: Jobs) -> None:
    failed = jobs.read("ends-badly").pods
    assert [(pod.phase, pod.exit_code, pod.node) for pod in failed] == [("Failed", 3, "node-1")] * 2
    assert failed[0].message == "container main ended with exit code 3"
    assert [(pod.phase, pod.exit_code, pod.reason) for pod in jobs.read("ends-well").pods] == [
        ("Succeeded", 0, None)
    ] * 2


def test_a_suspended_job_names_the_queue_that_it_waits_in(jobs: Jobs) -> None:
    assert (jobs.one("held").state, jobs.one("held").reason) == (JobState.SUSPENDED, "it was suspended")
    queued = jobs.read("waits-0", "two").job
    assert (queued.state, queued.reason) == (JobState.SUSPENDED, "it waits in Kueue's queue research")
    assert queued.labels == {"kueue.x-k8s.io/queue-name": "research"}


def test_pages_hold_every_job_once_by_namespace_and_name(jobs: Jobs) -> None:
    first = ["at-work", "ends-badly", "ends-well", "held", "no-image", "too-big", "too-long"]
    second = [f"waits-{number}" for number in range(OTHERS)]
    assert jobs.pages(size=200) == [[*first, *second]]
    pages = jobs.pages(size=5)
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [name for page in pages for name in page] == [*first, *second]
    assert jobs.pages(namespace="two", size=5) == [second]
    assert jobs.pages(namespace="nowhere") == [[]]


def test_pages_of_one_state_are_filled_from_all_jobs(jobs: Jobs) -> None:
    assert jobs.pages(state=JobState.FAILED) == [["ends-badly", "too-long"]]
    held = ["held", *(f"waits-{number}" for number in range(OTHERS))]
    assert jobs.pages(state=JobState.SUSPENDED, size=4) == [held[:4], held[4:]]
    assert jobs.pages(state=JobState.RUNNING, namespace="two") == [[]]


def test_a_list_that_kubernetes_does_not_go_on_with_is_stale(jobs: Jobs, quiet: Sandbox) -> None:
    position = jobs.list(size=1).position
    quiet.fault({"operation": "GET /apis/batch/v1/jobs", "status": 410, "code": "Expired", "times": 1})
    with pytest.raises(ApplicationError) as caught:
        jobs.list(size=1, position=position)
    assert len(quiet.fired()) == 1
    assert problem(caught).code == "stale"


def test_a_job_that_is_not_there_is_not_found_and_similar_names_are_told(jobs: Jobs) -> None:
    with pytest.raises(ApplicationError) as caught:
        jobs.read("ends-wel")
    found = problem(caught)
    assert found.code == "not_found"
    assert "has no Job ends-wel; it has ends-well, " in found.detail
    assert found.detail.endswith(" and others")
    with pytest.raises(ApplicationError) as caught:
        jobs.read("ends-well", "nowhere")
    assert "nor any other" in problem(caught).detail


def test_neither_commands_nor_environment_are_told(jobs: Jobs) -> None:
    told = jobs.list().model_dump_json() + jobs.read("ends-badly").model_dump_json()
    assert SECRET not in told
