"""The form of a model server: a new one, or another form of one that runs."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.deployments import DeploymentSpec
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.serving_command import findings_shown
from ui.serving_fields import Known, command_field, filled_in, more_fields, size_fields
from ui.serving_room import room_shown
from ui.storage_credentials import credential_names
from ui.wishes import Wish, faults, plan_and_start


def deploy_tab(record: ClusterRecord, may: bool) -> None:
    """A new model server."""
    form = f"{record.tag}/create-deployment"
    found = faults(form)
    body = server_form(form, record.tag, found, may)
    wish = Wish(form, endpoints.CREATE_DEPLOYMENT, {"tag": record.tag}, body)
    plan_and_start(wish, found, start="Deploy it", may=may)


def update_form(tag: str, spec: DeploymentSpec, may: bool) -> None:
    """One that runs, as it is to be: what is cleared is as it would be by default."""
    form = f"{tag}/{spec.namespace}/{spec.name}/update-deployment"
    filled_in(form, spec)
    found = faults(form)
    body = server_form(form, tag, found, may)
    wish = Wish(form, endpoints.UPDATE_DEPLOYMENT, {"tag": tag, "name": spec.name}, body)
    plan_and_start(wish, found, start="Update it", may=may)


def server_form(form: str, tag: str, found: Faults, may: bool, model: type[DeploymentSpec] = DeploymentSpec) -> Entered:
    """Draw the fields of a model server beside what is free and what is said of its command; what was entered."""
    fields = Fields(model, form, found, disabled=not may)
    entering, telling = st.columns([3, 2], gap="medium")
    with telling:
        types = room_shown(tag)
        said = st.container()
    with entering:
        body = command_field(fields) | size_fields(fields, Known(types, credential_names(tag)))
        with st.expander("More choices", icon=":material/tune:"):
            body |= more_fields(fields)
    with said:
        st.markdown("**The command**")
        findings_shown(form, tag, body)
    return body
