"""Commands for training runs: what they send, and what they show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contracts.jobs import JobPod
from contracts.recipes.progress import Reported
from contracts.training_parts import TrainingState, Waiting, remark_on
from contracts.training_views import TrainingRunDetail, TrainingRunList
from tests.api.fake_training import RUN
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import NOW, Gateway

Cli = Callable[..., Ran]
ROOT = "/api/v1/clusters/demo/training-runs"


def document(model: Any) -> Any:
    return model.model_dump(mode="json")


def test_a_run_is_sent_as_the_file_and_the_options_say(gateway: Gateway, cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text("recipe: {kind: pytorch, arguments: [--lr=1e-5]}\nenv: {LOG_LEVEL: info}\nnodes: 1\n")
    options = ("-f", str(spec), "--script", "/s3/train.py", "--instance-type", "ml.g5.12xlarge", "--gpus", "4")
    more = ("--nodes", "2", "--local-queue", "fast", "--priority", "high", "--image", "registry/trainer:1.0")
    assert cli("train", "submit", "demo", "sft", *options, *more).code == 0
    (sent,) = gateway.requests("POST", "/demo/training-runs")
    assert sent.body == {
        "recipe": {"kind": "pytorch", "arguments": ["--lr=1e-5"], "script_path": "/s3/train.py"},
        "env": {"LOG_LEVEL": "info"},
        "nodes": 2,
        "name": "sft",
        "gpus_per_node": 4,
        "image": "registry/trainer:1.0",
        "instance_types": ["ml.g5.12xlarge"],
        "queue": {"queue": "fast", "priority": "high"},
    }


def test_runs_are_stopped_suspended_and_resumed_with_a_reason(gateway: Gateway, cli: Cli) -> None:
    for action in ("stop", "suspend", "resume"):
        assert cli("train", action, "demo", "sft", "--reason", "night").code == 0
        (sent,) = gateway.requests("POST", f"/training-runs/sft/{action}")
        assert sent.body == {"reason": "night"}


def test_runs_are_listed_with_their_state_and_budget(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", ROOT] = (200, document(TrainingRunList(runs=[RUN], read_at=NOW)))
    shown = cli("train", "list", "demo").out
    for text in ("qwen3-sft", "running", "2/2", "1/5", "pytorch", "hyperpod"):
        assert text in shown
    assert json.loads(cli("train", "list", "demo", "-o", "json").out)["runs"][0]["gpus"] == 8


def test_one_run_is_shown_with_why_it_waits_and_its_pods(gateway: Gateway, cli: Cli) -> None:
    detail = TrainingRunDetail(
        run=RUN,
        pods=[JobPod(name="qwen3-sft-pods-0", phase="Pending", reason="Unschedulable", message="no GPUs")],
        waiting=Waiting(reason="1 of 2 nodes are missing"),
        read_at=NOW,
    )
    gateway.answers["GET", f"{ROOT}/qwen3-sft"] = (200, document(detail))
    shown = cli("train", "get", "demo", "qwen3-sft").out
    for text in ("1 of 2 nodes are missing", "qwen3-sft-pods-0", "Unschedulable", "2 × ml.g5.12xlarge", "1200"):
        assert text in shown


def test_a_run_that_ended_before_its_last_step_says_so(gateway: Gateway, cli: Cli) -> None:
    reported = Reported(step=57, total_steps=6000)
    remark = remark_on(TrainingState.SUCCEEDED, reported)
    run = RUN.model_copy(update={"state": TrainingState.SUCCEEDED, "reported": reported, "remark": remark})
    gateway.answers["GET", f"{ROOT}/qwen3-sft"] = (200, document(TrainingRunDetail(run=run, read_at=NOW)))
    shown = cli("train", "get", "demo", "qwen3-sft").out
    assert "it ended before its last step" in shown
    assert "57 of 6000" in shown


def test_a_number_that_json_cannot_write_is_named_and_nothing_is_sent(
    gateway: Gateway, cli: Cli, tmp_path: Path
) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text("recipe: {kind: llama-factory, config: {learning_rate: .nan}}\n")
    ran = cli("train", "submit", "demo", "sft", "-f", str(spec))
    assert ran.code == 1
    assert "NaN" in ran.err
    assert not gateway.requests("POST", "/demo/training-runs")
