"""Managed endpoints: what the inference operator serves, and what can be done to one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.catalogue import CREATE_ENDPOINT, UPDATE_ENDPOINT
from contracts.cluster import ClusterRecord
from contracts.features import Feature
from contracts.managed_endpoints import EndpointDetail, EndpointList, EndpointSpec, ManagedEndpoint
from contracts.names import namespaced, operation_id
from ui.fields import Fields
from ui.json_area import json_area
from ui.kept import kept
from ui.links import page_link
from ui.problems import escaped, problems_shown
from ui.serving_endpoint_fields import endpoint_fields
from ui.serving_fields import Known
from ui.serving_parts import chosen_one, conditions_table, deletion, full_name, named, table
from ui.serving_room import room_shown
from ui.session import gateway
from ui.storage_credentials import credential_names
from ui.times import ago
from ui.wishes import Wish, faults, plan_and_start

_EVERY = "5s"
_SECONDS = 3.0
_SPEC_SECONDS = 60.0
_LOOK, _UPDATE, _DELETE = "Look at it", "Update", "Delete"


def endpoints_of(tag: str) -> EndpointList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"endpoints/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_ENDPOINTS, tag=tag))


def endpoints_tab(record: ClusterRecord, may: bool) -> None:
    """Table, what can be done to one, and a form for another."""
    _live(record)
    with problems_shown():
        found = {full_name(each): each for each in endpoints_of(record.tag).endpoints}
        chosen, action = chosen_one("endpoint", found, [_LOOK, _UPDATE, _DELETE])
        if chosen is not None:
            with st.container(border=True):
                _one(record.tag, found[chosen], action, may)
        with st.expander("Create a managed endpoint", icon=":material/add:", expanded=not found):
            _create(record.tag, may)


@st.fragment(run_every=_EVERY)
def _live(record: ClusterRecord) -> None:
    with problems_shown():
        found = endpoints_of(record.tag)
        operator = next((each for each in record.features if each.feature is Feature.INFERENCE_OPERATOR), None)
        there = operator is not None and operator.state.usable
        nothing = "The inference operator serves nothing here."
        if not there:
            nothing += " It is a feature of the cluster, and must be on."
        table([_row(each, found.read_at) for each in found.endpoints], "managed endpoints", nothing)
        if not found.endpoints and not there:
            page_link("features", "Features", ":material/toggle_on:", cluster=record.tag)


def _row(endpoint: ManagedEndpoint, read_at: datetime) -> dict[str, Any]:
    return {
        "Endpoint": full_name(endpoint),
        "State": endpoint.state.value,
        "Ready": f"{endpoint.ready_replicas} of {endpoint.replicas}",
        "What goes on": endpoint.detail or endpoint.reason or "",
        "Model": endpoint.model or "",
        "From": endpoint.source or "",
        "Types": ", ".join(endpoint.instance_types),
        "Routing": endpoint.routing.value if endpoint.routing else "none",
        "Service": endpoint.service or "",
        "SageMaker": endpoint.sagemaker_state or "",
        "Made by": "this platform" if endpoint.managed else "others",
        "Since": ago(endpoint.created_at, read_at),
    }


def _create(tag: str, may: bool) -> None:
    form = f"{tag}/create-endpoint"
    found = faults(form)
    known = Known(room_shown(tag), credential_names(tag))
    body = endpoint_fields(Fields(EndpointSpec, form, found, disabled=not may), known)
    plan_and_start(Wish(form, endpoints.CREATE_ENDPOINT, {"tag": tag}, body), found, start="Create it", may=may)


def _one(tag: str, endpoint: ManagedEndpoint, action: str, may: bool) -> None:
    if action == _LOOK:
        _look(tag, endpoint)
    elif action == _UPDATE:
        _update(tag, endpoint, may)
    else:
        says = "Its pods, its load balancer and its SageMaker endpoint go with it; the model's files stay."
        deletion(tag, endpoint, endpoints.DELETE_ENDPOINT, what="endpoint", says=says, may=may)


def _look(tag: str, endpoint: ManagedEndpoint) -> None:
    detail: EndpointDetail = gateway().call(endpoints.GET_ENDPOINT, **named(tag, endpoint))
    st.markdown(f"**{escaped(full_name(endpoint))}** — {detail.endpoint.kind}, {detail.endpoint.state.value}")
    for pod in detail.pods:
        st.caption(f":material/deployed_code: {escaped(pod)}")
    conditions_table(detail.conditions)


def _update(tag: str, endpoint: ManagedEndpoint, may: bool) -> None:
    form = f"{tag}/{full_name(endpoint)}/update-endpoint"
    found = faults(form)
    st.caption("The whole endpoint as it is to be. Its routing stays as it was made; the plan says what changes.")
    asked = kept(f"{form}/spec", _SPEC_SECONDS, lambda: _last_spec(tag, endpoint))
    body = json_area("Specification", asked, f"{form}/body", height=320, disabled=not may)
    if body is None:
        return
    wish = Wish(form, endpoints.UPDATE_ENDPOINT, {"tag": tag, "name": endpoint.name}, body)
    plan_and_start(wish, found, start="Update it", may=may)


def _last_spec(tag: str, endpoint: ManagedEndpoint) -> dict[str, Any]:
    """What it was last asked to be; of one that nobody remembers, what is seen of it."""
    target = namespaced(endpoint.name, endpoint.namespace)
    for kind in (UPDATE_ENDPOINT, CREATE_ENDPOINT):
        try:
            return gateway().call(endpoints.GET_OPERATION_SPEC, id=operation_id(kind.name, tag, target)).spec
        except GatewayProblem as error:
            if error.problem.status != 404:
                raise
    return endpoint.model_dump(mode="json", include={"name", "namespace", "instance_types", "replicas", "routing"})
