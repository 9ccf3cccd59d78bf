"""The history: what was asked, by whom, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.catalogue import KINDS
from contracts.operation import Phase
from ui.links import parameter
from ui.operation_rows import history_rows
from ui.operation_view import PHASES, title_of
from ui.problems import problem_box
from ui.session import gateway
from ui.times import zone

_ON_A_PAGE = 20
_SECONDS = 5.0
_SINCE = {
    "hour": ("The last hour", timedelta(hours=1)),
    "day": ("The last 24 hours", timedelta(days=1)),
    "week": ("The last 7 days", timedelta(days=7)),
    "month": ("The last 30 days", timedelta(days=30)),
}
_TOKEN = "after"
_BEFORE = "operations/pages-before"


def page() -> None:
    """Draw the page. The address holds every filter and the page of the list."""
    st.title("Operations", anchor=False)
    filters = _filters()
    asked = str(sorted((name, str(value)) for name, value in filters.items() if name != "started_after"))
    if st.session_state.get("operations/asked", asked) != asked:
        _first_page()
    st.session_state["operations/asked"] = asked
    st.fragment(_list, run_every=_SECONDS, key="operations/list")(filters)


def _filters() -> dict[str, object]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        cluster = st.text_input("Cluster", key="cluster", bind="query-params", placeholder="Any", width=150)
        kinds = _several("kind", "What", list(KINDS), title_of, 250)
        phases = _several("phase", "Phase", [each.value for each in Phase], _phase_name, 220)
        by = st.text_input("Asked by", key="by", bind="query-params", placeholder="Anybody", width=140)
        since = _since()
        first = st.date_input("From", value=None, key="from", bind="query-params", width=150)
        last = st.date_input("To", value=None, key="to", bind="query-params", width=150)
        waiting = st.toggle("Waits for somebody", key="waiting", bind="query-params")
    filters: dict[str, object] = {
        "cluster": cluster.strip() or None,
        "kind": kinds or None,
        "phase": phases or None,
        "started_by": by.strip() or None,
        "needs_attention": True if waiting else None,
    }
    if since is not None:
        filters["started_after"] = _kept_moment(since).isoformat()
    if first is not None:
        filters["started_after"] = _midnight(first).isoformat()
    if last is not None:
        filters["started_before"] = _midnight(last + timedelta(days=1)).isoformat()
    return filters


def _several(name: str, label: str, options: list[str], described: Callable[[str], str], width: int) -> list[str]:
    """Any of the options. The address holds them as the gateway calls them; a bound widget would put labels there."""
    key = f"operations/{name}"
    if key not in st.session_state:
        st.session_state[key] = [each for each in st.query_params.get_all(name) if each in options]
    chosen = st.multiselect(label, options, format_func=described, key=key, placeholder="Any", width=width)
    _into_address(name, chosen)
    return chosen


def _since() -> str | None:
    key = "operations/began"
    if key not in st.session_state:
        named = parameter("since")
        st.session_state[key] = named if named in _SINCE else None
    chosen = st.selectbox(
        "Began", list(_SINCE), format_func=lambda name: _SINCE[name][0], key=key, placeholder="Any time", width=170
    )
    _into_address("since", [chosen] if chosen is not None else [])
    return chosen


def _phase_name(phase: str) -> str:
    return PHASES[Phase(phase)][0]


def _into_address(name: str, values: list[str]) -> None:
    if values != st.query_params.get_all(name):
        if values:
            st.query_params[name] = values
        else:
            st.query_params.pop(name, None)


def _kept_moment(since: str) -> datetime:
    """When the time begins, the same for all pages of the list: a page's token is good for one list only."""
    now, kept = datetime.now(UTC), st.session_state.get("operations/since")
    if kept is None or kept[0] != since or parameter(_TOKEN) is None:
        kept = (since, now - _SINCE[since][1])
        st.session_state["operations/since"] = kept
    moment: datetime = kept[1]
    return moment


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), zone())


def _list(filters: dict[str, object]) -> None:
    token = parameter(_TOKEN)
    try:
        found = gateway().call(endpoints.LIST_OPERATIONS, page_size=_ON_A_PAGE, page_token=token, **filters)
    except GatewayProblem as error:
        if error.problem.field == "/page_token":
            # A page of another list than the filters make now: theirs begins.
            _first_page()
            st.rerun()
        problem_box(error.problem)
        return
    if found.operations:
        history_rows(found.operations)
    elif any(value is not None for value in filters.values()):
        st.info("No operation is like that.", icon=":material/search_off:")
    else:
        st.info("Nothing was ever asked here. What is started shows up in this list.", icon=":material/history:")
    _turn(token, found.next_page_token)


def _turn(token: str | None, following: str | None) -> None:
    """Buttons to the pages around. A list may grow meanwhile, so they are not numbered."""
    before: list[str | None] = st.session_state.setdefault(_BEFORE, [])
    if token is None and following is None:
        return
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Newest", icon=":material/first_page:", key="operations/first", disabled=token is None):
            _first_page()
            st.rerun()
        if st.button("Newer", icon=":material/chevron_left:", key="operations/newer", disabled=not before):
            earlier = before.pop()
            _go_to(earlier)
        if st.button("Older", icon=":material/chevron_right:", key="operations/older", disabled=following is None):
            before.append(token)
            _go_to(following)


def _go_to(token: str | None) -> None:
    if token is None:
        st.query_params.pop(_TOKEN, None)
    else:
        st.query_params[_TOKEN] = token
    st.rerun()


def _first_page() -> None:
    st.session_state[_BEFORE] = []
    st.query_params.pop(_TOKEN, None)
