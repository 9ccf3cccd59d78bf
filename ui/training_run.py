"""One training run: what it does, what of its budget is used, why it waits, its pods and its log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.operation import Operation
from contracts.training_parts import Restarts, TrainingState, Waiting
from contracts.training_views import TrainingRunDetail, TrainingRunView
from contracts.words import number_of
from ui.diagnosis import diagnose_link
from ui.kept import kept
from ui.links import page_link
from ui.logs import Log, log_shown, pod_log_links
from ui.operation_view import Color
from ui.pod_table import pods_table
from ui.problems import escaped, problems_shown
from ui.serving_parts import conditions_table
from ui.session import gateway
from ui.times import ago, at, lasting
from ui.training_filling import of_spec

_EVERY = "3s"
_SECONDS = 2.0
_STATES: dict[TrainingState, tuple[str, Color]] = {
    TrainingState.QUEUED: (":material/hourglass_empty:", "orange"),
    TrainingState.STARTING: (":material/play_circle:", "blue"),
    TrainingState.RUNNING: (":material/play_circle:", "blue"),
    TrainingState.RESTARTING: (":material/restart_alt:", "orange"),
    TrainingState.SUSPENDED: (":material/pause_circle:", "orange"),
    TrainingState.SUCCEEDED: (":material/check_circle:", "green"),
    TrainingState.FAILED: (":material/error:", "red"),
    TrainingState.STOPPED: (":material/stop_circle:", "gray"),
    TrainingState.DELETING: (":material/delete:", "gray"),
    TrainingState.UNKNOWN: (":material/help:", "gray"),
}


def run_shown(tag: str, namespace: str, name: str) -> None:
    """Draw a run, anew every few seconds; links that do not change stand below."""

    def look() -> None:
        with problems_shown():
            _drawn(_read(tag, namespace, name))

    st.fragment(look, run_every=_EVERY, key=f"run/{tag}/{namespace}/{name}")()
    with st.container(horizontal=True, vertical_alignment="center"):
        diagnose_link(tag, "training-run", name, namespace)
        page_link(
            "training",
            "Submit it again, with changes",
            ":material/replay:",
            cluster=tag,
            tab="New run",
            again=f"{namespace}/{name}",
        )
    with suppress(GatewayProblem):
        _links(tag, _read(tag, namespace, name))


def _read(tag: str, namespace: str, name: str) -> TrainingRunDetail:
    """As it was a moment ago at most. Raises GatewayProblem."""
    return kept(
        f"training-run/{tag}/{namespace}/{name}",
        _SECONDS,
        lambda: gateway().call(endpoints.GET_TRAINING_RUN, tag=tag, name=name, namespace=namespace),
    )


def _links(tag: str, found: TrainingRunDetail) -> None:
    view = found.run
    with st.container(horizontal=True, vertical_alignment="center"):
        if view.operation is not None:
            page_link("operation", "Its operation", ":material/history:", id=view.operation)
        spec = found.spec
        if spec is not None and spec.experiment is not None and spec.experiment.tracking_server is not None:
            page_link(
                "history",
                f"Its experiment {escaped(spec.experiment.experiment)}",
                ":material/monitoring:",
                cluster=tag,
                server=spec.experiment.tracking_server,
                filter=f"tags.`instantstart.training` = '{view.name}'",
            )
    pod_log_links(tag, [(view.namespace, pod.name) for pod in found.pods], f"{tag}/{view.namespace}/{view.name}")
    if spec is not None:
        with st.expander("What it was made from", icon=":material/data_object:"):
            st.json({"name": spec.name, **of_spec(spec)})


def _drawn(found: TrainingRunDetail) -> None:
    view = found.run
    icon, color = _STATES[view.state]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"##### {escaped(view.namespace)}/{escaped(view.name)}")
        st.badge(view.state.value, icon=icon, color=color)
        st.caption(_facts(view, found.read_at))
    if found.waiting is not None:
        _waiting(found.waiting)
    else:
        st.markdown(escaped(f"{view.reason}: {view.detail}" if view.reason else view.detail))
    if view.remark is not None:
        st.info(escaped(f"{view.remark[0].upper()}{view.remark[1:]}."), icon=":material/info:")
    if view.stopped_by:
        st.caption(f"Stopped by {escaped(view.stopped_by)}.")
    _progress(view, found.read_at)
    _budget(view.restarts)
    if found.logged_at is not None:
        st.caption(f"Its log is in {escaped(found.logged_at)}.")
    pods_table(found.pods)
    if found.more_pods:
        st.caption(f"And {found.more_pods} more pods.")
    conditions_table(found.conditions)
    left = [f"its log below `{found.logs}`" if found.logs else "", f"`{found.record}`" if found.record else ""]
    if any(left):
        st.caption(f"Kept in the cluster's bucket: {', '.join(filter(None, left))}.")


def _facts(view: TrainingRunView, now: datetime) -> str:
    hardware = f"{view.nodes} × {view.instance_type}" if view.instance_type else number_of(view.nodes, "node")
    told = [
        escaped(view.recipe),
        f"submitted by {view.submission.value}",
        f"{escaped(hardware)}, {number_of(view.gpus, 'GPU')}",
    ]
    if view.started_at is not None:
        told.append(f"began {ago(view.started_at, now)}")
    if view.finished_at is not None:
        began = view.started_at
        told.append(f"ended {at(view.finished_at)}" + (f" after {lasting(view.finished_at - began)}" if began else ""))
    return " · ".join(told)


def _waiting(waiting: Waiting) -> None:
    lines = [escaped(waiting.reason)]
    if waiting.pods_waiting:
        lines.append(f"{number_of(waiting.pods_waiting, 'pod')} waiting.")
    if waiting.idle_nodes:
        cost = "no price is known" if waiting.idle_per_hour is None else _money(waiting.idle_per_hour, waiting.currency)
        lines.append(f"Idle meanwhile: {number_of(waiting.idle_nodes, 'node')}, {cost}.")
    st.warning("**It waits.** " + " ".join(lines), icon=":material/hourglass_empty:")


def _money(amount: float, currency: str) -> str:
    return f"{amount:,.2f} {escaped(currency)} an hour"


def _progress(view: TrainingRunView, now: datetime) -> None:
    reported = view.reported
    if reported.step is not None and reported.total_steps:
        st.progress(min(1.0, reported.step / reported.total_steps), f"Step {reported.step} of {reported.total_steps}")
    with st.container(horizontal=True):
        if reported.step is not None and not reported.total_steps:
            st.metric("Step", f"{reported.step:,}", border=True, width="content")
        if reported.loss is not None:
            st.metric("Loss", f"{reported.loss:.4g}", border=True, width="content")
        if reported.throughput is not None:
            unit = f" {reported.unit or 'a second'}"
            st.metric("Throughput", f"{reported.throughput:,.0f}{unit}", border=True, width="content")
        st.metric("Pods ready", f"{view.pods_ready} of {view.pods_total}", border=True, width="content")
        if view.last_checkpoint is not None:
            st.metric("Last checkpoint", ago(view.last_checkpoint, now), border=True, width="content")


def _budget(restarts: Restarts) -> None:
    """What is used of it, each as a bar where it has an end."""
    window = f" within {lasting_seconds(restarts.window_seconds)}" if restarts.window_seconds else ""
    shown = [
        ("Restarts in all", restarts.job, restarts.job_limit),
        (f"In place{window}", restarts.in_place, restarts.in_place_limit),
        (f"With new pods{window}", restarts.full, restarts.full_limit),
    ]
    bars = [each for each in shown if each[2] is not None]
    if not bars:
        st.caption(restarts.text.capitalize() + ".")
        return
    for column, (label, used, limit) in zip(st.columns(len(bars)), bars, strict=True):
        with column:
            most = limit or 0
            st.progress(min(1.0, used / most) if most else 0.0, f"{label}: {used} of {most}")


def lasting_seconds(seconds: int) -> str:
    """A window in words."""
    hours, rest = divmod(seconds, 3600)
    return f"{hours} h" if not rest else f"{seconds} s"


def log_of_run(tag: str, namespace: str, name: str, operations: Sequence[Operation]) -> None:
    """Its log, merged by rank; of an earlier execution what was kept. ``operations``: those that submitted it."""
    where: dict[str, str] = {"namespace": namespace, "name": name}
    if len(operations) > 1:
        by_run = {each.run_id: each for each in operations}
        chosen = st.selectbox(
            "Execution",
            [None, *by_run],
            format_func=lambda run: "the newest" if run is None else f"submitted {at(by_run[run].started_at)}",
            key=f"{tag}/{namespace}/{name}/execution",
            width=320,
        )
        if chosen is not None:
            where["run"] = chosen
    pods = 0
    try:
        detail = _read(tag, namespace, name)
        pods = max(detail.run.pods_total, len(detail.pods) + detail.more_pods, detail.run.nodes)
        if detail.logged_at is not None:
            st.info(f"Its log is in {escaped(detail.logged_at)}.", icon=":material/subject:")
            return
    except GatewayProblem as error:
        st.caption(f":material/cloud_off: {escaped(error.problem.detail)}")
    log_shown(Log(tag, where), pods)
