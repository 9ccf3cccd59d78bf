"""Laws of trainings: how steps and times belong together, that a log does not depend on when it is read, and what the
rules about a log say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes.programs.crashes import CRASHES
from sandbox.kubernetes.programs.model import Surroundings
from sandbox.kubernetes.programs.training import MEGATRON, PYTORCH, TORCHTITAN, VERL, Trainer, recognise
from sandbox.kubernetes.training.attempts import CRASHED, Attempt, Fall, Run
from sandbox.kubernetes.training.judge import judge
from sandbox.kubernetes.training.reader import Bookmark, read

BEGUN = 1_796_000_000.0
PODS = {"a": 0, "b": 1}
TRAINER = Trainer(PYTORCH, 60, 3.0, 10, "/s3/out", 1, 2, True)
paces = st.lists(st.sampled_from((0.0, 0.25, 0.5, 1.0, 2.0)), min_size=1, max_size=5)


def attempt(*phases: tuple[float, float], **more: Any) -> Attempt:
    made = Attempt.start(0, BEGUN, 0, PODS)
    made.phases += [(BEGUN + after, pace) for after, pace in phases]
    for name, value in more.items():
        setattr(made, name, value)
    return made


@given(paces=paces, step=st.integers(1, 60))
def test_a_step_ends_when_it_is_done_and_not_before(paces: list[float], step: int) -> None:
    made = attempt(*((30.0 + 40 * number, pace) for number, pace in enumerate(paces)))
    at = made.at_step(TRAINER, step)
    if math.isinf(at):
        assert made.phases[-1][1] == 0.0
    else:
        assert made.steps_at(TRAINER, at + 0.001) == step
        assert made.steps_at(TRAINER, at - 0.1) == step - 1


@given(
    paces=paces,
    cuts=st.lists(st.floats(0, 400), max_size=12),
    noise=st.sampled_from((0.0, 3.0)),
    fall=st.none() | st.floats(5, 200),
    tool=st.sampled_from((PYTORCH, TORCHTITAN, MEGATRON, VERL)),
)
def test_a_log_is_the_same_however_often_it_is_read(
    paces: list[float], cuts: list[float], noise: float, fall: float | None, tool: str
) -> None:
    trainer = Trainer(tool, 60, 3.0, 10, "/s3/out", 1, 2, True, noise)
    made = attempt(*((30.0 + 40 * number, pace) for number, pace in enumerate(paces)))
    made.fall = None if fall is None else Fall(BEGUN + fall, "cuda_oom", 1)
    run = Run("job", trainer, [made])

    def lines(times: list[float]) -> list[str]:
        mark, found = Bookmark(), []
        for at in times:
            found += read(run, "b", "job-pods-1", mark, BEGUN + at)[0]
        return [text for _, text in found]

    assert lines([*sorted(cuts), 400.0]) == lines([400.0])


def test_a_later_attempt_goes_on_where_the_earlier_one_saved() -> None:
    first = attempt(ended=BEGUN + 60, how=CRASHED, fall=Fall(BEGUN + 60, "cuda_oom", 0))
    second = Attempt.start(1, BEGUN + 70, 10, PODS)
    run = Run("job", TRAINER, [first, second])
    found, following = read(run, "a", "job-pods-0", Bookmark(), BEGUN + 1000)
    told = "\n".join(text for _, text in found)
    assert "Loaded checkpoint from /s3/out/checkpoint-10" in told
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert told.count("Batch 11 Loss") == 2
    assert told.count("Batch 60 Loss") == 1
    assert following is None or following > BEGUN + 1000


@pytest.mark.parametrize("cause", CRASHES)
def test_every_cause_has_words_that_can_be_filled_in(cause: str) -> None:
    run = Run("job", TRAINER, [attempt(fall=Fall(BEGUN + 60, cause, 1))])
    for uid in PODS:
        found, _ = read(run, uid, f"job-pods-{PODS[uid]}", Bookmark(), BEGUN + 61)
        assert not any("{rank}" in text or "{local}" in text for _, text in found)


@pytest.mark.parametrize(
    ("rule", "made", "reason", "after"),
    [
        ({"expectedRecurringFrequencyInSeconds": 60}, attempt(), "", 0),
        ({"expectedRecurringFrequencyInSeconds": 60}, attempt((45, 0.0)), "LogHang_r", 105),
        ({"expectedRecurringFrequencyInSeconds": 5}, attempt((45, 0.5)), "LogHang_r", 50),
        ({"logPattern": "Batch", "expectedStartCutOffInSeconds": 30}, attempt(), "LogHang_r", 30),
        ({"expectedStartCutOffInSeconds": 30}, attempt(), "", 0),
        ({"expectedStartCutOffInSeconds": 10}, attempt(), "LogHang_r", 10),
        ({"metricThreshold": 50, "operator": "gt"}, attempt(outliers=[(BEGUN + 60, math.inf, 99.0)]), "LogSlow_r", 60),
        ({"metricThreshold": 4, "operator": "lt"}, attempt(), "LogSlow_r", None),
        ({"logPattern": ".*world size", "faultOnMatch": True}, attempt(), "LogFault_r", None),
        ({"expectedRecurringFrequencyInSeconds": 60, "stopPattern": ".*Batch 5 "}, attempt((45, 0.0)), "", 0),
        ({"logPattern": "("}, attempt((45, 0.0)), "", 0),
    ],
)
def test_rules_about_a_log_are_judged_as_the_agent_does(
    rule: dict[str, Any], made: Attempt, reason: str, after: float | None
) -> None:
    verdict = judge(TRAINER, made, [{"name": "r", "logPattern": r".*Batch \d+ Loss: ([0-9.]+),", **rule}])
    assert (verdict.reason if verdict else "") == reason
    if verdict and after is not None:
        assert verdict.at == pytest.approx(BEGUN + after, abs=0.01)


@pytest.mark.parametrize(
    ("command", "env", "files", "steps", "folder"),
    [
        (["torchrun", "t.py", "--max_steps=12", "--output_dir", "/s3/x"], {}, (), 12, "/s3/x"),
        (["hyperpodrun", "t.py"], {"MAX_STEPS": "13", "CHECKPOINT_DIR": "/fsx/c"}, (), 13, "/fsx/c"),
        (["llamafactory-cli", "train", "/r/a.yaml"], {}, ('{"max_steps": 14, "output_dir": "/s3/y"}',), 14, "/s3/y"),
        (["torchrun", "-m", "torchtitan.train"], {}, ("[training]\nsteps = 15\n",), 15, "checkpoints"),
        (["sh", "-c", "swift sft --max_steps 16 --save_steps 4"], {}, (), 16, "checkpoints"),
        (["python", "-m", "verl.trainer.main_ppo", "trainer.total_training_steps=17"], {}, (), 17, "checkpoints"),
        (["torchrun", "t.py"], {}, (), 100, "checkpoints"),
    ],
)
def test_what_a_training_does_is_read_from_what_it_is_given(
    command: list[str], env: dict[str, str], files: tuple[str, ...], steps: int, folder: str
) -> None:
    program = recognise({"name": "c", "command": command}, Surroundings(env=env, files=files, gpus=4))
    assert program is not None
    assert program.trainer is not None
    assert (program.trainer.steps, program.trainer.checkpoints, program.trainer.processes) == (steps, folder, 4)


@pytest.mark.parametrize("command", [["sleep", "10"], ["python", "serve.py"], ["nginx"]])
def test_other_programs_do_not_train(command: list[str]) -> None:
    assert recognise({"name": "c", "command": command}, Surroundings()) is None
