"""Presets and recipes through the gateway."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from contracts.recipes import RECIPES
from tests.api.conftest import Eventually, Gateway, Name

SECRET = "hf_" + "a" * 30
DOCUMENT: dict[str, Any] = {
    "recipe": {"kind": "llama-factory", "config": "model_name_or_path: m\ndataset: d\noutput_dir: /s3/o\n"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 4,
}


async def save(caller: httpx.AsyncClient, name: str, document: Any = DOCUMENT, **more: Any) -> httpx.Response:
    headers = more.pop("headers", {})
    return await caller.put(f"/api/v1/presets/{name}", json={"document": document, **more}, headers=headers)


async def listed(caller: httpx.AsyncClient) -> set[str]:
    answer = await caller.get("/api/v1/presets", params={"page_size": 200})
    return {each["name"] for each in answer.json()["presets"]}


async def test_recipes_are_listed_with_their_schemas_to_everybody(gateway: Gateway) -> None:
    answer = (await gateway.viewer.get("/api/v1/recipes")).json()
    assert [each["kind"] for each in answer["recipes"]] == list(RECIPES)
    assert all(each["json_schema"]["properties"] for each in answer["recipes"])
    assert (await gateway.anonymous.get("/api/v1/recipes")).status_code == 401


async def test_a_preset_is_saved_in_versions_loaded_and_deleted(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    preset = name("sft")
    first = await save(gateway.operator, preset, comment="first")
    assert (first.status_code, first.headers["ETag"]) == (200, '"1"')
    assert first.json()["preset"]["title"] == "LLaMA-Factory on 1 × ml.g5.12xlarge"
    second = await save(gateway.operator, preset, {**DOCUMENT, "nodes": 2})
    assert second.json()["preset"]["version"] == 2
    same = await save(gateway.operator, preset, {**DOCUMENT, "nodes": 2})
    assert (same.json()["changed"], same.headers["ETag"]) == (False, '"2"')
    loaded = await gateway.operator.get(f"/api/v1/presets/{preset}", params={"version": 1})
    config = {"model_name_or_path": "m", "dataset": "d", "output_dir": "/s3/o"}
    opened = {**DOCUMENT, "recipe": {"kind": "llama-factory", "config": config}}
    assert loaded.json()["version"]["document"] == opened
    assert (await save(gateway.operator, preset, {**opened, "nodes": 2})).json()["changed"] is False
    assert loaded.json()["problem"] is None
    last = await gateway.operator.get(f"/api/v1/presets/{preset}")
    assert (last.json()["version"]["version"], last.headers["ETag"]) == (2, '"2"')
    missing = await gateway.operator.get(f"/api/v1/presets/{preset}", params={"version": 9})
    assert missing.status_code == 404
    assert "1 to 2" in missing.json()["detail"]

    await eventually(lambda: listed(gateway.operator), lambda names: preset in names)
    assert (await gateway.operator.delete(f"/api/v1/presets/{preset}")).status_code == 204
    assert (await gateway.operator.get(f"/api/v1/presets/{preset}")).status_code == 404
    assert (await gateway.operator.delete(f"/api/v1/presets/{preset}")).status_code == 404


async def test_what_others_do_not_share_is_not_there_for_anybody_but_administrators(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    preset = name("mine")
    await save(gateway.agent, preset)

    for caller in (gateway.agent, gateway.admin):
        await eventually(partial(listed, caller), lambda names: preset in names)
    for caller in (gateway.viewer, gateway.operator):
        assert preset not in await listed(caller)
        assert (await caller.get(f"/api/v1/presets/{preset}")).status_code == 404
    taken = await save(gateway.operator, preset, {**DOCUMENT, "nodes": 3})
    assert (taken.status_code, taken.json()["field"]) == (409, "/name")
    await save(gateway.agent, preset, shared=True)
    for caller in (gateway.viewer, gateway.operator):
        assert (await caller.get(f"/api/v1/presets/{preset}")).status_code == 200
    assert (await save(gateway.operator, preset, {**DOCUMENT, "nodes": 3})).status_code == 200
    assert (await save(gateway.viewer, preset, {**DOCUMENT, "nodes": 4})).status_code == 403


async def test_an_agent_does_not_change_what_others_share(gateway: Gateway, name: Name) -> None:
    preset = name("shared")
    await save(gateway.operator, preset, shared=True)
    assert (await save(gateway.agent, preset, {**DOCUMENT, "nodes": 3})).status_code == 403
    assert (await gateway.agent.delete(f"/api/v1/presets/{preset}")).status_code == 403


@pytest.mark.parametrize("tag", ['"1"', "1", 'W/"1"'])
async def test_a_version_that_is_not_the_last_one_any_more_is_412(gateway: Gateway, name: Name, tag: str) -> None:
    preset = name("stale")
    await save(gateway.operator, preset)
    kept = await save(gateway.operator, preset, {**DOCUMENT, "nodes": 2}, headers={"If-Match": tag})
    assert kept.status_code == 200
    late = await save(gateway.operator, preset, {**DOCUMENT, "nodes": 3}, headers={"If-Match": tag})
    assert late.status_code == 412
    assert "version 2" in late.json()["detail"]
    there = await save(gateway.operator, preset, {**DOCUMENT, "nodes": 3}, headers={"If-None-Match": "*"})
    assert there.status_code == 412
    gone = await gateway.operator.delete(f"/api/v1/presets/{preset}", headers={"If-Match": tag})
    assert gone.status_code == 412


async def test_a_version_is_a_number(gateway: Gateway, name: Name) -> None:
    wrong = await save(gateway.operator, name("tag"), headers={"If-Match": "abc"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/If-Match")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpus_per_node": "four"}, "/document/gpus_per_node"),
        (
            {"recipe": {"kind": "llama-factory", "config": {"hf_hub_token": SECRET}}},
            "/document/recipe/config/hf_hub_token",
        ),
        ({"recipe": {"kind": "script", "project_path": "/s3/a", "entry": "run.sh"}}, "/document/recipe/entry"),
        ({"env": {"HF_TOKEN": SECRET}}, "/document/env/HF_TOKEN"),
        ({"name": "run"}, "/document/name"),
        ({"nodez": 2}, "/document/nodez"),
    ],
)
async def test_a_preset_is_checked_as_a_run_is(
    gateway: Gateway, name: Name, change: dict[str, Any], field: str
) -> None:
    preset = name("wrong")
    answer = await save(gateway.operator, preset, {**DOCUMENT, **change})
    assert answer.status_code == 422, answer.text
    assert field in {answer.json().get("field"), *(each["field"] for each in answer.json().get("errors", []))}
    assert SECRET not in answer.text
    assert (await gateway.operator.get(f"/api/v1/presets/{preset}")).status_code == 404


async def test_without_a_worker_saving_is_refused_and_lists_are_there(abandoned: tuple[Gateway, Any]) -> None:
    gateway, _ = abandoned
    refused = await save(gateway.operator, "nobody")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert (await gateway.operator.get("/api/v1/presets")).json()["presets"] == []
