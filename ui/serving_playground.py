"""Talking to a model: what it writes is shown as text while it writes, and how long it took."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from client.events import Event
from client.sync import GatewayProblem
from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.inference import CallRequest, ModelAnswer
from contracts.problem import Problem
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.problems import escaped, problem_box, problems_shown
from ui.serving_parts import full_name
from ui.serving_services import services_of
from ui.session import gateway

_USER, _MODEL = ":material/person:", ":material/smart_toy:"
_BROKEN = "It was broken off."


@dataclass
class Turn:
    """What somebody asked, and what came back."""

    asked: str
    text: str = ""
    reasoning: str = ""
    numbers: str = _BROKEN
    problem: Problem | None = None


def playground_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab. The address names the service."""
    with problems_shown():
        services = {full_name(each): each for each in services_of(record.tag).services}
        if not services:
            st.info("No service answers in OpenAI's format: deploy a model first.", icon=":material/chat:")
            return
        with st.container(horizontal=True, vertical_alignment="bottom"):
            chosen = st.selectbox("Service", sorted(services), key="service", bind="query-params", width=320)
            turns: list[Turn] = st.session_state.setdefault(f"playground/{record.tag}/{chosen}", [])
            st.button("Begin anew", key="playground/anew", icon=":material/delete_sweep:", on_click=turns.clear)
        if not services[chosen].ready:
            st.warning("None of its pods answers now.", icon=":material/hourglass_empty:")
        asked = _settings(may)
        _conversation(record.tag, chosen, turns, asked, may)


def _settings(may: bool) -> Entered:
    with st.expander("How it is asked", icon=":material/tune:"):
        fields = Fields(CallRequest, "playground", Faults(None), disabled=not may)
        system = st.text_input("System prompt", key="playground/system", placeholder="none", disabled=not may)
        model, tokens, temperature = st.columns(3)
        with model:
            entered = fields.text("model", "Model", "the first one that it names")
        with tokens:
            entered |= fields.number("max_tokens", "Tokens at most")
        with temperature:
            entered |= fields.decimal("temperature", "Temperature")
    return entered | ({"system": system} if system else {})


def _conversation(tag: str, service: str, turns: list[Turn], asked: Entered, may: bool) -> None:
    said = st.container()
    prompt = st.chat_input(
        f"Ask {service}", key=f"playground/{service}/prompt", disabled=not may, submit_mode="stop", height=68
    )
    with said:
        for turn in turns:
            _shown(turn)
        failed = turns and turns[-1].problem is not None
        again = failed and st.button("Ask again", key="playground/again", icon=":material/refresh:", disabled=not may)
        if again:
            prompt = turns.pop().asked
        if prompt:
            turn = Turn(prompt)
            before = [*turns]
            turns.append(turn)
            _asked(tag, service, before, turn, asked)


def _shown(turn: Turn) -> None:
    with st.chat_message("user", avatar=_USER):
        st.text(turn.asked)
    with st.chat_message("assistant", avatar=_MODEL):
        if turn.reasoning:
            with st.expander("What it thought", icon=":material/psychology:"):
                st.text(turn.reasoning)
        if turn.text:
            st.text(turn.text)
        if turn.problem is not None:
            problem_box(turn.problem)
        else:
            st.caption(turn.numbers)


def _asked(tag: str, service: str, before: list[Turn], turn: Turn, asked: Entered) -> None:
    """Ask, and draw what comes. Text of a model is never Markdown here: a link or picture in it is not carried out."""
    with st.chat_message("user", avatar=_USER):
        st.text(turn.asked)
    namespace, _, name = service.partition("/")
    with st.chat_message("assistant", avatar=_MODEL):
        thought, written = st.empty(), st.empty()
        written.caption("Waiting for the first token…")
        try:
            # Closed at once where the person stops it: whoever hangs up ends the call.
            with closing(
                gateway().stream(
                    endpoints.CALL_MODEL, _request(before, turn, asked), tag=tag, name=name, namespace=namespace
                )
            ) as stream:
                for event in stream:
                    _heard(event, turn, thought, written)
        except GatewayProblem as error:
            turn.problem = error.problem
    st.rerun()


def _heard(event: Event, turn: Turn, thought: DeltaGenerator, written: DeltaGenerator) -> None:
    """Take what came, and draw it. Raises GatewayProblem where the call has failed."""
    match event.name:
        case "reasoning":
            turn.reasoning += json.loads(event.data)["delta"]
            thought.text(turn.reasoning)
        case "text":
            turn.text += json.loads(event.data)["delta"]
            written.text(turn.text)
        case "problem":
            raise GatewayProblem(Problem.model_validate_json(event.data))
        case "end":
            turn.numbers = numbers(ModelAnswer.model_validate_json(event.data))


def _request(before: list[Turn], turn: Turn, asked: Entered) -> dict[str, Any]:
    system = asked.get("system")
    messages = [{"role": "system", "content": system}] if system else []
    for each in before:
        if each.text and each.problem is None:
            messages += [{"role": "user", "content": each.asked}, {"role": "assistant", "content": each.text}]
    messages.append({"role": "user", "content": turn.asked})
    given = {name: value for name, value in asked.items() if name != "system"}
    return {"messages": messages, "stream": True, **given}


def numbers(answer: ModelAnswer) -> str:
    """How long it took and how much it was, in one line of Markdown."""
    told = [escaped(answer.model)]
    if answer.first_token_seconds is not None:
        told.append(f"first token after {answer.first_token_seconds:.2f} s")
    told.append(f"{answer.seconds:.2f} s in all")
    if answer.prompt_tokens is not None:
        told.append(f"{answer.prompt_tokens} tokens asked")
    if answer.completion_tokens is not None:
        told.append(f"{answer.completion_tokens} tokens answered")
    if answer.tokens_per_second is not None:
        told.append(f"{answer.tokens_per_second:.0f} tokens per second")
    if answer.finish_reason == "length":
        told.append("cut off at the most tokens")
    return " · ".join(told)
