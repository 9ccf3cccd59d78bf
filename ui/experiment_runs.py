"""The history of experiments: runs with their metrics, parameters and tags, as a table, closely, and as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.experiment_runs import MOST_COMPARED, ExperimentList, RunList, RunView, Value
from contracts.experiments import TAG_PREFIX
from contracts.words import number_of
from ui.experiment_charts import histories_shown
from ui.experiment_servers import server_names
from ui.kept import kept
from ui.links import page_link, parameter, plain_link
from ui.log_routes import RUNS
from ui.paging import page_buttons, page_token
from ui.problems import escaped, problems_shown
from ui.serving_parts import table
from ui.session import gateway
from ui.times import at, lasting

_PAGE = 50
_SECONDS = 10.0
_MOST_COLUMNS = 12
"""Of metrics, and of parameters, in the table; all of them are in the CSV."""
_WANTED = {"active": "Active", "deleted": "Deleted", "all": "All"}


def chosen_server(tag: str) -> str | None:
    """The tracking server that the address names, else the cluster's first one; draws the choice."""
    names = server_names(tag)
    named = parameter("server")
    options = list(dict.fromkeys([*([named] if named else []), *names]))
    if not options:
        st.info("There is no tracking server yet: metrics of training runs have nowhere to go.", icon=":material/dns:")
        page_link("history", "Create a tracking server", ":material/add:", cluster=tag, tab="Tracking servers")
        return None
    chosen = named or options[0]
    if named is None:
        st.query_params["server"] = chosen
    key = f"history/server/{chosen}"

    def keep() -> None:
        st.query_params["server"] = st.session_state[key] or chosen

    st.selectbox(
        "Tracking server",
        options,
        index=options.index(chosen),
        key=key,
        on_change=keep,
        accept_new_options=True,
        width=320,
    )
    return chosen


def runs_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab. The address holds the server, the filters, and the run that is looked at."""
    tag = record.tag
    with problems_shown():
        filters = st.container(horizontal=True, vertical_alignment="bottom")
        with filters:
            server = chosen_server(tag)
        if server is None:
            return
        with filters:
            asked = _asked(tag, server)
        key = f"history/page/{tag}/{sorted((name, str(value)) for name, value in asked.items())}"
        with st.spinner("Reading the runs…"):
            found = _searched(tag, asked, page_token(key))
        chosen = _listed(tag, found, asked)
        page_buttons("history", key, found.next_page_token)
        run = parameter("run") if len(chosen) != 1 else chosen[0]
        if run is not None:
            _one(tag, server, run)


def _asked(tag: str, server: str) -> dict[str, Any]:
    """What was entered, as parameters of the gateway's route."""
    experiments = kept(
        f"experiments/{tag}/{server}",
        _SECONDS,
        lambda: gateway().call(endpoints.LIST_EXPERIMENTS, tag=tag, tracking_server=server, page_size=200),
    )
    names = st.multiselect(
        "Experiments", _names(experiments), key="experiment", bind="query-params", placeholder="all", width=260
    )
    filter = st.text_input(
        "Filter",
        key="filter",
        bind="query-params",
        placeholder="metrics.loss < 1 and params.lr = '0.1'",
        width=300,
        help="In MLflow's search syntax.",
    )
    order = st.text_input("Order", key="order", bind="query-params", placeholder="the newest first", width=170)
    wanted = st.selectbox("Runs", list(_WANTED), key="wanted", bind="query-params", width=110)
    return {
        "tracking_server": server,
        "experiment": names or None,
        "filter": filter.strip() or None,
        "order_by": [order.strip()] if order.strip() else None,
        "wanted": wanted if wanted != "active" else None,
    }


def _names(found: ExperimentList) -> list[str]:
    return [each.name for each in found.experiments]


def _searched(tag: str, asked: Mapping[str, Any], token: str | None) -> RunList:
    name = f"runs/{tag}/{sorted((key, str(value)) for key, value in asked.items())}/{token}"
    return kept(
        name,
        _SECONDS,
        lambda: gateway().call(endpoints.SEARCH_RUNS, tag=tag, page_size=_PAGE, page_token=token, **asked),
    )


