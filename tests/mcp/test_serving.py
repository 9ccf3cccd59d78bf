"""Tools about models: what is asked of people, what is never taken, and how much they answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.deployments import ASK_FOR_GPUS
from contracts.model import Model
from contracts.node_views import NodeView
from contracts.problem import ProblemCode, problem
from mcp_server.extracts import MOST, that_fit
from mcp_server.free_gpus import told
from mcp_server.problems import ASK_THE_USER, for_agents, wrong_argument
from tests.mcp.conftest import answered, refused
from tests.mcp.people import MODES, User
from tests.mcp.recorder import ANSWERS, COMMAND, NOW, Recorder

DEPLOY = "inference_deploy_container"
TOKEN = "hf_" + "x" * 34
LONGEST_ANSWER = 25_000
FREE = {
    "name": "n-1",
    "kind": "hyperpod",
    "group": "workers",
    "instance_type": "ml.g5.8xlarge",
    "ready": True,
    "resources": [{"name": "nvidia.com/gpu", "capacity": 1, "allocatable": 1, "used": 0}],
}


def gateway_with(*nodes: dict[str, Any]) -> Recorder:
    gateway = Recorder()
    gateway.answers["list_nodes"] = {"nodes": list(nodes), "summary": {}, "matching": len(nodes), "read_at": NOW}
    return gateway


@MODES
async def test_a_person_is_asked_how_many_gpus_and_told_what_is_free(mode: str) -> None:
    gateway, user = gateway_with(FREE), User({"gpu_count": 1})
    async with gateway.connected(mode=mode, elicitation_callback=user) as client:
        await answered(client, DEPLOY, command=COMMAND)
    assert "1 of 1 GPUs free on 1 node" in user.asked[0].message
    assert "Qwen/Qwen3-0.6B" in user.asked[0].message
    assert user.fields["gpu_count"]["maximum"] == 16
    (sent,) = gateway.changing
    assert sent.body == {"name": "qwen3-0-6b", "command": COMMAND, "gpu_count": 1}


@MODES
async def test_a_person_who_gives_no_number_has_nothing_deployed(mode: str) -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected(mode=mode, elicitation_callback=User(None)) as client:
        told_so = await refused(client, DEPLOY, command=COMMAND)
    assert told_so["problem"]["code"] == "denied"
    assert gateway.changing == []


async def test_a_client_without_forms_is_told_to_ask_and_what_is_free() -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected() as client:
        told_so = (await refused(client, DEPLOY, command=COMMAND))["problem"]
    assert (told_so["code"], told_so["field"]) == ("invalid", "/gpu_count")
    assert "1 of 1 GPUs free on 1 node" in told_so["detail"]
    assert "Ask the user" in told_so["remedy"]
    assert gateway.changing == []


async def test_a_number_that_the_agent_brings_is_asked_of_nobody() -> None:
    gateway, user = gateway_with(FREE), User()
    async with gateway.connected(elicitation_callback=user) as client:
        await answered(client, DEPLOY, command=COMMAND, gpu_count=0)
    assert user.asked == []
    assert gateway.changing[-1].body["gpu_count"] == 0


async def test_nodes_that_cannot_be_read_do_not_keep_the_question_from_being_asked() -> None:
    gateway = gateway_with(FREE)
    gateway.refusals["list_nodes", "demo"] = problem(ProblemCode.UNAVAILABLE, "the cluster does not answer")
    async with gateway.connected() as client:
        told_so = (await refused(client, DEPLOY, command=COMMAND))["problem"]
    assert "not known now (the cluster does not answer)" in told_so["detail"]


async def test_a_command_that_cannot_be_started_is_told_before_anybody_is_asked() -> None:
    gateway, user = gateway_with(FREE), User()
    finding = {"rule": "shell-syntax", "severity": "error", "message": "& means something", "remedy": "Send shell."}
    gateway.answers["parse_command"] = {"findings": [finding]}
    async with gateway.connected(elicitation_callback=user) as client:
        told_so = (await refused(client, DEPLOY, command="vllm serve m && rm x"))["problem"]
    assert (told_so["field"], told_so["remedy"]) == ("/command", "Send shell.")
    assert user.asked == []


async def test_a_server_whose_command_names_no_model_must_be_named() -> None:
    gateway = gateway_with(FREE)
    gateway.answers["parse_command"] = {"command": {"engine": "custom"}}
    async with gateway.connected() as client:
        await answered(client, DEPLOY, command="serve-it", gpu_count=0, image="i:1")
    assert "name" not in gateway.changing[-1].body


@pytest.mark.parametrize(
    ("tool", "argument", "others"),
    [
        (DEPLOY, "huggingFaceToken", {"command": COMMAND, "gpu_count": 1}),
        (DEPLOY, "hfToken", {"command": COMMAND, "gpu_count": 1}),
        ("inference_update_deployment", "hfToken", {"deployment": "chat"}),
        ("model_download_enhanced", "hfToken", {"modelId": "org/gated"}),
    ],
)
async def test_a_token_is_refused_unused_and_unrepeated(tool: str, argument: str, others: dict[str, Any]) -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected() as client:
        told_so = await refused(client, tool, **{argument: TOKEN}, **others)
    assert told_so["problem"]["field"] == f"/{argument}"
    assert "`credential`" in told_so["problem"]["remedy"]
    assert TOKEN not in json.dumps(told_so)
    assert gateway.asked == []


async def test_a_share_of_a_gpu_is_refused_and_no_share_is_nothing() -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected() as client:
        told_so = await refused(client, DEPLOY, command=COMMAND, gpu_count=1, gpuMemory=8000)
        await answered(client, DEPLOY, command=COMMAND, gpu_count=1, gpuMemory=-1)
    assert told_so["problem"]["field"] == "/gpuMemory"


async def test_a_model_server_whose_origin_is_lost_is_not_changed_in_part() -> None:
    gateway = Recorder()
    gateway.answers["get_deployment"] = {"spec": None}
    async with gateway.connected() as client:
        told_so = await refused(client, "inference_update_deployment", deployment="chat", port=9000)
    assert told_so["problem"]["code"] == "conflict"
    assert gateway.changing == []


async def test_a_problem_points_to_the_argument_that_a_part_came_from() -> None:
    gateway = gateway_with(FREE)
    wrong = [
        {"field": field, "detail": "no", "remedy": "yes"} for field in ("/name", "/resources/cpu", "/labels/a", "/port")
    ]
    refusal = problem(ProblemCode.INVALID, "no").model_dump(mode="json") | {"errors": wrong}
    gateway.refusals["create_deployment", "demo"] = type(problem(ProblemCode.INVALID, "no")).model_validate(refusal)
    async with gateway.connected() as client:
        told_so = await refused(client, DEPLOY, command=COMMAND, gpu_count=1, cpu=-3, options={"labels": {"a": "?"}})
    assert [each["field"] for each in told_so["problem"]["errors"]] == [
        "/deployment",
        "/cpu",
        "/options/labels/a",
        "/port",
    ]


@pytest.mark.parametrize(
    ("tool", "route", "member"),
    [
        ("inference_list_services", "list_services", "services"),
        ("inference_list_deployments", "list_deployments", "deployments"),
        ("model_pool_list", "list_model_pools", "model_pools"),
        ("router_list", "list_routers", "routers"),
        ("endpoint_list", "list_endpoints", "endpoints"),
        ("autoscaler_list", "list_autoscalers", "autoscalers"),
    ],
)
async def test_a_long_list_says_how_much_it_leaves_out(tool: str, route: str, member: str) -> None:
    gateway = Recorder()
    one = next(iter(found[member][0] for found in ANSWERS.values() if found.get(member)), SERVICE)
    gateway.answers[route] = {member: [one] * 500, "read_at": NOW}
    async with gateway.connected() as client:
        page = await answered(client, tool)
    assert 0 < len(page[member]) == 500 - page["left_out"]
    assert len(json.dumps(page)) < LONGEST_ANSWER


SERVICE = {
    "namespace": "default",
    "name": "chat",
    "serves": "deployment",
    "type": "ClusterIP",
    "port": 8000,
    "created_at": NOW,
    "managed": True,
}


async def test_a_long_answer_of_a_model_is_cut_and_says_so() -> None:
    gateway = Recorder()
    gateway.answers["call_model"] = {"text": "a" * 90_000, "reasoning": "b" * 90_000}
    async with gateway.connected() as client:
        reply = await answered(client, "inference_call_model", service_name="chat", prompt="Hi")
        short = Recorder()
    assert len(json.dumps(reply)) < LONGEST_ANSWER
    assert [note.split()[0] for note in reply["notes"]] == ["text", "reasoning"]
    async with short.connected() as client:
        reply = await answered(client, "inference_call_model", service_name="chat", prompt="Hi", local_port=2020)
    assert reply["text"] == "Hello."
    assert "local_port was not used" in reply["notes"][0]


async def test_claims_on_file_systems_are_told_from_those_on_buckets() -> None:
    gateway = Recorder()
    (on_s3,) = (found["claims"][0] for found in ANSWERS.values() if found.get("claims"))
    on_fsx = {**on_s3, "claim": "scratch", "type": "fsx_lustre", "file_system": "fs-0123456789abcdef0"}
    gateway.answers["list_storage"] = {"claims": [on_s3, on_fsx]}
    async with gateway.connected() as client:
        found = await answered(client, "fsx_storage_list")
    assert [each["claim"] for each in found["claims"]] == ["scratch"]


def test_only_nodes_that_take_pods_have_free_gpus() -> None:
    nodes = [
        NodeView.model_validate({**FREE, **change})
        for change in ({}, {"ready": False}, {"unschedulable": True}, {"resources": []})
    ]
    assert told(nodes, more=3) == (
        "ml.g5.8xlarge: 1 of 3 GPUs free on 3 nodes, at most 1 on one (3 nodes more not looked at)."
    )
    assert told([]) == "The cluster has no GPUs now."


class Entry(Model):
    text: str


@given(st.lists(st.integers(0, 9000)))
def test_a_list_is_cut_only_where_the_next_entry_has_no_room(lengths: list[int]) -> None:
    entries = [Entry(text="x" * length) for length in lengths]
    shown, left_out = that_fit(entries)
    size = sum(len(each.model_dump_json()) for each in shown)
    assert shown == entries[: len(shown)]
    assert len(shown) + left_out == len(entries)
    assert size <= MOST
    assert not left_out or size + len(entries[len(shown)].model_dump_json()) > MOST


def test_a_choice_that_is_a_persons_says_so_to_agents_in_the_gateways_own_refusal() -> None:
    refused_by_gateway = wrong_argument("gpu_count", "Field required", ASK_FOR_GPUS)
    heard = for_agents(refused_by_gateway)
    assert heard.remedy == heard.errors[0].remedy == f"{ASK_FOR_GPUS} {ASK_THE_USER}"
    other = wrong_argument("port", "too large", "Use at most 65535.")
    assert for_agents(other) == other
