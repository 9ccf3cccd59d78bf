"""Activities that reach the sandbox's MLflow, and a tracking server that answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from activities.experiments.tracking import Tracking
from activities.registry import Activities
from contracts.network import Scope
from contracts.sealing import new_key
from tests.activities.conftest import Runner, Sandbox, settings
from tests.activities.experiments.servers import made
from tests.activities.world import World


@pytest.fixture(scope="module")
def own(sandbox: Sandbox, activities: Activities, tmp_path_factory: pytest.TempPathFactory) -> Activities:
    """Activities that reach the sandbox's MLflow, and have a seal key."""
    key = tmp_path_factory.mktemp("seal") / "key"
    key.write_text(new_key())
    return Activities(settings(mlflow_endpoint=sandbox.url, seal_key_file=key), activities.aws.session)


@pytest.fixture
def run(own: Activities, scope: Scope, quiet: Sandbox) -> Runner:
    return Runner(own, f"create-tracking-server/{scope.cluster}")


@pytest.fixture
def world(run: Runner, scope: Scope) -> World:
    return World(run, scope)


@pytest.fixture
def tracking(own: Activities, world: World) -> Iterator[Tracking]:
    with Tracking.of(own.aws, made(world)) as opened:
        yield opened
