"""Credentials of a cluster: tokens that are stored once and never shown again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.credentials import CredentialList, CredentialRequest, CredentialView, StoreCredentialSpec
from contracts.operation import Operation
from ui.fields import Fields
from ui.kept import kept
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.times import ago
from ui.wishes import Wish, confirm_and_start, faults, opened, plan_and_start

_SECONDS = 10.0


def credentials_of(tag: str) -> CredentialList:
    """Names and uses, as they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"credentials/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_CREDENTIALS, tag=tag))


def credential_names(tag: str) -> list[str]:
    """For forms that refer to one; a problem is shown, and any name can still be entered."""
    with problems_shown():
        return sorted({each.name for each in credentials_of(tag).credentials})
    return []


def credentials_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab."""
    with problems_shown():
        read = credentials_of(record.tag)
        found = read.credentials
        if found:
            st.dataframe(
                [_row(each, read.read_at) for each in found], hide_index=True, height="content", alt="Credentials"
            )
        else:
            st.info("No credential is stored on this cluster.", icon=":material/key_off:")
        if found:
            with st.expander("Delete a credential", icon=":material/delete:"):
                _delete(found, record.tag, may)
    st.markdown("#### Store a token")
    _store(record.tag, may)


def _row(credential: CredentialView, read_at: datetime) -> dict[str, Any]:
    return {
        "Credential": f"{credential.namespace}/{credential.name}",
        "Stored": ago(credential.created_at, read_at),
        "Used by": ", ".join(credential.used_by) or "nothing",
        "Secret": f"{credential.secret} ({credential.key})",
    }


def _store(tag: str, may: bool) -> None:
    form = f"{tag}/store-credential"
    found = faults(form)
    st.caption("A token of Hugging Face, say. One of the same name is replaced. It is sealed, and never shown again.")
    name, namespace, token = st.columns(3)
    with name:
        entered = Fields(StoreCredentialSpec, form, found, disabled=not may).text("name", "Name", "e.g. huggingface")
    with namespace:
        body = Fields(CredentialRequest, form, found, disabled=not may).text("namespace", "Namespace", "default")
    with token:
        field = _token_field(form)
        secret = st.text_input(
            "Token", type="password", key=field, autocomplete="new-password", disabled=not may, placeholder="hf_…"
        )
        found.at("/token", "/sealed")

    def stored(operation: Operation) -> None:
        _forget_token(form)
        opened(operation)

    wish = Wish(
        form,
        endpoints.STORE_CREDENTIAL,
        {"tag": tag, **entered},
        body,
        then=stored,
        hidden={"token": secret} if secret else {},
    )
    if "name" not in entered:
        found.rest()
        st.caption("Give it a name first.")
        return
    plan_and_start(wish, found, start="Store it", may=may)


def _token_field(form: str) -> str:
    """The key of the field: another one after each token that was stored, so that its browser forgets it as well."""
    return f"{form}/token/{st.session_state.get(f'{form}/tokens', 0)}"


def _forget_token(form: str) -> None:
    st.session_state.pop(_token_field(form), None)
    st.session_state[f"{form}/tokens"] = st.session_state.get(f"{form}/tokens", 0) + 1


def _delete(credentials: list[CredentialView], tag: str, may: bool) -> None:
    named = {f"{each.namespace}/{each.name}": each for each in credentials}
    chosen = named[st.selectbox("Credential", sorted(named), key=f"{tag}/delete-credential/name", width=320)]
    st.caption("Its Secret goes. What refers to it cannot start any more, so it is refused while something does.")
    confirm_and_start(
        Wish(
            f"{tag}/{chosen.namespace}/{chosen.name}/delete-credential",
            endpoints.DELETE_CREDENTIAL,
            {"tag": tag, "name": chosen.name, "namespace": chosen.namespace},
        ),
        title=f"Delete credential {escaped(chosen.name)}",
        name=chosen.name,
        verb="Delete the credential",
        may=may,
    )
