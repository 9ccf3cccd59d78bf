"""What the activities call of AWS, read from their source: every call, those of rare paths too.

Clients are told by :class:`activities.aws.Clients`: ``….act.eks(region)`` is a client of EKS. What is signed without a
client (data planes) is told by what it asks for.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Iterator
from pathlib import Path

import botocore.session
from botocore import xform_name
from moto.iam.aws_managed_policies import aws_managed_policies_data

from sandbox.aws.authorization import facts
from sandbox.aws.authorization.facts import Operation
from sandbox.mlflow import api as mlflow

PROJECT = Path(__file__).resolve().parents[2]
ACTIVITIES = PROJECT / "activities"

CLIENTS = {
    "amp": "amp",
    "elbv2": "elbv2",
    "tagging": "resourcegroupstaggingapi",
    "ec2": "ec2",
    "eks": "eks",
    "fsx": "fsx",
    "iam": "iam",
    "logs": "logs",
    "pricing": "pricing",
    "s3": "s3",
    "sagemaker": "sagemaker",
    "service_quotas": "service-quotas",
    "sts": "sts",
}
"""Methods of ``activities.aws.Clients``, and the services that they give clients of."""

NOT_OPERATIONS = {"search"}
"""Operations of SageMaker that regular expressions have too."""


class UnknownServiceError(Exception):
    """It cannot be told whose operation a call is."""


@functools.cache
def called() -> dict[Operation, tuple[str, ...]]:
    """Every operation with the modules that call it. Raises UnknownServiceError."""
    found: dict[Operation, set[str]] = {}
    for path in sorted(ACTIVITIES.rglob("*.py")):
        for operation in (*calls_in(path), *signed_in(path)):
            found.setdefault(operation, set()).add(str(path.relative_to(PROJECT)))
    return {operation: tuple(sorted(paths)) for operation, paths in sorted(found.items())}


@functools.cache
def managed_policies() -> dict[str, str]:
    """AWS's managed policies that the activities attach: their paths by name."""
    known = {
        name: str(each.get("Path", "/")).lstrip("/") for name, each in json.loads(aws_managed_policies_data).items()
    }
    return {
        node.value: known[node.value]
        for path in ACTIVITIES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known
    }


@functools.cache
def _python_names() -> dict[str, dict[str, str]]:
    """Method name -> service -> operation, for every service that the platform has a client of."""
    names: dict[str, dict[str, str]] = {}
    session = botocore.session.get_session()
    for service in CLIENTS.values():
        for operation in session.get_service_model(service).operation_names:
            names.setdefault(xform_name(operation), {})[service] = operation
    return names


def _service_of(node: ast.expr) -> str | None:
    """``….act.eks(region)`` is a client of EKS."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return CLIENTS.get(node.func.attr)
    return None


def _clients_in(function: ast.AST) -> Iterator[tuple[str, str]]:
    """Local names that are assigned a client, with its service."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and (service := _service_of(value)):
                    yield name.id, service


def _uses(tree: ast.AST) -> Iterator[tuple[ast.expr, str, int]]:
    """Client, method name and line of everything that is named like an operation."""
    names = _python_names()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names and node.attr not in NOT_OPERATIONS:
            yield node.value, node.attr, node.lineno
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "pages" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                yield node.args[0], str(node.args[1].value), node.lineno
            if (
                called == "get_paginator"
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.args[0], ast.Constant)
            ):
                yield node.func.value, str(node.args[0].value), node.lineno


def calls_in(path: Path) -> Iterator[Operation]:
    """The operations that a module calls by clients of botocore."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for client, method, line in _uses(tree):
        around = [f for f in functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
        local = dict(pair for function in around for pair in _clients_in(function))
        service = _service_of(client) or (local.get(client.id) if isinstance(client, ast.Name) else None)
        possible = _python_names()[method]
        if service is None and len(possible) == 1:
            service = next(iter(possible))
        if service is None:
            raise UnknownServiceError(
                f"{path}:{line}: which service's {method}? Assign the client in the same function."
            )
        yield service, possible[service]


def signed_in(path: Path) -> Iterator[Operation]:
    """What a module asks data planes for: routes of MLflow's API, queries of metrics."""
    routes = mlflow.routes()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        named = node.func.id if isinstance(node.func, ast.Name) else ""
        if named == "SigV4Auth" and "aps" in texts:
            yield _operation(facts.METRICS)
        for text in texts:
            if text in routes:
                yield "sagemaker-mlflow", mlflow.operation_of(text)
                yield _operation(facts.MLFLOW_APP)


def _operation(action: str) -> Operation:
    service, _, name = action.partition(":")
    return service, name
