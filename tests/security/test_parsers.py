"""Parsers of what strangers write keep their laws whatever comes (targets.py)."""

from __future__ import annotations

import pytest

from tests.security.targets import TARGETS


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_parser_keeps_its_law_whatever_comes(name: str) -> None:
    TARGETS[name]()
