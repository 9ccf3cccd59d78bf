"""How far a job is, read from the lines that its framework writes.

Every framework has its own way of saying it; a line that says nothing is skipped. Work is bounded: only the beginning
of a line is looked at, and no pattern goes back over what it has read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime

from pydantic import Field

from contracts.model import Model
from contracts.recipes import RECIPES

LONGEST_LINE = 2000
"""Characters of a line that are looked at."""
MOST_LINES = 5000
"""The last so many lines are looked at."""
MOST_STEPS = 10**15


class Reported(Model):
    """What a job has said of itself. Null: nothing."""

    step: int | None = None
    total_steps: int | None = None
    every: int | None = None
    """Steps between its last two reports."""
    loss: float | None = None
    throughput: float | None = None
    unit: str | None = Field(None, examples=["tokens/s"])
    """Of throughput."""
    checkpoint: str | None = None
    """The folder or the step of the last checkpoint that was said to be saved."""
    at: datetime | None = None
    """When the last line that said something was written, where the lines have their times."""

    def after(self, other: Reported) -> Reported:
        """This, and what ``other``, which came later, says besides."""
        return self.model_copy(update=other.model_dump(exclude_none=True))

    @property
    def short(self) -> bool:
        """Whether its last report was of a step that is not its last. Who reports every tenth step need not report the
        last one; where one report is known only, a tenth of all steps is left to that."""
        if self.step is None or not self.total_steps:
            return False
        left = self.total_steps - self.step
        return left > max(self.total_steps // 10 if self.every is None else self.every, 1)


_NUMBER = r"[-+]?\d[\d,]{0,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?"
_VALUE = rf"({_NUMBER}|nan|inf)"
_ANSI = re.compile(r"\x1b\[[0-9;]{0,12}m")
_AT = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
"""Kubernetes' time before a line that was read with timestamps."""
_BEFORE = re.compile(r"^(?:\[[a-z]{1,20}\d{1,6}\]: ?|\([A-Za-z_]{1,60} pid=\d{1,9}[^)]{0,60}\) ?)")
"""What torchrun's tee, and Ray, write before a process's own line: ``[default0]:``, ``(TaskRunner pid=7)``."""

_BAR = re.compile(r"(?<![\w./-])(\d{1,12})/(\d{1,12}) \[\d")
"""tqdm: ``12/100 [00:10<01:13,  1.20it/s]``."""
_BAR_RATE = re.compile(rf"({_NUMBER}) ?(it/s|s/it)")
_OTHER_BAR = re.compile(r" {0,4}(?!Train)[A-Za-z]")
"""Loading and tokenizing have bars of their own, which begin with what they do and count no steps."""
_MEMBERS = re.compile(rf"""['"]([A-Za-z_][\w/ ()%-]{{0,60}})['"]: {{0,2}}['"]?{_VALUE}""")
_SWIFT_STEP = re.compile(r"""['"]global_step/max_steps['"]: {0,2}['"](\d{1,12})/(\d{1,12})['"]""")
_MEGATRON = re.compile(r"\biteration {0,10}(\d{1,12})/ {0,10}(\d{1,12}) \|")
_MEGATRON_TIME = re.compile(rf"elapsed time per iteration \(ms\): {{0,4}}({_NUMBER})")
_MEGATRON_LOSS = re.compile(rf"\blm loss: {{0,4}}{_VALUE}")
_TITAN_STEP = re.compile(rf"\bstep: {{0,8}}(\d{{1,12}}) {{1,8}}loss: {{0,8}}{_VALUE}")
_TITAN_TPS = re.compile(rf"\btps: {{0,8}}({_NUMBER})")
_VERL_STEP = re.compile(r"\bstep:(\d{1,12}) - ")
_VERL_MEMBER = re.compile(rf"(?:^| - )([A-Za-z_][\w/@.-]{{0,80}}):(?:np\.float\d\d\()?{_VALUE}")
_BATCH = re.compile(rf"\bBatch (\d{{1,12}}) Loss: {_VALUE}(?:, Speed: ({_NUMBER}) samples/sec)?")
"""The FSDP sample of https://github.com/awslabs/awsome-distributed-training."""
_PLAIN = re.compile(
    r"(?<!per )(?<![\w/])"
    r"(global_step|step|iteration|iter|loss|train_loss|tokens/s|tokens_per_second|tok/s|samples/s|it/s)"
    rf" {{0,2}}[=:] {{0,4}}{_VALUE}(?:/(\d{{1,12}}))?",
    re.IGNORECASE,
)
_TOTAL = re.compile(r"(?:Total optimization steps =|Total training steps:|(?<!\w)max_steps[=:]) {0,4}(\d[\d,]{0,15})")
_SAVED = re.compile(
    r"(?:Saving model checkpoint to|Saved checkpoint (?:to|at|in)|checkpoint saved (?:to|at|in)|"
    r"local_global_step_folder:|last_model_checkpoint:) {0,4}[\"']?([^\s\"',;]{1,400})",
    re.IGNORECASE,
)
_SAVED_MEGATRON = re.compile(r"successfully saved checkpoint from iteration {1,10}(\d{1,12}) to ([^\s]{1,400})")
_SAVED_TITAN = "Finished saving the checkpoint"
_CHECKPOINT_STEP = re.compile(r"checkpoint-(\d{1,12})$")
_UNITS = {"tokens_per_second": "tokens/s", "tok/s": "tokens/s"}


