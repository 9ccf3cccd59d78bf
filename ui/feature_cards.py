"""The managed features as they are, each with what switches it. What was touched is sent, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import streamlit as st

from contracts.feature_catalogue import DEFINITIONS, dependents
from contracts.features import Feature, FeatureState, FeatureStatus, Observability, TieredCheckpointing, Toggle
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.problems import escaped

_Color = Literal["green", "orange", "red", "blue", "gray", "violet"]
_BADGES: dict[FeatureState, tuple[str, str, _Color]] = {
    FeatureState.ON: ("on", ":material/check_circle:", "green"),
    FeatureState.OFF: ("off", ":material/radio_button_unchecked:", "gray"),
    FeatureState.CHANGING: ("changing", ":material/progress_activity:", "blue"),
    FeatureState.DEGRADED: ("partly there", ":material/error:", "orange"),
    FeatureState.FOREIGN: ("others' own", ":material/person:", "violet"),
    FeatureState.UNKNOWN: ("could not be read", ":material/help:", "red"),
}
_SETTINGS: dict[Feature, tuple[type[Toggle], tuple[tuple[str, str], ...]]] = {
    Feature.TIERED_CHECKPOINTING: (
        TieredCheckpointing,
        (
            ("memory_percentage", "Share of the instances' memory (%)"),
            ("namespace", "Namespace of the training pods"),
            ("service_account", "Service account of the training pods"),
        ),
    ),
    Feature.OBSERVABILITY: (
        Observability,
        (
            ("prometheus_workspace_arn", "Prometheus workspace (ARN)"),
            ("grafana_workspace_arn", "Grafana workspace (ARN)"),
        ),
    ),
}
"""Features that have settings, and these as forms show them."""

ON, OFF = "On", "Off"
_ABREAST = 2


def feature_cards(form: str, features: Iterable[FeatureStatus], found: Faults, disabled: bool) -> Entered:
    """Draw a card for each feature, and return those that were touched, as the gateway takes them."""
    touched: Entered = {}
    order = list(DEFINITIONS)
    places = st.columns(_ABREAST)
    for place, status in enumerate(sorted(features, key=lambda each: order.index(each.feature))):
        with places[place % _ABREAST], st.container(border=True):
            change = _card(f"{form}/{status.feature}", status, found, disabled)
        if change is not None:
            touched[status.feature.value] = change
    return touched


def _card(key: str, status: FeatureStatus, found: Faults, disabled: bool) -> Entered | None:
    about, switch = st.columns([3, 1])
    with switch, st.container(horizontal_alignment="right"):
        enabled = _switch(f"{key}/{status.state}", status, disabled)
    with about:
        st.markdown("  \n".join(_said(status, enabled)))
    wanted = enabled or (enabled is None and status.state.there)
    entered = _settings(key, status, found, disabled) if wanted else {}
    found.at(f"/{status.feature}")
    if enabled is None and not entered:
        return None
    return {"enabled": enabled is not False, **entered}


def _said(status: FeatureStatus, enabled: bool | None) -> list[str]:
    """What there is to know of the feature, line by line, as Markdown."""
    definition = DEFINITIONS[status.feature]
    words, icon, color = _BADGES[status.state]
    title = f"**{definition.title}** :{color}-badge[{icon} {words}]"
    if status.version:
        title += f" :gray[{escaped(status.version)}]"
    if enabled is not None:
        title += f" :violet-badge[:material/edit: to be switched {'on' if enabled else 'off'}]"
    lines = [title]
    if status.detail:
        lines.append(escaped(status.detail))
    if enabled is False and definition.loses:
        lines.append(f":orange[:material/warning: Switching it off loses {definition.loses}.]")
    settings = [f"{name.replace('_', ' ')} {value}" for name, value in status.settings.items() if value is not None]
    if settings:
        lines.append(f":small[{escaped(' · '.join(settings))}]")
    return [*lines, f":small[:gray[{' · '.join(_relations(status.feature))}]]"]


def _switch(key: str, status: FeatureStatus, disabled: bool) -> bool | None:
    """What the feature should be; None where nobody has touched it."""
    if status.state in (FeatureState.ON, FeatureState.OFF):
        now = status.state is FeatureState.ON
        wanted = st.toggle(
            DEFINITIONS[status.feature].title, now, key=key, disabled=disabled, label_visibility="collapsed"
        )
        return wanted if wanted != now else None
    # Neither on nor off: completing it and taking it away are both changes.
    chosen = st.segmented_control(
        DEFINITIONS[status.feature].title, [ON, OFF], key=key, disabled=disabled, label_visibility="collapsed"
    )
    return None if chosen is None else chosen == ON


def _relations(feature: Feature) -> list[str]:
    definition = DEFINITIONS[feature]
    said = [escaped(feature)]
    if definition.needs or definition.components:
        needs = [*(DEFINITIONS[each].title for each in definition.needs), *definition.components]
        said.append(f"needs {', '.join(needs)}")
    if others := dependents(feature):
        said.append(f"needed by {', '.join(DEFINITIONS[each].title for each in others)}")
    return said + list(definition.notes)


def _settings(key: str, status: FeatureStatus, found: Faults, disabled: bool) -> Entered:
    if status.feature not in _SETTINGS:
        return {}
    model, members = _SETTINGS[status.feature]
    pointers = [f"/{status.feature}/{name}" for name, _ in members]
    fields = Fields(model, key, found, f"/{status.feature}", disabled)
    entered: Entered = {}
    with st.expander("Settings", icon=":material/tune:", expanded=found.any(*pointers)):
        for column, (name, label) in zip(st.columns(len(members)), members, strict=True):
            now = status.settings.get(name)
            hint = f"{now}, as it is" if now is not None else "as it is"
            with column:
                draw = fields.number if name == "memory_percentage" else fields.text
                entered |= draw(name, label, hint)
    return entered
