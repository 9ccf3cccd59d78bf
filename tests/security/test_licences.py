"""Licences of what is installed."""

from __future__ import annotations

import pytest

from scripts import licences


def test_the_page_lists_every_locked_package_with_a_permitted_licence() -> None:
    assert licences.page(licences.packages()) == licences.PAGE.read_text()


@pytest.mark.parametrize(
    ("licence", "may"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("MIT AND PSF-2.0", True),
        ("GPL-3.0-or-later", False),
        ("MIT AND AGPL-3.0-only", False),
        ("LGPL-2.1-only", False),
        ("BUSL-1.1", False),
        ("SSPL-1.0", False),
        ("Proprietary", False),
        ("", False),
    ],
)
def test_a_licence_is_permitted_where_all_of_it_or_one_choice_is(licence: str, may: bool) -> None:
    assert licences.permitted(licence) is may


def test_a_package_with_another_licence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences, "stated", lambda name: "AGPL-3.0-only" if name == "pydantic" else "MIT")
    with pytest.raises(licences.ForbiddenLicence, match="pydantic"):
        licences.packages()
