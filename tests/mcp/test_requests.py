"""What each tool asks of the gateway: the right route, place, query and body, under the original's names, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from api.app import create_app
from api.settings import Settings
from client.request import Call, GatewayProblem
from contracts.endpoints import MAKE_PLAN
from contracts.features import Feature
from contracts.operation import Operation
from contracts.problem import ProblemCode, problem
from mcp_server.asker import SOON
from mcp_server.naming import candidates
from mcp_server.server import definitions
from tests.mcp.conftest import Connect, answered, refused
from tests.mcp.recorder import ANSWERS, ARN, NOW, Asked, Recorder
from tests.mcp.serving_cases import SERVING_CASES, Case
from tests.mcp.training_cases import TRAINING_CASES

TAG = {"tag": "demo"}
DRIFTED = "instance-group/workers/target~01234567"
NODE = "hyperpod-i-0123456789abcdef0"
GROUP = {"instance_type": "ml.g6.4xlarge", "count": 2}
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
ON = {"enabled": True}

CASES: list[Case] = [
    # tool, arguments, route, places, query, body
    ("cluster_list_all", {}, "list_clusters", {}, {"page_size": ["50"]}, None),
    ("cluster_list_all", {"search": "de", "page_token": "t"}, "list_clusters", {},
     {"search": ["de"], "page_size": ["50"], "page_token": ["t"]}, None),
    ("cluster_get_status", {}, "get_cluster", TAG, {}, None),
    ("cluster_get_status", {"clusterTag": "other"}, "get_cluster", {"tag": "other"}, {}, None),
    ("cluster_switch", {"clusterTag": "other"}, "set_default_cluster", {}, {}, {"cluster": "other"}),
    ("cluster_switch", {"cluster": None}, "clear_default_cluster", {}, {}, None),
    ("cluster_create", {"tag": "new"}, "create_cluster", {}, {}, {"tag": "new"}),
    ("cluster_create",
     {"clusterTag": "new", "region": "us-east-1", "instance_groups": [GROUP], "kubernetes_version": "1.34",
      "network": {"vpc_cidr": "10.90.0.0/16"}, "hyperpod": {"node_recovery": "None"},
      "storage": {"claim": "c"}, "plan": "1.a"},
     "create_cluster", {}, {"plan": ["1.a"]},
     {"tag": "new", "region": "us-east-1", "instance_groups": [GROUP], "kubernetes_version": "1.34",
      "network": {"vpc_cidr": "10.90.0.0/16"}, "hyperpod": {"node_recovery": "None"}, "storage": {"claim": "c"}}),
    ("cluster_create_eks", {"clusterTag": "new", "region": "us-east-1", "vpcCidr": "10.90.0.0/16"},
     "create_control_plane", {"tag": "new"}, {"region": ["us-east-1"]}, {"network": {"vpc_cidr": "10.90.0.0/16"}}),
    ("cluster_create_eks", {"tag": "new", "vpcCidr": "", "region": None},
     "create_control_plane", {"tag": "new"}, {}, {}),
    ("cluster_create_eks", {"tag": "new", "vpc_id": "vpc-0123456789abcdef0", "kubernetes_version": "1.33"},
     "create_control_plane", {"tag": "new"}, {},
     {"network": {"vpc_id": "vpc-0123456789abcdef0"}, "kubernetes_version": "1.33"}),
    ("cluster_create_eks_with_cidr",
     {"clusterTag": "new", "region": "us-west-2", "vpcCidr": "10.90.0.0/16", "publicSubnet1Cidr": "10.90.0.0/24",
      "publicSubnet2Cidr": "10.90.1.0/24", "eksPrivateSubnet1Cidr": "10.90.2.0/24",
      "eksPrivateSubnet2Cidr": "10.90.3.0/24", "hyperPodPrivateSubnetCidr": "10.90.16.0/20"},
     "create_control_plane", {"tag": "new"}, {"region": ["us-west-2"]},
     {"network": {"vpc_cidr": "10.90.0.0/16", "public_subnet_cidrs": ["10.90.0.0/24", "10.90.1.0/24"],
                  "control_plane_subnet_cidrs": ["10.90.2.0/24", "10.90.3.0/24"], "compute_subnet_prefix": 20}}),
    ("access_verify", {}, "verify_access", TAG, {}, None),
    ("cluster_verify", {}, "verify_cluster", TAG, {}, None),
    ("cluster_configure_dependencies", {}, "install_dependencies", TAG, {}, {}),
    ("cluster_configure_dependencies", {"components": ["coredns"]}, "install_dependencies", TAG, {},
     {"components": ["coredns"]}),
    ("hyperpod_create",
     {"hyperPodTag": "demo", "AcceleratedInstanceType": "ml.g6.4xlarge", "AcceleratedInstanceCount": 1,
      "availabilityZone": "us-west-2c", "AcceleratedEBSVolumeSize": 300, "AcceleratedTrainingPlanArn": "",
      "computeSubnetId": ""},
     "create_hyperpod", TAG, {},
     {"instance_groups": [{"instance_type": "ml.g6.4xlarge", "count": 1, "availability_zone": "us-west-2c",
                           "volume_gib": 300}]}),
    ("hyperpod_create", {"instance_type": "ml.p5.48xlarge", "count": 1, "training_plan": "p", "group": "gpus"},
     "create_hyperpod", TAG, {},
     {"instance_groups": [{"name": "gpus", "instance_type": "ml.p5.48xlarge", "count": 1,
                           "capacity": {"kind": "training-plan", "training_plan": "p"}}]}),
    ("hyperpod_create", {"instance_groups": [GROUP], "hyperpod": {"provisioning": "Classic"}},
     "create_hyperpod", TAG, {}, {"instance_groups": [GROUP], "hyperpod": {"provisioning": "Classic"}}),
    ("hyperpod_create", {}, "create_hyperpod", TAG, {}, {}),
    ("hyperpod_add_instance_group",
     {"instanceGroupName": "spots", "instanceType": "ml.g6.4xlarge", "instanceCount": 2,
      "availabilityZone": "us-west-2c", "volumeSize": 500, "trainingPlanArn": "", "isSpot": True},
     "add_instance_group", TAG, {},
     {"name": "spots", "availability_zone": "us-west-2c", "volume_gib": 500, "capacity": {"kind": "spot"}, **GROUP}),
    ("hyperpod_add_instance_group",
     {"instanceType": "ml.p5.48xlarge", "instanceCount": 1, "trainingPlanArn": "arn:plan", "isSpot": False},
     "add_instance_group", TAG, {},
     {"instance_type": "ml.p5.48xlarge", "count": 1,
      "capacity": {"kind": "training-plan", "training_plan": "arn:plan"}}),
    ("hyperpod_add_instance_group",
     {**GROUP, "alternative_types": ["ml.g6.8xlarge"], "min_count": 1, "network_interface": "efa",
      "threads_per_core": 2, "deep_health_checks": ["InstanceStress"], "labels": {"a": "b"}, "taints": [TAINT],
      "subnet_placement": "dedicated"},
     "add_instance_group", TAG, {},
     {**GROUP, "alternative_types": ["ml.g6.8xlarge"], "min_count": 1, "network_interface": "efa",
      "threads_per_core": 2, "deep_health_checks": ["InstanceStress"], "labels": {"a": "b"}, "taints": [TAINT],
      "subnet_placement": "dedicated"}),
    ("hyperpod_scale_instance_group", {"name": "workers", "targetCount": 0}, "scale_instance_group",
     {**TAG, "group": "workers"}, {}, {"count": 0}),
    ("hyperpod_update_instance_group",
     {"group": "workers", "labels": {}, "taints": [], "min_count": 1, "deep_health_checks": [], "volume_gib": 9},
     "update_instance_group", {**TAG, "group": "workers"}, {},
     {"labels": {}, "taints": [], "min_count": 1, "deep_health_checks": [], "volume_gib": 9}),
    ("hyperpod_delete_instance_group", {"instanceGroupName": "workers", "drain": False}, "delete_instance_group",
     {**TAG, "group": "workers"}, {"drain": ["false"]}, None),
    ("hyperpod_get_software", {}, "get_software", TAG, {}, None),
    ("hyperpod_update_software", {}, "update_software", TAG, {}, {}),
    ("hyperpod_update_software",
     {"groups": ["workers"], "image_id": "default", "release_version": "1.2.3",
      "rolling": {"maximum_batch": {"value": 10}}},
     "update_software", TAG, {},
     {"groups": ["workers"], "image_id": "default", "release_version": "1.2.3",
      "rolling": {"maximum_batch": {"value": 10}}}),
    ("node_list", {"group": "workers", "unhealthy": True, "page_size": 5}, "list_nodes", TAG,
     {"group": ["workers"], "unhealthy": ["true"], "page_size": ["5"]}, None),
    ("node_get", {"nodeId": NODE}, "get_node", {**TAG, "node": NODE}, {}, None),
    ("hyperpod_node_reboot", {"nodeId": NODE}, "reboot_nodes", TAG, {}, {"nodes": [NODE]}),
    ("hyperpod_node_replace", {"nodes": [NODE], "drain": True, "drain_timeout_minutes": 5}, "replace_nodes", TAG, {},
     {"nodes": [NODE], "drain": True, "drain_timeout_minutes": 5}),
    ("hyperpod_node_delete", {"nodeId": NODE}, "delete_nodes", TAG, {}, {"nodes": [NODE]}),
    ("hyperpod_get_advanced_features", {}, "list_features", TAG, {}, None),
    ("hyperpod_update_advanced_features",
     {"tieredStorage": {"enabled": True, "configMode": "default", "percentage": 40}, "trainingOperator": ON},
     "update_features", TAG, {}, {"tiered_checkpointing": ON, "training_operator": ON}),
    ("hyperpod_update_advanced_features",
     {"tieredStorage": {"enabled": True, "configMode": "custom", "percentage": 40}, "inferenceOperator": ON,
      "enable_prerequisites": True},
     "update_features", TAG, {},
     {"tiered_checkpointing": {"enabled": True, "memory_percentage": 40}, "inference_operator": ON,
      "enable_prerequisites": True}),
    ("hyperpod_update_advanced_features", dict.fromkeys(map(str, Feature), ON), "update_features", TAG, {},
     dict.fromkeys(map(str, Feature), ON)),
    ("karpenter_install", {}, "update_features", TAG, {}, {"autoscaling": ON}),
    ("cluster_nodegroup_list", {}, "list_node_groups", TAG, {}, None),
    ("cluster_nodegroup_create",
     {"name": "cpu", "instance_types": ["m6i.2xlarge"], "desired": 3, "maximum": 4, "capacity": "spot", "efa": False,
      "labels": {"a": "b"}},
     "create_node_group", TAG, {},
     {"name": "cpu", "instance_types": ["m6i.2xlarge"], "scaling": {"desired": 3, "maximum": 4}, "capacity": "spot",
      "efa": False, "labels": {"a": "b"}}),
    ("cluster_nodegroup_scale", {"name": "cpu", "minSize": 0, "maxSize": 4, "desiredSize": 3}, "scale_node_group",
     {**TAG, "name": "cpu"}, {}, {"desired": 3, "minimum": 0, "maximum": 4}),
    ("cluster_nodegroup_delete", {"nodeGroupName": "cpu"}, "delete_node_group", {**TAG, "name": "cpu"}, {}, None),
    ("node_pool_list", {}, "list_node_pools", TAG, {}, None),
    ("node_pool_create",
     {"node_pool": "gpus", "instance_groups": ["workers"], "accept_scale_down": True, "gpu_limit": 8,
      "consolidation": "WhenEmpty", "consolidate_after": "5m", "weight": 10},
     "create_node_pool", TAG, {},
     {"name": "gpus", "instance_groups": ["workers"], "accept_scale_down": True, "gpu_limit": 8,
      "consolidation": "WhenEmpty", "consolidate_after": "5m", "weight": 10}),
    ("node_pool_delete", {"node_pool": "gpus"}, "delete_node_pool", {**TAG, "name": "gpus"}, {}, None),
    ("s3_storage_list", {}, "list_storage", TAG, {}, None),
    ("s3_storage_get_defaults", {}, "get_storage_defaults", TAG, {}, None),
    ("s3_storage_create", {"name": "data", "bucketName": "my-bucket", "region": "us-west-2"}, "create_storage", TAG,
     {}, {"claim": "data", "bucket": "my-bucket"}),
    ("s3_storage_create", {"namespace": "ml", "prefix": "sets/", "read_only": True, "bucketName": "", "region": ""},
     "create_storage", TAG, {}, {"namespace": "ml", "prefix": "sets/", "read_only": True}),
    ("s3_storage_list_contents", {"storage": "data", "prefix": "models/", "page_size": 10}, "list_storage_contents",
     {**TAG, "claim": "data"}, {"prefix": ["models/"], "page_size": ["10"]}, None),
    ("s3_storage_list_contents", {}, "list_storage_contents", {**TAG, "claim": "s3-claim"},
     {"namespace": ["default"]}, None),
    ("job_get_status", {"jobName": "finetune"}, "get_job", {**TAG, "namespace": "default", "name": "finetune"}, {},
     None),
    ("job_list_all", {"namespace": "ml", "state": "failed"}, "list_jobs", TAG,
     {"namespace": ["ml"], "state": ["failed"]}, None),
    ("cluster_get_usage", {}, "get_usage", TAG, {}, None),
    ("cluster_list_operations", {}, "list_cluster_operations", TAG, {}, None),
    ("cluster_get_available_instances", {"region": "us-east-1", "instance_types": ["ml.g6.4xlarge"]}, "get_options",
     {}, {"region": ["us-east-1"], "instance_type": ["ml.g6.4xlarge"]}, None),
    ("cluster_get_available_instances", {}, "get_options", {}, {"region": ["us-west-2"]}, None),
    ("cluster_get_availability_zones", {"cluster": "demo"}, "get_options", {}, {"region": ["us-west-2"]}, None),
    ("plan_make", {"kind": "scale-instance-group", "spec": {"group": "workers", "count": 4}}, "make_plan", {}, {},
     {"kind": "scale-instance-group", "cluster": "demo", "spec": {"group": "workers", "count": 4}}),
    ("plan_make", {"kind": "create-cluster", "spec": {"tag": "new"}, "region": "us-east-1"}, "make_plan", {}, {},
     {"kind": "create-cluster", "cluster": "new", "region": "us-east-1", "spec": {"tag": "new"}}),
    ("operation_get", {"operation": "create-cluster/demo"}, "get_operation", {"id": "create-cluster/demo"}, {}, None),
    ("operation_get_spec", {"operation": "create-cluster/demo"}, "get_operation_spec", {"id": "create-cluster/demo"},
     {}, None),
    ("operation_wait", {"operation": "create-cluster/demo", "timeout_seconds": 0}, "get_operation",
     {"id": "create-cluster/demo"}, {}, None),
    ("operation_list", {"phase": "blocked", "needs_attention": True}, "list_operations", {},
     {"phase": ["blocked"], "needs_attention": ["true"], "page_size": ["20"]}, None),
    ("operation_get_durations", {"kind": "create-cluster"}, "get_durations", {}, {"kind": ["create-cluster"]}, None),
    ("cluster_import",
     {"clusterTag": "prod", "region": "us-west-2", "eks_cluster": "theirs", "hyperpod_cluster": "hp",
      "grant_access": True, "adopt": False},
     "import_cluster", {}, {},
     {"tag": "prod", "region": "us-west-2", "eks_cluster": "theirs", "hyperpod_cluster": "hp", "grant_access": True,
      "adopt": False}),
    ("cluster_redetect", {}, "redetect_cluster", TAG, {}, None),
    ("drift_get", {"cluster": "demo"}, "get_drift", TAG, {}, None),
    ("drift_check", {}, "check_drift", TAG, {}, None),
    ("drift_adopt", {"differences": [DRIFTED], "accept_weaker_security": True}, "adopt_drift", TAG, {},
     {"differences": [DRIFTED], "accept_weaker_security": True}),
    ("drift_restore", {"differences": [DRIFTED]}, "restore_drift", TAG, {}, {"differences": [DRIFTED]}),
    ("cluster_delete", {"cluster": "demo"}, "delete_cluster", TAG, {}, None),
    ("cluster_delete",
     {"cluster": "demo", "level": "eks", "abort_running": True, "delete_bucket": True, "keep": ["vol-1"],
      "delete_dedicated_subnets": False, "region": "us-west-2", "plan": "1.a"},
     "delete_cluster", TAG, {"region": ["us-west-2"], "plan": ["1.a"]},
     {"level": "eks", "abort_running": True, "delete_bucket": True, "keep": ["vol-1"],
      "delete_dedicated_subnets": False}),
    ("access_get_caller", {}, "get_caller", {}, {}, None),
    ("access_list_tokens", {}, "list_tokens", {}, {}, None),
    ("access_revoke_token", {"name": "bob"}, "revoke_token", {"name": "bob"}, {}, None),
    ("audit_list", {"page_size": 5}, "list_audit", {}, {"page_size": ["5"]}, None),
    ("platform_get_readiness", {}, "get_readiness", {}, {}, None),
    *SERVING_CASES,
    *TRAINING_CASES,
]  # fmt: skip

SEVERAL: dict[str, set[str]] = {
    "cluster_get_instance_groups": {"list_instance_groups", "list_node_groups"},
    "karpenter_get_status": {"list_features", "list_node_pools", "get_operation"},
    "cluster_get_dependency_status": {"get_cluster", "get_operation"},
    "cluster_get_eks_creation_status": {"get_operation"},
    "hyperpod_get_creation_status": {"get_operation"},
}
"""Tools that read at several places."""

ELSEWHERE = {"wait_seconds", "operation_decide", "operation_retry", "operation_abort", "operation_approve",
             "operation_reject", "operation_skip"}  # fmt: skip
"""Tools that other tests are about."""

RESOLVING = {"get_caller", "list_clusters", "get_cluster"}
"""Routes that tell which cluster is meant: any tool may ask them."""

DECLARED = {each.name: {endpoint.name for endpoint in each.endpoints} for each in definitions()}


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The gateway's OpenAPI document, its routes by operation ID."""
    document = create_app(Settings(data_dir=Path(tmp_path_factory.mktemp("contract")))).openapi()
    routes = {route["operationId"]: route for path in document["paths"].values() for route in path.values()}
    return {"routes": routes, "components": document["components"]}


