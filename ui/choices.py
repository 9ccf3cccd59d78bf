"""What can be chosen now, as the gateway has looked it up."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.options import InstanceTypeOption, Options
from ui.kept import kept
from ui.problems import escaped
from ui.session import gateway

_SECONDS = 120.0


def options(region: str | None) -> Options:
    """What a cluster in the region can be made of; nothing where that cannot be told, which is shown: what is known
    anyway can still be entered."""
    try:
        with st.spinner("Looking up what can be chosen…"):
            return kept(f"options/{region}", _SECONDS, lambda: gateway().call(endpoints.GET_OPTIONS, region=region))
    except GatewayProblem as error:
        st.caption(f":material/warning: What can be chosen is not known: {escaped(error.problem.detail)}")
        return Options(
            region=region or "",
            zones=[],
            instance_types=[],
            training_plans=[],
            kubernetes_versions=[],
            looked_up_at=datetime.now(UTC),
        )


def described_type(known: Options, name: str) -> str:
    """An instance type in one line."""
    found = known.instance_type(name)
    return name if found is None else f"{name} · {_what(found)}"


def _what(option: InstanceTypeOption) -> str:
    parts = [f"{option.accelerators} × {option.accelerator}"] if option.accelerators else []
    parts.append(f"{option.vcpus} vCPU, {option.memory_gib:g} GiB")
    if option.quota is not None:
        parts.append(f"quota {option.quota}")
    return " · ".join(parts)
