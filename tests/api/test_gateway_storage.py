"""Storage through the gateway: claims, what the next one would be, and what a claim's bucket holds."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from tests.api.conftest import Gateway, MakeCluster
from tests.api.fake_workflows import CLAIM, ODD_KEYS

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
RECORDED = {"claim": "kept", "namespace": "default", "volume": "pv", "bucket": "b", "phase": "Bound"}
IDENTITY = {
    "account": "123456789012",
    "platform_principal_arn": "arn:me",
    "cluster_role_arn": "arn:role",
    "bucket": "of-the-record",
}


async def test_claims_are_those_of_the_cluster(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE, storage=[RECORDED])
    listed = (await gateway.viewer.get(f"/api/v1/clusters/{tag}/storage")).json()
    assert listed == {"claims": [CLAIM.model_dump(mode="json")], "live": True}


async def test_claims_are_the_records_where_nobody_answers(
    abandoned: tuple[Gateway, Client], make_cluster: MakeCluster
) -> None:
    gateway, client = abandoned
    tag = await make_cluster(client=client, control_plane=CONTROL_PLANE, storage=[RECORDED])
    url = f"/api/v1/clusters/{tag}/storage"
    listed = (await gateway.viewer.get(url)).json()
    assert (listed["live"], [each["claim"] for each in listed["claims"]]) == (False, ["kept"])
    for part in ("defaults", "kept/contents"):
        assert (await gateway.viewer.get(f"{url}/{part}")).json()["code"] == "unavailable"


async def test_a_cluster_without_a_control_plane_has_no_claims(gateway: Gateway, make_cluster: MakeCluster) -> None:
    url = f"/api/v1/clusters/{await make_cluster()}/storage"
    assert (await gateway.viewer.get(url)).json() == {"claims": [], "live": True}
    contents = await gateway.viewer.get(f"{url}/s3-claim/contents")
    assert (contents.status_code, contents.json()["code"]) == (404, "not_found")


async def test_defaults_rest_on_the_record(gateway: Gateway, make_cluster: MakeCluster) -> None:
    bare = (await gateway.viewer.get(f"/api/v1/clusters/{await make_cluster()}/storage/defaults")).json()
    assert bare == {
        "claim": "s3-claim",
        "namespace": "default",
        "bucket": "derived",
        "region": "us-west-2",
        "bucket_exists": False,
        "claim_exists": False,
    }
    tag = await make_cluster(control_plane=CONTROL_PLANE, identity=IDENTITY)
    known = (await gateway.viewer.get(f"/api/v1/clusters/{tag}/storage/defaults")).json()
    assert (known["bucket"], known["bucket_exists"], known["claim_exists"]) == ("of-the-record", True, True)


async def test_contents_come_in_pages_that_belong_to_their_listing(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    url = f"/api/v1/clusters/{tag}/storage/s3-claim/contents"
    query = {"namespace": "ml", "prefix": "x&y/", "page_size": "2"}
    first = (await gateway.viewer.get(url, params=query)).json()
    assert (first["claim"], first["prefix"], first["common_prefixes"]) == (
        CLAIM.model_dump(mode="json"),
        "x&y/",
        ["x&y/deep/"],
    )
    keys, page = [each["key"] for each in first["objects"]], first
    while "next_page_token" in page:
        assert len(page["objects"]) == 2
        page = (await gateway.viewer.get(url, params={**query, "page_token": page["next_page_token"]})).json()
        keys += [each["key"] for each in page["objects"]]
    assert keys == [f"x&y/{key}" for key in ODD_KEYS]
    for changed in ({"prefix": ""}, {"namespace": "default"}):
        wrong = await gateway.viewer.get(url, params={**query, **changed, "page_token": first["next_page_token"]})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "/page_token")


async def test_an_unknown_claim_is_answered_with_those_that_there_are(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    missing = await gateway.viewer.get(f"/api/v1/clusters/{tag}/storage/s3-claim/contents")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "ml/s3-claim" in missing.json()["detail"]
    nowhere = await gateway.viewer.get("/api/v1/clusters/nowhere/storage/s3-claim/contents")
    assert nowhere.status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "spec"),
    [
        ("POST", "storage", {"claim": "data"}, "create-storage/{}/data", {"namespace": "default"}),
        ("POST", "storage", {"claim": "data", "namespace": "ml"}, "create-storage/{}/ml/data", {"namespace": "ml"}),
        ("POST", "fsx-storage", {"create": {}}, "create-fsx-storage/{}/fsx-claim", {"file_system_id": None}),
        (
            *("POST", "fsx-storage", {"file_system_id": "fs-0123456789abcdef0", "namespace": "ml"}),
            *("create-fsx-storage/{}/ml/fsx-claim", {"mount_options": ["noatime", "flock"]}),
        ),
        ("DELETE", "storage/data", None, "delete-storage/{}/data", {"delete_file_system": False, "foreign": False}),
        (
            *("DELETE", "storage/data?namespace=ml&delete_file_system=true&foreign=true", None),
            *("delete-storage/{}/ml/data", {"delete_file_system": True, "foreign": True}),
        ),
    ],
)
async def test_each_route_plans_its_operation(
    gateway: Gateway,
    make_cluster: MakeCluster,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    operation: str,
    spec: dict[str, Any],
) -> None:
    tag = await make_cluster()
    url = f"/api/v1/clusters/{tag}/{path}{'&' if '?' in path else '?'}validate_only=true"
    answer = await gateway.operator.request(method, url, json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["operation"] == operation.format(tag)
    assert spec.items() <= plan["spec"].items()
    assert plan["names"]["persistent_volume"].startswith(f"{tag}-")
    assert (await gateway.viewer.request(method, url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/file_system_id"),
        ({"file_system_id": "fs-0123456789abcdef0", "create": {}}, "/file_system_id"),
        ({"file_system_id": "vol-1"}, "/file_system_id"),
        ({"create": {"capacity_gib": 1500}}, "/create/capacity_gib"),
        ({"create": {"throughput": 200}}, "/create/throughput"),
        ({"create": {"deployment_type": "SCRATCH_2", "throughput": 125}}, "/create/throughput"),
        ({"create": {"deployment_type": "SCRATCH_1"}}, "/create/deployment_type"),
        ({"create": {}, "claim": "Not A Name"}, "/claim"),
        ({"create": {}, "mount_options": ["flock; rm"]}, "/mount_options"),
    ],
)
async def test_a_file_system_that_cannot_be_is_refused_at_its_field(
    gateway: Gateway, make_cluster: MakeCluster, body: dict[str, Any], pointer: str
) -> None:
    tag = await make_cluster()
    refused = await gateway.operator.post(f"/api/v1/clusters/{tag}/fsx-storage", json=body)
    assert refused.status_code == 422, refused.text
    assert pointer in [each["field"] for each in refused.json()["errors"]]