def check(contract: dict[str, Any], asked: Asked) -> None:
    """The request is one that the gateway documents: no parameter that it would silently leave aside, and a body of the
    right shape."""
    route = contract["routes"][asked.name]
    known = {each["name"] for each in route.get("parameters", []) if each.get("in") == "query"}
    assert set(asked.query) <= known, (asked.name, known)
    if asked.body is not None:
        schema = route["requestBody"]["content"]["application/json"]["schema"]
        jsonschema_rs.validate({**schema, "components": contract["components"]}, asked.body)


def _names(cases: list[Case]) -> Iterator[str]:
    return (f"{tool}-{route}" for tool, _, route, *_ in cases)


@pytest.mark.parametrize(("tool", "arguments", "route", "places", "query", "body"), CASES, ids=_names(CASES))
async def test_the_tool_sends_the_request_that_its_arguments_mean(
    contract: dict[str, Any],
    tool: str,
    arguments: dict[str, Any],
    route: str,
    places: dict[str, str],
    query: dict[str, list[str]],
    body: Any,
) -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        await answered(client, tool, **arguments)
    last = gateway.asked[-1]
    assert (last.name, last.places, last.query, last.body) == (route, places, query, body)
    assert {each.name for each in gateway.asked} <= DECLARED[tool] | RESOLVING
    assert gateway.changing == ([] if last.endpoint.reads else [last])
    for each in gateway.asked:
        check(contract, each)
    if last.endpoint.starts:
        assert last.headers["Prefer"] == SOON["Prefer"]
        assert last.headers["Idempotency-Key"]


