"""The policies: what the source calls, limited by the grants, cut to the size that IAM takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.aws.authorization import facts, reference
from scripts.iam import source
from scripts.iam.grants import ACCOUNT, GRANTS, POLICIES, READ, READ_BUCKETS, READ_KINDS, READ_RESOURCES, Grant

MAXIMUM = 6144
"""Characters of a customer managed policy, white space not counted. (IAM User Guide: IAM and STS quotas)"""

Document = dict[str, Any]


class WrongGrantsError(Exception):
    """The grants do not fit what the source calls, or what IAM knows."""


@dataclass(frozen=True)
class Parameters:
    """Where the policies hold. ``*`` allows every region, and the account that the role is in."""

    partition: str = "aws"
    account: str = "*"
    region: str = "*"

    def arn(self, resource: str) -> str:
        """``ec2:vpc/*`` and its like (:class:`scripts.iam.grants.Grant`) as an ARN."""
        if resource == "*":
            return "*"
        if resource.startswith("s3:::"):
            account = "${aws:PrincipalAccount}" if self.account == "*" else self.account
            return f"arn:{self.partition}:{resource.replace(ACCOUNT, account)}"
        service, _, rest = resource.partition(":")
        if rest.startswith(":any:"):
            return f"arn:{self.partition}:iam::*:{rest.removeprefix(':any:')}"
        if rest.startswith(":"):
            return f"arn:{self.partition}:{service}::{self.account}:{rest[1:]}"
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{rest}"


def needed() -> dict[str, tuple[str, ...]]:
    """Every IAM action that the platform needs, with the modules that it is for."""
    found: dict[str, set[str]] = {}
    for operation, modules in source.called().items():
        action = facts.action_of(operation)
        if action not in facts.NEEDS_NO_PERMISSION:
            for each in (action, *facts.beside(action)):
                found.setdefault(each, set()).update(modules)
    return {action: tuple(sorted(modules)) for action, modules in sorted(found.items())}


def grants() -> list[Grant]:
    """The grants with what is needed of them, reads first. Raises WrongGrantsError."""
    wanted = needed()
    reads = {action for action in wanted if reference.action(action).reads}
    granted = {action for grant in GRANTS for action in grant.actions}
    problems = [
        f"{action} ({', '.join(wanted[action])}) has no grant in scripts/iam/grants"
        for action in sorted(set(wanted) - reads - granted)
    ]
    problems += [f"{action} is granted and nothing calls it" for action in sorted(granted - set(wanted))]
    problems += [f"{action} only reads, and is granted nevertheless" for action in sorted(granted & reads)]
    found = [*_reads(reads), *GRANTS]
    problems += [each for grant in found for each in misfits(grant)]
    if problems:
        raise WrongGrantsError("\n".join(problems))
    return found


def _reads(actions: set[str]) -> Iterator[Grant]:
    """One statement for all that has no resources, one for each set of special ones, and one for each service."""
    around = sorted(action for action in actions if not reference.action(action).kinds)
    yield Grant(READ, "LookAround", tuple(around), ("*",), "these actions have no resources")
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for action in sorted(actions - set(around)):
        service = action.partition(":")[0]
        if service == "s3":
            group = ("s3-objects" if action in READ_RESOURCES else "s3", READ_RESOURCES.get(action, READ_BUCKETS))
        else:
            group = (service, READ_RESOURCES.get(action, ()))
        groups.setdefault(group, []).append(action)
    for (name, resources), members in groups.items():
        why = "named by what they are there for" if resources else "all of the account: clusters may be imported, and "
        why += "" if resources else "what belongs to somebody else must be recognised"
        yield Grant(READ, _sid(name), tuple(members), resources or tuple(_own_resources(members)), why)


def _sid(name: str) -> str:
    return "LookAt" + "".join(part[0].upper() + part[1:] for part in name.split("-"))


def _own_resources(actions: Iterable[str]) -> list[str]:
    """The resources that the reference names: those that an action always has, else those that it may have."""
    found: list[str] = []
    for action in actions:
        kinds = reference.action(action).kinds
        named = READ_KINDS.get(action) or [each.name for each in kinds if each.required]
        for kind in [each for each in kinds if each.name in named] or kinds:
            _, _, service, region, _, resource = kind.arn.split(":", 5)
            pattern = re.sub(r"\$\{[^}]+\}(?:/\$\{[^}]+\})*", "*", resource)
            found.append(f"{service}:{pattern}" if region else f"{service}::{pattern}")
    return list(dict.fromkeys(found))


def misfits(grant: Grant) -> Iterator[str]:
    """Why IAM would never allow an action by this grant: it has no such resource, or not these condition keys."""
    keys = {key for tests in grant.conditions.values() for key in tests}
    for action in grant.actions:
        entry = reference.action(action)
        if not entry.kinds:
            if "*" not in grant.resources:
                yield f"{grant.sid}: {action} has no resources, so that only * fits"
            elif missing := {key for key in keys if not _known(key, entry.keys)}:
                yield f"{grant.sid}: {action} knows no {', '.join(sorted(missing))}"
            continue
        fitting = [kind for kind in entry.kinds if any(_is_kind(resource, kind.arn) for resource in grant.resources)]
        if not fitting:
            yield f"{grant.sid}: {action} has none of these resources"
        elif not any(all(_known(key, entry.keys | kind.keys) for key in keys) for kind in fitting):
            yield f"{grant.sid}: {action} knows no {', '.join(sorted(keys))} on these resources"


def resources_of(grant: Grant, action: str) -> list[str]:
    """Those of a grant's resources that the action can have at all."""
    kinds = reference.action(action).kinds
    return [each for each in grant.resources if not kinds or any(_is_kind(each, kind.arn) for kind in kinds)]


def _known(key: str, keys: Iterable[str]) -> bool:
    if key == "aws:ResourceAccount":
        return True
    return any(re.fullmatch(re.sub(r"\\\$\\\{[^}]+\\\}", ".+", re.escape(each)), key) for each in keys)


def _is_kind(resource: str, arn: str) -> bool:
    """Whether a resource of a grant is of the type that has such ARNs."""
    if resource == "*":
        return True
    service, rest = arn.split(":")[2], arn.split(":", 5)[5]
    if not resource.startswith(f"{service}:"):
        return False
    named = resource.removeprefix(f"{service}:").lstrip(":").removeprefix("any:")
    if service == "s3":
        return ("/" in named) == ("/" in rest) and rest.startswith("${BucketName}")
    return named.startswith(re.split(r"[/:]?\$\{", rest)[0])


def statements(policy: str, where: Parameters) -> list[Document]:
    """The statements of a policy, in the order of its grants."""
    return [_statement(grant, where) for grant in grants() if grant.policy == policy]


def _statement(grant: Grant, where: Parameters) -> Document:
    found: Document = {
        "Sid": grant.sid,
        "Effect": "Allow",
        "Action": _one(sorted(grant.actions)),
        "Resource": _one([where.arn(each) for each in grant.resources]),
    }
    if grant.conditions:
        found["Condition"] = {
            operator: {key: _value(value, where) for key, value in tests.items()}
            for operator, tests in grant.conditions.items()
        }
    return found


def _value(value: Any, where: Parameters) -> Any:
    if value == "{managed}":
        return [f"arn:{where.partition}:iam::aws:policy/{name}" for name in _managed()]
    return where.arn(value) if isinstance(value, str) and re.match(r"[a-z0-9-]+:[a-z-]+/", value) else value


def _managed() -> list[str]:
    """Policies for services have a path. (AWS Managed Policy Reference Guide)"""
    return [f"{source.managed_policies()[name]}{name}" for name in sorted(source.managed_policies())]


def _one(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def documents(where: Parameters | None = None) -> dict[str, Document]:
    """All policies by the names of their files: ``read``, and ``operate-1`` and so on where one is too long."""
    found: dict[str, Document] = {}
    for policy in POLICIES:
        parts = list(_packed(statements(policy, where or Parameters())))
        for number, part in enumerate(parts, 1):
            name = policy if len(parts) == 1 else f"{policy}-{number}"
            found[name] = {"Version": "2012-10-17", "Statement": part}
    return found


def _packed(wanted: list[Document]) -> Iterator[list[Document]]:
    part: list[Document] = []
    for statement in wanted:
        if part and size({"Version": "2012-10-17", "Statement": [*part, statement]}) > MAXIMUM:
            yield part
            part = []
        part.append(statement)
    yield part


def size(document: Mapping[str, Any]) -> int:
    """What IAM counts."""
    return len(re.sub(r"\s", "", json.dumps(document)))
