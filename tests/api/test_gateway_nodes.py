"""Nodes through the gateway: paged, filtered, and named in any way where something is done to them."""

from __future__ import annotations

from tests.api.conftest import Gateway, MakeCluster


async def test_nodes_come_in_pages_that_belong_to_their_filter(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = f"/api/v1/clusters/{await make_cluster()}/nodes"
    names: list[str] = []
    token: str | None = None
    previous: str | None = None
    while True:
        query = {"page_size": "2"} | ({"page_token": token} if token else {})
        page = (await gateway.viewer.get(path, params=query)).json()
        assert (page["matching"], page["summary"]["nodes"]) == (5, 5)
        names += [each["name"] for each in page["nodes"]]
        previous, token = token, page.get("next_page_token")
        if token is None:
            break
    assert names == [f"n-{number}" for number in range(1, 6)]
    sick = (await gateway.viewer.get(path, params={"unhealthy": "true"})).json()
    assert [each["name"] for each in sick["nodes"]] == ["n-3"]
    wrong = await gateway.viewer.get(path, params={"unhealthy": "true", "page_token": previous})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/page_token")


async def test_one_node_or_none(gateway: Gateway, make_cluster: MakeCluster) -> None:
    path = f"/api/v1/clusters/{await make_cluster()}/nodes"
    assert (await gateway.viewer.get(f"{path}/n-2")).json()["node"]["name"] == "n-2"
    missing = await gateway.viewer.get(f"{path}/i-0123456789abcdef0")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_an_operation_on_one_node_has_one_id_however_the_node_is_named(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster()
    path = f"/api/v1/clusters/{tag}/nodes/replace?validate_only=true"
    names = ["i-0123456789abcdef0", "hyperpod-i-0123456789abcdef0"]
    plans = [(await gateway.operator.post(path, json={"nodes": [name]})).json() for name in names]
    assert {plan["operation"] for plan in plans} == {f"replace-nodes/{tag}/i-0123456789abcdef0"}
    wrong = await gateway.operator.post(path, json={"nodes": ["not a node"]})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/nodes/0")
    assert (await gateway.viewer.post(path, json={"nodes": names})).status_code == 403


async def test_software_of_a_cluster_without_hyperpod_is_not_found(gateway: Gateway, make_cluster: MakeCluster) -> None:
    answer = await gateway.viewer.get(f"/api/v1/clusters/{await make_cluster()}/software")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
