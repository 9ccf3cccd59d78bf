"""What is in the buckets that a cluster's claims are on."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.sizes import size_text
from contracts.storage import Claim, StorageContents, StorageType
from ui.links import parameter
from ui.paging import page_buttons, page_token
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.storage_claims import storage_of
from ui.times import at

_PAGE = 100


def contents_tab(record: ClusterRecord, _: bool) -> None:
    """Draw the tab. The address names the claim and the prefix that are looked at."""
    with problems_shown():
        on_s3 = [each for each in storage_of(record.tag).claims if each.type is StorageType.S3]
        if not on_s3:
            st.info("No claim is on S3: what a file system holds is seen only by pods.", icon=":material/folder_off:")
            return
        _contents(on_s3, record)


def _contents(claims: list[Claim], record: ClusterRecord) -> None:
    names = [f"{each.namespace}/{each.claim}" for each in claims]
    wanted = parameter("claim")
    chosen = st.selectbox(
        "Claim",
        names,
        index=names.index(wanted) if wanted in names else 0,
        key=f"storage/claim/{wanted}",
        on_change=lambda: _open(st.session_state[f"storage/claim/{wanted}"], ""),
        width=320,
    )
    prefix = (parameter("prefix") or "") if wanted in names else ""
    _way(chosen, prefix)
    namespace, _, claim = chosen.partition("/")
    key = f"storage/page/{record.tag}/{chosen}/{prefix}"
    with problems_shown(), st.spinner("Looking…"):
        page = gateway().call(
            endpoints.LIST_STORAGE_CONTENTS,
            tag=record.tag,
            claim=claim,
            namespace=namespace,
            prefix=prefix,
            page_size=_PAGE,
            page_token=page_token(key),
        )
        _listed(page, chosen)
        page_buttons("storage", key, page.next_page_token)


def _way(claim: str, prefix: str) -> None:
    """From the claim's root to where the prefix leads."""
    steps = prefix.rstrip("/").split("/") if prefix else []
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.button(
            claim, key="storage/root", icon=":material/database:", type="tertiary", on_click=_open, args=(claim, "")
        )
        for number, step in enumerate(steps):
            to = "/".join(steps[: number + 1]) + "/"
            st.button(f"{escaped(step)} /", key=f"storage/way/{to}", type="tertiary", on_click=_open, args=(claim, to))


def _listed(page: StorageContents, claim: str) -> None:
    below = len(page.prefix)
    for deeper in page.common_prefixes:
        st.button(
            escaped(deeper[below:]) or "/",
            key=f"storage/into/{deeper}",
            icon=":material/folder:",
            type="tertiary",
            on_click=_open,
            args=(claim, deeper),
        )
    if page.objects:
        st.dataframe(
            [
                {"Object": each.key[below:] or each.key, "Size": size_text(each.size), "Changed": at(each.modified)}
                for each in page.objects
            ],
            hide_index=True,
            height="content" if len(page.objects) <= 12 else 460,
            alt="Objects",
        )
    elif not page.common_prefixes:
        st.caption("Nothing is stored here.")


def _open(claim: str, prefix: str) -> None:
    st.query_params["claim"] = claim
    if prefix:
        st.query_params["prefix"] = prefix
    else:
        st.query_params.pop("prefix", None)
