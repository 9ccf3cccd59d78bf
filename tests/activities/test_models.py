"""Downloads from the Hub of the sandbox, whose pods really run the script: what is looked up, made and verified."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from typing import Any

import boto3
import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.models.room import room_for
from activities.plans.models import _no_room as no_room
from activities.registry import Activities
from contracts.cluster import ClusterRecord
from contracts.jobs import LIST_JOBS, ListJobs
from contracts.models import (
    DELETE_DOWNLOAD,
    ENSURE_DOWNLOAD,
    FIND_DOWNLOADED,
    LIST_MODELS,
    RESOLVE_REPOSITORY,
    VERIFY_DOWNLOAD,
    WAIT_FOR_DOWNLOAD,
    DeleteDownload,
    DownloadJob,
    DownloadResult,
    DownloadSpec,
    EnsureDownload,
    FindDownloaded,
    ListModels,
    Manifest,
    ModelsRead,
    RepositoryFound,
    ResolveRepository,
    VerifyDownload,
    WaitForDownload,
)
from contracts.network import Scope
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from contracts.problem import Problem
from sandbox import credentials as known
from sandbox.hub.repositories import MEMBER, READER
from tests.activities.conftest import REGION, Runner, Sandbox, problem, settings
from tests.activities.world import OnCluster, World, until

GATED, PRIVATE = "meta-llama/Llama-3.1-8B-Instruct", "acme/internal-7b"
LONG = {"deadline_hours": 168}
"""In the sandbox's hours, of which it has one in four seconds."""