@pytest.mark.parametrize("tool", SEVERAL)
async def test_the_tool_reads_just_what_it_declares(contract: dict[str, Any], tool: str) -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        await answered(client, tool)
    assert {each.name for each in gateway.asked} - {"get_caller"} == SEVERAL[tool] == DECLARED[tool]
    for each in gateway.asked:
        check(contract, each)


def test_every_tool_is_tested_for_its_requests() -> None:
    assert {case[0] for case in CASES} | SEVERAL.keys() | ELSEWHERE == DECLARED.keys()


STARTING = sorted(each.name for each in definitions() if any(endpoint.starts for endpoint in each.endpoints))


@pytest.mark.parametrize("tool", STARTING)
async def test_every_starting_tool_names_its_status_tool_and_can_be_held_to_a_plan(tool: str) -> None:
    arguments = next(each[1] for each in CASES if each[0] == tool)
    gateway = Recorder()
    async with gateway.connected() as client:
        started = await answered(client, tool, **{**arguments, "plan": "9.abc"})
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert gateway.changing[-1].query["plan"] == ["9.abc"]
    status = tools[started["status_tool"]]
    assert status.annotations is not None
    assert status.annotations.read_only_hint
    assert set(started["status_arguments"]) <= set(status.input_schema["properties"])
    # The same answer with fewer calls: that is what descriptions name.
    told = {"operation_get": "operation_wait"}.get(status.name, status.name)
    assert told in (tools[tool].description or "")


