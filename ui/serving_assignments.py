"""Which service gets how many of a pool's pods, as a form: the whole wish."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.inference import InferenceService
from contracts.model_pools import ModelPoolView
from contracts.names import public_service
from ui.problems import escaped
from ui.serving_parts import full_name, named
from ui.wishes import Wish, faults, plan_and_start

_INSIDE, _VPC, _EVERYBODY = "in the cluster", "the VPC", "the internet"
_SCHEMES = {_VPC: "internal", _EVERYBODY: "internet-facing"}


def assignments_form(tag: str, pool: ModelPoolView, may: bool) -> None:
    """Draw the form, which begins with what is asked for now, and what was entered is planned and started by."""
    form = f"{tag}/{full_name(pool)}/assign-model-pool"
    found = faults(form)
    entered: dict[str, int] = {}
    reached: dict[str, str] = {}
    for each in pool.assignments:
        before = scope_of(each.service, pool.services)
        count, scope = _row(
            f"{form}/{each.service}/{each.wanted}/{before}", escaped(each.service), each.wanted, before, may
        )
        entered[each.service], reached[each.service] = count, scope
        found.at(f"/assignments/{each.service}", f"/public/{each.service}")
    name = st.text_input("Another service", key=f"{form}/name", placeholder="its name", disabled=not may).strip()
    if name:
        entered[name], reached[name] = _row(f"{form}/new/{name}", escaped(name), 1, _INSIDE, may)
        found.at(f"/assignments/{name}", f"/public/{name}")
    stay = st.toggle("Services without pods stay", key=f"{form}/keep_services", disabled=not may)
    handed_out = {service: count for service, count in entered.items() if count or stay}
    body: dict[str, Any] = {"assignments": handed_out} | ({"keep_services": True} if stay else {})
    if public := {service: _SCHEMES[reached[service]] for service in handed_out if reached[service] in _SCHEMES}:
        body["public"] = public
    if _EVERYBODY in reached.values() and st.toggle(
        "Everybody on the internet may call it", key=f"{form}/confirm_public", disabled=not may
    ):
        body["confirm_public"] = True
    found.at("/confirm_public")
    st.caption(f"{sum(entered.values())} of {pool.replicas} pods are handed out so.")
    wish = Wish(form, endpoints.ASSIGN_MODEL_POOL, named(tag, pool), body)
    plan_and_start(wish, found, start="Hand them out", may=may)


def _row(key: str, label: str, count: int, scope: str, may: bool) -> tuple[int, str]:
    """Pods of a service, and who reaches it."""
    left, right = st.columns([1, 1])
    with left:
        wanted = st.number_input(f"Pods of {label}", value=count, step=1, key=f"{key}/count", disabled=not may)
    with right:
        scopes = [_INSIDE, _VPC, _EVERYBODY]
        reached = st.selectbox("Reached from", scopes, index=scopes.index(scope), key=f"{key}/scope", disabled=not may)
    return wanted, reached


def scope_of(name: str, services: list[InferenceService]) -> str:
    """Who reaches a service of the pool, by the load balancer before it."""
    before = next((each for each in services if each.name == public_service(name)), None)
    if before is None:
        return _INSIDE
    return _EVERYBODY if before.public else _VPC
