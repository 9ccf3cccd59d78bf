"""Commands about presets: what they ask for, and what they print; and a preset under other commands' options."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from cli.gateway import connect
from cli.presets import with_preset
from contracts.presets import PresetDetail, PresetList, PresetSummary, PresetVersion, SavedPreset
from contracts.problem import ProblemCode, problem
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
NOW = datetime(2026, 11, 30, tzinfo=UTC)
PATH = "/api/v1/presets/sft"
DOCUMENT: dict[str, Any] = {"recipe": {"kind": "pytorch", "module": "a"}, "nodes": 2, "gpus_per_node": 4}


def summary(**more: Any) -> PresetSummary:
    known = {"name": "sft", "kind": "training", "title": "PyTorch", "owner": "alice", "shared": False, "version": 3}
    return PresetSummary.model_validate({**known, "oldest": 1, "saved_by": "bob", "saved_at": NOW, **more})


def detail(version: int = 3) -> Any:
    kept = PresetVersion(version=version, kind="training", document=DOCUMENT, saved_by="bob", saved_at=NOW, comment="c")
    return PresetDetail(preset=summary(), version=kept, problem=None).model_dump(mode="json")


def test_presets_are_listed(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", "/api/v1/presets"] = (200, PresetList(presets=[summary()]).model_dump(mode="json"))
    ran = cli("preset", "list")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[1].split()[:4] == ["sft", "3", "alice", "no"]


def test_a_version_is_shown_as_the_yaml_that_can_be_saved_again(gateway: Gateway, cli: Cli, tmp_path: Path) -> None:
    gateway.answers["GET", PATH] = (200, detail(2))
    ran = cli("preset", "get", "sft@2")
    assert gateway.requests("GET", "/presets/sft")[0].query == {"version": "2"}
    assert ran.out.startswith("# sft@2 of alice, saved by bob\n# c\n")
    file = tmp_path / "again.yaml"
    file.write_text(ran.out)
    gateway.answers["PUT", PATH] = (200, SavedPreset(preset=summary(), changed=False).model_dump(mode="json"))
    ran = cli("preset", "save", "sft", "-f", str(file), "--if-version", "3")
    (asked,) = gateway.requests("PUT", "/presets/sft")
    assert asked.body == {"document": DOCUMENT, "comment": ""}
    assert asked.headers["if-match"] == '"3"'
    assert "version 3 already" in ran.out


def test_a_preset_is_saved_from_another_with_changes_and_without_a_runs_name(
    gateway: Gateway, cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"name": "run-7", "env": {"A": "1"}}))
    gateway.answers["GET", PATH] = (200, detail())
    saved = SavedPreset(preset=summary(name="new", version=1), changed=True)
    gateway.answers["PUT", "/api/v1/presets/new"] = (200, saved.model_dump(mode="json"))
    words = ("--preset", "sft", "-f", str(file), "--set", "nodes=4", "--shared", "-m", "more", "--if-version", "0")
    ran = cli("preset", "save", "new", *words)
    (asked,) = gateway.requests("PUT", "/presets/new")
    assert asked.body == {"document": {**DOCUMENT, "env": {"A": "1"}, "nodes": 4}, "comment": "more", "shared": True}
    assert asked.headers["if-none-match"] == "*"
    assert ran.out == "new has version 1 now\n"


def test_a_preset_is_deleted_and_one_that_there_is_not_is_exit_code_3(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["DELETE", PATH] = (200, {})
    assert cli("preset", "delete", "sft").code == 0
    missing = problem(ProblemCode.NOT_FOUND, "there is no preset 'x' that you may load")
    gateway.answers["GET", "/api/v1/presets/x"] = (404, missing.model_dump(mode="json"))
    assert cli("preset", "get", "x").code == 3


@pytest.mark.parametrize(
    "words",
    [("preset", "get", "a@b"), ("preset", "save", "a"), ("preset", "save", "a", "--set", "nodes")],
)
def test_what_is_written_wrongly_is_exit_code_2(gateway: Gateway, cli: Cli, words: tuple[str, ...]) -> None:
    assert cli(*words).code == 2
    assert gateway.asked == []


@pytest.mark.parametrize("words", [("preset", "save", "sft"), ("train", "submit", "demo", "sft")])
def test_a_file_that_grows_by_its_anchors_is_refused_before_anything_is_sent(
    gateway: Gateway, cli: Cli, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "bomb.yaml"
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    file.write_text("\n".join(["a0: &a0 [lol]", *levels]))
    ran = cli(*words, "-f", str(file))
    assert ran.code == 2
    assert "write the value out" in ran.err
    assert not gateway.requests("PUT", "/presets/sft")


def test_settings_win_over_what_is_given_and_that_over_the_preset(gateway: Gateway) -> None:
    gateway.answers["GET", PATH] = (200, detail())
    given = {"name": "run", "nodes": 3, "gpus_per_node": None}
    body = with_preset(connect(), given, "sft@3", ("nodes=5", "recipe.module=b"))
    assert body == {"name": "run", "nodes": 5, "recipe": {"kind": "pytorch", "module": "b"}}
    assert with_preset(connect(), {"a": 1}, None, ()) == {"a": 1}
    with pytest.raises(click.UsageError, match="cannot be set"):
        with_preset(connect(), {"a": 1}, None, ("a.b=2",))


def test_a_run_begins_with_a_preset_and_its_own_options_win(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", PATH] = (200, detail())
    ran = cli("train", "submit", "demo", "run-1", "--preset", "sft", "--nodes", "4", "--set", "env.A=b", "--no-wait")
    (asked,) = gateway.requests("POST", "/training-runs")
    assert asked.body == {**DOCUMENT, "name": "run-1", "nodes": 4, "env": {"A": "b"}}, ran.err
