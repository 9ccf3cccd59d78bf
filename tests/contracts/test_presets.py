"""Presets as documents: what is loaded and what wins; and which versions are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.preset_loading import assigned, loaded, merged, reference, setting
from contracts.presets import (
    LARGEST,
    LARGEST_IN_ALL,
    MOST_VERSIONS,
    PresetState,
    SavePreset,
    SaveVersion,
    size_of,
)
from contracts.training import TrainingSpec

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RECIPES = st.sampled_from(
    [
        {"kind": "pytorch", "script_path": "/s3/code/train.py", "arguments": ["--lr", "1e-5"]},
        {"kind": "script", "project_path": "/s3/code", "entry": "train.py"},
        {"kind": "llama-factory", "config": {"model_name_or_path": "m", "dataset": "d", "output_dir": "/s3/o"}},
        {"kind": "ms-swift", "config": "model: m\ndataset: d\n"},
        {"kind": "torchtitan", "config": "[training]\nsteps = 10\n"},
    ]
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "recipe": RECIPES,
        "instance_types": st.just(["ml.p5.48xlarge"]),
        "gpus_per_node": st.sampled_from([1, 2, 4, 8]),
        "image": st.just("example.com/train:1.0"),
    },
    optional={
        "namespace": st.sampled_from(["default", "ml"]),
        "nodes": st.integers(1, 16),
        "env": st.dictionaries(st.sampled_from(["LEVEL", "A_B"]), st.sampled_from(["1", "x y"]), max_size=2),
        "keep_logs": st.booleans(),
        "deadline_hours": st.floats(1, 100),
    },
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "nodes": st.integers(1, 16),
        "namespace": st.sampled_from(["default", "other"]) | st.none(),
        "env": st.just({"LEVEL": None, "MORE": "2"}) | st.none(),
        "keep_logs": st.booleans() | st.none(),
        "recipe": RECIPES,
    },
)
SETTINGS = st.lists(st.sampled_from(["nodes=3", "gpus_per_node=2", "env.X=hello", "keep_logs=false"]), max_size=3)


@given(document=DOCUMENTS, changes=CHANGES, settings_=SETTINGS)
def test_a_preset_with_a_name_and_changes_over_it_is_the_body_of_a_run(
    document: dict[str, Any], changes: dict[str, Any], settings_: list[str]
) -> None:
    before = json.dumps(document)
    body = loaded(document, {"name": "run", **changes}, [setting(each) for each in settings_])
    spec = TrainingSpec.model_validate(body)
    assert spec.name == "run"
    assert json.dumps(document) == before
    last = next((int(each.partition("=")[2]) for each in reversed(settings_) if each.startswith("nodes=")), None)
    assert spec.nodes == (last or changes.get("nodes") or document.get("nodes") or 1)
    if "recipe" in changes:
        assert spec.recipe.kind == changes["recipe"]["kind"]


@given(document=DOCUMENTS)
def test_a_preset_alone_is_what_was_saved(document: dict[str, Any]) -> None:
    assert loaded(document, {}) == document
    assert loaded(document, document) == document
    assert loaded({}, document) == document


@given(document=DOCUMENTS, changes=CHANGES)
def test_what_is_given_wins_and_giving_it_twice_changes_nothing(
    document: dict[str, Any], changes: dict[str, Any]
) -> None:
    once = loaded(document, changes)
    assert loaded(once, changes) == once
    for name, value in changes.items():
        if value is None:
            assert name not in once


def test_another_kind_of_recipe_takes_the_saved_ones_place_and_the_same_kind_is_changed_in_part() -> None:
    saved = {"recipe": {"kind": "pytorch", "module": "a", "arguments": ["x"]}}
    other = {"recipe": {"kind": "script", "project_path": "/s3/a", "entry": "b.py"}}
    assert merged(saved, other) == other
    assert merged(saved, {"recipe": {"module": "b"}}) == {"recipe": {**saved["recipe"], "module": "b"}}


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("nodes=4", ["nodes"], 4),
        ("recipe.config.learning_rate=1e-5", ["recipe", "config", "learning_rate"], 1e-5),
        ("a=", ["a"], ""),
        ("a=null", ["a"], None),
        ("a=true", ["a"], True),
        ("a=[1, x]", ["a"], [1, "x"]),
        ('a={"b": 1}', ["a"], {"b": 1}),
        ("a=x=y", ["a"], "x=y"),
        ("a=2026-11-30", ["a"], "2026-11-30"),
        ("a='4'", ["a"], "4"),
        ("a=[", ["a"], "["),
        ("a=.nan", ["a"], ".nan"),
        ('labels."example.com/team"=x', ["labels", "example.com/team"], "x"),
        ("storage.0.claim=fsx", ["storage", "0", "claim"], "fsx"),
    ],
)
def test_a_setting_is_a_path_and_what_its_text_looks_like(text: str, path: list[str], value: Any) -> None:
    assert setting(text) == (path, value)


@pytest.mark.parametrize("text", ["", "nodes", "=4", "a..b=1", '"a=1', ".a=1"])
def test_a_setting_without_a_path_and_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="path=value"):
        setting(text)


def test_a_path_goes_through_lists_by_position_and_never_through_plain_values() -> None:
    document = {"a": [{"b": 1}], "n": 3}
    assert assigned(document, ["a", "0", "b"], 2) == {"a": [{"b": 2}], "n": 3}
    assert assigned(document, ["a", "1", "c"], 2) == {"a": [{"b": 1}, {"c": 2}], "n": 3}
    assert assigned(document, ["x", "y"], 2) == {**document, "x": {"y": 2}}
    text = {"recipe": {"config": "a: 1\nb: 2\n"}}
    assert assigned(text, ["recipe", "config", "a"], 3) == {"recipe": {"config": {"a": 3, "b": 2}}}
    for path in (["n", "m"], ["a", "7"], ["a", "x"]):
        with pytest.raises(ValueError, match=path[1]):
            assigned(document, path, 1)


@given(st.text(max_size=40))
@example('a."b')
@example("a=!!python/object/apply:os.system [x]")
@example("a=&x [*x]")
def test_no_text_makes_a_setting_fail_otherwise_than_by_its_message(text: str) -> None:
    try:
        _, value = setting(text)
    except ValueError:
        return
    json.dumps(value)


def test_a_reference_names_a_preset_and_maybe_a_version() -> None:
    assert reference("sft") == ("sft", None)
    assert reference("sft@3") == ("sft", 3)
    for text in ("", "@3", "a@", "a@0", "a@b", "a b"):
        with pytest.raises(ValueError, match="NAME@VERSION"):
            reference(text)


def asked(document: dict[str, Any], **more: Any) -> SaveVersion:
    return SaveVersion(name="p", kind="training", document=document, by="alice", **more)


@given(
    st.lists(st.sampled_from([{"nodes": 1}, {"nodes": 1.0}, {"nodes": True}, {"nodes": 2}]), min_size=1, max_size=40)
)
def test_a_version_is_made_where_something_is_new_and_the_last_twenty_are_kept(documents: list[dict[str, Any]]) -> None:
    state, made, last = PresetState(name="p"), 0, ""
    for document in documents:
        state = state.with_version(asked(document), NOW)
        text = json.dumps(document)
        made, last = made + (text != last), text
        assert state.summary.version == made
        assert json.dumps(state.versions[-1].document) == text
    numbers = [each.version for each in state.versions]
    assert numbers == list(range(max(1, made - MOST_VERSIONS + 1), made + 1))


def test_an_entity_stays_within_what_one_payload_may_hold() -> None:
    state = PresetState(name="p")
    for number in range(MOST_VERSIONS):
        state = state.with_version(asked({"n": number, "text": "x" * (LARGEST - 100)}), NOW)
    assert sum(size_of(each.document) for each in state.versions) <= LARGEST_IN_ALL
    assert state.summary.version == MOST_VERSIONS
    assert state.find(1) is None
    assert state.find(None) == state.find(MOST_VERSIONS) == state.versions[-1]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"document": {"name": "x"}}, "/document/name"),
        ({"document": {"text": "x" * LARGEST}}, "/document"),
    ],
)
def test_a_preset_has_no_runs_name_and_a_limit(body: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SavePreset.model_validate(body)
    assert caught.value.errors()[0]["ctx"]["pointer"] == pointer
