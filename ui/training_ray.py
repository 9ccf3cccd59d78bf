"""Ray clusters that people connect to: how they are, a new one, and the end of one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.ray_clusters import RayClusterDetail, RayClusterList, RayClusterSpec, RayClusterView
from ui.fields import Entered, Fields
from ui.kept import kept
from ui.logs import pod_log_links
from ui.marks import labels_field, pairs_field
from ui.pod_table import pods_table
from ui.problems import escaped, problems_shown
from ui.serving_parts import chosen_one, deletion, full_name, named, table
from ui.serving_room import room_shown
from ui.session import gateway
from ui.storage_credentials import credential_names
from ui.times import ago
from ui.training_fields import types_of
from ui.wishes import Wish, faults, plan_and_start

_EVERY = "5s"
_SECONDS = 3.0
_LOOK, _DELETE = "Look at it", "Delete"


def ray_clusters_of(tag: str) -> RayClusterList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"ray-clusters/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_RAY_CLUSTERS, tag=tag))


def ray_tab(record: ClusterRecord, may: bool) -> None:
    """Table, one of them, and a form for another."""
    st.caption("For interactive work. A run that is submitted by Ray makes a Ray cluster of its own.")
    _live(record.tag)
    with problems_shown():
        found = {full_name(each): each for each in ray_clusters_of(record.tag).ray_clusters}
        chosen, action = chosen_one("ray", found, [_LOOK, _DELETE])
        if chosen is not None:
            with st.container(border=True):
                if action == _LOOK:
                    _look(record.tag, gateway().call(endpoints.GET_RAY_CLUSTER, **named(record.tag, found[chosen])))
                else:
                    says = "Its pods go, with everything that runs on it and what it keeps in memory."
                    what = "Ray cluster"
                    one = found[chosen]
                    deletion(record.tag, one, endpoints.DELETE_RAY_CLUSTER, what=what, says=says, may=may)
        with st.expander("Create a Ray cluster", icon=":material/add:", expanded=not found):
            _create(record, may)


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        found = ray_clusters_of(tag)
        table([_row(each, found) for each in found.ray_clusters], "Ray clusters", "No Ray cluster is here.")


def _row(view: RayClusterView, found: RayClusterList) -> dict[str, Any]:
    return {
        "Ray cluster": full_name(view),
        "State": view.state.value,
        "What goes on": f"{view.reason}: {view.detail}" if view.reason else view.detail,
        "Workers": f"{view.ready} of {view.workers}",
        "GPUs": view.gpus,
        "Ray": view.ray_version or "not told",
        "Dashboard, in the cluster": view.dashboard or "none yet",
        "Since": ago(view.created_at, found.read_at),
    }


def _look(tag: str, detail: RayClusterDetail) -> None:
    view = detail.ray_cluster
    st.markdown(f"**{escaped(full_name(view))}** — {view.state.value}: {escaped(view.detail)}")
    if detail.use is not None and detail.use.note:
        st.caption(escaped(detail.use.note))
    if view.dashboard:
        st.markdown("Connect from inside the cluster:")
        st.code(f"ray job submit --address {view.dashboard} -- python script.py", language=None)
    pods_table(detail.pods)
    pod_log_links(tag, [(view.namespace, pod.name) for pod in detail.pods], f"{tag}/{full_name(view)}")


def _create(record: ClusterRecord, may: bool) -> None:
    tag = record.tag
    form = f"{tag}/create-ray-cluster"
    found = faults(form)
    fields = Fields(RayClusterSpec, form, found, disabled=not may)
    entering, telling = st.columns([3, 1.8], gap="medium")
    with telling:
        types = types_of(record, room_shown(tag))
    with entering:
        name, workers, gpus = st.columns([3, 2, 2])
        with name:
            body = fields.text("name", "Name", "e.g. notebooks")
        with workers:
            body |= fields.number("workers", "Workers")
        with gpus:
            body |= fields.number("gpus_per_worker", "GPUs of each", "say how many")
        kinds, credential = st.columns(2)
        with kinds:
            body |= fields.choices("instance_types", "Instance types", types, placeholder="any")
        with credential:
            body |= fields.choice("credential", "Hugging Face credential", credential_names(tag), placeholder="none")
        with st.expander("More choices", icon=":material/tune:"):
            body |= _more(fields)
    plan_and_start(Wish(form, endpoints.CREATE_RAY_CLUSTER, {"tag": tag}, body), found, start="Create it", may=may)


def _more(fields: Fields) -> Entered:
    left, middle, right = st.columns(3)
    with left:
        entered = fields.text("namespace", "Namespace")
        entered |= fields.text("image", "Image")
        entered |= fields.text("ray_version", "Ray's version", "as the image's tag tells")
        entered |= labels_field(fields)
    with middle:
        entered |= pairs_field(fields, "env", "Environment", "LOG_LEVEL=info")
        entered |= pairs_field(fields, "secret_env", "Environment from credentials", "API_KEY=my-credential")
        entered |= fields.number("shm_gib", "/dev/shm, GiB", "a third of the memory")
    with right:
        entered |= fields.decimal("worker_cpu", "CPUs of a worker", "by its GPUs")
        entered |= fields.decimal("worker_memory_gib", "Memory of a worker, GiB", "by its GPUs")
        entered |= fields.number("efa_per_worker", "EFA of a worker")
        entered |= fields.decimal("head_cpu", "CPUs of the head")
        entered |= fields.decimal("head_memory_gib", "Memory of the head, GiB")
        entered |= fields.number("head_gpus", "GPUs of the head")
    return entered
