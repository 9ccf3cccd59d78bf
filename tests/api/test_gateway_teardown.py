"""Deleting clusters over HTTP: choices, and clusters that have no record."""

from __future__ import annotations

from tests.api.conftest import Gateway, MakeCluster, Name


async def test_choices_come_as_query_or_body_and_the_query_wins(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    query = "level=eks&keep=vol-1&keep=vol-2&validate_only=true"
    body = {"level": "network", "delete_bucket": True}
    answer = await gateway.operator.request("DELETE", f"/api/v1/clusters/{tag}?{query}", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"] == {
        "level": "eks",
        "abort_running": False,
        "delete_bucket": True,
        "delete_file_systems": False,
        "delete_dedicated_subnets": False,
        "keep": ["vol-1", "vol-2"],
    }


async def test_choices_that_do_not_go_together_are_refused(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    answer = await gateway.operator.delete(f"/api/v1/clusters/{tag}?level=hyperpod&delete_bucket=true")
    assert (answer.status_code, answer.json()["field"]) == (422, "/delete_bucket")


async def test_a_deletion_is_one_operation_of_its_cluster(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    first = await gateway.operator.delete(f"/api/v1/clusters/{tag}")
    again = await gateway.operator.delete(f"/api/v1/clusters/{tag}")
    assert (first.status_code, first.json()["id"]) == (202, f"delete-cluster/{tag}")
    assert again.json()["run_id"] == first.json()["run_id"]
    other = await gateway.operator.delete(f"/api/v1/clusters/{tag}?level=eks")
    assert other.status_code == 409
    elsewhere = await gateway.operator.delete(f"/api/v1/clusters/{tag}?region=us-east-1")
    assert (elsewhere.status_code, elsewhere.json()["field"]) == (409, "/region")


async def test_what_is_left_without_a_record_is_deleted_where_the_region_is_given(gateway: Gateway, name: Name) -> None:
    tag = name("left")
    unknown = await gateway.operator.delete(f"/api/v1/clusters/{tag}")
    assert unknown.status_code == 404
    assert "region" in unknown.json()["remedy"]
    found = await gateway.operator.delete(f"/api/v1/clusters/{tag}?region=us-west-2")
    assert (found.status_code, found.json()["id"]) == (202, f"delete-cluster/{tag}")
    nothing = await gateway.operator.delete(f"/api/v1/clusters/{name('gone')}?region=us-west-2")
    assert nothing.status_code == 404
