"""Routes of features: what a change starts, and what is refused before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Gateway, MakeCluster


async def test_a_change_plans_one_operation_named_by_its_features(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    url, body = f"/api/v1/clusters/{tag}/features", {"kuberay": {"enabled": True}, "fsx_csi": {"enabled": False}}
    answer = await gateway.operator.patch(url, json=body, params={"validate_only": "true"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["operation"] == f"update-features/{tag}/fsx_csi+kuberay"
    assert (await gateway.viewer.patch(url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"kuberay": {"enabled": True, "version": "1"}}, "/kuberay/version"),
        (
            {"tiered_checkpointing": {"enabled": True, "memory_percentage": 10}},
            "/tiered_checkpointing/memory_percentage",
        ),
        (
            {"observability": {"enabled": True, "prometheus_workspace_arn": "ws"}},
            "/observability/prometheus_workspace_arn",
        ),
        ({"karpenter": {"enabled": True}}, "/karpenter"),
    ],
)
async def test_a_mistake_is_named_by_its_field(
    gateway: Gateway, make_cluster: MakeCluster, body: dict[str, Any], pointer: str
) -> None:
    answer = await gateway.operator.patch(f"/api/v1/clusters/{await make_cluster()}/features", json=body)
    assert answer.status_code == 422
    assert pointer in [error["field"] for error in answer.json()["errors"]]


async def test_a_cluster_without_a_control_plane_has_no_features(gateway: Gateway, make_cluster: MakeCluster) -> None:
    answer = await gateway.viewer.get(f"/api/v1/clusters/{await make_cluster()}/features")
    assert (answer.status_code, "no control plane" in answer.json()["detail"]) == (409, True)
