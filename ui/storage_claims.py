"""A cluster's claims on S3 and FSx for Lustre: what they are on and who mounts them; new ones, and their end."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.fsx_storage import DeploymentType, FsxStorageSpec, NewFileSystem
from contracts.storage import Claim, StorageList, StorageType
from ui.fields import Entered, Fields
from ui.kept import drop, kept
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.storage_fields import storage_fields
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_SECONDS = 20.0
_THERE, _NEW = "One that exists", "A new one"


def storage_of(tag: str) -> StorageList:
    """The claims as they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"storage/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_STORAGE, tag=tag))


def claims_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab."""
    with problems_shown():
        found = storage_of(record.tag)
        if not found.live:
            st.caption(":material/history: Kubernetes does not answer: this is what was last verified.")
        _claims(found.claims, record)
        if found.claims:
            with st.expander("Delete a claim", icon=":material/delete:"):
                _delete(found.claims, record.tag, may)
    with st.expander("Mount an S3 bucket", icon=":material/add:"):
        _create(record, may)
    with st.expander("Mount FSx for Lustre", icon=":material/add:"):
        _create_fsx(record, may)


def _claims(claims: list[Claim], record: ClusterRecord) -> None:
    if not claims:
        st.info("No storage is mounted on this cluster.", icon=":material/database_off:")
        return
    st.dataframe(
        [_row(each) for each in claims],
        hide_index=True,
        height="content",
        alt="Claims on S3 and FSx",
    )
    if st.button("Look again", key="storage/again", icon=":material/refresh:", type="tertiary"):
        drop(f"storage/{record.tag}")
        st.rerun()


def _row(claim: Claim) -> dict[str, Any]:
    return {
        "Claim": f"{claim.namespace}/{claim.claim}",
        "State": claim.phase,
        "On": claim.bucket or claim.file_system or "its volume is gone",
        "Prefix": claim.prefix or "",
        "Access": "read only" if claim.read_only else "read and write",
        "Mounted by": "no pod" if not claim.used_by else f"{claim.used_by} pod{'s' if claim.used_by > 1 else ''}",
        "Made by": "this platform" if claim.managed else "others",
    }


def _create(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/create-storage"
    found = faults(form)
    with problems_shown():
        defaults = kept(
            f"storage-defaults/{record.tag}",
            _SECONDS,
            lambda: gateway().call(endpoints.GET_STORAGE_DEFAULTS, tag=record.tag),
        )
        there = "there already" if defaults.claim_exists else "not there yet"
        bucket = "exists" if defaults.bucket_exists else "would be made"
        st.caption(
            f"Left as it is: claim {escaped(defaults.namespace)}/{escaped(defaults.claim)} ({there}) on the bucket "
            f"{escaped(defaults.bucket)} ({bucket})."
        )
    body = storage_fields(form, found, disabled=not may)
    wish = Wish(form, endpoints.CREATE_STORAGE, {"tag": record.tag}, body)
    plan_and_start(wish, found, start="Mount it", may=may)


def _create_fsx(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/create-fsx-storage"
    found = faults(form)
    fields = Fields(FsxStorageSpec, form, found, disabled=not may)
    claim, namespace = st.columns(2)
    with claim:
        body = fields.text("claim", "Claim")
    with namespace:
        body |= fields.text("namespace", "Namespace")
    source = st.segmented_control("File system", [_THERE, _NEW], default=_THERE, required=True, key=f"{form}/source")
    if source == _THERE:
        body |= fields.text("file_system_id", "Its ID", "fs-0123456789abcdef0")
    else:
        body["create"] = _file_system(fields.within("create", NewFileSystem))
    body |= fields.switch("read_only", "Read only")
    wish = Wish(form, endpoints.CREATE_FSX_STORAGE, {"tag": record.tag}, body)
    plan_and_start(wish, found, start="Mount it", may=may)


def _file_system(fields: Fields) -> Entered:
    st.caption("It costs by the hour until it is deleted with its claim: the plan says how much.")
    left, right = st.columns(2)
    with left:
        entered = fields.number("capacity_gib", "GiB")
        entered |= fields.choice("deployment_type", "Kind", [each.value for each in DeploymentType])
    with right:
        entered |= fields.number("throughput", "MB/s for each TiB", "125")
        entered |= fields.text("availability_zone", "Zone", "that of most nodes")
    return entered


def _delete(claims: list[Claim], tag: str, may: bool) -> None:
    named = {f"{each.namespace}/{each.claim}": each for each in claims}
    claim = named[st.selectbox("Claim", sorted(named), key=f"{tag}/delete-storage/claim", width=320)]
    form = f"{tag}/{claim.namespace}/{claim.claim}/delete-storage"
    asked: dict[str, Any] = {"tag": tag, "claim": claim.claim, "namespace": claim.namespace}
    if claim.type is StorageType.FSX_LUSTRE:
        label = "Delete its file system with all data, too"
        if st.toggle(label, key=f"{form}/delete_file_system", disabled=not may):
            asked["delete_file_system"] = True
    if not claim.managed and st.toggle(
        "Others made it: delete it all the same", key=f"{form}/foreign", disabled=not may
    ):
        asked["foreign"] = True
    st.caption("The claim and its volume go. What is in its bucket or file system stays, unless you say otherwise.")
    confirm_and_start(
        Wish(form, endpoints.DELETE_STORAGE, asked),
        title=f"Delete claim {escaped(claim.claim)}",
        name=claim.claim,
        verb="Delete the claim",
        may=may,
    )