def _listed(tag: str, found: RunList, asked: Mapping[str, Any]) -> list[str]:
    """The table; IDs of the runs that were chosen in it."""
    runs = found.runs
    if not runs:
        some = any(value for name, value in asked.items() if name != "tracking_server")
        nothing = "No run is like that." if some else "Nothing has reported to this server yet."
        st.info(nothing, icon=":material/search_off:")
        return []
    metrics, parameters = _common(runs, "metrics"), _common(runs, "parameters")
    picked = st.dataframe(
        [_row(each, metrics, parameters) for each in runs],
        hide_index=True,
        height="content" if len(runs) <= 12 else 460,
        key=f"{tag}/history/table",
        on_select="rerun",
        selection_mode="multi-row",
        alt=number_of(len(runs), "run"),
    )
    chosen = [runs[position].run_id for position in picked.selection.rows if position < len(runs)]
    with st.container(horizontal=True, vertical_alignment="center"):
        if len(chosen) > 1:
            page_link(
                "history",
                f"Compare these {min(len(chosen), MOST_COMPARED)}",
                ":material/stacked_line_chart:",
                cluster=tag,
                tab="Compare",
                server=asked["tracking_server"],
                runs=",".join(chosen[:MOST_COMPARED]),
            )
        elif not chosen:
            st.caption("Choose one run to see it closely, or several to compare them.")
        plain_link("Download all of them as CSV", _csv(tag, asked))
    return chosen


def _csv(tag: str, asked: Mapping[str, Any]) -> str:
    given = {name: value for name, value in asked.items() if value is not None}
    return f"{RUNS}?{urlencode({'tag': tag, **given}, doseq=True)}"


def _common(runs: Sequence[RunView], member: str) -> list[str]:
    """The names that most runs have, first those."""
    counted: dict[str, int] = {}
    for run in runs:
        for name in getattr(run, member):
            counted[name] = counted.get(name, 0) + 1
    return sorted(counted, key=lambda name: (-counted[name], name))[:_MOST_COLUMNS]


def _row(run: RunView, metrics: Sequence[str], parameters: Sequence[str]) -> dict[str, Any]:
    hardware = f"{run.nodes} × {run.instance_type}" if run.instance_type and run.nodes else run.instance_type or ""
    took = lasting(run.ended_at - run.started_at) if run.ended_at and run.started_at else ""
    return {
        "Run": run.name or run.run_id[:8],
        "Experiment": run.experiment or run.experiment_id,
        "Status": run.status.lower() + (", deleted" if run.deleted else ""),
        "Began": at(run.started_at) if run.started_at is not None else "",
        "Took": took,
        **{name: _number(run.metrics.get(name)) for name in metrics},
        **{f"{name} ": run.parameters.get(name, "") for name in parameters},
        "Runs on": hardware,
        "Training run": run.training or "",
    }


def _number(value: Value | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float | int) else value


def _one(tag: str, server: str, run_id: str) -> None:
    with problems_shown(), st.container(border=True):
        with st.spinner("Reading the run…"):
            detail = kept(
                f"run/{tag}/{server}/{run_id}",
                _SECONDS,
                lambda: gateway().call(endpoints.GET_RUN, tag=tag, run_id=run_id, tracking_server=server),
            )
        run = detail.run
        st.markdown(f"##### {escaped(run.name or run.run_id)}")
        by = f" · by {escaped(run.user)}" if run.user else ""
        st.caption(f"`{run.run_id}` · {run.status.lower()}{by}")
        if run.training is not None and run.tags.get(f"{TAG_PREFIX}cluster") == tag:
            name = f"{run.tags.get(f'{TAG_PREFIX}namespace', 'default')}/{run.training}"
            label = f"Training run {escaped(name)}"
            page_link("training", label, ":material/model_training:", cluster=tag, tab="Runs", run=name)
        histories_shown(detail.histories)
        left, right = st.columns(2)
        with left:
            st.markdown("**Parameters**")
            _pairs(run.parameters, "parameters", "None was reported.")
        with right:
            st.markdown("**Tags**")
            _pairs(run.tags, "tags", "It has none.")


def _pairs(pairs: Mapping[str, str], what: str, nothing: str) -> None:
    table([{"Name": name, "Value": value} for name, value in sorted(pairs.items())], what, nothing)
