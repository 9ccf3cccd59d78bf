"""Which kinds of operations need which actions, as the tour of all of them has shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contracts.catalogue import KINDS
from sandbox.aws.authorization import facts
from sandbox.credentials import ROLE_ARN
from scripts.iam.grants import CREATE_DELETE, GRANTS, OPERATE, POLICIES, READ

OBSERVED = Path(__file__).with_name("observed.json")
"""Written from the tour: ``INSTANTSTART_SAVE_CALLS=1 pytest tests/tour/test_calls.py``."""
LOOK_UPS = "look-ups"
"""Everything that is no operation: pages, plans, and the workflows that keep things as they are."""

BESIDE_THE_TOUR: Mapping[str, tuple[frozenset[str], str]] = {
    "import-cluster": (frozenset({OPERATE, CREATE_DELETE}), "lets the platform into a cluster of others, and tags it"),
    "restore-drift": (frozenset({OPERATE, CREATE_DELETE}), "makes again what is gone: NAT gateways, roles, add-ons"),
    "stop-training": (frozenset({OPERATE}), "stops a training job of SageMaker"),
    "update-software": (frozenset({OPERATE}), "updates groups that do not run the newest image"),
    "verify-access": (frozenset({OPERATE, CREATE_DELETE}), "makes access entries and the identity provider again"),
}
"""Kinds that need further policies for what the tour does not meet, and for what."""

Observed = Mapping[str, frozenset[str]]
"""Actions by kind of operation."""


def observed() -> Observed:
    return {kind: frozenset(actions) for kind, actions in json.loads(OBSERVED.read_text()).items()}


def summed(rows: Iterable[Mapping[str, Any]]) -> Observed:
    """The sandbox's record of calls (``GET /_sandbox/calls``) as actions by kind. Calls that do not say on whose behalf
    they are made are not the platform's."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row["caller"] != ROLE_ARN or row["kind"] in ("", "-"):
            continue
        action = facts.action_of((row["service"], row["operation"]))
        if action not in facts.NEEDS_NO_PERMISSION:
            kind = row["kind"] if row["kind"] in KINDS else LOOK_UPS
            found.setdefault(kind, set()).add(action)
    return {kind: frozenset(actions) for kind, actions in sorted(found.items())}


def save(found: Observed) -> None:
    """Keep what was seen on a tour beside what was seen before. A kind that is not among it calls the cluster alone,
    by a connection that others have opened."""
    before: Observed = observed() if OBSERVED.exists() else {}
    kinds = sorted({*KINDS, *before, *found})
    merged = {kind: sorted({*before.get(kind, ()), *found.get(kind, ())}) for kind in kinds}
    OBSERVED.write_text(json.dumps(merged, indent=2) + "\n")


def policies_of_kind(found: Observed, kind: str) -> list[str]:
    """The policies that a kind of operation needs, whatever it meets."""
    more = BESIDE_THE_TOUR[kind][0] if kind in BESIDE_THE_TOUR else frozenset()
    return [policy for policy in POLICIES if policy in {*policies_of(found.get(kind, ())), *more}]


def policies_of(actions: Iterable[str]) -> list[str]:
    """The policies that together allow these actions and what they need beside. An action that two policies allow, for
    other resources, is taken to be one of day two."""
    needed = {each for action in actions for each in (action, *facts.beside(action))}
    found = {READ}
    for action in needed:
        of = {grant.policy for grant in GRANTS if action in grant.actions}
        if of:
            found.add(OPERATE if OPERATE in of else next(iter(of)))
    return [policy for policy in POLICIES if policy in found]
