"""``docs/iam.md``: what each policy is for, which kind of operation needs which, and every action with its limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from contracts.catalogue import KINDS
from sandbox.aws.authorization import facts, reference
from scripts.iam import kinds
from scripts.iam.grants import CREATE_DELETE, OPERATE, POLICIES, READ, Grant
from scripts.iam.policies import MAXIMUM, Parameters, documents, grants, needed, resources_of, size
from scripts.iam.roles import trusts
from scripts.iam.source import PROJECT

PAGE = PROJECT / "docs" / "iam.md"
TEXT = PROJECT / "scripts" / "iam" / "page.md"
"""The page's words, with a line for each generated part."""
MARK = "[[{}]]"

PURPOSES = {
    READ: "looks, and changes nothing",
    OPERATE: "day two: nodes, groups, software, features, storage, serving, training",
    CREATE_DELETE: "makes clusters, imports and deletes them",
}


def page() -> str:
    text = TEXT.read_text()
    parts: dict[str, Callable[[], str]] = {
        "version": reference.version,
        "maximum": lambda: f"{MAXIMUM:,}",
        "files": lambda: _lines(_files()),
        "kinds": lambda: _lines(_kinds()),
        "trust": lambda: json.dumps(trusts()["eks-pod-identity"], indent=2),
        "statements": lambda: _lines(_statements()),
        "actions": lambda: _lines(_actions()),
        "unseen": lambda: _lines(_unseen()),
    }
    for name, make in parts.items():
        if MARK.format(name) not in text:
            raise ValueError(f"{TEXT} has no {MARK.format(name)}")
        text = text.replace(MARK.format(name), make())
    return text


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines)


def _files() -> Iterator[str]:
    yield "| policy | | files | characters |"
    yield "| --- | --- | --- | --- |"
    found = documents()
    for policy in POLICIES:
        names = [name for name in found if name == policy or name.startswith(f"{policy}-")]
        files = ", ".join(f"`{name}.json`" for name in names)
        sizes = ", ".join(f"{size(found[name]):,}" for name in names)
        yield f"| **{policy}** | {PURPOSES[policy]} | {files} | {sizes} |"


def _kinds() -> Iterator[str]:
    yield f"| kind of operation | {' | '.join(POLICIES)} |"
    yield f"| --- |{' :-: |' * len(POLICIES)}"
    observed = kinds.observed()
    for kind in (*sorted(KINDS), kinds.LOOK_UPS):
        always, ever = kinds.policies_of(observed.get(kind, ())), kinds.policies_of_kind(observed, kind)
        marks = ["●" if policy in always else "○" if policy in ever else "" for policy in POLICIES]
        yield f"| {_code(kind) if kind in KINDS else kind} | {' | '.join(marks)} |"
    yield ""
    yield "○: only where it"
    yield ""
    for kind, (_, what) in kinds.BESIDE_THE_TOUR.items():
        yield f"- {_code(kind)}: {what}"


def _statements() -> Iterator[str]:
    for policy in POLICIES:
        yield f"### {policy}"
        yield ""
        reasons: dict[str, list[str]] = {}
        for grant in grants():
            if grant.policy == policy:
                reasons.setdefault(grant.why, []).append(grant.sid)
        for why, names in reasons.items():
            yield f"- **{', '.join(names)}**: {why}."
        yield ""


def _actions() -> Iterator[str]:
    yield "| action | policy | resource | condition | used by |"
    yield "| --- | --- | --- | --- | --- |"
    users = _users()
    for action in needed():
        rows = [grant for grant in grants() if action in grant.actions]
        for number, grant in enumerate(rows):
            used = users[action] if number == 0 else ""
            resources = "<br>".join(_code(_short(each)) for each in resources_of(grant, action))
            shown = f"`{action}`" if number == 0 else ""
            yield f"| {shown} | {grant.policy} | {resources} | {_conditions(grant)} | {used} |"


def _users() -> dict[str, str]:
    """By action: the kinds of operations that were seen to need it."""
    observed = kinds.observed()
    every = sorted(KINDS)
    found: dict[str, str] = {}
    for action in needed():
        using = [
            kind
            for kind in (*every, kinds.LOOK_UPS)
            if any(action == a or action in facts.beside(a) for a in observed.get(kind, ()))
        ]
        if len(using) > 8:
            found[action] = f"{len(using)} kinds"
        else:
            found[action] = ", ".join(_code(kind) if kind in KINDS else kind for kind in using) or "(rare)"
    return found


def _unseen() -> Iterator[str]:
    """Actions of paths that the tour does not take, with the modules that take them."""
    seen = {each for actions in kinds.observed().values() for a in actions for each in (a, *facts.beside(a))}
    for action, modules in needed().items():
        if action not in seen:
            yield f"- `{action}`: {', '.join(_code(module) for module in modules)}"


def _short(resource: str) -> str:
    return Parameters().arn(resource) if resource.startswith("s3:::") else resource


def _conditions(grant: Grant) -> str:
    return "<br>".join(
        f"{operator} `{key}` {_shown(value)}"
        for operator, tests in grant.conditions.items()
        for key, value in tests.items()
    )


def _shown(value: Any) -> str:
    if value == "{managed}":
        return "the managed policies that the source names"
    return ", ".join(_code(str(each)) for each in value) if isinstance(value, list) else _code(str(value))


def _code(text: str) -> str:
    return f"`{text}`"
