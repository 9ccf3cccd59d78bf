"""The Kubernetes Jobs of a cluster."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.jobs import JobDetail, JobList, JobState, JobView
from ui.links import parameter
from ui.logs import pod_log_links
from ui.paging import page_buttons, page_token
from ui.pod_table import pods_table
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.times import ago, at, lasting

_EVERY = "15s"
_PAGE = 50


def jobs_tab(record: ClusterRecord) -> None:
    """Draw the tab. The address names the filter and the job that is looked at."""
    namespace, state = st.columns(2)
    with namespace:
        st.text_input("Namespace", placeholder="all", key="namespace", bind="query-params")
    with state:
        st.selectbox(
            "State",
            [each.value for each in JobState],
            index=None,
            placeholder="any",
            key="state",
            bind="query-params",
        )
    _live(record.tag)


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    listing = f"jobs/page/{tag}/{st.session_state.get('namespace')}/{st.session_state.get('state')}"
    with problems_shown(), st.spinner("Looking…"):
        found = gateway().call(
            endpoints.LIST_JOBS,
            tag=tag,
            namespace=st.session_state.get("namespace") or None,
            state=st.session_state.get("state"),
            page_size=_PAGE,
            page_token=page_token(listing),
        )
        _listed(found)
        page_buttons("jobs", listing, found.next_page_token)
        chosen = _chosen(found)
        if chosen is not None:
            where, _, name = chosen.partition("/")
            _detail(tag, gateway().call(endpoints.GET_JOB, tag=tag, namespace=where, name=name))


def _listed(found: JobList) -> None:
    if not found.jobs:
        st.info("No Job is like that.", icon=":material/work_off:")
        return
    st.dataframe(
        [_row(each, found.read_at) for each in found.jobs],
        hide_index=True,
        height="content" if len(found.jobs) <= 12 else 460,
        alt=f"{len(found.jobs)} Jobs",
    )
    st.caption(f"Read {at(found.read_at)}")


def _row(job: JobView, read_at: datetime) -> dict[str, object]:
    return {
        "Job": f"{job.namespace}/{job.name}",
        "State": job.state.value,
        "Why": job.reason or "",
        "Pods": f"{job.active} active, {job.succeeded} ended well, {job.failed} badly",
        "Began": ago(job.started_at, read_at) if job.started_at else "",
        "Took": lasting(job.finished_at - job.started_at) if job.started_at and job.finished_at else "",
        "Images": ", ".join(job.images),
    }


def _chosen(found: JobList) -> str | None:
    """The job to look at closely, which the address names."""
    wanted = parameter("job")
    listed = [f"{each.namespace}/{each.name}" for each in found.jobs]
    names = list(dict.fromkeys([wanted, *listed] if wanted else listed))
    if not names:
        return None
    key = f"jobs/chosen/{wanted}"
    return st.selectbox(
        "Look at",
        names,
        index=names.index(wanted) if wanted else None,
        placeholder="a Job",
        key=key,
        on_change=lambda: _open(st.session_state[key]),
        width=420,
    )


def _open(job: str | None) -> None:
    if job:
        st.query_params["job"] = job
    else:
        st.query_params.pop("job", None)


def _detail(tag: str, found: JobDetail) -> None:
    job = found.job
    with st.container(border=True):
        st.markdown(f"**{escaped(job.namespace)}/{escaped(job.name)}** — {job.state.value}")
        if job.reason:
            st.caption(escaped(job.reason))
        wanted = "one" if job.completions is None else str(job.completions)
        st.caption(f"{wanted} to end well, up to {job.parallelism} at once. Read {at(found.read_at)}.")
        pods_table(found.pods)
        pod_log_links(tag, [(job.namespace, pod.name) for pod in found.pods], f"{tag}/jobs/{job.namespace}/{job.name}")
        if found.more_pods:
            st.caption(f"and {found.more_pods} more pods")