def read_progress(kind: str, lines: Sequence[str], planned_steps: int | None = None) -> Reported:
    """What the last of ``lines`` say. ``kind``: of the recipe; one that is not known is read as plain. Never raises.

    ``planned_steps``: what the recipe's configuration says of all steps, where the lines do not.
    """
    recipe = RECIPES.get(kind)
    style = recipe.progress if recipe is not None else "plain"
    reported = Reported()
    for line in lines[-MOST_LINES:]:
        reported = read_line(style, line, reported)
    if reported.step is not None and reported.total_steps is None and planned_steps is not None:
        return reported.model_copy(update={"total_steps": planned_steps})
    return reported


def read_line(style: str, line: str, before: Reported | None = None) -> Reported:
    """What is known after one line, where ``before`` was known."""
    before = before or _NOTHING
    text, at = line[:LONGEST_LINE], None
    if stamp := _AT.match(text):
        text, at = text[stamp.end() :], _time(stamp)
    if "\r" in text:
        # A bar is drawn over itself: only its last state means something.
        text = next((part for part in reversed(line[-LONGEST_LINE:].split("\r")) if part.strip()), "")
    text = _BEFORE.sub("", _ANSI.sub("", text))
    found = _READERS.get(style, _plain)(text)
    if not found and style != "plain":
        # People's own code prints beside the framework.
        found = _plain(text)
    if total := _TOTAL.search(text):
        found["total_steps"] = _steps(total[1])
    found |= _saved(text, before)
    known = {name: value for name, value in found.items() if value is not None}
    if not known:
        return before
    step = known.get("step")
    if isinstance(step, int) and before.step is not None and step > before.step:
        known["every"] = step - before.step
    if at is not None:
        known["at"] = at
    return before.model_copy(update=known)


def _saved(text: str, before: Reported) -> dict[str, object]:
    if megatron := _SAVED_MEGATRON.search(text):
        return {"checkpoint": f"{megatron[2].rstrip('/')}/iter_{int(megatron[1]):07d}"}
    if saved := _SAVED.search(text):
        folder = saved[1].rstrip(".:")
        step = _CHECKPOINT_STEP.search(folder)
        # Where a trainer has no bar in its log, this is all that it says of steps.
        newer = step is not None and int(step[1]) > (before.step or 0)
        return {"checkpoint": folder, **({"step": int(step[1])} if newer and step is not None else {})}
    if _SAVED_TITAN in text and before.step is not None:
        return {"checkpoint": f"step-{before.step}"}
    return {}


def _trainer(text: str) -> dict[str, object]:
    """Hugging Face's Trainer: a dictionary for each logged step, and tqdm's bar beside it; and Megatron-Core, which
    MS-Swift trains with, too."""
    if megatron := _MEGATRON.search(text):
        return {"step": _steps(megatron[1]), "total_steps": _steps(megatron[2]), **_of_megatron(text)}
    values: dict[str, object] = {}
    members = {name.strip(): value for name, value in _MEMBERS.findall(text)}
    if "loss" in members:
        values["loss"] = _float(members["loss"])
    for name, unit in _SPEEDS.items():
        if name in members:
            values |= {"throughput": _float(members[name]), "unit": unit}
    if own := _SWIFT_STEP.search(text):
        values |= {"step": _steps(own[1]), "total_steps": _steps(own[2])}
    elif not _OTHER_BAR.match(text):
        values |= _of_bar(text)
    return values


