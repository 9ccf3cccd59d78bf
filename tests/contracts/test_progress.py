"""How far a job is, by the lines that each framework writes; and that no line whatever does any harm."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from contracts.recipes import RECIPES, Recipe
from contracts.recipes.base import RecipeBase
from contracts.recipes.progress import LONGEST_LINE, Reported, read_progress

TRAINER = "{'loss': 1.2345, 'grad_norm': 0.81, 'learning_rate': 9.5e-05, 'epoch': 0.4}"
BAR = " 12%|█▏        | 12/100 [00:10<01:13,  1.20it/s]"
SWIFT = (
    "{'loss': 0.91, 'token_acc': 0.75, 'global_step/max_steps': '30/250', 'percentage': '12.00%', "
    "'elapsed_time': '1m 3s', 'memory(GiB)': 21.36, 'train_speed(iter/s)': 0.476190}"
)
MEGATRON = (
    " [2026-11-30 10:00:00] iteration       20/     200 | consumed samples:          320 | "
    "elapsed time per iteration (ms): 2000.0 | learning rate: 9.9E-05 | lm loss: 2.345000E+00 | loss scale: 1.0 |"
)
TITAN = (
    "[rank0]:\x1b[31mstep: 10  \x1b[32mloss:  8.12345  \x1b[38;2mgrad_norm:  1.2000  \x1b[36mmemory: 41.87GiB(52.92%)"
    "  \x1b[34mtps: 5,100  tflops: 277.95  mfu: 28.10%\x1b[39m"
)
VERL = "(TaskRunner pid=1801) step:7 - actor/entropy:0.31 - actor/pg_loss:-0.02 - perf/throughput:5100.5"


@pytest.mark.parametrize(
    ("kind", "line", "expected"),
    [
        ("llama-factory", TRAINER, {"loss": 1.2345}),
        ("llama-factory", BAR, {"step": 12, "total_steps": 100, "throughput": 1.2, "unit": "it/s"}),
        ("llama-factory", "[default0]:" + BAR, {"step": 12, "total_steps": 100, "throughput": 1.2, "unit": "it/s"}),
        (
            "llama-factory",
            f"{BAR}\r 13%|█▎        | 13/100 [00:30<43:30,  4.00s/it]\r",
            {"step": 13, "total_steps": 100, "throughput": 0.25, "unit": "it/s"},
        ),
        ("ms-swift", SWIFT, {"step": 30, "total_steps": 250, "loss": 0.91, "throughput": 0.47619, "unit": "it/s"}),
        ("ms-swift", MEGATRON, {"step": 20, "total_steps": 200, "loss": 2.345, "throughput": 0.5, "unit": "it/s"}),
        ("torchtitan", TITAN, {"step": 10, "loss": 8.12345, "throughput": 5100.0, "unit": "tokens/s/GPU"}),
        ("verl", VERL, {"step": 7, "loss": -0.02, "throughput": 5100.5, "unit": "tokens/s/GPU"}),
        ("verl", "(TaskRunner pid=1) Total training steps: 435", {"total_steps": 435}),
        (
            "verl",
            "(TaskRunner pid=7, ip=10.0.0.1) Training Progress:   2%|▏ | 8/435 [03:00<2:40:00, 22.5s/it]",
            {"step": 8, "total_steps": 435, "throughput": 1 / 22.5, "unit": "it/s"},
        ),
        (
            "pytorch",
            "2026-11-30 10:00:00,000 [INFO] train: Batch 40 Loss: 7.81234, Speed: 12.50 samples/sec, lr: 0.000100",
            {"step": 40, "loss": 7.81234, "throughput": 12.5, "unit": "samples/s"},
        ),
        (
            "pytorch",
            "step=10/500 loss=2.3 tokens/s=12,345.6",
            {"step": 10, "total_steps": 500, "loss": 2.3, "throughput": 12345.6, "unit": "tokens/s"},
        ),
        ("script", "iteration: 3, Loss: 1e-3", {"step": 3, "loss": 0.001}),
        ("script", "step: 4 loss: nan", {"step": 4}),
        ("llama-factory", "my own step=5 loss=1.5", {"step": 5, "loss": 1.5}),
        ("a recipe of tomorrow", "step=5 loss=1.5", {"step": 5, "loss": 1.5}),
    ],
)
def test_a_line_of_each_framework_says_step_loss_and_speed(kind: str, line: str, expected: dict[str, object]) -> None:
    found = read_progress(kind, [line]).model_dump(exclude_none=True)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "lines", "checkpoint"),
    [
        (
            "llama-factory",
            ["[INFO|trainer.py:4289] 2026-11-30 >> Saving model checkpoint to /s3/out/checkpoint-200"],
            "/s3/out/checkpoint-200",
        ),
        ("pytorch", ["Saved checkpoint to /s3/out/checkpoint-20 in 1.84 s"], "/s3/out/checkpoint-20"),
        (
            "ms-swift",
            ["  successfully saved checkpoint from iteration     20 to /s3/out [ t 1/1, p 1/1 ]"],
            "/s3/out/iter_0000020",
        ),
        (
            "torchtitan",
            [TITAN, "[titan] Finished saving the checkpoint (or staging if async …) in 1.84 seconds."],
            "step-10",
        ),
        ("verl", ["(TaskRunner pid=1) local_global_step_folder: /s3/out/global_step_20"], "/s3/out/global_step_20"),
    ],
)
def test_a_checkpoint_is_known_by_its_folder(kind: str, lines: list[str], checkpoint: str) -> None:
    assert read_progress(kind, lines).checkpoint == checkpoint


def test_where_a_trainer_draws_no_bar_its_checkpoints_tell_the_step() -> None:
    saved = "Saving model checkpoint to /s3/out/checkpoint-200"
    assert read_progress("llama-factory", [TRAINER, saved]).step == 200
    later = " 30%|███   | 300/1000 [00:10<01:13,  1.20it/s]"
    assert read_progress("llama-factory", [later, saved]).step == 300


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards: 100%|██████████| 4/4 [00:01<00:00,  2.50it/s]",
        "Map (num_proc=8):  10%|█         | 100/1000 [00:10<01:13, 12.00 examples/s]",
        "ip-10-0-0-1:70:290 [0] NCCL INFO comm 0x55d0 rank 0 nranks 8 cudaDev 0 - Init COMPLETE",
        "seconds per step: 3",
        "max_stepsize=7",
        "loss scale: 1.0",
        "",
    ],
)
def test_other_bars_and_lines_are_not_taken_for_steps(line: str) -> None:
    for kind in RECIPES:
        assert read_progress(kind, [line]) == Reported()


def test_later_lines_win_and_what_they_do_not_say_stays() -> None:
    lines = [f"2026-11-30T10:00:00.5Z {BAR}", f"2026-11-30T10:00:01.123456789Z {TRAINER}", "nothing"]
    found = read_progress("llama-factory", lines)
    assert (found.step, found.loss) == (12, 1.2345)
    assert found.at == datetime(2026, 11, 30, 10, 0, 1, 123456, tzinfo=UTC)


HOSTILE = "'loss': " * 1000, "1/" * 5000, "step:1 - " + "a:1 - " * 4000, "\r" * 9000, "[" * 5000, "9" * 5000


@given(kind=st.sampled_from([*RECIPES, "other"]), lines=st.lists(st.text(max_size=300), max_size=5))
@example(kind="verl", lines=list(HOSTILE))
@example(kind="llama-factory", lines=list(HOSTILE))
@example(kind="torchtitan", lines=[f"step: {'9' * 12} loss: 1e999", "step: 1  loss: 1e999"])
@example(kind="pytorch", lines=["step=1e308", "step=" + "9" * 20, "9999-99-99T99:99:99Z step=1"])
def test_no_text_makes_it_fail_and_what_it_gives_is_json(kind: str, lines: list[str]) -> None:
    found = read_progress(kind, lines)
    assert Reported.model_validate_json(found.model_dump_json()) == found


@given(
    kind=st.sampled_from(list(RECIPES)),
    line=st.builds(
        "".join,
        st.lists(
            st.sampled_from(
                ["'loss': 1", "step: 1  loss: 2", "step:1 - ", "1/2 [0", "iteration 1/2 |", " ", "\r", "1e999"]
            ),
            max_size=12,
        ),
    ),
)
def test_no_mixture_of_what_frameworks_write_makes_it_fail(kind: str, line: str) -> None:
    found = read_progress(kind, [line])
    assert Reported.model_validate_json(found.model_dump_json()) == found


def test_only_the_beginning_of_an_endless_line_is_looked_at() -> None:
    assert read_progress("pytorch", ["x" * LONGEST_LINE + " step=5"]) == Reported()


@pytest.mark.parametrize(
    ("recipe", "steps"),
    [
        ({"kind": "pytorch", "module": "a", "arguments": ["--max_steps", "40"]}, 40),
        ({"kind": "pytorch", "module": "a"}, None),
        ({"kind": "script", "project_path": "/s3/a", "entry": "b.py", "arguments": ["--train-iters=7"]}, 7),
        ({"kind": "llama-factory", "config": {"max_steps": -1}}, None),
        ({"kind": "llama-factory", "config": {"max_steps": 3}, "overrides": {"max_steps": "5"}}, 5),
        ({"kind": "ms-swift", "engine": "megatron", "config": {"train_iters": 9, "max_steps": 1}}, 9),
        ({"kind": "verl", "config": {"trainer": {"total_training_steps": 11}}}, 11),
        ({"kind": "torchtitan", "config": "[training]\nsteps = 12\n"}, 12),
    ],
)
def test_the_configuration_says_how_many_steps_there_will_be(recipe: dict[str, object], steps: int | None) -> None:
    made: RecipeBase = TypeAdapter[Any](Recipe).validate_python(recipe)
    assert made.planned_steps == steps
    assert read_progress(made.kind, ["step=5"], made.planned_steps).total_steps == steps
    assert read_progress(made.kind, ["step=5/6"], made.planned_steps).total_steps == 6
    assert read_progress(made.kind, ["nothing"], made.planned_steps) == Reported()


@pytest.mark.parametrize(
    ("lines", "short"),
    [
        (["step=57/6000"], True),
        (["step=56/6000", "step=57/6000"], True),
        (["step=5998/6000", "step=5999/6000"], False),
        (["step=5980/6000", "step=5990/6000"], False),
        (["step=5000/6000", "step=5500/6000"], False),
        (["step=4500/6000", "step=5000/6000"], True),
        (["step=5500/6000"], False),
        (["step=57"], False),
        (["loss=1"], False),
    ],
)
def test_a_run_is_short_of_its_end_if_more_is_left_than_it_reports_at_a_time(lines: list[str], short: bool) -> None:
    assert read_progress("pytorch", lines).short is short
