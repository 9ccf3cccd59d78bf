"""Downloads: where they go to, how long they may take, and what they are called after."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from activities.models.hub import selected
from contracts.models import LONGEST_DEADLINE, SHORTEST_DEADLINE, UNKNOWN_DEADLINE, DownloadSpec, deadline_of
from contracts.names import KUBERNETES_NAME, download_job

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._]{0,95}", fullmatch=True).filter(lambda name: ".." not in name)


@given(NAMES, NAMES, st.sampled_from(["model", "dataset"]), st.text(max_size=60))
def test_names_that_derive_from_a_repository_keep_the_rules(owner: str, name: str, kind: str, commit: str) -> None:
    spec = DownloadSpec.model_validate({"repository": f"{owner}/{name}", "repository_type": kind})
    assert KUBERNETES_NAME.violation(download_job(spec.target, commit)) is None
    assert KUBERNETES_NAME.violation(spec.target) is None
    assert spec.folder == f"{kind}s/{owner}-{name}"


def test_another_place_is_another_operation() -> None:
    places: list[dict[str, Any]] = [
        {},
        {"path": "models/other"},
        {"claim": "other"},
        {"namespace": "other"},
        {"repository_type": "dataset"},
        {"repository": "a-b/c"},
    ]
    targets = {DownloadSpec(**{"repository": "a/b-c", **place}).target for place in places}
    assert len(targets) == len(places)
    again = DownloadSpec(repository="a/b-c", path="/models/a-b-c/", cpu=4, revision="v2")
    assert again.target == DownloadSpec(repository="a/b-c").target


@given(st.integers(min_value=0, max_value=2**50), st.integers(min_value=0, max_value=2**50))
def test_a_deadline_grows_with_the_size_within_its_bounds(one: int, other: int) -> None:
    spec = DownloadSpec(repository="a/b")
    small, large = deadline_of(spec, min(one, other)), deadline_of(spec, max(one, other))
    assert SHORTEST_DEADLINE <= small <= large <= LONGEST_DEADLINE


def test_a_deadline_that_is_asked_for_is_kept() -> None:
    asked = DownloadSpec(repository="a/b", deadline_hours=3)
    assert deadline_of(asked, 2**50).total_seconds() == 3 * 3600
    assert deadline_of(DownloadSpec(repository="a/b"), None) == UNKNOWN_DEADLINE


@pytest.mark.parametrize("path", ["..", "a/../b", ".", "a/./b", "a//b", "a b", "a\\b", "é"])
def test_no_path_leads_out_of_the_claim(path: str) -> None:
    with pytest.raises(ValidationError):
        DownloadSpec(repository="a/b", path=path)


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ([], [], {"config.json", "sub/config.json", "model.bin"}),
        (["*.json"], [], {"config.json", "sub/config.json"}),
        (["sub/"], [], {"sub/config.json"}),
        ([], ["*.bin"], {"config.json", "sub/config.json"}),
        (["*.json"], ["sub/*"], {"config.json"}),
        (["*.JSON"], [], set()),
    ],
)
def test_globs_choose_files(include: list[str], exclude: list[str], taken: set[str]) -> None:
    spec = DownloadSpec(repository="a/b", include=include, exclude=exclude)
    assert {path for path in ("config.json", "sub/config.json", "model.bin") if selected(path, spec)} == taken
    assert (spec.selection == "") == (not include and not exclude)
