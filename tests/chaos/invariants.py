"""What must hold after a schedule, told from the outside: from answers of the gateway, Temporal's own list, the
sandbox's ledger, and what there is in the account. Each check is pure and returns its violations in words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.done import Done, about
from tests.chaos.world import THEIRS, Holdings, Thing

WAITING = ("blocked", "waiting_for_decision", "waiting_for_approval")


@dataclass(frozen=True)
class Run:
    """A run of a workflow, as Temporal tells it."""

    id: str
    status: str
    """``RUNNING``, ``COMPLETED``, ``FAILED`` …"""
    task_attempt: int = 0
    """Of the pending workflow task; 0 without one."""
    task_failures: tuple[str, ...] = ()
    """Causes of workflow tasks that failed, but for those that a killed worker left."""


def all_ended(operations: Iterable[Done]) -> list[str]:
    """Every operation has succeeded or was aborted, or waits for somebody and says why."""
    faults = []
    for each in operations:
        if each.phase in ("succeeded", "aborted"):
            continue
        if each.phase not in WAITING:
            faults.append(f"{each.id} is {each.phase}: {each.reason or 'no reason'}")
        elif not each.reason:
            faults.append(f"{each.id} is {each.phase} and does not say why")
    return faults


def workflows_well(runs: Iterable[Run]) -> list[str]:
    """No workflow has failed, and none has a workflow task that fails again and again."""
    faults = []
    for run in runs:
        if run.status in ("FAILED", "TIMED_OUT"):
            faults.append(f"workflow {run.id} is {run.status}")
        if run.task_attempt >= 3:
            faults.append(f"a workflow task of {run.id} is at attempt {run.task_attempt}")
        faults += [f"a workflow task of {run.id} failed: {cause}" for cause in run.task_failures]
    return faults


ONCE = re.compile(
    r"(BatchAddClusterNodes|BatchDeleteClusterNodes|BatchRebootClusterNodes|BatchReplaceClusterNodes"
    r"|UpdateClusterSoftware|UpdateCluster|UpdateNodegroupConfig|CreateTrainingJob)"
)
"""Calls that do something anew each time that they are made."""
_MAKING = re.compile(r"(Create|Allocate)(?!Tags|Token)\w+")
_ENDING = re.compile(r"(Delete|Release|Terminate)(?!Tags)\w+")
_TOKENS = ("clientrequesttoken", "clienttoken")


def effects_once(
    ledger: Sequence[Mapping[str, Any]], retried: Iterable[str] = (), told_to_wait: Mapping[str, int] | None = None
) -> list[str]:
    """Each mutating effect once.

    What makes something is identified by service, call, region, the cluster whose operation asked, and the name or
    ``Name`` tag that the thing was to have: while one lives, whoever may end it, another is a violation. What acts
    each time it is called (``ONCE``) is identified by operation, request and parameters without client tokens.
    ``retried``: operations whose stages somebody had tried again: they may act again. ``told_to_wait``: how often
    somebody has told an operation to wait for instances that it could not have: what AWS has given up, it asks for
    again, once each time.
    """
    faults = []
    alive: dict[tuple[str, ...], str] = {}
    acted: Counter[tuple[str, ...]] = Counter()
    again, waited = set(retried), told_to_wait or {}
    for row in ledger:
        if row["api"] != "aws" or not row["effect"]:
            continue
        operation, caller = row["operation"], _caller(row)
        if _ENDING.fullmatch(operation):
            gone = _named(row)
            alive = {key: made for key, made in alive.items() if made not in gone and key[4] not in gone}
            continue
        if not caller:
            continue
        if _MAKING.fullmatch(operation):
            key = (row["service"], operation, row["region"], _cluster(caller), _wanted(row), _within(row))
            if key in alive and alive[key] != row["resource"]:
                faults.append(f"{row['service']}:{operation} of {_wanted(row)} was done twice, last by {caller}")
            alive[key] = row["resource"]
        elif ONCE.fullmatch(operation) and caller not in again:
            acts = (caller, str(row["user_agent"]).rpartition(" req/")[2], operation, _content(row["parameters"]))
            acted[acts] += 1
    faults += [
        f"{key[2]} was done {count} times by {key[0]}: {key[3]}"
        for key, count in acted.items()
        if count > 1 + waited.get(key[0], 0)
    ]
    return faults


def _caller(row: Mapping[str, Any]) -> str:
    """The workflow ID of the operation that made a call; empty: it was none of the platform's."""
    named = str(row["user_agent"]).rpartition(" op/")
    return named[2].partition(" ")[0].removeprefix("-") if named[1] else ""


def _cluster(caller: str) -> str:
    return caller.split("/")[1] if "/" in caller else ""


def _content(parameters: Any) -> str:
    if isinstance(parameters, dict):
        parameters = {key: value for key, value in parameters.items() if key.lower() not in _TOKENS}
    return json.dumps(parameters, sort_keys=True)


def _wanted(row: Mapping[str, Any]) -> str:
    """The name that a thing was to have; without one, all that was said of it."""
    parameters = row["parameters"] if isinstance(row["parameters"], dict) else {}
    for specification in parameters.get("TagSpecifications") or ():
        for tag in specification.get("Tags") or specification.get("Tag") or ():
            if tag.get("Key") == "Name":
                return str(tag["Value"])
    return _content(parameters)


