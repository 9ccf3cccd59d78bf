"""Which cluster a page is about: the one that the address names, else the one that was looked at last, else the
caller's default, else the only one that there is, else one to choose."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.access import Caller
from contracts.cluster import ClusterSummary, ClusterView
from contracts.words import number_of
from ui.kept import kept
from ui.links import page_link, parameter
from ui.problems import problems_shown
from ui.session import forget_caller, gateway
from ui.times import ago

PARAMETER = "cluster"
_AT_ONCE = 200
_LISTED = 50
_LIST_SECONDS = 15.0
_SEARCH = "cluster-picker/search"
_LAST = "cluster-picker/last"
"""The navigation leads to pages without naming a cluster."""


def chosen_cluster(caller: Caller) -> str:
    """The cluster's tag, which the address names from now on. Draws what changes the choice; ends the run with a list
    to choose from where nothing says which cluster is meant."""
    tag = parameter(PARAMETER) or st.session_state.get(_LAST) or caller.default_cluster or _only_one()
    if tag is None:
        _to_choose_from()
        st.stop()
    if st.query_params.get(PARAMETER) != tag:
        st.query_params[PARAMETER] = tag
    st.session_state[_LAST] = tag
    _another(tag, caller)
    return tag


def view_of(tag: str) -> ClusterView:
    """The cluster as it is; as it was seen last where nobody answers for the moment. Raises GatewayProblem."""
    return kept(f"cluster/{tag}", 0.0, lambda: gateway().call(endpoints.GET_CLUSTER, tag=tag))


def _another(tag: str, caller: Caller) -> None:
    """What else could be chosen, and whether this is what the caller's faces begin with."""
    # Of hundreds, this takes longer than the rest of the page, which is drawn anew with every click.
    known: list[ClusterSummary] = []
    with problems_shown():
        known = kept("cluster-picker", _LIST_SECONDS, _listed)
    tags = list(dict.fromkeys([tag, *(each.tag for each in known)]))
    key = f"cluster-picker/{tag}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.selectbox(
            "Cluster",
            sorted(tags),
            index=sorted(tags).index(tag),
            key=key,
            on_change=lambda: _choose(st.session_state[key]),
            accept_new_options=len(known) >= _AT_ONCE,
            width=320,
            label_visibility="collapsed",
        )
        if caller.default_cluster == tag:
            st.button(
                "Default",
                icon=":material/keep:",
                help="Your pages begin with this cluster. Click to begin with none.",
                key="cluster-picker/no-default",
                on_click=_forget_default,
                type="tertiary",
            )
        else:
            st.button(
                "Make default",
                icon=":material/keep_off:",
                help="Your pages, and your agents, begin with this cluster.",
                key="cluster-picker/default",
                on_click=_make_default,
                args=(tag,),
                type="tertiary",
            )


def _choose(tag: str) -> None:
    st.query_params[PARAMETER] = tag


def _make_default(tag: str) -> None:
    with problems_shown():
        gateway().call(endpoints.SET_DEFAULT_CLUSTER, {"cluster": tag})
        forget_caller()


def _forget_default() -> None:
    with problems_shown():
        gateway().call(endpoints.CLEAR_DEFAULT_CLUSTER)
        forget_caller()


def _listed(search: str | None = None) -> list[ClusterSummary]:
    """Raises GatewayProblem."""
    return gateway().call(endpoints.LIST_CLUSTERS, search=search, page_size=_AT_ONCE).clusters


def _only_one() -> str | None:
    found = _clusters(None) if not st.session_state.get(_SEARCH) else []
    return found[0].tag if len(found) == 1 else None


def _clusters(search: str | None) -> list[ClusterSummary]:
    with problems_shown():
        return _listed(search)
    return []


def _to_choose_from() -> None:
    st.title("Choose a cluster")
    search = st.text_input("Search", placeholder="Part of the tag or the region", icon=":material/search:", key=_SEARCH)
    found = _clusters(search or None)
    if not found and search:
        st.info(f"No cluster has “{search}” in its tag or region.", icon=":material/search_off:")
    elif not found:
        st.info("There is no cluster yet.", icon=":material/deployed_code:")
        page_link("create", "Create a cluster", ":material/add_circle:")
        page_link("import", "Import one that exists", ":material/download:")
    for each in found[:_LISTED]:
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"choice-{each.tag}"):
            st.button(
                each.tag,
                key=f"cluster-picker/choose/{each.tag}",
                icon=":material/hub:",
                on_click=_choose,
                args=(each.tag,),
                type="tertiary",
            )
            st.caption(
                f"{each.region} · EKS {each.eks_status or 'not there'} · HyperPod {each.hyperpod_status or 'not there'}"
                f" · {number_of(each.nodes, 'node')} · {number_of(each.accelerators, 'accelerator')}"
                f" · changed {ago(each.updated_at)}"
            )
    if len(found) > _LISTED:
        st.caption(f"The newest {_LISTED} of {len(found)} or more: search for the others.")
