"""Looking after a cluster: what it lacks and can be made now, and looking at it anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from contracts import catalogue, endpoints
from contracts.catalogue import ControlPlaneSpec, DependenciesSpec, OperationKind
from contracts.cluster import ClusterRecord
from contracts.dependencies import COMPONENTS, ComponentState
from contracts.endpoints import Endpoint
from contracts.operation import Operation
from ui.choices import options
from ui.fields import Entered, Fields
from ui.links import page_link
from ui.spec_fields import groups_fields, hyperpod_fields, network_fields
from ui.wishes import Wish, faults, plan_and_start


@dataclass(frozen=True)
class _Look:
    """An operation that needs no input."""

    kind: OperationKind[Any]
    endpoint: Endpoint[Operation]
    icon: str
    says: str


_LOOKS: tuple[_Look, ...] = (
    _Look(
        catalogue.VERIFY_CLUSTER,
        endpoints.VERIFY_CLUSTER,
        ":material/fact_check:",
        "Components, nodes and claims are looked at, and the record is brought up to date. What does not work blocks.",
    ),
    _Look(
        catalogue.REDETECT_CLUSTER,
        endpoints.REDETECT_CLUSTER,
        ":material/radar:",
        "Everything is read anew from AWS and Kubernetes, as if nothing were known. The result says what changed.",
    ),
    _Look(
        catalogue.VERIFY_ACCESS,
        endpoints.VERIFY_ACCESS,
        ":material/key:",
        "This platform's own principal gets administration of the Kubernetes API, and proves it.",
    ),
)


def missing(record: ClusterRecord) -> list[str]:
    """Parts that the record does not have, in the order in which they are made."""
    ready = {each.name for each in record.dependencies if each.state is not ComponentState.FAILED}
    parts = {
        "control plane": record.control_plane is None,
        "dependencies": record.control_plane is not None and not {each.name for each in COMPONENTS} <= ready,
        "HyperPod cluster": record.hyperpod is None,
        "storage": not record.storage,
    }
    return [name for name, lacking in parts.items() if lacking]


def care_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab."""
    lacking = missing(record)
    st.markdown("#### What is missing and can be made now")
    if not lacking:
        st.caption(":material/check: Nothing: it has all parts of a cluster.")
    if "control plane" in lacking:
        with st.expander("Network and EKS control plane", icon=":material/dns:"):
            _control_plane(record, may)
    with st.expander(
        "Dependencies" if "dependencies" in lacking else "Dependencies (all are there: install again)",
        icon=":material/extension:",
    ):
        _dependencies(record, may)
    if "HyperPod cluster" in lacking:
        with st.expander("HyperPod cluster", icon=":material/memory:"):
            _hyperpod(record, may)
    if "storage" in lacking:
        page_link("storage", "Mount storage", ":material/database:", cluster=record.tag)
    st.markdown("#### Look at it anew")
    for look in _LOOKS:
        _look(look, record, may)


def _look(look: _Look, record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/{look.kind.name}"
    with st.container(border=True):
        said, clicked = st.columns([4, 1], vertical_alignment="center")
        said.markdown(f"{look.icon} **{look.kind.title}**  \n{look.says}")
        found = faults(form)
        if clicked.button("Start", key=form, disabled=not may, width="stretch"):
            Wish(form, look.endpoint, {"tag": record.tag}).start()
            st.rerun()
        found.rest()


def _control_plane(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/create-control-plane"
    found = faults(form)
    top = Fields(ControlPlaneSpec, form, found, disabled=not may)
    known = options(record.region)
    entered = top.choice("kubernetes_version", "Kubernetes", known.kubernetes_versions)
    if network := network_fields(f"{form}/network", found, "/network", disabled=not may):
        entered["network"] = network
    parameters = {"tag": record.tag, "region": record.region}
    plan_and_start(Wish(form, endpoints.CREATE_CONTROL_PLANE, parameters, entered), found, start="Make it", may=may)


def _dependencies(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/install-dependencies"
    found = faults(form)
    titles = {each.name: each.title for each in COMPONENTS}
    entered = Fields(DependenciesSpec, form, found, disabled=not may).choices(
        "components", "Components", list(titles), described=lambda name: titles.get(name, name), placeholder="all"
    )
    plan_and_start(
        Wish(form, endpoints.INSTALL_DEPENDENCIES, {"tag": record.tag}, entered), found, start="Install them", may=may
    )


def _hyperpod(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/create-hyperpod"
    found = faults(form)
    parts: dict[str, Entered | list[Entered]] = {
        "hyperpod": hyperpod_fields(f"{form}/hyperpod", found, "/hyperpod", disabled=not may),
        "instance_groups": groups_fields(form, options(record.region), found, disabled=not may),
    }
    entered = {name: part for name, part in parts.items() if part}
    plan_and_start(Wish(form, endpoints.CREATE_HYPERPOD, {"tag": record.tag}, entered), found, start="Make it", may=may)
