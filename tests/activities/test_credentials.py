"""Credentials as Secrets of a cluster: stored from what was sealed, listed without values, and kept from deletion while
they are used."""

from __future__ import annotations

import base64
import dataclasses
import uuid
from pathlib import Path
from typing import Any

import boto3
import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.cluster import ClusterRecord
from contracts.credentials import (
    DELETE_CREDENTIAL,
    LIST_CREDENTIALS,
    STORE_CREDENTIAL,
    Credential,
    CredentialList,
    DeleteCredential,
    ListCredentials,
    StoreCredential,
    StoreCredentialSpec,
    seal_context,
)
from contracts.network import Scope
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from contracts.sealing import new_key, parse_key, seal
from sandbox import credentials as known
from tests.activities.conftest import REGION, Runner, Sandbox, problem, settings
from tests.activities.world import World

TOKEN = "hf_canaryCanaryCanaryCanaryCanary00"


@dataclasses.dataclass
class Credentials:
    """A cluster, and a key that gateway and worker share."""

    world: World
    key: bytes
    activities: Activities

    @property
    def run(self) -> Runner:
        return self.world.run

    @property
    def cluster(self) -> str:
        return self.world.control_plane.name

    @property
    def scope(self) -> Scope:
        return self.world.scope

    def spec(self, name: str, token: str = TOKEN, namespace: str = "default", **more: str) -> StoreCredentialSpec:
        place = {"cluster": self.scope.cluster, "namespace": namespace, "name": name, **more}
        sealed = seal(self.key, token, seal_context(**place))
        return StoreCredentialSpec(name=name, namespace=namespace, sealed=sealed)

    def store(self, name: str, token: str = TOKEN, namespace: str = "default") -> Credential:
        request = StoreCredential(scope=self.scope, eks_cluster=self.cluster, spec=self.spec(name, token, namespace))
        return self.run(STORE_CREDENTIAL, request)

    def delete(self, name: str) -> bool:
        request = DeleteCredential(scope=self.scope, eks_cluster=self.cluster, name=name, namespace="default")
        return self.run(DELETE_CREDENTIAL, request).changed

    def list(self) -> CredentialList:
        return self.run(LIST_CREDENTIALS, ListCredentials(scope=self.scope, eks_cluster=self.cluster))

    def plan(self, kind: str, spec: dict[str, Any]) -> PlanDraft:
        now = "2026-01-01T00:00:00Z"
        about = {"tag": self.scope.cluster, "region": REGION, "created_by": "t", "created_at": now, "updated_at": now}
        record = ClusterRecord.model_validate({**about, "control_plane": self.world.control_plane.model_dump()})
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.cluster)

    def secret(self, name: str) -> Any:
        with self.api() as api:
            return client.CoreV1Api(api).read_namespaced_secret(name, "default")