_SPEEDS = {
    "train_samples_per_second": "samples/s",
    "train_speed(iter/s)": "it/s",
    "tokens_per_second": "tokens/s",
    "train_tokens_per_second": "tokens/s",
}
"""Members of a dictionary that say how fast it goes, the better one later."""


def _of_megatron(text: str) -> dict[str, object]:
    values: dict[str, object] = {}
    if loss := _MEGATRON_LOSS.search(text):
        values["loss"] = _float(loss[1])
    if (took := _MEGATRON_TIME.search(text)) and (milliseconds := _float(took[1])):
        values |= _per_second(1000, milliseconds)
    return values


def _of_bar(text: str) -> dict[str, object]:
    bar = _BAR.search(text)
    if bar is None:
        return {}
    values: dict[str, object] = {"step": _steps(bar[1]), "total_steps": _steps(bar[2])}
    rate = _BAR_RATE.search(text, bar.end())
    if rate and (speed := _float(rate[1])):
        values |= _per_second(1, speed) if rate[2] == "s/it" else _per_second(speed, 1)
    return values


def _titan(text: str) -> dict[str, object]:
    step = _TITAN_STEP.search(text)
    if step is None:
        return {}
    values: dict[str, object] = {"step": _steps(step[1]), "loss": _float(step[2])}
    if rate := _TITAN_TPS.search(text):
        values |= {"throughput": _float(rate[1]), "unit": "tokens/s/GPU"}
    return values


def _verl(text: str) -> dict[str, object]:
    step = _VERL_STEP.search(text)
    if step is None:
        # The driver's own bar tells how many steps there will be.
        return _of_bar(text) if text.lstrip().startswith("Train") else {}
    values: dict[str, object] = {"step": _steps(step[1])}
    members = dict(_VERL_MEMBER.findall(text[step.start() :]))
    loss = next((members[name] for name in ("actor/pg_loss", "train/loss", "critic/vf_loss") if name in members), None)
    if loss is not None:
        values["loss"] = _float(loss)
    if "perf/throughput" in members:
        values |= {"throughput": _float(members["perf/throughput"]), "unit": "tokens/s/GPU"}
    return values


def _plain(text: str) -> dict[str, object]:
    if batch := _BATCH.search(text):
        values: dict[str, object] = {"step": _steps(batch[1]), "loss": _float(batch[2])}
        return values | ({"throughput": _float(batch[3]), "unit": "samples/s"} if batch[3] else {})
    values = {}
    for name, value, total in _PLAIN.findall(text):
        low = name.lower()
        if low in ("loss", "train_loss"):
            values["loss"] = _float(value)
        elif "/s" in low or low == "tokens_per_second":
            values |= {"throughput": _float(value), "unit": _UNITS.get(low, low)}
        elif (step := _steps(value)) is not None:
            values |= {"step": step} | ({"total_steps": _steps(total)} if total else {})
    return values


_READERS: dict[str, Callable[[str], dict[str, object]]] = {
    "trainer": _trainer,
    "torchtitan": _titan,
    "verl": _verl,
    "plain": _plain,
}
_NOTHING = Reported()


def _float(text: str) -> float | None:
    """A number; None for what is none, as JSON has no word for it either."""
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def _per_second(count: float, seconds: float) -> dict[str, object]:
    speed = count / seconds
    return {"throughput": speed, "unit": "it/s"} if math.isfinite(speed) else {}


def _steps(text: str) -> int | None:
    value = _float(text)
    return int(value) if value is not None and value.is_integer() and 0 <= value <= MOST_STEPS else None


def _time(stamp: re.Match[str]) -> datetime | None:
    fraction = (stamp[2] or "0")[:6].ljust(6, "0")
    zone = "+00:00" if stamp[3] == "Z" else stamp[3]
    try:
        return datetime.fromisoformat(f"{stamp[1]}.{fraction}{zone}")
    except ValueError:
        return None
