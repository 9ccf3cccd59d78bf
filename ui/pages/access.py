"""Who I am here, whether operations can run, and for administrators: tokens and the audit trail."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.access import Caller, Role
from ui.access_tokens import tokens_shown
from ui.audit_trail import trail_shown
from ui.links import cluster_url, plain_link
from ui.problems import escaped, problems_shown
from ui.session import gateway, signed_in

_SECONDS = 10.0


def page() -> None:
    """Draw the page."""
    st.title("Access", anchor=False)
    caller = signed_in()
    _me(caller)
    st.subheader("Workers", anchor=False)
    st.fragment(_readiness, run_every=_SECONDS, key="access/readiness")()
    if caller.role is not Role.ADMIN:
        st.caption("Tokens and the audit trail are for administrators.")
        return
    st.subheader("Tokens", anchor=False)
    tokens_shown()
    st.subheader("Audit trail", anchor=False)
    trail_shown()


def _me(caller: Caller) -> None:
    with st.container(border=True):
        st.markdown(f"Signed in as **{escaped(caller.name)}**, with the role **{caller.role}**.")
        if caller.default_cluster is not None:
            plain_link(f"Default cluster: {caller.default_cluster}", cluster_url(caller.default_cluster))
        else:
            st.caption("No cluster is your default: choose one on the page of a cluster.")
        plain_link("Sign out: end this session", "/signout")


def _readiness() -> None:
    with problems_shown():
        readiness = gateway().call(endpoints.GET_READINESS)
        if readiness.ready:
            st.success(escaped(readiness.detail), icon=":material/check_circle:")
            return
        st.warning(escaped(readiness.detail), icon=":material/warning:")
        for queue in readiness.missing:
            st.markdown(f"- no worker asks `{queue}`")
