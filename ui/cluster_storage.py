"""A cluster's storage: its claims on S3, a new one, and what is in them."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.storage import Claim, StorageContents
from ui.kept import drop, kept
from ui.links import parameter
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.storage_fields import storage_fields
from ui.times import at
from ui.wishes import Wish, faults, plan_and_start

_SECONDS = 20.0
_PAGE = 100
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def storage_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab. The address names the claim and the prefix that are looked at."""
    with problems_shown():
        found = kept(f"storage/{record.tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_STORAGE, tag=record.tag))
        if not found.live:
            st.caption(":material/history: Kubernetes does not answer: this is what was last verified.")
        _claims(found.claims, record)
        if found.claims:
            _contents(found.claims, record)
    with st.expander("Mount more storage", icon=":material/add:", expanded=False):
        _create(record, may)


def _claims(claims: list[Claim], record: ClusterRecord) -> None:
    if not claims:
        st.info("No storage is mounted on this cluster.", icon=":material/database_off:")
        return
    st.dataframe(
        [
            {
                "Claim": f"{each.namespace}/{each.claim}",
                "State": each.phase,
                "Bucket": each.bucket or "its volume is gone",
                "Prefix": each.prefix or "",
                "Access": "read only" if each.read_only else "read and write",
                "Made by": "this platform" if each.managed else "others",
            }
            for each in claims
        ],
        hide_index=True,
        height="content",
        alt="Claims on S3",
    )
    if st.button("Look again", key="storage/again", icon=":material/refresh:", type="tertiary"):
        drop(f"storage/{record.tag}")
        st.rerun()


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


def _contents(claims: list[Claim], record: ClusterRecord) -> None:
    st.markdown("#### Contents")
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
    token = st.session_state.get(_token(record.tag, chosen, prefix))
    with problems_shown(), st.spinner("Looking…"):
        page = gateway().call(
            endpoints.LIST_STORAGE_CONTENTS,
            tag=record.tag,
            claim=claim,
            namespace=namespace,
            prefix=prefix,
            page_size=_PAGE,
            page_token=token,
        )
        _listed(page, chosen)
        _pages(page, _token(record.tag, chosen, prefix))


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


def _pages(page: StorageContents, key: str) -> None:
    with st.container(horizontal=True):
        if key in st.session_state:
            st.button("First page", key="storage/first", icon=":material/first_page:", on_click=_turn, args=(key, None))
        if page.next_page_token is not None:
            st.button(
                "Next page",
                key="storage/next",
                icon=":material/navigate_next:",
                on_click=_turn,
                args=(key, page.next_page_token),
            )


def _turn(key: str, token: str | None) -> None:
    if token is None:
        st.session_state.pop(key, None)
    else:
        st.session_state[key] = token


def _token(tag: str, claim: str, prefix: str) -> str:
    """Where it is kept how far one has read: a token may be longer than an address."""
    return f"storage/page/{tag}/{claim}/{prefix}"


def _open(claim: str, prefix: str) -> None:
    st.query_params["claim"] = claim
    if prefix:
        st.query_params["prefix"] = prefix
    else:
        st.query_params.pop("prefix", None)


def size_text(size: int) -> str:
    """Bytes as people read them, e.g. ``1.5 GiB``."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