async def test_a_cluster_is_found_by_the_arn_of_its_hyperpod_cluster() -> None:
    gateway = Recorder()
    gateway.answers["list_clusters"] = {"clusters": [_summary("else", "us-east-1"), _summary("demo", "us-west-2")]}
    async with gateway.connected() as client:
        await answered(client, "hyperpod_update_software", clusterArn=ARN)
        assert gateway.changing[-1].places == TAG
        gateway.asked.clear()
        refusal = await refused(client, "hyperpod_update_software", clusterArn=f"{ARN}x")
    assert refusal["problem"]["field"] == "/cluster"
    assert not gateway.changing


def _summary(tag: str, region: str) -> dict[str, Any]:
    now = "2026-11-30T06:00:00Z"
    return {"tag": tag, "region": region, "created_by": "a", "created_at": now, "updated_at": now}


async def test_without_a_default_cluster_a_tool_asks_for_one_and_does_nothing() -> None:
    gateway = Recorder()
    gateway.answers["get_caller"] = {"default_cluster": None}
    async with gateway.connected() as client:
        for tool, arguments, *_ in CASES:
            asks_for_one = (
                "cluster" in next(each for each in definitions() if each.name == tool).tool().parameters["properties"]
            )
            named = {"cluster", "clusterTag", "hyperPodTag"} & arguments.keys()
            if not asks_for_one or named or tool in ("operation_list", "plan_make") or "region" in arguments:
                continue
            if tool.startswith("cluster_get_availa") or arguments.get("kind") == "operation":
                continue
            refusal = await refused(client, tool, **arguments)
            assert refusal["problem"]["field"] == "/cluster"
            assert "cluster_list_all" in refusal["problem"]["remedy"]
    assert not gateway.changing