@dataclasses.dataclass
class Site(OnCluster):
    """A cluster with a node and two claims: ``s3-claim`` on a bucket, ``lustre`` on a file system."""

    attempts: int = 0

    def furnish(self) -> None:
        with self.api() as api:
            core = client.CoreV1Api(api)
            core.create_node({"metadata": {"name": "node-1", "labels": {"kubernetes.io/os": "linux"}}})
            room = {"cpu": "15890m", "memory": "60Gi", "ephemeral-storage": "200Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True"}
            status = {"allocatable": room, "capacity": room, "conditions": [ready]}
            core.patch_node_status("node-1", {"status": status})
            for driver in ("s3.csi.aws.com", "fsx.csi.aws.com"):
                client.StorageV1Api(api).create_csi_driver({"metadata": {"name": driver}, "spec": {}})
        bucket = {"bucketName": self.world.bucket.name}
        self.claim("s3-claim", "s3.csi.aws.com", ["allow-delete", "prefix=team/"], bucket)
        self.claim("frozen", "s3.csi.aws.com", ["read-only"], bucket, "ReadOnlyMany")
        self.claim("lustre", "fsx.csi.aws.com", [], {"dnsname": "fs.fsx", "mountname": "m"})

    def claim(
        self, name: str, driver: str, options: list[str], attributes: dict[str, str], access: str = "ReadWriteMany"
    ) -> None:
        storage: dict[str, Any] = {"accessModes": [access], "storageClassName": ""}
        csi = {"driver": driver, "volumeHandle": f"fs-0123456789abcdef0-{name}", "volumeAttributes": attributes}
        volume = {**storage, "capacity": {"storage": "1Gi"}, "mountOptions": options, "csi": csi}
        claim = {**storage, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        with self.api() as api:
            core = client.CoreV1Api(api)
            core.create_persistent_volume({"metadata": {"name": name}, "spec": volume})
            core.create_namespaced_persistent_volume_claim("default", {"metadata": {"name": name}, "spec": claim})

            def bound() -> bool:
                return core.read_namespaced_persistent_volume_claim(name, "default").status.phase == "Bound"

            until(bound)

    def credential(self, name: str, token: str) -> None:
        with self.api() as api:
            body = {"metadata": {"name": f"instantstart-credential-{name}"}, "stringData": {"token": token}}
            client.CoreV1Api(api).create_namespaced_secret("default", body)

    def keys(self, prefix: str = "team/") -> dict[str, int]:
        page = self.activities.aws.read.s3(REGION).list_objects_v2(Bucket=self.world.bucket.name, Prefix=prefix)
        return {each["Key"].removeprefix(prefix): each["Size"] for each in page.get("Contents", [])}

    def found(self, spec: DownloadSpec) -> RepositoryFound:
        return self.run(RESOLVE_REPOSITORY, ResolveRepository(**self.place, spec=spec))

    def ensure(self, spec: DownloadSpec, run: str | None = None, attempts: int = 60) -> DownloadJob:
        self.attempts += 1
        request = EnsureDownload(**self.place, spec=spec, found=self.found(spec), run=run or f"run-{self.attempts}")
        return self.run(ENSURE_DOWNLOAD, request, attempts)

    def wait(self, job: DownloadJob, spec: DownloadSpec) -> Manifest:
        return self.run(
            WAIT_FOR_DOWNLOAD, WaitForDownload(**self.place, job=job.job, namespace=job.namespace, spec=spec)
        )

    def download(self, **spec: Any) -> Manifest:
        asked = DownloadSpec(**LONG, **spec)
        return self.wait(self.ensure(asked), asked)

    def fails(self, **spec: Any) -> Problem:
        with pytest.raises(ApplicationError) as caught:
            self.download(**spec)
        return problem(caught)

    def verify(self, told: Manifest, **spec: Any) -> DownloadResult:
        return self.run(VERIFY_DOWNLOAD, VerifyDownload(**self.place, spec=DownloadSpec(**spec), told=told))

    def there(self, **spec: Any) -> Manifest | None:
        asked = DownloadSpec(**spec)
        return self.run(FIND_DOWNLOADED, FindDownloaded(**self.place, spec=asked, found=self.found(asked))).manifest

    def list(self, **asked: Any) -> ModelsRead:
        return self.run(LIST_MODELS, ListModels(**self.place, **asked))

    def plan(self, **spec: Any) -> PlanDraft:
        now = "2026-01-01T00:00:00Z"
        about = {"tag": self.world.scope.cluster, "region": REGION, "created_by": "t"}
        about |= {"created_at": now, "updated_at": now}
        record = ClusterRecord.model_validate({**about, "control_plane": self.world.control_plane.model_dump()})
        asked = DownloadSpec(**spec).model_dump(mode="json")
        return self.run(MAKE_PLAN, MakePlan(kind="download-model", record=record, spec=asked)).draft

    def refused(self, **spec: Any) -> list[tuple[str, str]]:
        return [(each.field, each.code.value) for each in self.plan(**spec).blockers]

    def misfortune(self, **rule: Any) -> None:
        self.sandbox.call("POST", "kubernetes/scripts", [rule])

    def hub_fault(self, **rule: Any) -> None:
        self.sandbox.fault({"api": "hub", **rule})


@pytest.fixture(scope="module")
def site(sandbox: Sandbox, activities: Activities) -> Site:
    sandbox.call("POST", "reset")
    session = boto3.Session(known.ACCESS_KEY_ID, known.SECRET_ACCESS_KEY, region_name=REGION)
    own = Activities(settings(hugging_face_endpoint=f"{sandbox.url}/_hub", shortfall_patience=60.0), session)
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    made = Site(World(Runner(own, f"download-model/{scope.cluster}/x"), scope), own, sandbox)
    made.furnish()
    made.credential("reader", READER)
    made.credential("member", MEMBER)
    made.credential("stale", "hf_nobodyKnowsThisOne00000000000")
    return made


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> None:
    """No fault is left of another test."""


def test_a_model_arrives_in_the_bucket_and_is_verified_there(site: Site) -> None:
    told = site.download(repository="Qwen/Qwen3-8B", credential="member")
    assert (told.files, told.downloaded_files) == (12, 12)
    keys = site.keys("team/models/Qwen-Qwen3-8B/")
    assert {".instantstart.json", ".instantstart.files.json", "config.json"} <= set(keys)
    assert sum(size for key, size in keys.items() if not key.startswith(".instantstart")) == told.size
    result = site.verify(told, repository="Qwen/Qwen3-8B")
    assert (result.verified_by, result.files, result.path) == ("storage", 12, "models/Qwen-Qwen3-8B")
    again = site.there(repository="Qwen/Qwen3-8B")
    assert again is not None
    assert again.commit == told.commit == site.found(DownloadSpec(repository="Qwen/Qwen3-8B")).commit


def test_what_is_gone_from_the_bucket_is_noticed_and_alone_downloaded_again(site: Site) -> None:
    told = site.download(repository="Qwen/Qwen3-0.6B", path="models/holes")
    key = "team/models/holes/model.safetensors"
    site.activities.aws.act.s3(REGION).delete_object(Bucket=site.world.bucket.name, Key=key)
    assert site.there(repository="Qwen/Qwen3-0.6B", path="models/holes") is None
    with pytest.raises(ApplicationError) as caught:
        site.verify(told, repository="Qwen/Qwen3-0.6B", path="models/holes")
    assert (problem(caught).code, "model.safetensors" in problem(caught).detail) == ("conflict", True)
    assert site.download(repository="Qwen/Qwen3-0.6B", path="models/holes").downloaded_files == 1
    assert site.there(repository="Qwen/Qwen3-0.6B", path="models/holes") is not None


def test_a_data_set_keeps_its_folders_and_takes_what_is_asked(site: Site) -> None:
    spec: dict[str, Any] = {"repository": "acme/sums", "repository_type": "dataset", "include": ["data/train-*"]}
    told = site.download(**spec)
    keys = set(site.keys("team/datasets/acme-sums/"))
    assert {key for key in keys if not key.startswith(".")} == {f"data/train-{n:05d}.jsonl" for n in range(6)}
    assert (told.files, told.selection != "") == (6, True)
    assert site.there(**spec) is not None
    assert site.there(repository="acme/sums", repository_type="dataset") is None


def test_what_a_file_system_has_only_the_job_can_tell(site: Site) -> None:
    told = site.download(repository="Qwen/Qwen3-0.6B", claim="lustre")
    result = site.verify(told, repository="Qwen/Qwen3-0.6B", claim="lustre")
    assert (result.verified_by, result.files) == ("job", told.files)
    assert site.there(repository="Qwen/Qwen3-0.6B", claim="lustre") is None
    second = site.download(repository="Qwen/Qwen3-0.6B", claim="lustre")
    assert second.downloaded_files == 0


def test_the_job_is_made_once_and_shows_no_secret(site: Site) -> None:
    spec = DownloadSpec(repository=GATED, credential="member", path="models/once", **LONG)
    first = site.ensure(spec, run="run-a")
    site.sandbox.lose_response("PATCH /apis/batch/v1/namespaces/default/jobs/.*")
    again = site.ensure(spec, run="run-a")
    assert (first.changed, again.changed, first.job) == (True, False, again.job)
    with site.api() as api:
        job = client.BatchV1Api(api).read_namespaced_job(first.job, "default")
        script = job.spec.template.spec.volumes[0].config_map.name
        held = client.CoreV1Api(api).read_namespaced_config_map(script, "default")
    assert MEMBER not in json.dumps(client.ApiClient().sanitize_for_serialization(job))
    assert (held.immutable, job.metadata.labels["instantstart.dev/cluster"]) == (True, site.world.scope.cluster)
    container = job.spec.template.spec.containers[0]
    assert container.resources.requests == container.resources.limits
    token = next(each for each in container.env if each.name == "HF_TOKEN")
    assert token.value_from.secret_key_ref.name == "instantstart-credential-member"
    site.wait(first, spec)
    read = ListJobs(cluster="x", region=REGION, eks_cluster=site.cluster)
    assert first.job in {each.name for each in site.run(LIST_JOBS, read).jobs}


def test_a_lost_answer_costs_no_second_job(site: Site, quiet: Sandbox) -> None:
    quiet.lose_response("PATCH /apis/batch/v1/namespaces/default/jobs/.*")
    job = site.ensure(DownloadSpec(repository="Qwen/Qwen3-0.6B", path="models/lost", **LONG), run="run-lost")
    assert quiet.fired()
    assert not job.changed


@pytest.mark.parametrize(
    ("spec", "field", "code", "words"),
    [
        ({"repository": GATED}, "/credential", "denied", "store a token"),
        ({"repository": GATED, "credential": "reader"}, "/credential", "denied", "Accept its terms"),
        ({"repository": PRIVATE}, "/repository", "not_found", "For a private one"),
        ({"repository": PRIVATE, "credential": "reader"}, "/repository", "not_found", "name it as credential"),
        ({"repository": GATED, "credential": "stale"}, "/credential", "credentials", "valid"),
        ({"repository": GATED, "credential": "unknown"}, "/credential", "not_found", "Store it first"),
        ({"repository": "acme/none"}, "/repository", "not_found", "Check name and type"),
        ({"repository": "Qwen/Qwen3-8B", "revision": "v9"}, "/revision", "not_found", "branch"),
        ({"repository": "Qwen/Qwen3-8B", "include": ["*.gguf"]}, "/include", "invalid", "globs"),
        ({"repository": "Qwen/Qwen3-8B", "claim": "none"}, "/claim", "not_found", "create-storage"),
        ({"repository": "Qwen/Qwen3-8B", "claim": "frozen"}, "/claim", "invalid", "may be written"),
        ({"repository": "Qwen/Qwen3-8B", "namespace": "none"}, "/namespace", "not_found", "kubectl"),
        ({"repository": "Qwen/Qwen3-8B", "cpu": 64}, "/cpu", "capacity", "Ask for less"),
        ({"repository": "Qwen/Qwen3-8B", "memory_gib": 500}, "/memory_gib", "capacity", "Ask for less"),
        ({"repository": "Qwen/Qwen3-8B", "instance_types": ["ml.c5.large"]}, "/instance_types", "capacity", "Choose"),
    ],
)
def test_what_cannot_work_is_found_before_anything_is_made(
    site: Site, spec: dict[str, Any], field: str, code: str, words: str
) -> None:
    blockers = site.plan(**spec).blockers
    assert [(each.field, each.code.value) for each in blockers] == [(field, code)]
    assert words in (blockers[0].remedy or "")


def test_a_file_that_no_disk_has_room_for_is_found_beforehand(site: Site) -> None:
    found = RepositoryFound(commit="c", files=1, size=2**40, largest=2**40)
    spec = DownloadSpec(repository="acme/huge")
    with site.api() as api:
        room = room_for(api, spec)
    assert [(each.field, each.code.value) for each in no_room(spec, found, room)] == [("/instance_types", "capacity")]
    assert not no_room(spec, found, dataclasses.replace(room, autoscaled=True))
    assert not no_room(spec, RepositoryFound(commit="c", files=1, size=2**30, largest=2**30), room)


def test_a_plan_tells_size_and_what_is_there_already(site: Site) -> None:
    draft = site.plan(repository="Qwen/Qwen3-8B", path="models/planned")
    assert not draft.blockers
    assert "12 files" in (draft.changes[1].detail or "")
    site.download(repository="Qwen/Qwen3-8B", path="models/planned")
    after = site.plan(repository="Qwen/Qwen3-8B", path="models/planned")
    assert [each.action for each in after.changes] == ["nothing"]
    assert (draft.facts["commit"], draft.facts["there"], after.facts["there"]) == (after.facts["commit"], False, True)
    assert site.refused(repository="Qwen/Qwen3-0.6B", path="models/planned") == [("/path", "conflict")]
    assert site.refused(repository="Qwen/Qwen3-8B", path="models/planned", include=["*.json"]) == []


def test_a_platform_without_a_way_to_the_hub_only_warns(site: Site) -> None:
    site.hub_fault(action="http500", operation="GET .*")
    draft = site.plan(repository="Qwen/Qwen3-8B")
    assert not draft.blockers
    assert "cannot reach the Hub" in draft.warnings[0]
    assert site.found(DownloadSpec(repository="Qwen/Qwen3-8B")).commit is None
    site.sandbox.fault()
    unseen = DownloadSpec(repository="Qwen/Qwen3-8B", path="models/unseen", **LONG)
    request = EnsureDownload(**site.place, spec=unseen, found=RepositoryFound(), run="run-unseen")
    told = site.wait(site.run(ENSURE_DOWNLOAD, request), unseen)
    assert told.commit == site.found(unseen).commit


def test_a_hub_that_is_busy_is_asked_again(site: Site) -> None:
    site.hub_fault(status=429, operation="GET .*", times=2)
    assert site.found(DownloadSpec(repository="Qwen/Qwen3-8B")).files == 12
    site.hub_fault(status=429, operation="GET .*/revision/.*", headers={"Retry-After": "1"}, times=2)
    assert site.refused(repository="Qwen/Qwen3-8B") == [("/repository", "throttled")]


def test_a_refusal_in_the_pod_ends_the_job_at_once_and_says_what_to_do(site: Site) -> None:
    spec = DownloadSpec(repository=GATED, path="models/denied", **LONG)
    commit = site.found(DownloadSpec(repository=GATED, credential="member")).commit
    request = EnsureDownload(**site.place, spec=spec, found=RepositoryFound(commit=commit), run="run-denied")
    job = site.run(ENSURE_DOWNLOAD, request)
    with pytest.raises(ApplicationError) as caught:
        site.wait(job, spec)
    found = problem(caught)
    assert (found.code, found.field, found.retryable) == ("denied", "/credential", True)
    with site.api() as api:
        pods = client.CoreV1Api(api).list_namespaced_pod("default", label_selector=f"job-name={job.job}").items
    assert len(pods) == 1


def test_a_full_disk_blocks_and_the_next_run_goes_on_with_what_is_missing(site: Site) -> None:
    asked = {"repository": "Qwen/Qwen3-8B", "path": "models/full"}
    site.misfortune(action="full", after_files=5)
    found = site.fails(**asked)
    assert (found.code, "No space" in found.detail) == ("capacity", True)
    assert "not downloaded again" in (found.remedy or "")
    told = site.download(**asked)
    assert 0 < told.downloaded_files < told.files
    assert site.there(**asked) is not None


def test_a_pod_that_is_killed_has_a_successor_that_goes_on(site: Site) -> None:
    asked = {"repository": "Qwen/Qwen3-8B", "path": "models/killed"}
    site.misfortune(action="kill", after_files=6)
    told = site.download(**asked)
    assert told.downloaded_files < told.files
    assert site.there(**asked) is not None


def test_a_node_that_goes_takes_no_attempt_away(site: Site) -> None:
    spec = DownloadSpec(repository="Qwen/Qwen3-8B", path="models/moved", **LONG)
    site.hub_fault(action="latency", latency=0.4, operation="HEAD .*")
    job = site.ensure(spec)
    with site.api() as api:
        core = client.CoreV1Api(api)

        def pods() -> list[Any]:
            return list(core.list_namespaced_pod("default", label_selector=f"job-name={job.job}").items)

        until(lambda: any(each.status.phase == "Running" for each in pods()))
        first = pods()[0].metadata.name
        core.delete_namespaced_pod(first, "default", grace_period_seconds=0)
        until(lambda: any(each.metadata.name != first for each in pods()))
    site.sandbox.fault()
    assert site.wait(job, spec).files == 12
    with site.api() as api:
        assert not client.BatchV1Api(api).read_namespaced_job(job.job, "default").status.failed


def test_the_live_line_tells_of_files_and_bytes(site: Site) -> None:
    site.hub_fault(action="latency", latency=0.3, operation="HEAD .*")
    site.download(repository="Qwen/Qwen3-8B", path="models/watched")
    lines = {str(beat[0]["detail"]) for beat in site.run.heartbeats if isinstance(beat[0], dict)}
    told = re.compile(r"\d+ of 12 files, [\d.]+ \w+ of 251\.4 KiB, [\d.]+ \w+/s")
    assert any(told.match(line) for line in lines), lines


def test_an_aborted_download_leaves_no_pod_and_keeps_its_files(site: Site) -> None:
    spec = DownloadSpec(repository="Qwen/Qwen3-8B", path="models/aborted", **LONG)
    site.hub_fault(action="latency", latency=0.5, operation="HEAD .*")
    job = site.ensure(spec)
    request = DeleteDownload(**site.place, job=job.job, namespace="default")
    assert site.run(DELETE_DOWNLOAD, request).changed
    with site.api() as api:
        core = client.CoreV1Api(api)
        until(lambda: not core.list_namespaced_pod("default", label_selector=f"job-name={job.job}").items)
    assert not site.run(DELETE_DOWNLOAD, request).changed


def test_models_are_listed_page_by_page_with_what_runs(site: Site) -> None:
    for path in ("models/list-a", "models/list-b"):
        site.download(repository="Qwen/Qwen3-0.6B", path=path)
    site.activities.aws.act.s3(REGION).put_object(
        Bucket=site.world.bucket.name, Key="team/models/theirs/weights.bin", Body=b"x"
    )
    spec = DownloadSpec(repository="Qwen/Qwen3-8B", path="models/coming", **LONG)
    site.hub_fault(action="latency", latency=0.5, operation="HEAD .*")
    job = site.ensure(spec)
    whole = site.list(claim="s3-claim")
    found = {each.path: each for each in whole.models}
    assert (found["models/list-a"].state, found["models/list-a"].repository) == ("ready", "Qwen/Qwen3-0.6B")
    assert found["models/theirs"].state == "unknown"
    assert [(each.path, each.state) for each in whole.running] == [("models/coming", "progressing")]
    paths, position = [], None
    while True:
        page = site.list(claim="s3-claim", size=2, position=position)
        assert len(page.models) <= 2
        paths += [each.path for each in page.models]
        position = page.position
        if position is None:
            break
    assert paths == [each.path for each in whole.models]
    assert any("lustre" in each for each in site.list().unreadable)
    with pytest.raises(ApplicationError) as caught:
        site.list(claim="none")
    assert problem(caught).code == "not_found"
    site.run(DELETE_DOWNLOAD, DeleteDownload(**site.place, job=job.job, namespace="default"))
