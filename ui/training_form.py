"""The form of a training run: a new one, one from a preset, or one that was, with changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.preset_loading import merged
from contracts.training import TrainingSpec
from ui.experiment_servers import server_names
from ui.fields import Entered, Fields
from ui.json_area import json_area
from ui.links import parameter
from ui.problems import escaped, problem_box, problems_shown
from ui.recipe_fields import recipe_fields, recipes
from ui.serving_room import room_shown
from ui.session import gateway
from ui.storage_credentials import credential_names
from ui.training_fields import (
    Known,
    hardware_fields,
    more_fields,
    own_options,
    place_fields,
    resilience_fields,
    types_of,
)
from ui.training_filling import fill, of_spec
from ui.training_presets import Preset, loaded_preset, preset_names, saving
from ui.wishes import Wish, faults, plan_and_start

_NOTHING = "nothing"


@dataclass(frozen=True)
class Beginning:
    """What the form says before anybody has touched it. ``key`` tells it from others; ``preset``: where it is one."""

    key: str
    document: dict[str, Any] = field(default_factory=dict)
    preset: Preset | None = None


def new_run_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab. The address may name a ``preset`` or a run to do ``again``."""
    with problems_shown():
        beginning = _beginning(record.tag)
        _form(record, beginning, may)


def _beginning(tag: str) -> Beginning:
    again = parameter("again")
    if again is not None:
        # A link from this page itself is followed without being written into the browser's address.
        st.query_params["again"] = again
        return _again(tag, again)
    with problems_shown():
        names = preset_names()
        if names or parameter("preset"):
            chosen = _chosen_preset(names)
            if chosen is not None:
                preset = loaded_preset(chosen)
                version = preset.version.version
                return Beginning(f"preset/{preset.preset.name}@{version}", dict(preset.version.document), preset)
    return Beginning("new")


def _again(tag: str, again: str) -> Beginning:
    namespace, _, name = again.rpartition("/")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"As **{escaped(again)}** was, with what is changed here.")
        st.button(
            "Begin with an empty form",
            key="training/empty",
            icon=":material/ink_eraser:",
            type="tertiary",
            on_click=_forget_again,
        )
    try:
        found = gateway().call(endpoints.GET_TRAINING_RUN, tag=tag, name=name, namespace=namespace or "default")
    except GatewayProblem as error:
        problem_box(error.problem)
        return Beginning("new")
    if found.spec is None:
        st.info("What it was made from is not known any more: the form is empty.", icon=":material/help:")
        return Beginning("new")
    return Beginning(f"again/{again}/{found.run.run or ''}", of_spec(found.spec))


def _forget_again() -> None:
    st.query_params.pop("again", None)


def _chosen_preset(names: list[str]) -> str | None:
    """``NAME`` or ``NAME@VERSION``, as the address has it."""
    named = parameter("preset")
    options = [_NOTHING, *dict.fromkeys([*([named] if named else []), *names])]
    key = "training/preset"
    st.session_state[key] = named or _NOTHING

    def keep() -> None:
        chosen = st.session_state[key]
        if chosen in (None, _NOTHING):
            st.query_params.pop("preset", None)
        else:
            st.query_params["preset"] = chosen

    st.selectbox("Begin with the preset", options, key=key, on_change=keep, width=320)
    return named


def _form(record: ClusterRecord, beginning: Beginning, may: bool) -> None:
    tag = record.tag
    form = f"{tag}/run-training/{beginning.key}"
    rest = fill(form, beginning.document)
    found = faults(form)
    fields = Fields(TrainingSpec, form, found, disabled=not may)
    known = recipes()
    kind = st.segmented_control(
        "Framework",
        list(known),
        default=next(iter(known)),
        format_func=lambda each: known[each].title,
        required=True,
        key=f"{form}/kind",
        disabled=not may,
    )
    entering, telling = st.columns([3, 1.8], gap="medium")
    with telling:
        types = types_of(record, room_shown(tag))
        image = known[kind].image
        st.caption(f"Runs in `{image}` where no image is named." if image else "An image must be named: More choices.")
    with entering:
        choices = Known(types, credential_names(tag), server_names(tag))
        body = hardware_fields(fields, choices, known[kind].submissions)
        body |= recipe_fields(fields, known[kind])
        found.at("/recipe")
        body = merged(body, place_fields(fields, choices))
        with st.expander("What keeps it alive", icon=":material/healing:"):
            body = merged(body, resilience_fields(fields))
        with st.expander("More choices", icon=":material/tune:"):
            body = merged(body, more_fields(fields))
            body = merged(body, own_options(fields, body.get("submission") or known[kind].submissions[0]))
            found.at("/experiment", "/ray", "/sagemaker", "/storage")
            others = json_area(
                "Members of the run that have no field here",
                rest,
                f"{form}/rest",
                height=90,
                disabled=not may,
                about="As in a specification in JSON; fields above win.",
            )
    whole = merged(others or {}, body)
    plan_and_start(Wish(form, endpoints.RUN_TRAINING, {"tag": tag}, whole), found, start="Submit the run", may=may)
    with st.expander("Save this form as a preset", icon=":material/bookmark_add:"):
        saving(form, _nameless(whole), beginning.preset, may)


def _nameless(body: Entered) -> Entered:
    return {name: value for name, value in body.items() if name != "name"}
