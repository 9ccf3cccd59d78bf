"""Presets: training runs without a name, saved, versioned, shared and loaded."""

from __future__ import annotations

from typing import Any

import streamlit as st
import yaml

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.preset_loading import reference
from contracts.presets import PresetDetail, PresetSummary, SavePreset
from ui.faults import Faults
from ui.fields import Fields
from ui.kept import drop, kept
from ui.links import page_link
from ui.paging import page_buttons, page_token
from ui.problems import escaped, problem_box, problems_shown
from ui.session import gateway
from ui.times import at

_SECONDS = 5.0
_PAGE = 100
Preset = PresetDetail


def preset_names() -> list[str]:
    """Of those that may be loaded. Raises GatewayProblem."""
    return [each.name for each in _listed(None)[0]]


def _listed(token: str | None) -> tuple[list[PresetSummary], str | None]:
    """Raises GatewayProblem."""
    name = f"presets/{token}"
    found = kept(name, _SECONDS, lambda: gateway().call(endpoints.LIST_PRESETS, page_size=_PAGE, page_token=token))
    return found.presets, found.next_page_token


def loaded_preset(text: str) -> Preset:
    """``NAME`` or ``NAME@VERSION``; says so where it is no valid run any more. Raises GatewayProblem."""
    try:
        name, version = reference(text)
    except ValueError:
        name, version = text, None
    found = kept(f"preset/{text}", _SECONDS, lambda: gateway().call(endpoints.GET_PRESET, name=name, version=version))
    if found.problem is not None:
        st.warning(f"Rules have changed since it was saved: {escaped(found.problem)}", icon=":material/rule:")
    return found


def saving(form: str, document: dict[str, Any], preset: Preset | None, may: bool) -> None:
    """Draw what a form is saved with: a new preset, or a new version of the one that it began with."""
    key = f"{form}/save"
    refused = st.session_state.get(f"{key}/refused")
    found = Faults(refused)
    fields = Fields(SavePreset, key, found, disabled=not may)
    left, right = st.columns(2)
    with left:
        name = st.text_input(
            "Name of the preset",
            value=preset.preset.name if preset is not None else "",
            key=f"{key}/name",
            disabled=not may,
            placeholder="e.g. llama-8b-sft",
        )
        found.at("/name")
    with right:
        entered = fields.text("comment", "What is new in it", "nothing is said")
    shared = st.toggle(
        "Everybody may load it",
        value=preset.preset.shared if preset is not None else False,
        key=f"{key}/shared",
        disabled=not may,
    )
    found.rest()
    if refused is not None and refused.status == 412:
        st.caption(
            "There is a preset of that name, or a newer version of it. Load it, and change that; or choose another."
        )
    sent = st.button("Save", key=f"{key}/sent", icon=":material/save:", disabled=not may or not name.strip())
    if sent:
        _save(key, name.strip(), {"document": document, "shared": shared, **entered}, preset)
    if said := st.session_state.pop(f"{key}/said", None):
        st.success(said, icon=":material/check_circle:")


def _save(key: str, name: str, body: dict[str, Any], preset: Preset | None) -> None:
    """A new version upon the one that was loaded; under another name only a preset that is new."""
    st.session_state.pop(f"{key}/refused", None)
    if preset is not None and preset.preset.name == name:
        headers = {"If-Match": f'"{preset.preset.version}"'}
    else:
        headers = {"If-None-Match": "*"}
    try:
        saved = gateway().call(endpoints.SAVE_PRESET, body, name=name, headers=headers)
    except GatewayProblem as error:
        st.session_state[f"{key}/refused"] = error.problem
    else:
        drop("presets/None")
        drop(f"preset/{name}")
        version = saved.preset.version
        told = f"It is version {version} now." if saved.changed else f"It is what version {version} says already."
        st.session_state[f"{key}/said"] = f"{name} is saved. {told}"
    st.rerun()


def presets_tab(record: ClusterRecord, may: bool) -> None:
    """All that may be loaded, and one closely."""
    key = "presets/page"
    with problems_shown():
        found, following = _listed(page_token(key))
        if not found:
            st.info(
                "No preset is saved that you may load. A filled form is saved as one, under New run.",
                icon=":material/bookmark:",
            )
            page_link("training", "New run", ":material/add:", cluster=record.tag, tab="New run")
            return
        st.dataframe([_row(each) for each in found], hide_index=True, height="content", alt=f"{len(found)} presets")
        page_buttons("presets", key, following)
        by_name = {each.name: each for each in found}
        chosen = st.selectbox("Preset", sorted(by_name), key="looked-at", bind="query-params", width=320)
        if chosen is not None:
            with st.container(border=True):
                _one(record.tag, by_name[chosen], may)


def _row(preset: PresetSummary) -> dict[str, Any]:
    return {
        "Preset": preset.name,
        "Runs": preset.title,
        "Version": preset.version,
        "Owner": preset.owner,
        "Shared": "with everybody" if preset.shared else "no",
        "Saved": at(preset.saved_at),
        "By": preset.saved_by,
        "What is new": preset.comment,
    }


def _one(tag: str, preset: PresetSummary, may: bool) -> None:
    versions = list(range(preset.version, preset.oldest - 1, -1))
    version = st.selectbox("Version", versions, key=f"presets/{preset.name}/version", width=140)
    found = loaded_preset(f"{preset.name}@{version}")
    said = f" — {escaped(found.version.comment)}" if found.version.comment else ""
    st.caption(f"Version {version}, saved by {escaped(found.version.saved_by)}, {at(found.version.saved_at)}{said}")
    st.code(yaml.safe_dump(found.version.document, sort_keys=False, allow_unicode=True), language="yaml", height=320)
    with st.container(horizontal=True, vertical_alignment="center"):
        page_link(
            "training",
            "Begin a run with it",
            ":material/play_arrow:",
            cluster=tag,
            tab="New run",
            preset=f"{preset.name}@{version}" if version != preset.version else preset.name,
        )
        with st.popover("Delete…", icon=":material/delete:", disabled=not may):
            st.markdown("It goes with all its versions. Runs that were made from it are what they are.")
            if st.button("Delete the preset", key=f"presets/{preset.name}/delete", type="primary"):
                _delete(preset)


def _delete(preset: PresetSummary) -> None:
    try:
        gateway().call(endpoints.DELETE_PRESET, name=preset.name, headers={"If-Match": f'"{preset.version}"'})
    except GatewayProblem as error:
        problem_box(error.problem)
        return
    drop("presets/None")
    st.query_params.pop("looked-at", None)
    st.rerun()
