"""Pods as a table."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from contracts.jobs import JobPod


def pods_table(pods: Sequence[JobPod]) -> None:
    """Draw pods with what holds each up, or that there are none."""
    if not pods:
        st.caption("It has no pods.")
        return
    st.dataframe(
        [
            {
                "Pod": pod.name,
                "Phase": pod.phase,
                "Node": pod.node or "none yet",
                "Why": pod.message or pod.reason or "",
                "Restarts": pod.restarts,
                "Exit code": "" if pod.exit_code is None else str(pod.exit_code),
            }
            for pod in pods
        ],
        hide_index=True,
        height="content" if len(pods) <= 12 else 460,
        alt="Pods",
    )
