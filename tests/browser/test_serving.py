"""Serving a model by the console: a form with a mistake in it, the plan, and a talk with what was deployed."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Somebody
from tests.durability.runs import finish
from tests.local_stack import LocalStack


def test_a_model_is_deployed_by_the_form_and_talked_to(stack: LocalStack, cluster: str, somebody: Somebody) -> None:
    alice = somebody("operator")
    alice.goes_to("serving", cluster=cluster, tab="Deploy")
    command = alice.page.get_by_label("Command", exact=True)
    command.fill("vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 1280 --tensor-parallel-size 4")
    alice.enters("GPUs of one replica", "1")
    alice.enters("Name", "chat")
    alice.sees("a replica is given 1")
    alice.sees("Free now")
    alice.picture("console-deploy")
    command.fill("vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 1280")
    command.press("Tab")
    alice.sees("Nothing about it is remarkable")

    alice.clicks("Show the plan")
    alice.clicks("Deploy it")
    alice.sees_heading("Serve a model")
    finish(stack, f"create-deployment/{cluster}/chat")
    alice.sees("Succeeded")

    alice.goes_to("serving", cluster=cluster, tab="Playground")
    prompt = alice.page.get_by_placeholder("Ask default/chat")
    prompt.fill("Say hello to <b>everybody</b>.")
    prompt.press("Enter")
    alice.sees(re.compile(r"s in all · \d+ tokens asked · \d+ tokens answered"))
    expect(alice.page.get_by_text("Say hello to <b>everybody</b>.", exact=True)).to_be_visible()
    alice.picture("console-playground")
