"""Models and data sets on a cluster's storage, and downloads of them with how far they are."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.catalogue import DOWNLOAD_MODEL
from contracts.cluster import ClusterRecord
from contracts.models import DownloadSpec, ModelList, ModelState, ModelView, RepositoryType
from contracts.operation import Operation
from contracts.sizes import size_text
from ui.fields import Entered, Fields
from ui.links import page_link
from ui.marks import lines_field
from ui.operation_rows import link_to
from ui.operation_view import phase_badge, subject_of, waits_for
from ui.paging import page_buttons, page_token
from ui.problems import escaped, problem_box, problems_shown
from ui.session import gateway
from ui.storage_claims import storage_of
from ui.storage_credentials import credential_names
from ui.times import ago
from ui.wishes import Wish, faults, plan_and_start

_EVERY = "3s"
_PAGE = 50
_MOST_DOWNLOADS = 5


def models_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab."""
    with st.expander("Download a model or data set", icon=":material/download:", expanded=True):
        _download(record.tag, may)
    _downloads(record.tag)
    _there(record.tag)


def _download(tag: str, may: bool) -> None:
    form = f"{tag}/download-model"
    found = faults(form)
    fields = Fields(DownloadSpec, form, found, disabled=not may)
    with problems_shown():
        claims = [each.claim for each in storage_of(tag).claims if not each.read_only]
        repository, kind, claim = st.columns([3, 1.2, 2])
        with repository:
            body = fields.text("repository", "Repository of the Hugging Face Hub", "owner/name")
        with kind:
            body |= fields.choice("repository_type", "Type", [each.value for each in RepositoryType])
        with claim:
            body |= fields.choice("claim", "Onto the claim", sorted(set(claims)))
        left, right = st.columns(2)
        with left:
            body |= fields.choice("credential", "Credential", credential_names(tag), placeholder="as anybody")
        with right:
            body |= fields.text("path", "Folder", "models/owner-name")
        with st.expander("More choices", icon=":material/tune:"):
            body |= _more(fields)
        plan_and_start(Wish(form, endpoints.DOWNLOAD_MODEL, {"tag": tag}, body), found, start="Download it", may=may)


def _more(fields: Fields) -> Entered:
    left, middle, right = st.columns(3)
    with left:
        entered = fields.text("revision", "Branch, tag or commit")
        entered |= fields.text("namespace", "Namespace")
    with middle:
        entered |= lines_field(fields, "include", "Only files like", "*.safetensors")
        entered |= lines_field(fields, "exclude", "But no files like", "*.bin")
    with right:
        entered |= fields.decimal("cpu", "CPUs")
        entered |= fields.number("memory_gib", "Memory, GiB")
        entered |= fields.choices("instance_types", "Instance types", [], placeholder="any")
    return entered


@st.fragment(run_every=_EVERY)
def _downloads(tag: str) -> None:
    """The last downloads, each with what it does now or what stopped it."""
    with problems_shown():
        found = gateway().call(
            endpoints.LIST_OPERATIONS, cluster=tag, kind=DOWNLOAD_MODEL.name, page_size=_MOST_DOWNLOADS
        )
        if not found.operations:
            return
        st.markdown("#### Downloads")
        for each in found.operations:
            _card(each)


def _card(operation: Operation) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            link_to(operation, f"**{escaped(_about(operation))}**", ":material/download:")
            phase_badge(operation.phase)
            st.caption(f"by {escaped(operation.started_by)}, {ago(operation.started_at)}")
        if operation.problem is not None:
            problem_box(operation.problem)
        elif said := waits_for(operation):
            st.caption(said)


def _about(operation: Operation) -> str:
    """What is downloaded: the repository once the operation names it, before that what its ID has of it."""
    repository = (operation.result or {}).get("repository")
    return repository if isinstance(repository, str) else subject_of(operation).partition(" / ")[2]


def _there(tag: str) -> None:
    st.markdown("#### What is there")
    key = f"models/page/{tag}"
    with problems_shown(), st.spinner("Looking…"):
        found = gateway().call(endpoints.LIST_MODELS, tag=tag, page_size=_PAGE, page_token=page_token(key))
        for each in found.unreadable:
            st.caption(f":material/visibility_off: {escaped(each)}")
        _listed(found, tag)
        page_buttons("models", key, found.next_page_token)


def _listed(found: ModelList, tag: str) -> None:
    rows = [_row(each, found.read_at) for each in (*found.running, *found.models)]
    if not rows:
        st.info("Nothing is under models/ or datasets/ of the S3 claims.", icon=":material/folder_off:")
        return
    st.dataframe(
        rows, hide_index=True, height="content" if len(rows) <= 12 else 460, alt=f"{len(rows)} models and data sets"
    )
    with st.container(horizontal=True):
        page_link("storage", "Look into the claims", ":material/folder_open:", cluster=tag, tab="Contents")
        page_link("serving", "Serve a model", ":material/rocket_launch:", cluster=tag, tab="Deploy")


_STATES = {
    ModelState.READY: "ready",
    ModelState.PROGRESSING: "is being downloaded",
    ModelState.UNKNOWN: "no download has finished here",
}


def _row(model: ModelView, read_at: datetime) -> dict[str, Any]:
    return {
        "Folder": model.path,
        "State": _STATES[model.state],
        "Repository": model.repository or "",
        "Commit": (model.commit or "")[:12],
        "Files": "" if model.files is None else str(model.files),
        "Size": "" if model.size is None else size_text(model.size),
        "Claim": f"{model.namespace}/{model.claim}",
        "Downloaded": ago(model.finished_at, read_at) if model.finished_at is not None else "",
        "Detail": model.detail or "",
    }
