"""Code that is here now carries on what earlier code began."""

from __future__ import annotations

import re

import pytest
from temporalio.client import WorkflowHistory

from activities.settings import VERSION
from cli.stack.folder import ROOT
from tests.replay import library
from tests.replay.changed import AnotherStage, AsItWas, LooksTwice, OneAfterTheOther
from tests.replay.library import Saved

HISTORIES = {each.name: each for each in library.saved()}


@pytest.fixture(scope="module")
async def failures() -> dict[str, BaseException]:
    """What cannot be replayed; all are tried with one worker."""
    named = ((name, each.read()) for name, each in HISTORIES.items())
    return await library.failures(named, library.replayer())


@pytest.mark.parametrize("name", HISTORIES)
def test_a_run_that_earlier_code_began_is_carried_on(failures: dict[str, BaseException], name: str) -> None:
    failure = failures.get(name)
    assert failure is None, (
        f"{failure}\nA run of {HISTORIES[name].workflow_type} that looked like this can be open when the code is "
        "deployed. Put the change behind workflow.patched (docs/upgrade.md), and keep this history."
    )


async def test_runs_are_carried_on_under_the_sandboxs_restrictions_as_well() -> None:
    some = ("create-cluster.decided", "cluster.done", "model-pool.done", "preset.done", "read-nodes.done")
    named = ((name, HISTORIES[f"{VERSION}/{name}"].read()) for name in some)
    assert not await library.failures(named, library.replayer(restricted=True))


@pytest.mark.parametrize("workflow_type", library.TYPES)
def test_every_workflow_has_a_history_of_this_version(workflow_type: str) -> None:
    assert workflow_type not in set(library.missing(HISTORIES.values(), VERSION)), (
        f"{workflow_type} has no history of version {VERSION}: let the tour drive it (tests/tour), then run "
        "`python scripts/save_histories.py`, and commit what it writes."
    )


@pytest.mark.parametrize(
    ("changed", "noticed"), [(AsItWas, False), (LooksTwice, True), (OneAfterTheOther, True), (AnotherStage, True)]
)
async def test_a_change_without_a_patch_is_noticed(changed: type, noticed: bool) -> None:
    history = HISTORIES[f"{VERSION}/verify-access.done"].read()
    found = await library.failures([("verify-access", history)], library.replayer([changed]))
    assert bool(found) is noticed, found


def test_every_file_is_named_by_its_manifest() -> None:
    files = set(library.FOLDER.glob(f"*/*{library.SUFFIX}"))
    assert files == {each.file for each in HISTORIES.values()}


@pytest.mark.parametrize("saved", HISTORIES.values(), ids=HISTORIES)
def test_a_history_tells_nothing_of_the_machine_that_it_is_from(saved: Saved) -> None:
    text = told(saved.read())
    assert not re.search(rf"{re.escape(str(ROOT))}/|/home/|/root/|\d+@[\w.-]+", text)


def told(history: WorkflowHistory) -> str:
    """Everything that is in a history, payloads as they are."""
    return "".join(event.SerializeToString().decode("latin-1") for event in history.events)
