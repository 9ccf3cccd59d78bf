"""Every object that storage, downloads, credentials, routers and pools make is one that Kubernetes takes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.credentials import secrets
from activities.model_pools import manifests as pools
from activities.models import job
from activities.routers import manifests as routers
from activities.settings import Settings
from activities.storage import pairs, probe
from activities.storage.pairs import Pair
from contracts.credentials import StoreCredential, StoreCredentialSpec
from contracts.model_pools import ModelPoolSpec, Wish
from contracts.models import DownloadSpec, EnsureDownload, RepositoryFound
from contracts.network import Scope
from contracts.routers import RouterSpec
from contracts.storage import ProbeStorage, StorageType
from tests.activities.test_deployment_manifests import check

NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
TAG = st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)
WORD = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
CHECKED = settings(max_examples=60, deadline=None)
RBAC = "rbac.authorization.k8s.io"


def scope(tag: str) -> Scope:
    return Scope(cluster=tag, region="us-west-2", created_by="alice", request_id="r-1")


@pytest.fixture(scope="module", autouse=True)
def _in_an_activity() -> Any:
    """Manifests name the operation that they are made by."""
    patch = pytest.MonkeyPatch()
    for module in (pairs, probe, secrets, job):
        patch.setattr(module, "operation_id", lambda: "create-storage/demo/s3-claim")
    patch.setattr(probe, "_run", lambda _: str(uuid.UUID(int=7)))
    yield
    patch.undo()


@st.composite
def wanted_pairs(draw: st.DrawFn) -> Pair:
    kind = draw(st.sampled_from(list(StorageType)))
    attributes = {"bucketName": draw(NAME)} if kind is StorageType.S3 else {"dnsname": "fs.example", "mountname": "m"}
    return Pair(
        scope=scope(draw(TAG)),
        type=kind,
        claim=draw(NAME),
        namespace=draw(NAME),
        capacity=draw(st.sampled_from(["1200Gi", "2400Gi"])),
        read_only=draw(st.booleans()),
        handle=draw(WORD),
        attributes=attributes,
        mount_options=draw(st.lists(WORD, max_size=4)),
    )


@CHECKED
@given(wanted_pairs())
def test_every_volume_and_claim_is_valid(pair: Pair) -> None:
    check(pairs.volume_manifest(pair), "persistentvolumes")
    check(pairs.claim_manifest(pair), "persistentvolumeclaims")


@CHECKED
@given(TAG, NAME, NAME, st.booleans())
def test_every_pod_that_tries_a_claim_is_valid(tag: str, claim: str, namespace: str, read_only: bool) -> None:
    asked = ProbeStorage(scope=scope(tag), eks_cluster="e", claim=claim, namespace=namespace, read_only=read_only)
    made = probe._pod(asked, f"probe-{claim}", "node-1", "busybox:1")
    check(made, "pods")


@CHECKED
@given(TAG, NAME, NAME, st.from_regex(r"[\x21-\x7e]{1,80}", fullmatch=True))
def test_every_secret_is_valid_and_holds_the_token_encoded(tag: str, name: str, namespace: str, token: str) -> None:
    spec = StoreCredentialSpec.model_construct(name=name, namespace=namespace, sealed="")
    made = secrets._manifest(StoreCredential.model_construct(scope=scope(tag), eks_cluster="e", spec=spec), name, token)
    check(made, "secrets")


@st.composite
def downloads(draw: st.DrawFn) -> EnsureDownload:
    given_spec: dict[str, Any] = {
        "repository": f"{draw(WORD)}/{draw(st.from_regex(r'[A-Za-z0-9][A-Za-z0-9_]{0,20}', fullmatch=True))}".replace(
            "--", "-"
        ),
        "repository_type": draw(st.sampled_from(["model", "dataset"])),
        "include": draw(st.lists(st.sampled_from(["*.json", "data/**", "a b*"]), max_size=2)),
        "namespace": draw(NAME),
        "claim": draw(NAME),
        "credential": draw(st.sampled_from([None, "hugging-face"])),
        "cpu": draw(st.sampled_from([0.5, 2, 96])),
        "memory_gib": draw(st.integers(1, 512)),
        "instance_types": draw(st.lists(st.sampled_from(["ml.c5.2xlarge", "m5.large"]), unique=True)),
        "deadline_hours": draw(st.sampled_from([None, 0.5, 100])),
    }
    return EnsureDownload(
        scope=scope(draw(TAG)),
        eks_cluster="e",
        spec=DownloadSpec.model_validate(given_spec),
        found=RepositoryFound(
            commit=draw(st.sampled_from([None, "c" * 40])),
            size=draw(st.integers(0, 10**13)),
            largest=draw(st.integers(0, 10**11)),
        ),
        run=str(uuid.UUID(int=draw(st.integers(0, 2**64)))),
    )


@CHECKED
@given(downloads())
def test_every_download_is_a_valid_job_with_its_script(request: EnsureDownload) -> None:
    script = job.script_manifest(request.scope.cluster, request.spec.namespace)
    check(script, "configmaps")
    made = job.job_manifest(request, Settings(), script["metadata"]["name"])
    # The API server makes a Job's selector of its uid.
    check({**made, "metadata": {**made["metadata"], "uid": "u-1"}}, "jobs", "batch")


@CHECKED
@given(
    TAG,
    NAME,
    NAME,
    st.sampled_from([{"deployment": "chat"}, {"pool": "p", "service": "s"}, {"selector": {"app": "x"}}]),
    st.sampled_from(["cache_aware", "round_robin", "random"]),
    st.sampled_from(["in_cluster", "public"]),
    st.integers(1, 9),
)
def test_every_router_is_made_of_valid_objects(
    tag: str, name: str, namespace: str, target: dict[str, Any], policy: str, service: str, replicas: int
) -> None:
    document = {"name": name, "namespace": namespace, "target": target, "policy": policy, "service": service}
    spec = RouterSpec.model_validate(document | {"replicas": replicas})
    account, role, binding = routers.account(tag, spec, "create-router/x/y")
    check(account, "serviceaccounts")
    check(role, "roles", RBAC)
    check(binding, "rolebindings", RBAC)
    check(routers.deployment(tag, spec, 8000, operation="create-router/x/y", run="run-1"), "deployments", "apps")
    for each in routers.services(tag, spec, "create-router/x/y"):
        check(each, "services")


@CHECKED
@given(TAG, NAME, NAME, st.dictionaries(NAME, st.integers(0, 5), max_size=4), st.data())
def test_every_pool_and_its_services_are_valid(
    tag: str, name: str, namespace: str, wish: dict[str, int], data: st.DataObject
) -> None:
    reserved = {"unassigned", "leaving"}
    assignments = {service: count for service, count in wish.items() if service not in reserved}
    spec = ModelPoolSpec.model_validate(
        {"name": name, "namespace": namespace, "command": "vllm serve org/m --port 8000", "gpu_count": 1}
    )
    made = pools.pool(tag, spec, [], operation="x/y", run="run-1", startup_minutes=None, replicas=3)
    check(made, "deployments", "apps")
    public = {service: "internal" for service in assignments if data.draw(st.booleans())}
    for each in pools.services(tag, spec, Wish.model_validate({"assignments": assignments, "public": public}), "x/y"):
        check(each, "services")
