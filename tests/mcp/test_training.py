"""Tools about training: what is asked of people, how presets are loaded, and how much of logs, diagnoses and histories
they answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.problem import ProblemCode, problem
from mcp_server.extracts import fitted
from tests.mcp.conftest import answered, refused
from tests.mcp.people import MODES, User
from tests.mcp.recorder import ANSWERS, NOW, RUN_SPEC, Recorder
from tests.mcp.test_serving import FREE, LONGEST_ANSWER, gateway_with

SUBMIT = "training_submit"
RECIPE = RUN_SPEC["recipe"]
TYPES = ["ml.g5.12xlarge"]
ASKED = {"run": "sft", "recipe": RECIPE, "instance_types": TYPES}


@MODES
async def test_a_person_is_asked_for_the_gpus_of_each_node_and_told_what_is_free(mode: str) -> None:
    gateway, user = gateway_with(FREE), User({"gpus_per_node": 4})
    async with gateway.connected(mode=mode, elicitation_callback=user) as client:
        await answered(client, SUBMIT, **ASKED, nodes=2)
    assert "each of the 2 nodes" in user.asked[0].message
    assert "1 of 1 GPUs free on 1 node" in user.asked[0].message
    assert user.fields["gpus_per_node"]["maximum"] == 16
    (sent,) = gateway.changing
    assert sent.body == {"name": "sft", "recipe": RECIPE, "instance_types": TYPES, "nodes": 2, "gpus_per_node": 4}


@MODES
async def test_a_person_who_gives_no_number_has_nothing_submitted(mode: str) -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected(mode=mode, elicitation_callback=User(None)) as client:
        told = await refused(client, SUBMIT, **ASKED)
    assert told["problem"]["code"] == "denied"
    assert gateway.changing == []


async def test_a_client_without_forms_is_told_to_ask_for_the_gpus_and_what_is_free() -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected() as client:
        told = (await refused(client, SUBMIT, **ASKED))["problem"]
    assert (told["code"], told["field"]) == ("invalid", "/gpus_per_node")
    assert "1 of 1 GPUs free on 1 node" in told["detail"]
    assert "Ask the user" in told["remedy"]
    assert gateway.changing == []


@pytest.mark.parametrize("brought", [{"gpus_per_node": 0}, {"options": {"gpus_per_node": 0}}, {"preset": "sft-8b"}])
async def test_a_number_that_the_agent_or_a_preset_brings_is_asked_of_nobody(brought: dict[str, Any]) -> None:
    gateway, user = gateway_with(FREE), User()
    async with gateway.connected(elicitation_callback=user) as client:
        await answered(client, SUBMIT, **ASKED, **brought)
    assert user.asked == []
    assert gateway.changing[-1].body["gpus_per_node"] == (4 if "preset" in brought else 0)


@MODES
async def test_a_preset_without_a_number_leaves_the_question_to_a_person(mode: str) -> None:
    gateway, user = gateway_with(FREE), User({"gpus_per_node": 2})
    held = {name: value for name, value in RUN_SPEC.items() if name != "gpus_per_node"}
    version = {"version": 1, "kind": "training", "document": held, "saved_by": "me", "saved_at": NOW}
    gateway.answers["get_preset"] = {"version": version}
    async with gateway.connected(mode=mode, elicitation_callback=user) as client:
        await answered(client, SUBMIT, run="sft", preset="sft-8b")
    assert gateway.changing[-1].body == {"name": "sft", **held, "gpus_per_node": 2}


async def test_a_recipe_of_another_kind_takes_the_place_of_the_presets() -> None:
    gateway = gateway_with(FREE)
    other = {"kind": "script", "project_path": "/s3/code/mine", "entry": "train.py"}
    async with gateway.connected() as client:
        await answered(client, SUBMIT, run="sft", preset="sft-8b@3", recipe=other)
    loading = next(each for each in gateway.asked if each.name == "get_preset")
    assert (loading.places, loading.query) == ({"name": "sft-8b"}, {"version": ["3"]})
    assert gateway.changing[-1].body["recipe"] == other


@pytest.mark.parametrize("preset", ["a b", "sft@none", "sft@0"])
async def test_what_is_no_preset_is_refused_before_anything_is_asked(preset: str) -> None:
    gateway = gateway_with(FREE)
    async with gateway.connected() as client:
        told = (await refused(client, SUBMIT, **ASKED, gpus_per_node=1, preset=preset))["problem"]
    assert told["field"] == "/preset"
    assert gateway.asked == []


async def test_a_preset_that_is_not_there_leads_to_the_list_of_those_that_are() -> None:
    gateway = gateway_with(FREE)
    gateway.refusals["get_preset", "gone"] = problem(ProblemCode.NOT_FOUND, "there is none", field="/name")
    async with gateway.connected() as client:
        told = await refused(client, SUBMIT, **ASKED, gpus_per_node=1, preset="gone")
    assert (told["problem"]["field"], told["next"]["tool"]) == ("/preset", "preset_list")


@pytest.mark.parametrize(
    ("version", "headers"),
    [(None, {}), (0, {"if-none-match": "*"}), (3, {"if-match": '"3"'}), ("x", {"if-match": '"x"'})],
)
async def test_a_preset_is_saved_upon_the_version_that_was_seen(version: Any, headers: dict[str, str]) -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        await answered(client, "preset_save", preset="sft-8b", document=RUN_SPEC, upon_version=version)
    sent = gateway.changing[-1].headers
    assert {name: sent[name] for name in ("if-match", "if-none-match") if name in sent} == headers


async def test_recipes_are_listed_without_schemas_and_one_with_its_own() -> None:
    gateway = Recorder()
    one: dict[str, Any] = {"title": "t", "description": "d", "submissions": ["hyperpod"], "image": None, "defaults": {}}
    schema = {"type": "object"}
    gateway.answers["list_recipes"] = {
        "recipes": [{"kind": kind, "json_schema": schema, **one} for kind in ("pytorch", "verl")]
    }
    async with gateway.connected() as client:
        every = (await answered(client, "recipe_list"))["recipes"]
        (chosen,) = (await answered(client, "recipe_list", kind="verl"))["recipes"]
        wrong = (await refused(client, "recipe_list", kind="jax"))["problem"]
    assert [(each["kind"], each["json_schema"]) for each in every] == [("pytorch", None), ("verl", None)]
    assert (chosen["kind"], chosen["json_schema"]) == ("verl", schema)
    assert "pytorch, verl" in wrong["remedy"]


def line(number: int, length: int = 80, rank: int | None = 0) -> dict[str, Any]:
    at = datetime.fromtimestamp(1_800_000_000 + number, UTC).isoformat().replace("+00:00", "Z")
    return {"at": at, "pod": "sft-pods-0", "container": "main", "rank": rank, "text": f"{number} ".ljust(length, "x")}


@pytest.mark.parametrize(
    ("count", "length", "cut"), [(1, 32_000, 1), (100, 80, 0), (200, 5_000, 200), (200, 99, 200), (50, 300, 0)]
)
@pytest.mark.parametrize(("tool", "arguments"), [("training_logs", {"run": "sft"}), ("pod_logs", {"pod": "p"})])
async def test_no_line_of_a_page_is_lost_however_long_they_are(
    tool: str, arguments: dict[str, Any], count: int, length: int, cut: int
) -> None:
    gateway = Recorder()
    answer = {"lines": [line(number, length) for number in range(count)]}
    gateway.answers["read_training_log"] = gateway.answers["read_pod_log"] = answer
    async with gateway.connected() as client:
        page = await answered(client, tool, **arguments, lines=count)
    assert len(page["lines"]) == count
    assert page["cut"] == sum(each.endswith("…") for each in page["lines"])
    assert page["cut"] == cut
    assert all(f"rank 0: {number} " in each for number, each in enumerate(page["lines"]))
    assert len(json.dumps(page, ensure_ascii=False)) < LONGEST_ANSWER


@pytest.mark.parametrize(("asked", "sent"), [(5000, "200"), (20, "20"), ("many", "many"), (-1, "-1")])
async def test_no_more_lines_are_asked_for_than_an_answer_holds(asked: Any, sent: str) -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        await answered(client, "training_logs", run="sft", lines=asked)
    assert gateway.asked[-1].query["limit"] == gateway.asked[-1].query["tail"] == [sent]


async def test_a_log_of_a_hundred_pods_tells_of_those_in_trouble() -> None:
    gateway = Recorder()
    streams = [
        {"pod": f"sft-pods-{number}", "container": "main", "uid": "u", "state": "running" if number else "ended"}
        for number in range(100)
    ]
    gateway.answers["read_training_log"] = {"streams": list(reversed(streams)), "lines": [line(1, rank=None)]}
    async with gateway.connected() as client:
        page = await answered(client, "training_logs", run="sft")
    assert page["containers"][0]["pod"] == "sft-pods-0"
    assert len(page["containers"]) + page["more_containers"] == 100
    assert "sft-pods-0: 1 x" in page["lines"][0]


ENTRY = {"source": "log", "subject": "pod sft-0", "text": "x" * 1000}


def cause(number: int, **more: Any) -> dict[str, Any]:
    told = {"title": "t", "explanation": "e" * 400, "fix": "f" * 300, "source": "https://example.com"}
    return {"rule": f"rule-{number}", "confidence": 0.9, "evidence": [ENTRY] * 12, **told, **more}


async def test_a_long_diagnosis_keeps_its_causes_and_the_gravest_of_its_timeline() -> None:
    gateway = Recorder()
    severities = ["info", "warning", "error"] * 60
    timeline = [{**ENTRY, "severity": each, "subject": f"entry {n}"} for n, each in enumerate(severities)]
    step = {"level": "reboot", "operation": "reboot-nodes", "spec": {"nodes": ["n-1"]}, "why": "its GPU is lost"}
    unread = {"source": "quota", "what": "quotas", "ok": False, "problem": "denied"}
    gateway.answers["diagnose"] = {
        "causes": [cause(1, next_step=step), *map(cause, range(2, 6))],
        "timeline": timeline,
        "more_entries": 7,
        "read": [unread, {"source": "node", "what": "nodes", "ok": True}],
    }
    async with gateway.connected() as client:
        told = await answered(client, "diagnose_problem", kind="cluster")
    assert len(json.dumps(told)) < LONGEST_ANSWER
    assert told["causes"][0]["rule"] == "rule-1"
    assert all(len(each["evidence"]) + each["more_evidence"] == 12 for each in told["causes"])
    assert {each["severity"] for each in told["timeline"]} == {"error"}
    shown = [int(each["subject"].split()[1]) for each in told["timeline"]]
    assert shown == sorted(shown)
    assert told["more_entries"] == 7 + len(timeline) - len(shown)
    assert "reboot (reboot-nodes; plan_make" in told["next"]
    assert (told["sources"], [each["what"] for each in told["unread"]]) == (2, ["quotas"])


async def test_what_is_not_explained_is_said_not_to_be() -> None:
    async with Recorder().connected() as client:
        told = await answered(client, "diagnose_problem", kind="cluster")
    assert told["causes"] == []
    assert "Do not guess" in told["next"]


async def test_an_operation_is_diagnosed_on_its_own_cluster_unless_another_is_named() -> None:
    gateway = Recorder()
    async with gateway.connected() as client:
        for given_, expected in (({}, "other"), ({"cluster": "demo"}, "demo")):
            await answered(client, "diagnose_problem", kind="operation", name="create-cluster/other", **given_)
            assert gateway.asked[-1].places == {"tag": expected}


async def test_a_run_whose_recipe_is_a_long_script_is_shown_without_it() -> None:
    gateway = Recorder()
    script = {"kind": "pytorch", "script_text": "print(1)\n" * 5000}
    gateway.answers["get_training_run"] = {"spec": {"name": "sft", **RUN_SPEC, "recipe": script, "image": "i:1"}}
    async with gateway.connected() as client:
        told = await answered(client, "training_get", run="sft")
    assert told["spec"] is None
    assert "operation_get_spec" in told["notes"][0]
    assert len(json.dumps(told)) < LONGEST_ANSWER


async def test_a_run_with_very_much_in_it_does_not_take_the_room_of_the_others() -> None:
    gateway = Recorder()
    large = {
        "run_id": "a",
        "experiment_id": "1",
        "status": "FINISHED",
        "metrics": {f"loss_{number}": number / 3 for number in range(300)},
        "parameters": {f"option_{number}": "v" * 250 for number in range(300)},
    }
    gateway.answers["search_runs"] = {"runs": [large, {**large, "run_id": "b", "parameters": {}, "metrics": {"x": 1}}]}
    async with gateway.connected() as client:
        page = await answered(client, "experiment_search_runs", tracking_server="research")
    first, second = page["runs"]
    assert first["metrics"]["loss_0"] == 0
    assert first["more"] == 600 - len(first["metrics"]) - len(first["parameters"])
    assert (second["run_id"], second["metrics"], second["more"]) == ("b", {"x": 1}, 0)
    assert len(json.dumps(page)) < LONGEST_ANSWER


async def test_histories_and_comparisons_of_many_metrics_say_what_they_leave_out() -> None:
    gateway = Recorder()
    run = {"run_id": "a", "experiment_id": "1", "status": "FINISHED"}
    points = [{"step": step, "value": 1 / (step + 1), "at": NOW} for step in range(200)]
    histories = [{"metric": f"m{number}", "points": points, "recorded": 900} for number in range(20)]
    gateway.answers["get_run"] = {"run": run, "histories": histories}
    compared = {"steps": list(range(200)), "values": {run: [1 / 3] * 200 for run in "abcdefgh"}}
    gateway.answers["compare_runs"] = {
        "runs": [{**run, "run_id": each, "parameters": {"lr": "1"}} for each in "abcdefgh"],
        "metrics": [{"metric": f"m{number}", **compared} for number in range(20)],
        "differing": {f"p{number}": ["v" * 250] * 8 for number in range(100)},
    }
    server = {"tracking_server": "research"}
    async with gateway.connected() as client:
        one = await answered(client, "experiment_get_run", **server, run_id="a", points=200)
        many = await answered(client, "experiment_compare_runs", **server, run_ids=list("abcdefgh"), points=200)
    assert one["histories"][0]["values"][:3] == [1.0, 0.5, 0.333333]
    assert len(one["histories"]) + one["left_out"] == 20
    assert len(many["metrics"]) + many["left_out"] == 20
    assert 0 < len(many["differing"]) == 100 - many["more_differing"]
    for each in (one, many):
        assert len(json.dumps(each, ensure_ascii=False)) < LONGEST_ANSWER


@pytest.mark.parametrize(
    ("tool", "route", "member", "arguments"),
    [
        ("training_list", "list_training_runs", "runs", {}),
        ("ray_cluster_list", "list_ray_clusters", "ray_clusters", {}),
        ("tracking_server_list", "list_tracking_servers", "servers", {}),
        ("experiment_list", "list_experiments", "experiments", {"tracking_server": "research"}),
    ],
)
async def test_a_long_list_says_how_much_it_leaves_out(
    tool: str, route: str, member: str, arguments: dict[str, Any]
) -> None:
    gateway = Recorder()
    one = next(found[member][0] for name, found in ANSWERS.items() if found.get(member) and name.__name__ != "RunList")
    gateway.answers[route] = {member: [one] * 500}
    async with gateway.connected() as client:
        page = await answered(client, tool, **arguments)
    assert 0 < len(page[member]) == 500 - page["left_out"]
    assert len(json.dumps(page)) < LONGEST_ANSWER


@given(st.lists(st.integers(0, 9000)), st.integers(0, 20_000))
def test_texts_are_cut_only_where_they_have_no_room_together_and_the_longest_first(
    lengths: list[int], room: int
) -> None:
    shown, short = fitted(["x" * length for length in lengths], room)
    kept = [each.rstrip("…") for each in shown]
    assert len(shown) == len(lengths)
    assert sum(map(len, kept)) <= max(room, 0) or not short
    assert short == sum(each.endswith("…") for each in shown)
    assert bool(short) is (sum(lengths) > room)
    longest = max((len(each) for each in kept), default=0)
    assert all(len(text) == length or len(text) == longest for text, length in zip(kept, lengths, strict=True))