def _today(letters: str) -> str:
    return f"hypd-{datetime.now(UTC):%m%d}{letters}"


@pytest.mark.parametrize("tool", ["cluster_create", "cluster_create_eks"])
async def test_a_cluster_that_nobody_names_gets_the_first_free_tag_of_the_day(tool: str) -> None:
    gateway = Recorder()
    gone = problem(ProblemCode.NOT_FOUND, "not there")
    for letter in "bcdef":
        gateway.refusals["get_cluster", _today(letter)] = gone
    for letter in "cdef":  # b is being made
        gateway.refusals["get_operation", f"create-cluster/{_today(letter)}"] = gone
    for letter in "def":  # c is being imported
        gateway.refusals["get_operation", f"create-control-plane/{_today(letter)}"] = gone
        gateway.refusals["get_operation", f"import-cluster/{_today(letter)}"] = gone
    taken = problem(ProblemCode.CONFLICT, "runs with another specification", operation="create-cluster/x")
    gateway.refusals["create_cluster", _today("d")] = taken
    gateway.refusals["create_control_plane", _today("d")] = taken
    for letter in "abc":
        for kind in ("create-cluster", "create-control-plane"):
            gateway.starters["get_operation", f"{kind}/{_today(letter)}"] = "somebody-else"
    async with gateway.connected() as client:
        started = await answered(client, tool)
    assert started["cluster"] == _today("e")
    assert [(each.body or each.places).get("tag", each.places.get("tag")) for each in gateway.changing] == [
        _today("d"),
        _today("e"),
    ]


