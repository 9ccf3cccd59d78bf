"""Importing clusters over HTTP."""

from __future__ import annotations

from tests.api.conftest import Eventually, Gateway, MakeCluster, Name


async def test_an_eks_cluster_is_managed_under_one_tag(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually, name: Name
) -> None:
    theirs = name("theirs")
    control_plane = {"name": theirs, "arn": f"arn:{theirs}", "status": "ACTIVE", "kubernetes_version": "1.34"}
    tag = await make_cluster(control_plane=control_plane)

    async def ask(as_tag: str, region: str = "us-west-2") -> tuple[int, str]:
        body = {"tag": as_tag, "eks_cluster": theirs, "region": region}
        answer = await gateway.operator.post("/api/v1/clusters/import?validate_only=true", json=body)
        return answer.status_code, answer.json().get("detail") or ""

    refused = await eventually(lambda: ask(name("other")), lambda answer: answer[0] == 409)
    assert f"'{tag}'" in refused[1]
    assert (await ask(tag))[0] == 200
    assert (await ask(name("other"), "us-east-1"))[0] == 200
