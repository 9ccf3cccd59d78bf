"""Mounts as lines of a form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.deployment_parts import StorageMount
from contracts.training_parts import TrainingMount
from ui.mounts import mount_of, mounts_text

NAMES = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}", fullmatch=True)


@given(
    model=st.sampled_from([StorageMount, TrainingMount]),
    claim=st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True),
    place=NAMES,
    folder=st.none() | NAMES,
    read_only=st.booleans(),
)
def test_a_mount_is_read_as_it_is_written(
    model: type[StorageMount], claim: str, place: str, folder: str | None, read_only: bool
) -> None:
    mount = model(claim=claim, mount_path=f"/data/{place}", sub_path=folder, read_only=read_only)
    assert model.model_validate(mount_of(mounts_text([mount]))) == mount


@pytest.mark.parametrize("access", ["rx", "read", "RO"])
def test_an_access_that_nobody_knows_is_refused_and_not_taken_for_another(access: str) -> None:
    with pytest.raises(ValidationError, match="read_only"):
        StorageMount.model_validate(mount_of(f"s3-claim:/s3:{access}"))