async def test_a_creation_that_somebody_else_has_begun_under_a_free_tag_is_not_taken_for_ones_own() -> None:
    gateway = Recorder()
    gone = problem(ProblemCode.NOT_FOUND, "not there")
    for tag in islice(candidates(datetime.now(UTC).date()), 30):
        gateway.refusals["get_cluster", tag] = gone
        for kind in ("create-cluster", "create-control-plane", "import-cluster"):
            gateway.refusals["get_operation", f"{kind}/{tag}"] = gone
    gateway.starters["create_cluster", _today("a")] = "somebody-else"
    async with gateway.connected() as client:
        assert (await answered(client, "cluster_create"))["cluster"] == _today("b")


@pytest.mark.parametrize("tool", ["cluster_create", "cluster_create_eks"])
async def test_the_same_call_without_a_tag_joins_what_it_has_begun_and_another_one_does_not(
    connect: Connect, tool: str
) -> None:
    async with connect("agent") as client:
        once = await answered(client, tool)
        again = await answered(client, tool)
        other = await answered(client, tool, kubernetes_version="1.33")
    async with connect("operator") as client:
        anothers = await answered(client, tool)
    assert again["operation"] == once["operation"]
    assert len({each["operation"] for each in (once, other, anothers)}) == 3


async def test_what_stands_in_the_way_of_a_new_cluster_is_told_whatever_its_tag() -> None:
    gateway = Recorder()
    gone = problem(ProblemCode.NOT_FOUND, "not there")
    gateway.refusals["get_cluster", _today("a")] = gone
    for kind in ("create-cluster", "create-control-plane", "import-cluster"):
        gateway.refusals["get_operation", f"{kind}/{_today('a')}"] = gone
    gateway.refusals["create_cluster", _today("a")] = problem(ProblemCode.QUOTA, "no VPC is left")
    async with gateway.connected() as client:
        refusal = await refused(client, "cluster_create")
    assert refusal["problem"]["code"] == "quota"
    assert refusal["next"]["tool"] == "cluster_get_available_instances"
    assert len(gateway.changing) == 1


