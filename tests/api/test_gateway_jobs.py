"""Jobs through the gateway: paged, filtered, one of them, and names that no Job can have."""

from __future__ import annotations

import pytest

from tests.api.conftest import Gateway, MakeCluster

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}


async def path_of(make_cluster: MakeCluster) -> str:
    return f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/jobs"


async def test_jobs_come_in_pages_that_belong_to_their_filter(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    names: list[str] = []
    token: str | None = None
    previous: str | None = None
    while True:
        query = {"page_size": "2", "namespace": "ml"} | ({"page_token": token} if token else {})
        page = (await gateway.viewer.get(path, params=query)).json()
        assert {each["namespace"] for each in page["jobs"]} == {"ml"}
        names += [each["name"] for each in page["jobs"]]
        previous, token = token, page.get("next_page_token")
        if token is None:
            break
    assert names == [f"j-{number}" for number in range(1, 6)]
    assert "next_page_token" not in page
    failed = (await gateway.viewer.get(path, params={"state": "failed"})).json()
    assert [each["name"] for each in failed["jobs"]] == ["j-3"]
    wrong = await gateway.viewer.get(path, params={"namespace": "other", "page_token": previous})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/page_token")


async def test_one_job_or_what_there_is_instead(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = await path_of(make_cluster)
    found = (await gateway.viewer.get(f"{path}/ml/j-1")).json()
    assert (found["job"]["namespace"], found["job"]["name"], found["pods"]) == ("ml", "j-1", [])
    missing = await gateway.viewer.get(f"{path}/ml/j-9")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert missing.json()["detail"] == "ml of eks has j-1"


@pytest.mark.parametrize(
    ("ending", "field"),
    [
        ("?namespace=Not_One", "/namespace"),
        ("?state=lost", "/state"),
        ("?page_size=201", "/page_size"),
        ("/Not_One/j-1", "/namespace"),
        ("/ml/Not_One", "/name"),
    ],
)
async def test_what_no_job_can_have_is_refused(
    gateway: Gateway, make_cluster: MakeCluster, ending: str, field: str
) -> None:
    answer = await gateway.viewer.get(await path_of(make_cluster) + ending)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_a_cluster_without_a_control_plane_has_no_jobs(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = f"/api/v1/clusters/{await make_cluster()}/jobs"
    assert (await gateway.viewer.get(path)).json()["jobs"] == []
    missing = await gateway.viewer.get(f"{path}/ml/j-1")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (await gateway.viewer.get("/api/v1/clusters/nowhere/jobs")).status_code == 404
