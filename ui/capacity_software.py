"""The software of instance groups: which image and release each runs, and updates of them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.software import BatchSize, GroupSoftware, RollingUpdate, SoftwareRead, UpdateSoftwareSpec
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.kept import kept
from ui.problems import problems_shown
from ui.session import gateway
from ui.times import at
from ui.wishes import Wish, confirm_and_start, faults

_SECONDS = 8.0
_REFRESH = "10s"


def software_of(tag: str) -> SoftwareRead:
    """As it was some seconds ago at most. Raises GatewayProblem."""
    return kept(f"{tag}/software", _SECONDS, lambda: gateway().call(endpoints.GET_SOFTWARE, tag=tag))


def software_tab(record: ClusterRecord, may: bool) -> None:
    """What runs on the groups, and a form for an update."""
    with problems_shown():
        groups = [each.group for each in software_of(record.tag).groups]
        _live(record.tag)
        st.subheader("Update", anchor=False)
        with st.container(border=True):
            _update(record.tag, groups, may)


@st.fragment(run_every=_REFRESH)
def _live(tag: str) -> None:
    with problems_shown():
        found = software_of(tag)
        if not found.groups:
            st.info("The cluster has no instance groups.", icon=":material/memory:")
            return
        st.dataframe(
            [_row(each) for each in found.groups],
            hide_index=True,
            height="content",
            alt=f"Software of {len(found.groups)} instance groups",
        )
        st.caption(f"Read {at(found.read_at)}.")


def _row(group: GroupSoftware) -> dict[str, Any]:
    return {
        "Group": group.group,
        "Type": group.instance_type,
        "Image": group.current_image or "?",
        "Release": group.current_version or "?",
        "Wanted": " ".join(filter(None, (group.desired_image, group.desired_version))) or "?",
        "Nodes on it": f"{group.on_desired} / {group.nodes}",
        "Image is": group.image_status or "?",
        "Last update": group.update_status or "none",
        "Changed": at(group.last_update_at) if group.last_update_at is not None else "",
    }


def _update(tag: str, groups: list[str], may: bool) -> None:
    form = f"{tag}/update-software"
    found = faults(form)
    st.caption(
        ":material/warning: Root volumes of the instances are made anew: what is on them is lost. Without rolling, all "
        "instances of a group are updated at once."
    )
    fields = Fields(UpdateSoftwareSpec, form, found, disabled=not may)
    which, release, image = st.columns([4, 2, 3])
    with which:
        body = fields.choices("groups", "Groups", groups, placeholder="all of them")
    with release:
        body |= fields.text("release_version", "Release", "newest")
    with image:
        body |= fields.text("image_id", "Image", "HyperPod's own, or ami-…")
    if st.toggle("Batch by batch", key=f"{form}/rolling", disabled=not may):
        body["rolling"] = _rolling(form, found, disabled=not may)
    found.rest()
    confirm_and_start(
        Wish(form, endpoints.UPDATE_SOFTWARE, {"tag": tag}, body),
        title="Update software",
        name=tag,
        verb="Update the software",
        may=may,
        icon=":material/system_update_alt:",
    )


def _rolling(form: str, found: Faults, disabled: bool) -> Entered:
    fields = Fields(RollingUpdate, f"{form}/rolling", found, "/rolling", disabled)
    left, right = st.columns(2)
    with left:
        entered: Entered = {"maximum_batch": _batch(form, "maximum_batch", "At once", found, disabled)}
        entered |= fields.number("wait_seconds", "Seconds between batches")
    with right:
        back = _batch(form, "rollback_batch", "At once, when rolling back", found, disabled)
        entered |= {"rollback_batch": back} if back else {}
        entered |= fields.choices(
            "rollback_alarms", "CloudWatch alarms that roll it back", [], placeholder="names, none"
        )
    return entered


def _batch(form: str, name: str, label: str, found: Faults, disabled: bool) -> Entered:
    pointer = f"/rolling/{name}"
    fields = Fields(BatchSize, f"{form}/{name}", found, pointer, disabled)
    number, unit = st.columns(2)
    with number:
        entered = fields.number("value", label, "how many")
    with unit:
        entered |= fields.choice("type", "Of what")
    found.at(pointer)
    return entered
