"""Services that answer in OpenAI's format, whoever made them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.inference import InferenceService, ServicesRead
from ui.kept import kept
from ui.links import page_link
from ui.problems import problems_shown
from ui.serving_parts import full_name, table
from ui.session import gateway

_EVERY = "10s"
_SECONDS = 5.0


def services_of(tag: str) -> ServicesRead:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"services/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_SERVICES, tag=tag))


def services_tab(record: ClusterRecord, _: bool) -> None:
    """Draw the tab."""
    _live(record.tag)
    page_link("serving", "Talk to one", ":material/chat:", cluster=record.tag, tab="Playground")


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        table(
            [service_row(each) for each in services_of(tag).services],
            "services",
            "Nothing on this cluster answers in OpenAI's format.",
        )


def service_row(service: InferenceService) -> dict[str, Any]:
    """A Service as a row of a table."""
    behind = f"{service.serves.value} {service.of}" if service.of else service.serves.value
    return {
        "Service": full_name(service),
        "Behind it": behind.replace("-", " ", 1) if service.serves.value == "pool-service" else behind,
        "Engine": service.engine or "",
        "Pods": f"{service.ready} ready" + (f", {service.waiting} not" if service.waiting else ""),
        "Port": service.port,
        "Reached": _reached(service),
        "Address": service.address or "",
        "Made by": "this platform" if service.managed else "others",
    }


def _reached(service: InferenceService) -> str:
    if service.type != "LoadBalancer":
        return "in the cluster"
    scope = "the internet" if service.public else "the VPC"
    return f"from {scope}" if service.address else f"from {scope}, no address yet"