@pytest.fixture(scope="module")
def made(sandbox: Sandbox, activities: Activities, tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    sandbox.call("POST", "reset")
    key: Path = tmp_path_factory.mktemp("key") / "seal-key"
    key.write_text(new_key())
    session = boto3.Session(known.ACCESS_KEY_ID, known.SECRET_ACCESS_KEY, region_name=REGION)
    own = Activities(settings(seal_key_file=key), session)
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Credentials(
        World(Runner(own, f"store-credential/{scope.cluster}/x"), scope), parse_key(key.read_bytes()), own
    )


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> None:
    """No fault is left of another test."""


def test_a_sealed_token_becomes_a_secret_once(made: Credentials) -> None:
    first, again = made.store("once"), made.store("once")
    assert (first.secret, first.changed, again.changed) == ("instantstart-credential-once", True, False)
    secret = made.secret(first.secret)
    assert base64.b64decode(secret.data["token"]).decode() == TOKEN
    assert secret.metadata.labels["instantstart.dev/cluster"] == made.scope.cluster
    assert secret.metadata.annotations["instantstart.dev/operation"] == made.run.operation
    assert made.store("once", "hf_anotherOneOfThemAll000000000").changed


def test_a_lost_answer_costs_no_second_secret(made: Credentials, quiet: Sandbox) -> None:
    quiet.lose_response("PATCH /api/v1/namespaces/default/secrets/.*")
    assert made.store("lost").secret == "instantstart-credential-lost"
    assert quiet.fired()
    assert base64.b64decode(made.secret("instantstart-credential-lost").data["token"]).decode() == TOKEN


def test_a_token_that_was_sealed_for_another_use_is_not_stored(made: Credentials) -> None:
    moved = made.spec("moved", cluster="another")
    with pytest.raises(ApplicationError) as caught:
        made.run(STORE_CREDENTIAL, StoreCredential(scope=made.scope, eks_cluster=made.cluster, spec=moved))
    found = problem(caught)
    assert (found.code, found.field, TOKEN in found.model_dump_json()) == ("invalid", "/sealed", False)
    draft = made.plan("store-credential", moved.model_dump())
    assert [each.field for each in draft.blockers] == ["/sealed"]


def test_a_worker_without_a_key_says_what_to_do(made: Credentials, activities: Activities) -> None:
    run = Runner(activities, made.run.operation)
    with pytest.raises(ApplicationError) as caught:
        run(STORE_CREDENTIAL, StoreCredential(scope=made.scope, eks_cluster=made.cluster, spec=made.spec("keyless")))
    assert problem(caught).code == "unavailable"
    assert "INSTANTSTART_SEAL_KEY_FILE" in (problem(caught).remedy or "")


def test_a_secret_of_others_is_left_alone(made: Credentials) -> None:
    with made.api() as api:
        body = {"metadata": {"name": "instantstart-credential-theirs"}, "data": {"token": "eA=="}}
        client.CoreV1Api(api).create_namespaced_secret("default", body)
    for act in (made.store, made.delete):
        with pytest.raises(ApplicationError) as caught:
            act("theirs")
        assert problem(caught).code == "foreign"
    assert made.secret("instantstart-credential-theirs").data["token"] == "eA=="
    assert made.plan("store-credential", made.spec("theirs").model_dump()).blockers[0].code == "foreign"


def test_lists_tell_everything_but_the_value(made: Credentials, quiet: Sandbox) -> None:
    made.store("shown")
    with made.api() as api:
        reference = {"secretKeyRef": {"name": "instantstart-credential-shown", "key": "token"}}
        container = {"name": "main", "image": "x", "env": [{"name": "HF_TOKEN", "valueFrom": reference}]}
        pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
        body = {"metadata": {"name": "server"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod}}
        client.AppsV1Api(api).create_namespaced_deployment("default", body)
        ended = {"restartPolicy": "Never", "volumes": [{"name": "v", "secret": {"secretName": "other"}}]}
        job = {"template": {"spec": {**ended, "containers": [container]}}, "suspend": True}
        client.BatchV1Api(api).create_namespaced_job("default", {"metadata": {"name": "waits"}, "spec": job})
    listed = made.list()
    shown = {each.name: each for each in listed.credentials}["shown"]
    assert shown.used_by == ["Deployment server", "Job waits"]
    assert (shown.namespace, shown.key) == ("default", "token")
    text = listed.model_dump_json()
    assert TOKEN not in text
    assert base64.b64encode(TOKEN.encode()).decode() not in text


def test_what_is_used_is_not_deleted(made: Credentials) -> None:
    made.store("needed")
    with made.api() as api:
        source = {"secretRef": {"name": "instantstart-credential-needed"}}
        container = {"name": "main", "image": "x", "envFrom": [source]}
        pod = {"metadata": {"labels": {"app": "y"}}, "spec": {"containers": [container]}}
        body = {"metadata": {"name": "user"}, "spec": {"selector": {"matchLabels": {"app": "y"}}, "template": pod}}
        client.AppsV1Api(api).create_namespaced_deployment("default", body)
    asked = {"name": "needed", "namespace": "default"}
    blockers = made.plan("delete-credential", asked).blockers
    assert [(each.code, "Deployment user" in each.detail) for each in blockers] == [("conflict", True)]
    with made.api() as api:
        client.AppsV1Api(api).delete_namespaced_deployment("user", "default")
    assert not made.plan("delete-credential", asked).blockers
    assert (made.delete("needed"), made.delete("needed")) == (True, False)
    assert made.plan("delete-credential", asked).blockers[0].code == "not_found"


def test_a_namespace_that_does_not_exist_is_found_beforehand(made: Credentials) -> None:
    draft = made.plan("store-credential", made.spec("lost", namespace="nowhere").model_dump())
    assert [(each.field, each.code) for each in draft.blockers] == [("/namespace", "not_found")]
    with pytest.raises(ApplicationError) as caught:
        made.store("lost", namespace="nowhere")
    assert (problem(caught).code, problem(caught).field) == ("not_found", "/namespace")
