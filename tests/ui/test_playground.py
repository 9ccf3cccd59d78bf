"""The playground: what a model writes is text, with how long it took; what goes wrong can be asked again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from streamlit.testing.v1 import AppTest
from temporalio.worker import Worker

from client.sync import Gateway, GatewayProblem, connections
from contracts import endpoints, queues
from contracts.problem import ProblemCode
from tests.api.fake_readings import refuse
from tests.api.test_gateway_inference import FakeModels
from tests.ui.conftest import Console, texts

PLANE = {"name": "eks", "arn": "arn:aws:eks:us-west-2:1:cluster/eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
WORDS = ["once ", "upon **a** ", '<img src="https://elsewhere.example/x"> [time](https://elsewhere.example)']


@dataclass
class Writing(FakeModels):
    """Never waits to be let. ``refusing``: it answers that there is no such Service."""

    words: list[str] = field(default_factory=lambda: WORDS)
    refusing: bool = False
    held: bool = False
    """It waits to be let after all."""

    async def _let(self, text: str) -> None:
        if self.held:
            await super()._let(text)
        if self.refusing:
            raise refuse(ProblemCode.NOT_FOUND, "namespace default has no Service qwen any more")


@pytest.fixture
def models(console: Console) -> Iterator[Writing]:
    fake = Writing()
    stack = AsyncExitStack()

    async def begin() -> None:
        telling = timedelta(milliseconds=50)
        calls = Worker(
            console.temporal,
            task_queue=queues.WAIT,
            activities=[fake.call],
            max_heartbeat_throttle_interval=telling,
            default_heartbeat_throttle_interval=telling,
        )
        await stack.enter_async_context(calls)
        looks = Worker(console.temporal, task_queue=queues.KUBERNETES, activities=[fake.services])
        await stack.enter_async_context(looks)

    console.wait(begin())
    yield fake
    console.wait(stack.aclose())


def playground(console: Console, tab: str = "Playground") -> AppTest:
    page = console.page("serving", cluster=console.cluster(control_plane=PLANE), tab=tab).run()
    assert not page.exception
    return page


def asks(page: AppTest, prompt: str) -> None:
    page.chat_input("playground/default/qwen/prompt").set_value(prompt).run()
    assert not page.exception


def said(page: AppTest) -> list[str]:
    return [each.value for each in page.text]


def test_services_are_listed_with_who_answers(console: Console, models: Writing) -> None:
    page = playground(console, "Services")

    shown = page.dataframe[0].value.to_string()
    for expected in ("default/qwen", "1 ready", "8000", "in the cluster"):
        assert expected in shown


def test_what_a_model_writes_is_text_and_nothing_in_it_is_carried_out(console: Console, models: Writing) -> None:
    page = playground(console)

    asks(page, "Tell me <b>something</b>.")

    assert said(page) == ["Tell me <b>something</b>.", "".join(WORDS)]
    assert "elsewhere.example" not in texts(page)
    assert "0.10 s in all · 3 tokens answered" in texts(page)


def test_the_next_question_goes_on_with_the_conversation_until_one_begins_anew(
    console: Console, models: Writing
) -> None:
    page = playground(console)
    page.text_input("playground/system").set_value("Be short.")
    page.number_input("playground/max_tokens").set_value(9)
    asks(page, "One.")
    asks(page, "Two.")

    asked = models.asked[-1].request
    assert [each.role for each in asked.messages or ()] == ["system", "user", "assistant", "user"]
    assert (asked.max_tokens, asked.stream) == (9, True)

    page.button("playground/anew").click().run()
    assert said(page) == []


def test_a_call_that_fails_is_told_and_can_be_asked_again(console: Console, models: Writing) -> None:
    page = playground(console)
    models.refusing = True
    asks(page, "One.")
    assert "has no Service qwen any more" in texts(page)
    assert said(page) == ["One."]

    models.refusing = False
    page.button("playground/again").click().run()

    assert not page.error
    assert said(page) == ["One.", "".join(WORDS)]


def test_a_stream_from_a_gateway_that_is_away_is_a_problem() -> None:
    away = Gateway(connections("http://127.0.0.1:9", "test"), None)

    with pytest.raises(GatewayProblem) as told:
        next(away.stream(endpoints.CALL_MODEL, {"prompt": "Hi."}, tag="t", name="s"))

    assert told.value.problem.code is ProblemCode.UNAVAILABLE


def test_a_refused_call_is_a_problem_before_anything_is_heard(console: Console, models: Writing) -> None:
    tag = console.cluster(control_plane=PLANE)
    asked = Gateway(connections(console.gateway.url, "test"), console.token)

    with pytest.raises(GatewayProblem) as told:
        next(asked.stream(endpoints.CALL_MODEL, {"stream": True}, tag=tag, name="qwen"))

    assert told.value.problem.code is ProblemCode.INVALID


def test_who_stops_reading_ends_the_call(console: Console, models: Writing) -> None:
    tag = console.cluster(control_plane=PLANE)
    asked = Gateway(connections(console.gateway.url, "test"), console.token)
    models.held = True
    models.next_word.release()
    stream = asked.stream(endpoints.CALL_MODEL, {"prompt": "Hi.", "stream": True}, tag=tag, name="qwen")
    assert next(stream).data == '{"delta": "once "}'
    assert not models.cancelled.is_set()

    stream.close()

    console.until(models.cancelled.is_set)


def test_a_viewer_cannot_ask(console: Console, models: Writing) -> None:
    console.role = "viewer"
    page = playground(console)

    assert page.chat_input("playground/default/qwen/prompt").disabled
