"""One tour for all tests of it; its stack ends with them, and leaves the machine to the tests that follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.iam.policies import documents
from tests.local_stack import LocalStack
from tests.tour.drive import Tour, drive, tour_stack


@pytest.fixture(scope="package")
def toured_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """The generated IAM policies are in force on it: the platform may do what they allow, and no more."""
    with tour_stack(tmp_path_factory.mktemp("tour")) as stack:
        stack.sandbox.put("/policies", json=documents()).raise_for_status()
        yield stack


@pytest.fixture(scope="package")
def tour(toured_stack: LocalStack) -> Tour:
    return drive(toured_stack)
