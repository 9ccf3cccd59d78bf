"""The tour: every kind of operation, every look-up and every entity once, on one live stack.

``drive`` is what others use: to see which calls the platform makes, where secrets go, or what histories look like.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from temporalio.client import Client

from tests.local_stack import LocalStack, local_stack
from tests.tour import capacity, founding, serving, storage, training
from tests.tour.traveller import Driven, Traveller, side_by_side

SPEED = 300.0
POLL = "0.25"
QUOTAS = {"vpcs": 20, "elastic-ips": 20, founding.GPUS: 20, founding.SINGLE: 20}
SECRET = "wandb-key-of-somebody-on-tour"


@dataclass(frozen=True)
class Run:
    """One run of a workflow, as Temporal lists it. ``status`` is Temporal's: COMPLETED, CANCELED …"""

    workflow_type: str
    workflow_id: str
    run_id: str
    status: str


@dataclass(frozen=True)
class Tour:
    """What was done: operations by what was special about them, and all runs of workflows, look-ups too."""

    operations: tuple[Driven, ...]
    runs: tuple[Run, ...]


@contextmanager
def tour_stack(folder: Path, env: dict[str, str] | None = None) -> Iterator[LocalStack]:
    """A stack that is fast, and has room for the tour."""
    with local_stack(folder, SPEED, {"INSTANTSTART_POLL_SECONDS": POLL, **(env or {})}) as stack:
        yield stack


def drive(stack: LocalStack, secret: str = SECRET) -> Tour:
    """Go on the tour; takes a few minutes. ``secret`` is stored as a credential on the way, and given to a run.

    Raises AssertionError or GatewayProblem where something does not end as it should.
    """
    stack.sandbox.put("/quotas", json=QUOTAS).raise_for_status()
    traveller = Traveller.of(stack)
    side_by_side(partial(_main_road, traveller, secret), partial(founding.stage_by_stage, traveller))
    return Tour(tuple(traveller.driven), traveller.temporal(_runs))


def _main_road(traveller: Traveller, secret: str) -> None:
    agent = traveller.companion("bot", "agent")
    founding.found(traveller)
    storage.secrets(traveller, secret)
    founding.furnish(traveller)
    side_by_side(
        partial(_capacity, traveller, agent),
        partial(_serving, traveller),
        partial(_training, traveller),
        partial(training.experiments, traveller),
    )
    storage.forgotten(traveller)
    founding.strip(traveller)
    founding.leave(traveller)


def _capacity(traveller: Traveller, agent: Traveller) -> None:
    capacity.groups(traveller, agent)
    capacity.nodes(traveller)
    capacity.eks_groups(traveller)
    capacity.pools(traveller)
    capacity.renewed(traveller)


def _serving(traveller: Traveller) -> None:
    storage.models(traveller)
    serving.deployments(traveller)
    serving.model_pools(traveller)
    serving.managed(traveller)


def _training(traveller: Traveller) -> None:
    training.presets(traveller)
    training.runs(traveller)
    training.interrupted(traveller)
    training.other_paths(traveller)
    storage.claims(traveller)


async def _runs(client: Client) -> tuple[Run, ...]:
    listed = [
        Run(each.workflow_type, each.id, each.run_id, each.status.name if each.status is not None else "")
        async for each in client.list_workflows()
    ]
    return tuple(sorted(listed, key=lambda each: (each.workflow_type, each.workflow_id, each.run_id)))
