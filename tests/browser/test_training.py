"""Training by the console: a form, its plan, the log while it is written, and a diagnosis of what has failed."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Somebody
from tests.durability.runs import finish
from tests.local_stack import LocalStack

SCRIPT = "import torch\nprint(torch.__version__)\n"
CRASH = {"fault": "crash", "cause": "cuda_oom", "deployment": "too-big", "step": 20}


def enable(stack: LocalStack, cluster: str, feature: str) -> None:
    asked = stack.gateway.patch(f"/clusters/{cluster}/features", json={feature: {"enabled": True}}).raise_for_status()
    finish(stack, asked.json()["id"])


def test_a_run_is_submitted_by_its_form_and_its_log_is_read_while_it_is_written(
    stack: LocalStack, cluster: str, somebody: Somebody
) -> None:
    enable(stack, cluster, "training_operator")
    alice = somebody("operator")
    alice.goes_to("training", cluster=cluster, tab="New run")
    alice.page.get_by_text("Text", exact=True).click()
    script = alice.page.get_by_label("Text of the script", exact=True)
    script.fill(SCRIPT)
    script.press("Tab")
    alice.enters("Name", "tuned")
    alice.chooses("Instance type", "ml.g5.8xlarge")
    alice.enters("GPUs of each node", "1")
    arguments = alice.page.get_by_label("Arguments", exact=True)
    arguments.fill("--max-steps=500000")
    arguments.press("Tab")
    alice.at_rest()
    alice.picture("console-training-form")
    alice.clicks("Show the plan")
    alice.sees("1 to create")
    alice.clicks("Submit the run")
    alice.sees_heading(re.compile("tuned$"))
    alice.page.get_by_role("link", name="The run").click()
    # A table's cells stand in the page a second time, hidden.
    expect(alice.page.get_by_text("running").filter(visible=True).first).to_be_visible()
    alice.sees(re.compile(r"Step \d+ of 500000"))
    alice.picture("console-training-run")

    alice.page.get_by_text("Log", exact=True).click()
    log = alice.page.frame_locator("iframe")
    line = log.locator("#log > div").filter(has_text=re.compile(r"Batch \d+ Loss")).last
    expect(line).to_be_visible()
    before = line.inner_text()
    expect(line).not_to_have_text(before)
    expect(log.locator("#state")).to_contain_text("running")
    alice.picture("console-training-log")

    with alice.page.expect_download() as downloading:
        alice.page.get_by_role("link", name="Download").click()
    assert downloading.value.suggested_filename == "tuned.log"

    victor = somebody("viewer")
    victor.page.goto(alice.page.url)
    expect(victor.page.frame_locator("iframe").locator("#log > div").first).to_be_visible()
    alice.page.get_by_text("Stop", exact=True).click()
    alice.clicks("Stop the run…")
    dialog = alice.page.get_by_role("dialog")
    typed = dialog.get_by_label("to confirm")
    typed.fill("tuned")
    typed.press("Tab")
    dialog.get_by_role("button", name="Stop the run").click()
    finish(stack, f"stop-training/{cluster}/tuned")
    expect(victor.page.frame_locator("iframe").locator("#state")).to_contain_text(re.compile("ended|gone"))


def test_what_has_failed_is_diagnosed_with_its_evidence(stack: LocalStack, cluster: str, somebody: Somebody) -> None:
    enable(stack, cluster, "training_operator")
    stack.sandbox.post("/kubernetes/pods", json={"add": [CRASH]}).raise_for_status()
    spec = {
        "name": "too-big",
        "recipe": {"kind": "pytorch", "script_text": SCRIPT, "arguments": ["--max-steps=500"]},
        "instance_types": ["ml.g5.8xlarge"],
        "gpus_per_node": 1,
        "recovery": {"job_retries": 0},
    }
    run = stack.gateway.post(f"/clusters/{cluster}/training-runs", json=spec).raise_for_status().json()["id"]
    stack.until(run, lambda found: found["phase"] == "blocked", 120.0)

    victor = somebody("viewer")
    victor.goes_to("operation", id=run)
    victor.sees("is blocked")
    victor.page.get_by_role("link", name="Diagnose").click()
    victor.sees_heading("Diagnosis")
    victor.sees(re.compile(r"\d+ % sure"))
    victor.sees("CUDA out of memory")
    victor.sees_heading("Timeline")
    victor.picture("console-diagnosis")
    stack.gateway.post(f"/operations/{run}/abort", json={"reason": "seen"}).raise_for_status()
