"""What is read of a cluster's storage: its claims, what the next one would be, and what a claim's bucket holds."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.imports import DETECT_WORKLOADS, DetectWorkloads
from contracts.network import Scope
from contracts.storage import (
    ENSURE_CLAIM,
    LIST_STORAGE,
    LIST_STORAGE_CONTENTS,
    READ_STORAGE_DEFAULTS,
    WAIT_FOR_CLAIM,
    Claim,
    ContentsRead,
    EnsureClaim,
    ListContents,
    ListStorage,
    ReadStorageDefaults,
    StorageDefaults,
    StorageSpec,
    WaitForClaim,
)
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World

OPTIONS = {
    "dashes": ["--prefix=train/"],
    "sign": ["prefix=a=b/"],
    "space": [" prefix  runs/ ", "read-only"],
    "none": [],
}
"""Mount options by claim, as others may write them."""
KEYS = [
    "a b.txt",
    "a+b%2Fc.txt",
    "é/über.txt",
    "tab\there",
    "\x01control",
    "..",
    "../up.txt",
    "//double",
    'quotes"<&>',
    "\U0001f600",
    "deep/one/two.txt",
    "deep/three.txt",
]


class Storage:
    """A cluster with claims of ours and of others."""

    def __init__(self, world: World, activities: Activities) -> None:
        self.world, self.run, self.scope = world, world.run, world.scope
        self.cluster, self.bucket = world.control_plane.name, world.bucket.name
        self.s3 = activities.aws.act.s3(REGION)
        self._kubernetes = activities.kubernetes

    def core(self, act: Any) -> Any:
        with self._kubernetes.connect(REGION, self.cluster) as api:
            return act(client.CoreV1Api(api))

    def ensure(self, **spec: Any) -> Claim:
        wanted = StorageSpec(**spec)
        self.run(ENSURE_CLAIM, EnsureClaim(scope=self.scope, eks_cluster=self.cluster, bucket=self.bucket, spec=wanted))
        waited = WaitForClaim(
            scope=self.scope, eks_cluster=self.cluster, claim=wanted.claim, namespace=wanted.namespace
        )
        return self.run(WAIT_FOR_CLAIM, waited)

    def others(self, name: str, driver: str, options: list[str], bucket: str = "theirs") -> None:
        """A volume and a claim on it, as kubectl makes them."""
        storage = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = {
            **storage,
            "capacity": {"storage": "1Gi"},
            "mountOptions": options,
            "csi": {"driver": driver, "volumeHandle": name, "volumeAttributes": {"bucketName": bucket}},
        }
        claim = {**storage, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        about = {"metadata": {"name": name}}
        self.core(lambda core: core.create_persistent_volume({**about, "spec": volume}))
        self.core(lambda core: core.create_namespaced_persistent_volume_claim("default", {**about, "spec": claim}))

    def claims(self) -> dict[str, Claim]:
        found = self.run(LIST_STORAGE, ListStorage(scope=self.scope, eks_cluster=self.cluster)).claims
        return {each.claim: each for each in found}

    def defaults(self, bucket: str | None = None, eks_cluster: str | None = None) -> StorageDefaults:
        return self.run(
            READ_STORAGE_DEFAULTS, ReadStorageDefaults(scope=self.scope, eks_cluster=eks_cluster, bucket=bucket)
        )

    def contents(self, claim: str, prefix: str = "", size: int = 100, after: str | None = None) -> ContentsRead:
        asked = ListContents(
            scope=self.scope,
            eks_cluster=self.cluster,
            claim=claim,
            namespace="default",
            prefix=prefix,
            size=size,
            after=after,
        )
        return self.run(LIST_STORAGE_CONTENTS, asked)

    def refused(self, *arguments: Any, **more: Any) -> Any:
        with pytest.raises(ApplicationError) as caught:
            self.contents(*arguments, **more)
        return problem(caught)


@pytest.fixture(scope="module")
def storage(sandbox: Sandbox, activities: Activities) -> Storage:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Storage(World(Runner(activities, f"create-storage/{scope.cluster}"), scope), activities)


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> None:
    """No fault is left of another test."""


def test_defaults_tell_what_exists_already(activities: Activities) -> None:
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    world = World(Runner(activities, f"create-storage/{scope.cluster}"), scope)
    before = world.run(READ_STORAGE_DEFAULTS, ReadStorageDefaults(scope=scope))
    assert (before.claim, before.namespace, before.region) == ("s3-claim", "default", REGION)
    assert before.bucket == f"sagemaker-{scope.cluster}-{world.caller.account}-{REGION}"
    assert (before.bucket_exists, before.claim_exists) == (False, False)
    made = Storage(world, activities)
    assert made.bucket == before.bucket
    assert made.defaults(eks_cluster=made.cluster).model_dump() == {**before.model_dump(), "bucket_exists": True}
    made.ensure()
    assert made.defaults(bucket=made.bucket, eks_cluster=made.cluster).claim_exists


def test_defaults_never_take_a_bucket_that_may_not_be_seen_for_absent(storage: Storage, quiet: Sandbox) -> None:
    quiet.fault({"operation": "HeadBucket", "service": "s3", "code": "403", "status": 403})
    with pytest.raises(ApplicationError) as caught:
        storage.defaults()
    assert problem(caught).code == "foreign"


def test_claims_are_listed_with_those_of_others_and_what_they_mount(storage: Storage, quiet: Sandbox) -> None:
    storage.ensure(claim="data", prefix="x=1/y z/", read_only=True)
    for name, options in OPTIONS.items():
        storage.others(name, "s3.csi.aws.com", options)
    storage.others("block", "ebs.csi.aws.com", [])
    mark = quiet.mark()
    found = storage.claims()
    assert list(found) == sorted(found)
    assert {"data", *OPTIONS} <= set(found)
    assert "block" not in found
    ours = found["data"]
    assert (ours.bucket, ours.prefix, ours.read_only, ours.managed) == (storage.bucket, "x=1/y z/", True, True)
    assert {name: found[name].prefix for name in OPTIONS} == {
        "dashes": "train/",
        "sign": "a=b/",
        "space": "runs/",
        "none": None,
    }
    assert [name for name in OPTIONS if found[name].read_only] == ["space"]
    assert {(found[name].bucket, found[name].managed) for name in OPTIONS} == {("theirs", False)}
    assert quiet.effects(since=mark) == []


def test_a_claim_is_made_once_also_with_a_prefix_that_needs_care(storage: Storage, quiet: Sandbox) -> None:
    storage.ensure(claim="careful", prefix=" a=b  c/")
    mark = quiet.mark()
    assert storage.ensure(claim="careful", prefix=" a=b  c/").prefix == " a=b  c/"
    assert quiet.effects(since=mark) == []


def test_a_claim_of_ours_without_its_volume_is_listed_and_has_no_contents(storage: Storage) -> None:
    volume = storage.ensure(claim="orphan").volume
    storage.core(lambda core: core.delete_persistent_volume(volume))
    orphan = storage.claims()["orphan"]
    assert (orphan.bucket, orphan.volume, orphan.managed) == ("", volume, True)
    assert storage.refused("orphan").code == "not_ready"


def test_every_key_is_listed_as_it_is_and_nothing_outside_of_the_claim(storage: Storage, quiet: Sandbox) -> None:
    storage.ensure(claim="whole")
    storage.ensure(claim="part", prefix="part/")
    for key in ["part/", *(f"part/{key}" for key in KEYS), "parted", "outside.txt", "../up.txt"]:
        storage.s3.put_object(Bucket=storage.bucket, Key=key, Body=b"12345")
    mark = quiet.mark()
    page = storage.contents("part")
    assert sorted(each.key for each in page.objects) == sorted(key for key in KEYS if "/" not in key)
    assert {each.size for each in page.objects} == {5}
    assert all(each.modified.tzinfo for each in page.objects)
    assert sorted(page.common_prefixes) == sorted({key.partition("/")[0] + "/" for key in KEYS if "/" in key})
    assert page.last is None
    assert [each.key for each in storage.contents("part", "deep/").objects] == ["deep/three.txt"]
    assert storage.contents("part", "deep/").common_prefixes == ["deep/one/"]
    assert [each.key for each in storage.contents("part", "../").objects] == ["../up.txt"]
    assert storage.contents("part", "../outside").objects == []
    assert storage.contents("part", "/outside").objects == []
    assert {"part/", "../"} <= set(storage.contents("whole").common_prefixes)
    assert quiet.effects(since=mark) == []


def test_pages_hold_every_key_once(storage: Storage) -> None:
    storage.ensure(claim="paged", prefix="paged/")
    names = [f"{number:02}{ending}" for number in range(7) for ending in ("", "/deep")]
    for name in names:
        storage.s3.put_object(Bucket=storage.bucket, Key=f"paged/{name}", Body=b"")
    found: list[str] = []
    pages, after = 0, None
    while pages == 0 or after is not None:
        page = storage.contents("paged", size=4, after=after)
        assert 0 < len(page.objects) + len(page.common_prefixes) <= 4
        found += [each.key for each in page.objects] + page.common_prefixes
        pages, after = pages + 1, page.last
    assert pages == 4
    assert sorted(found) == sorted(name.removesuffix("deep") for name in names)


def test_what_cannot_be_listed_says_why(storage: Storage, quiet: Sandbox) -> None:
    storage.ensure(claim="there", prefix="p/")
    storage.others("gone", "s3.csi.aws.com", [], bucket="no-such-bucket-here")
    missing = storage.refused("nowhere")
    assert missing.code == "not_found"
    assert "default/there" in missing.detail
    assert storage.refused("gone").code == "not_found"
    assert "no-such-bucket-here" in storage.refused("gone").detail
    assert (storage.refused("there", "é" * 512).field, storage.contents("there", "é" * 511).objects) == ("/prefix", [])
    unknown = storage.refused("there", after="of another listing")
    assert (unknown.code, unknown.field) == ("invalid", "/page_token")
    quiet.fault({"operation": "ListObjectsV2", "service": "s3", "code": "AccessDenied", "status": 403})
    denied = storage.refused("there")
    assert denied.code == "denied"
    assert f"s3:ListBucket on {storage.bucket}" in (denied.remedy or "")


def test_claims_of_an_imported_cluster_are_read_alike(storage: Storage) -> None:
    storage.ensure(claim="imported", prefix="i/")
    found = storage.run(DETECT_WORKLOADS, DetectWorkloads(scope=storage.scope, eks_cluster=storage.cluster)).storage
    assert {each.claim: each for each in found}["imported"] == storage.claims()["imported"]