@pytest.mark.parametrize("name", ["..", ".", "", "x/../..", "./x"])
@pytest.mark.parametrize(
    ("tool", "argument", "others"),
    [
        ("hyperpod_delete_instance_group", "group", {}),
        ("hyperpod_delete_instance_group", "cluster", {"group": "workers"}),
        ("cluster_nodegroup_delete", "node_group", {}),
        ("node_pool_delete", "node_pool", {}),
        ("cluster_delete", "cluster", {}),
        ("access_revoke_token", "name", {}),
        ("operation_abort", "operation", {}),
        ("job_get_status", "namespace", {"job": "j"}),
        ("node_get", "node", {}),
        ("inference_undeploy", "deployment", {}),
        ("inference_call_model", "service_name", {"prompt": "Hi"}),
        ("credential_delete", "credential", {}),
        ("endpoint_delete", "endpoint", {}),
        ("model_pool_delete", "model_pool", {}),
        ("router_delete", "router", {}),
        ("autoscaler_delete", "autoscaler", {}),
        ("s3_storage_delete", "claim", {}),
        ("training_stop", "run", {}),
        ("training_logs", "run", {}),
        ("pod_logs", "pod", {}),
        ("pod_logs", "namespace", {"pod": "p"}),
        ("preset_delete", "preset", {}),
        ("ray_cluster_delete", "ray_cluster", {}),
        ("tracking_server_delete", "tracking_server", {}),
        ("experiment_get_run", "run_id", {"tracking_server": "research"}),
        ("experiment_disconnect", "namespace", {}),
    ],
)
async def test_a_name_that_leads_to_another_route_is_refused_and_nothing_is_sent(
    tool: str, argument: str, others: dict[str, str], name: str
) -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        refusal = await refused(client, tool, **{argument: name}, **others)
    assert refusal["problem"]["code"] == "invalid"
    assert refusal["problem"]["field"] == f"/{argument}"
    assert [each.name for each in gateway.asked if each.name != "get_caller"] == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_json_cannot_say_is_refused_before_it_is_sent(value: Any) -> None:
    call = Call.of(MAKE_PLAN, {"kind": "create-cluster", "spec": {"x": value}})
    with pytest.raises(GatewayProblem) as refusal:
        call.request(None)
    assert refusal.value.problem.code is ProblemCode.INVALID


