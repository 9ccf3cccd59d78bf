"""Tools judge nothing themselves: the same wrong input meets the same problem at the gateway and through a tool."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Gateway, MakeCluster
from tests.mcp.conftest import Connect, refused

CLUSTERS = "/api/v1/clusters"
ONE = f"{CLUSTERS}/{{tag}}"
GROUP = {"instance_type": "ml.g6.4xlarge", "count": 1}

CASES: list[tuple[str, dict[str, Any], str, str, Any, dict[str, str]]] = [
    # tool, arguments, method, path, body, and where pointers of the body point to among the arguments
    ("cluster_create", {"tag": "Demo_1"}, "POST", CLUSTERS, {"tag": "Demo_1"}, {}),
    ("cluster_create", {"tag": "ok", "kubernetes_version": 1.3, "network": {"vpc_cidr": "10.0.0.0/8"}}, "POST",
     CLUSTERS, {"tag": "ok", "kubernetes_version": 1.3, "network": {"vpc_cidr": "10.0.0.0/8"}}, {}),
    ("cluster_create", {"tag": "ok", "region": "eu-north-1"}, "POST", CLUSTERS, {"tag": "ok", "region": "eu-north-1"},
     {}),
    ("cluster_create", {"tag": "ok", "instance_groups": [{"instance_type": "g6.4xlarge", "count": "one"}]}, "POST",
     CLUSTERS, {"tag": "ok", "instance_groups": [{"instance_type": "g6.4xlarge", "count": "one"}]}, {}),
    ("cluster_create_eks", {"tag": "Bad_Tag"}, "POST", f"{CLUSTERS}/Bad_Tag/control-plane", {}, {}),
    ("cluster_create_eks", {"tag": "ok", "vpc_cidr": "10.0.0.1/16"}, "POST", f"{CLUSTERS}/ok/control-plane",
     {"network": {"vpc_cidr": "10.0.0.1/16"}}, {"/network": ""}),
    ("cluster_configure_dependencies", {"components": ["x"]}, "POST", f"{ONE}/dependencies", {"components": ["x"]}, {}),
    ("hyperpod_create", {"instance_type": "g6.4xlarge", "count": 2}, "POST", f"{ONE}/hyperpod",
     {"instance_groups": [{"instance_type": "g6.4xlarge", "count": 2}]}, {"/instance_groups/0": ""}),
    ("hyperpod_create", {**GROUP, "capacity": "training-plan"}, "POST", f"{ONE}/hyperpod",
     {"instance_groups": [{**GROUP, "capacity": {"kind": "training-plan"}}]},
     {"/instance_groups/0/capacity": "", "/instance_groups/0": ""}),
    ("hyperpod_create", {"count": 2}, "POST", f"{ONE}/hyperpod", {"instance_groups": [{"count": 2}]},
     {"/instance_groups/0": ""}),
    ("hyperpod_add_instance_group", {"instance_type": "p5.48xlarge", "count": True, "group": "A_b"}, "POST",
     f"{ONE}/instance-groups", {"instance_type": "p5.48xlarge", "count": True, "name": "A_b"}, {"/name": "/group"}),
    ("hyperpod_add_instance_group", {**GROUP, "capacity": "cheap"}, "POST", f"{ONE}/instance-groups",
     {**GROUP, "capacity": {"kind": "cheap"}}, {}),
    ("hyperpod_scale_instance_group", {"group": "workers", "count": -1}, "POST", f"{ONE}/instance-groups/workers/scale",
     {"count": -1}, {}),
    ("hyperpod_scale_instance_group", {"group": "work_ers", "count": "2"}, "POST",
     f"{ONE}/instance-groups/work_ers/scale", {"count": "2"}, {}),
    ("hyperpod_delete_instance_group", {"group": "work_ers"}, "DELETE", f"{ONE}/instance-groups/work_ers", None, {}),
    ("hyperpod_update_instance_group", {"group": "workers"}, "PATCH", f"{ONE}/instance-groups/workers", {}, {}),
    ("hyperpod_update_software", {"groups": ["a", "a"]}, "POST", f"{ONE}/software", {"groups": ["a", "a"]}, {}),
    ("hyperpod_node_reboot", {"nodes": []}, "POST", f"{ONE}/nodes/reboot", {"nodes": []}, {}),
    ("hyperpod_node_replace", {"nodes": ["no/node"], "drain": "perhaps"}, "POST", f"{ONE}/nodes/replace",
     {"nodes": ["no/node"], "drain": "perhaps"}, {}),
    ("hyperpod_node_delete", {"nodes": "i-0123456789abcdef0"}, "POST", f"{ONE}/nodes/delete",
     {"nodes": "i-0123456789abcdef0"}, {}),
    ("hyperpod_update_advanced_features", {}, "PATCH", f"{ONE}/features", {}, {}),
    ("hyperpod_update_advanced_features", {"tiered_checkpointing": {"enabled": True, "memory_percentage": 5}}, "PATCH",
     f"{ONE}/features", {"tiered_checkpointing": {"enabled": True, "memory_percentage": 5}}, {}),
    ("cluster_nodegroup_create", {"node_group": "a b", "instance_types": ["ml.g5.8xlarge"], "desired": 2, "minimum": 3},
     "POST", f"{ONE}/node-groups",
     {"name": "a b", "instance_types": ["ml.g5.8xlarge"], "scaling": {"desired": 2, "minimum": 3}},
     {"/scaling": "", "/name": "/node_group"}),
    ("cluster_nodegroup_scale", {"node_group": "cpu", "desired": 5, "maximum": 1}, "POST",
     f"{ONE}/node-groups/cpu/scale", {"desired": 5, "maximum": 1}, {}),
    ("node_pool_create", {"node_pool": "A", "instance_groups": ["a", "a"]}, "POST", f"{ONE}/node-pools",
     {"name": "A", "instance_groups": ["a", "a"]}, {"/name": "/node_pool"}),
    ("s3_storage_create", {"claim": "X", "prefix": "no-slash"}, "POST", f"{ONE}/storage",
     {"claim": "X", "prefix": "no-slash"}, {}),
    ("job_list_all", {"state": "asleep", "page_size": "many"}, "GET", f"{ONE}/jobs?state=asleep&page_size=many", None,
     {}),
    ("node_list", {"page_size": 100000}, "GET", f"{ONE}/nodes?page_size=100000", None, {}),
    ("cluster_list_all", {"page_size": 0, "page_token": "x"}, "GET", f"{CLUSTERS}?page_size=0&page_token=x", None, {}),
    ("plan_make", {"kind": "dance", "cluster": "ok"}, "POST", "/api/v1/plans", {"kind": "dance", "cluster": "ok"}, {}),
    ("plan_make", {"kind": "create-cluster", "cluster": "ok", "spec": {"colour": 1}}, "POST", "/api/v1/plans",
     {"kind": "create-cluster", "cluster": "ok", "spec": {"colour": 1}}, {}),
    ("cluster_import", {"tag": "A_1", "eks_cluster": "-"}, "POST", f"{CLUSTERS}/import",
     {"tag": "A_1", "eks_cluster": "-"}, {}),
    ("cluster_delete", {"level": "hyperpod", "delete_bucket": True}, "DELETE", ONE,
     {"level": "hyperpod", "delete_bucket": True}, {}),
    ("training_submit", {"run": "A_b", "recipe": {"kind": "jax"}, "instance_types": ["g5"], "gpus_per_node": 1}, "POST",
     f"{ONE}/training-runs", {"name": "A_b", "recipe": {"kind": "jax"}, "instance_types": ["g5"], "gpus_per_node": 1},
     {"/name": "/run"}),
    ("training_get", {"run": "no-such"}, "GET", f"{ONE}/training-runs/no-such", None, {"/name": "/run"}),
    ("training_logs", {"run": "sft", "rank": -1, "level": "loud", "lines": 0, "cursor": "?"}, "GET",
     f"{ONE}/training-runs/sft/logs?rank=-1&level=loud&limit=0&cursor=%3F", None, {"/limit": "/lines"}),
    ("training_logs", {"run": "sft", "search": "(a+)+$", "regex": True, "execution": "no/run"}, "GET",
     f"{ONE}/training-runs/sft/logs?search=(a%2B)%2B%24&regex=true&run=no%2Frun&tail=100", None,
     {"/run": "/execution"}),
    ("pod_logs", {"pod": "Bad_Pod", "since": "yesterday"}, "GET", f"{ONE}/pods/default/Bad_Pod/logs?since=yesterday",
     None, {}),
    ("diagnose_problem", {"kind": "weather", "name": "x"}, "POST", f"{ONE}/diagnoses",
     {"subject": {"kind": "weather", "name": "x"}}, {"/subject": ""}),
    ("diagnose_problem", {"kind": "node", "since_hours": 10_000}, "POST", f"{ONE}/diagnoses",
     {"subject": {"kind": "node"}, "since_hours": 10_000}, {"/subject": ""}),
    ("preset_save", {"preset": "Bad_Name", "document": {"name": "x"}}, "PUT", "/api/v1/presets/Bad_Name",
     {"document": {"name": "x"}}, {"/name": "/preset"}),
    ("preset_get", {"preset": "none"}, "GET", "/api/v1/presets/none", None, {"/name": "/preset"}),
    ("experiment_search_runs", {"tracking_server": "-x", "page_size": 1000, "page_token": "x"}, "GET",
     f"{ONE}/experiments/runs?tracking_server=-x&page_size=1000&page_token=x", None, {}),
    ("experiment_compare_runs", {"tracking_server": "research", "run_ids": ["a b"], "points": 1}, "GET",
     f"{ONE}/experiments/comparison?tracking_server=research&run=a%20b&points=1", None, {"/run": "/run_ids"}),
    ("experiment_test", {"tracking_server": "arn:x", "namespace": "A_b"}, "POST", f"{ONE}/experiments/test",
     {"tracking_server": "arn:x", "namespace": "A_b"}, {}),
    ("tracking_server_get", {"tracking_server": "none"}, "GET", f"{ONE}/tracking-servers/none", None, {}),
    ("operation_get", {"operation": "no/such"}, "GET", "/api/v1/operations/no%2Fsuch", None, {}),
    ("operation_get_durations", {"kind": "dance"}, "GET", "/api/v1/durations?kind=dance", None, {}),
    ("cluster_get_available_instances", {"region": "eu-north-1"}, "GET", "/api/v1/options?region=eu-north-1", None, {}),
]  # fmt: skip


def _pointed(pointer: str, places: dict[str, str]) -> str:
    return next(
        (
            to + pointer.removeprefix(sent)
            for sent, to in places.items()
            if pointer == sent or f"{pointer}/".startswith(f"{sent}/")
        ),
        pointer,
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "method", "path", "body", "places"),
    CASES,
    ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)],
)
async def test_a_tool_refuses_what_the_gateway_refuses_with_its_words(
    gateway: Gateway,
    connect: Connect,
    make_cluster: MakeCluster,
    tool: str,
    arguments: dict[str, Any],
    method: str,
    path: str,
    body: Any,
    places: dict[str, str],
) -> None:
    if "{tag}" in path:
        tag = await make_cluster()
        path, arguments = path.replace("{tag}", tag), {**arguments, "cluster": tag}
    answer = await gateway.operator.request(method, path, json=body)
    assert answer.is_client_error, answer.text
    expected = answer.json()
    async with connect() as client:
        told = (await refused(client, tool, **arguments))["problem"]
    assert told.get("errors", []) == [
        {**error, "field": _pointed(error["field"], places)} for error in expected.get("errors", [])
    ]
    if "field" in expected:
        assert told["field"] == _pointed(expected["field"], places)
    for member in ("type", "title", "status", "code", "detail", "remedy", "retryable"):
        assert told.get(member) == expected.get(member), member


async def test_reading_tools_leave_no_trace_in_the_audit_trail(
    gateway: Gateway, connect: Connect, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster()
    before = (await gateway.admin.get("/api/v1/audit?page_size=1")).json()["entries"][:1]
    async with connect("admin") as client:
        for each in (await client.list_tools()).tools:
            assert each.annotations is not None
            needed = set(each.input_schema.get("required", []))
            if not each.annotations.read_only_hint or each.name in AUDITED:
                continue
            arguments = {name: NAMED[name] for name in needed} | ABOUT.get(each.name, {})
            if "cluster" in each.input_schema["properties"]:
                arguments["cluster"] = tag
            await client.call_tool(each.name, arguments)
    assert (await gateway.admin.get("/api/v1/audit?page_size=1")).json()["entries"][:1] == before


AUDITED = ("plan_make", "inference_call_model", "experiment_test", "wait_seconds")
"""Reading tools that the trail holds, since they are sent, or that take long."""

ABOUT = {"diagnose_problem": {"kind": "cluster"}}
"""Arguments that mean something else elsewhere."""

NAMED = {
    "operation": "create-cluster/none",
    "kind": "create-cluster",
    "node": "n-1",
    "job": "j-1",
    "command": "vllm serve m",
    "deployment": "chat",
    "endpoint": "qwen",
    "autoscaler": "chat",
    "model_pool": "pool",
    "router": "front",
    "run": "qwen3-sft",
    "pod": "qwen3-sft-pods-0",
    "preset": "sft",
    "ray_cluster": "notebooks",
    "tracking_server": "research",
    "run_id": "0b5c",
    "run_ids": ["0b5c"],
}
"""Values of the arguments that reading tools need."""
