"""A claim on S3 storage as a form."""

from __future__ import annotations

import streamlit as st

from contracts.storage import StorageSpec
from ui.faults import Faults
from ui.fields import Entered, Fields


def storage_fields(key: str, found: Faults, pointer: str = "", *, disabled: bool = False) -> Entered:
    """Draw the fields of a claim on S3, and return what was entered."""
    fields = Fields(StorageSpec, key, found, pointer, disabled)
    claim, namespace = st.columns(2)
    with claim:
        entered = fields.text("claim", "Claim")
        entered |= fields.text("bucket", "Bucket", placeholder="the cluster's own")
    with namespace:
        entered |= fields.text("namespace", "Namespace")
        entered |= fields.text("prefix", "Prefix", placeholder="everything; else e.g. train/")
    return entered | fields.switch("read_only", "Read only")