def _within(row: Mapping[str, Any]) -> str:
    """The tracking server in which something is made: the ledger names it in place of what is made there."""
    return str(row["resource"]) if row["service"] == "sagemaker-mlflow" else ""


def _named(row: Mapping[str, Any]) -> set[str]:
    """Everything that a call which ends something names."""
    parameters = row["parameters"] if isinstance(row["parameters"], dict) else {}
    texts = {str(value) for value in parameters.values() if isinstance(value, str)}
    return texts | {row["resource"]} | {_content(parameters)}


_AWS_ID = re.compile(r"\b(?:vpc|subnet|sg|nat|igw|rtb|vpce|eipalloc|fs)-[0-9a-f]{8,17}\b")


def explained(before: Iterable[Thing], now: Iterable[Thing], records: Mapping[str, Any]) -> list[str]:
    """Nothing is there that no record explains, and nothing twice.

    A thing is explained if it was there before, if a record names it, if it is marked for a cluster that has a record,
    carries its tag in its name, or is in a VPC that is explained so.
    """
    known, now = {(each.kind, each.id) for each in before}, list(now)
    told = {tag: json.dumps(record) for tag, record in records.items()}

    def by_itself(thing: Thing) -> bool:
        if thing.cluster:
            return thing.cluster in records
        named = any(re.search(rf"(^|[-/:.]){re.escape(tag)}($|[-/:.])", f"{thing.id} {thing.name}") for tag in records)
        return named or any(f'"{thing.id}"' in text or thing.id in text.split('"') for text in told.values())

    fresh = [each for each in now if (each.kind, each.id) not in known]
    networks = {each.id for each in fresh if each.kind == "VPC" and by_itself(each)}
    faults = [f"nobody knows of {each}" for each in fresh if not by_itself(each) and each.within not in networks]
    twins = Counter((each.kind, each.place, each.cluster, each.name) for each in fresh if each.cluster and each.name)
    faults += [f"{count} times {key[0]} {key[3]} of {key[2]} in {key[1]}" for key, count in twins.items() if count > 1]
    return faults


def there(
    now: Iterable[Thing],
    records: Mapping[str, Any],
    holdings: Mapping[str, Holdings],
    operations: Iterable[Done] = (),
    made_beside: Mapping[str, set[str]] | None = None,
) -> list[str]:
    """Nothing is recorded that is not there, and nothing there that is not recorded. ``operations``: what those that
    were terminated were about is left out of this; a cluster whose creation was, is. ``made_beside``: instance groups
    that others have made past the platform, by cluster: none of them is recorded."""
    cut = {(each.cluster, about(each)) for each in operations if each.terminated}
    ids = {each.id for each in now}
    faults = []
    for tag, record in records.items():
        if (tag, ("create-cluster", "")) in cut:
            continue
        named = set(_AWS_ID.findall(json.dumps(record)))
        # What belongs to EKS or is noted beside (a prefix list, an interface) has no kind of its own here.
        faults += [f"the record of {tag} names {each}, which is not there" for each in sorted(named - ids)]
        held = holdings[tag]
        groups = {each["name"] for each in (record.get("hyperpod") or {}).get("groups") or ()} - {THEIRS}
        listed = (
            ("instance group", "groups", groups, set(held.groups) - (made_beside or {}).get(tag, set())),
            (
                "node group",
                "node_groups",
                {each["name"] for each in record.get("node_groups") or ()},
                set(held.node_groups),
            ),
            ("claim", "claims", {each["claim"] for each in record.get("storage") or ()}, held.claims),
        )
        for kind, member, recorded, existing in listed:
            unsure = {name for of, (about, name) in cut if (of, about) == (tag, member)}
            recorded, existing = recorded - unsure, existing - unsure
            faults += [f"the record of {tag} names {kind} {n}, which is not there" for n in sorted(recorded - existing)]
            faults += [f"{kind} {n} of {tag} is in no record" for n in sorted(existing - recorded)]
    return faults


def others_untouched(before: Iterable[Thing], after: Iterable[Thing]) -> list[str]:
    """What was there before the platform did anything is there, and as it was."""
    now = {(each.kind, each.id): each for each in after}
    faults = []
    for each in before:
        found = now.get((each.kind, each.id))
        if found is None:
            faults.append(f"{each} is gone, and was not the platform's")
        elif found != each:
            faults.append(f"{each} was changed: {each.facts} became {found.facts}")
    return faults


def theirs_kept(settled: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What others had in the clusters, by cluster and thing, is as it was when they settled."""
    return [
        f"others' {thing} in {tag} was {like}, is {now.get(tag, {}).get(thing)}"
        for tag, things in settled.items()
        for thing, like in things.items()
        if now.get(tag, {}).get(thing) != like
    ]


def nothing_left(before: Iterable[Thing], after: Iterable[Thing]) -> list[str]:
    """After the end of all clusters there is nothing that was not there before."""
    known = {(each.kind, each.id) for each in before}
    return [f"{each} is left" for each in after if (each.kind, each.id) not in known]