async def test_half_a_character_in_a_name_names_nothing() -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        await answered(client, "cluster_get_status", cluster="x\ud800")
        await answered(client, "operation_list", cluster="x\ud800")
    assert (gateway.asked[0].places, gateway.asked[1].query["cluster"]) == ({"tag": "x?"}, ["x?"])


async def test_a_spec_that_is_no_object_is_the_gateways_to_refuse() -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        await answered(client, "plan_make", kind="create-cluster", spec=["x"])
    assert gateway.asked[-1].body == {"kind": "create-cluster", "cluster": "demo", "spec": ["x"]}


async def test_a_list_of_operations_says_what_each_waits_for_without_all_that_operation_get_tells() -> None:
    gateway = Recorder()
    options = [{"instance_type": f"ml.g{n}.xlarge", "availability_zone": "us-west-2a"} for n in range(200)]
    asked = {"id": "capacity", "question": "Which?", "schema": {}, "options": {"combinations": options}}
    done = {"name": "network", "title": "Network", "state": "done"}
    stages = [done, {"name": "capacity", "title": "Capacity", "state": "waiting", "started_at": NOW}]
    waiting = {"phase": "waiting_for_decision", "detail": "Which?", "decision": {**asked, "asked_at": NOW}}
    lost = {"phase": "failed", "problem": problem(ProblemCode.QUOTA, "no VPC is left").model_dump(mode="json")}
    found = [
        {**ANSWERS[Operation], "id": "create-cluster/a", "stages": stages, **waiting},
        {**ANSWERS[Operation], "id": "create-cluster/b", **lost},
    ]
    gateway.answers["list_operations"] = gateway.answers["list_cluster_operations"] = {
        "operations": found,
        "next_page_token": "more",
    }
    async with gateway.connected() as client:
        for tool in ("operation_list", "cluster_list_operations"):
            page = await answered(client, tool)
            a, b = page["operations"]
            assert (a["id"], a["phase"], a["stage"], a["detail"]) == (
                "create-cluster/a",
                "waiting_for_decision",
                "capacity",
                "Which?",
            )
            assert (b["id"], b["stage"], b["detail"]) == ("create-cluster/b", None, "no VPC is left")
            assert page["next_page_token"] == "more"
            assert len(json.dumps(page)) < 1000


async def test_a_bucket_is_never_looked_for_in_another_region_than_the_cluster() -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        refusal = await refused(client, "s3_storage_create", bucketName="b", region="eu-west-1")
    assert refusal["problem"]["field"] == "/region"
    assert not gateway.changing


async def test_instance_types_are_narrowed_by_accelerator_and_zone() -> None:
    async with Recorder().connected() as client:

        async def found(**wanted: str) -> list[str]:
            offers = await answered(client, "cluster_get_available_instances", **wanted)
            return [each["instance_type"] for each in offers["instance_types"]]

        assert await found() == ["ml.g6.4xlarge", "ml.p5.48xlarge"]
        assert await found(accelerator="h100") == await found(availability_zone="us-west-2b") == ["ml.p5.48xlarge"]
        assert await found(accelerator="g6", availability_zone="us-west-2b") == []


async def test_zones_are_those_that_offer_every_type() -> None:
    async with Recorder().connected() as client:

        async def zones(*types: str) -> list[str]:
            offers = await answered(client, "cluster_get_availability_zones", instance_types=list(types))
            return [each["name"] for each in offers["zones"]]

        assert await zones() == ["us-west-2a", "us-west-2b", "us-west-2c"]
        assert await zones("ml.g6.4xlarge") == ["us-west-2a", "us-west-2c"]
        assert await zones("ml.g6.4xlarge", "ml.p5.48xlarge") == []
