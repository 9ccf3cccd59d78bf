"""Skills are valid by the Agent Skills specification, and speak of tools that there are."""

from __future__ import annotations

import re

import jsonschema_rs
import pytest

from mcp_server.toolsets import Toolset
from tests.skills.reading import SKILLS, TOOLS, Skill, allowed

FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
READ_ONLY = ("investigate-creation-failure", "investigate-nccl", "investigate-node-health")

every = pytest.mark.parametrize("skill", SKILLS.values(), ids=lambda skill: skill.name)


def test_there_is_a_skill_for_each_part_of_a_clusters_life() -> None:
    assert set(SKILLS) == {
        "add-capacity",
        "create-cluster",
        "deploy-model",
        "manage-features",
        "model-pool",
        "repair-nodes",
        "teardown",
        "train-model",
        *READ_ONLY,
    }


@every
def test_the_frontmatter_is_as_the_specification_has_it(skill: Skill) -> None:
    front = skill.frontmatter
    assert skill.text.startswith("---\n")
    assert set(front) <= FIELDS
    assert front["name"] == skill.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert len(front["name"]) <= 64
    assert 0 < len(front["description"]) <= 1024
    assert 0 < len(front["compatibility"]) <= 500
    assert isinstance(front["allowed-tools"], str)
    assert all(isinstance(part, str) for pair in front["metadata"].items() for part in pair)
    assert re.fullmatch(r"\d+\.\d+", front["metadata"]["version"])


@every
def test_the_description_says_when_and_when_not(skill: Skill) -> None:
    said = skill.frontmatter["description"]
    assert "Use it when" in said
    assert re.search(r"\bNot for\b", said)
    assert set(re.findall(r"\(([a-z]+-[a-z-]+)[ ,)]", said)) <= set(SKILLS)


@every
def test_it_is_short_and_loads_what_is_long_on_demand(skill: Skill) -> None:
    assert len(skill.text.splitlines()) < 300
    assert len(skill.body) < 4 * 5000  # Below 5,000 tokens, at four characters for each.
    for text in skill.references.values():
        assert len(text.splitlines()) <= 100
    assert set(skill.links) == set(skill.references)


@every
def test_it_holds_the_three_rules_and_says_what_to_do_about_errors(skill: Skill) -> None:
    rules = skill.body.partition("## Rules")[2].partition("\n## ")[0]
    for rule in ("Inspect before offering", "Ask ", "verified end", "data"):
        assert rule in rules
    assert "## When something goes wrong" in skill.body
    assert "may not do" in skill.body or "never does" in skill.body


@every
def test_the_tools_that_it_names_exist(skill: Skill) -> None:
    assert skill.tools <= set(TOOLS)
    assert len(skill.calls) > 5


@every
def test_the_arguments_that_it_shows_exist_and_fit(skill: Skill) -> None:
    for call in skill.calls:
        schema = TOOLS[call.tool].tool().parameters
        assert set(call.arguments) <= set(schema["properties"]), call
        for name in set(call.arguments) - call.placeholders:
            rule = {**schema["properties"][name], "$defs": schema.get("$defs", {})}
            assert jsonschema_rs.is_valid(rule, call.arguments[name]), (call, name)


@every
def test_calls_that_act_name_all_that_the_tool_requires(skill: Skill) -> None:
    for call in skill.calls:
        assert set(TOOLS[call.tool].tool().parameters.get("required", [])) <= set(call.arguments), call


@every
def test_its_toolsets_are_those_of_its_tools(skill: Skill) -> None:
    needed = {TOOLS[name].toolset.value for name in skill.tools} | {Toolset.DEFAULT.value}
    assert set(skill.frontmatter["metadata"]["toolsets"].split()) == needed
    for toolset in needed:
        assert toolset in skill.frontmatter["compatibility"]


@every
def test_only_what_reads_runs_without_asking(skill: Skill) -> None:
    assert list(allowed(skill)) == [name for name, tool in TOOLS.items() if name in skill.tools and tool.reads]


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_skill_that_investigates_names_no_tool_that_changes_something(name: str) -> None:
    assert SKILLS[name].frontmatter["metadata"]["access"] == "read-only"
    assert all(TOOLS[tool].reads for tool in SKILLS[name].tools)
