"""The tools as a whole: which there are, in which order, and that what they say of themselves is so."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, get_type_hints

import pytest
from mcp_types import TextContent

from contracts.catalogue import KINDS
from contracts.endpoints import ENDPOINTS
from contracts.feature_catalogue import DEFINITIONS
from contracts.features import FeatureChanges
from mcp_server.server import MODULES, definitions
from mcp_server.toolbox import Definition
from mcp_server.toolsets import Toolset
from tests.mcp.conftest import Connect, refused

WITHOUT_A_TOOL = {
    "create_token": "the answer is a secret, which would go through the agent's conversation",
    "store_credential": "its request is a secret, which would go through the agent's conversation",
    "create_session": "the answer is a secret; agents send their token with every call",
    "create_ticket": "the answer is a secret, for a sign-in link of a person",
    "open_tracking_server": "the answer is a link that lets in whoever has it",
    "watch_training_log": "an event stream: tools answer with pages of a log",
    "watch_pod_log": "an event stream: tools answer with pages of a log",
    "download_training_log": "a file of any length: tools answer with pages of a log",
    "download_pod_log": "a file of any length: tools answer with pages of a log",
    "export_runs": "a table of thousands of runs, for spreadsheets: tools answer with pages of runs",
    "end_session": "it ends the session that a request shows; agents show a token",
}
"""Routes that no tool calls, with the reason."""

ORIGINAL = [
    "wait_seconds",
    "cluster_get_status",
    "cluster_create_eks",
    "cluster_create_eks_with_cidr",
    "cluster_list_all",
    "cluster_get_instance_groups",
    "cluster_switch",
    "cluster_nodegroup_scale",
    "cluster_nodegroup_delete",
    "cluster_get_eks_creation_status",
    "cluster_configure_dependencies",
    "cluster_get_dependency_status",
    "hyperpod_create",
    "hyperpod_get_creation_status",
    "cluster_get_available_instances",
    "cluster_get_availability_zones",
    "karpenter_install",
    "karpenter_get_status",
    "hyperpod_get_advanced_features",
    "hyperpod_update_advanced_features",
    "s3_storage_get_defaults",
    "s3_storage_create",
    "s3_storage_list_contents",
    "job_get_status",
    "job_list_all",
    "hyperpod_node_reboot",
    "hyperpod_node_replace",
    "hyperpod_node_delete",
    "hyperpod_add_instance_group",
    "hyperpod_scale_instance_group",
    "hyperpod_delete_instance_group",
    "hyperpod_update_software",
    "model_download_enhanced",
    "inference_deploy_container",
    "inference_list_services",
    "inference_list_public_services",
    "inference_call_model",
]
"""Tools of the original that prompts and skills of its users name."""

ELSEWHERE = {
    "cluster_create_eks_with_cidr": Toolset.NETWORK,
    "cluster_nodegroup_scale": Toolset.NODE_GROUPS,
    "cluster_nodegroup_delete": Toolset.NODE_GROUPS,
    "cluster_get_availability_zones": Toolset.NETWORK,
    "karpenter_install": Toolset.NODE_POOLS,
    "karpenter_get_status": Toolset.NODE_POOLS,
    "hyperpod_delete_instance_group": Toolset.STAGES,
    "job_get_status": Toolset.TRAINING,
    "hyperpod_node_delete": Toolset.NODES,
    "hyperpod_update_software": Toolset.STAGES,
    "s3_storage_get_defaults": Toolset.STORAGE,
    "inference_list_public_services": Toolset.SERVING,
}
"""Of these, those that the default toolset has no room for: docs/mcp.md says why."""

ONLY_MAKES = {"karpenter_install"}
"""Tools of a kind of operation that may destroy, which use it to make things only."""

EVERY = definitions()


def _default() -> list[Definition]:
    return definitions([Toolset.DEFAULT])


def test_every_route_is_called_by_a_tool_or_exempt_for_a_reason() -> None:
    called = {endpoint.name for each in EVERY for endpoint in each.endpoints}
    assert ENDPOINTS.keys() - called == WITHOUT_A_TOOL.keys()


def test_the_originals_tools_are_among_the_default_ones_but_for_those_that_are_rarely_called() -> None:
    toolsets = {each.name: each.toolset for each in EVERY}
    assert {name: toolsets[name] for name in ORIGINAL if toolsets[name] is not Toolset.DEFAULT} == ELSEWHERE


def test_clients_that_drop_tools_beyond_forty_drop_none_of_the_default_ones() -> None:
    assert len(_default()) <= 40


def test_names_are_short_plain_and_unique() -> None:
    names = [each.name for each in EVERY]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]{1,39}", name)] == []


def test_every_toolset_but_the_default_one_adds_tools_of_its_own() -> None:
    for toolset in Toolset:
        assert definitions([toolset]), toolset
        assert definitions([Toolset.DEFAULT, toolset])[0] == EVERY[0]


async def test_the_tools_come_in_the_order_of_the_modules_however_toolsets_are_named(connect: Connect) -> None:
    async with connect(toolsets=list(Toolset)) as one, connect(toolsets=list(reversed(Toolset))) as other:
        first = [tool.name for tool in (await one.list_tools()).tools]
        second = [tool.name for tool in (await other.list_tools()).tools]
    assert first == second == [each.name for module in MODULES for each in module.tools.definitions]


@pytest.mark.parametrize("each", EVERY, ids=lambda each: each.name)
def test_annotations_follow_from_the_routes(each: Definition) -> None:
    hints = each.tool().annotations
    assert hints is not None
    assert hints.read_only_hint is all(endpoint.reads for endpoint in each.endpoints)
    kinds = [KINDS.get(endpoint.name.replace("_", "-")) for endpoint in each.endpoints if endpoint.starts]
    if kinds and each.name not in ONLY_MAKES:
        assert hints.destructive_hint is any(kind is not None and kind.destroys for kind in kinds)
    if hints.read_only_hint:
        assert hints.destructive_hint is False


@pytest.mark.parametrize("each", EVERY, ids=lambda each: each.name)
def test_every_tool_describes_itself_its_arguments_and_its_answer(each: Definition) -> None:
    tool = each.tool()
    description = inspect.cleandoc(tool.description)
    assert len(description.split("\n\n")) >= 2 or len(description) > 100, "what it does, and when to use it"
    assert [name for name, rule in tool.parameters["properties"].items() if "description" not in rule] == []
    assert tool.output_schema is not None
    assert tool.output_schema["type"] == "object"
    assert tool.parameters["additionalProperties"] is False


@pytest.mark.parametrize("each", EVERY, ids=lambda each: each.name)
def test_descriptions_name_only_tools_that_there_are(each: Definition) -> None:
    known = {tool.name for tool in EVERY}
    families = "|".join(sorted({name.split("_")[0] for name in known}))
    words = re.findall(rf"\b(?:{families})_\w+", inspect.cleandoc(each.tool().description))
    arguments = each.tool().parameters["properties"].keys()
    assert set(words) - known - arguments - {"waiting_for_nodes"} == set()


def test_features_have_an_argument_each() -> None:
    features = next(each for each in EVERY if each.name == "hyperpod_update_advanced_features")
    assert features.tool().parameters["properties"].keys() - {"cluster", "plan"} == FeatureChanges.model_fields.keys()
    assert {feature.value for feature in DEFINITIONS} <= FeatureChanges.model_fields.keys()


def test_no_tool_carries_a_secret() -> None:
    for each in EVERY:
        told = str(get_type_hints(each.function)["return"])
        assert not re.search(r"CreatedToken|Session|Ticket", told), each.name


async def test_an_argument_that_a_tool_does_not_have_is_refused_with_those_that_it_has(connect: Connect) -> None:
    async with connect() as client:
        told = await refused(client, "cluster_get_status", colour="red")
    assert told["problem"]["field"] == "/colour"
    assert "cluster" in told["problem"]["remedy"]
    assert told["next"]["tool"] == "cluster_get_status"


async def test_a_tool_that_is_not_served_is_a_problem_that_names_its_toolset(connect: Connect) -> None:
    async with connect(toolsets=[Toolset.DEFAULT]) as client:
        elsewhere = await refused(client, "cluster_delete", cluster="demo")
        nowhere = await refused(client, "cluster_explode")
    assert {each["problem"]["code"] for each in (elsewhere, nowhere)} == {"not_found"}
    assert "INSTANTSTART_TOOLSETS=default,teardown" in elsewhere["problem"]["remedy"]
    assert "tools/list" in nowhere["problem"]["remedy"]


async def test_a_fault_of_a_tool_itself_is_a_problem_that_tells_nothing_of_its_inside(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr("mcp_server.asker.Asker.get", broken)
    async with connect() as client:
        told = await refused(client, "cluster_list_all")
    assert told["problem"]["code"] == "internal"
    assert "hunter2" not in str(told)
    assert "hunter2" in caplog.text


async def test_the_text_of_an_answer_is_its_content_in_as_few_characters_as_json_takes(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("cluster_get_availability_zones", {})
    (text,) = result.content
    assert isinstance(text, TextContent)
    assert text.text == json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))


async def test_an_argument_under_two_names_with_two_values_is_refused(connect: Connect) -> None:
    async with connect() as client:
        told = await refused(client, "cluster_get_status", cluster="one", clusterTag="two")
    assert told["problem"]["code"] == "invalid"
    assert told["problem"]["field"] == "/clusterTag"
