"""The IAM policy of docs/aws.md allows what the activities call, and nothing else.

What they call is read twice: from their source (every call, those of rare paths too), and from the sandbox's ledger of
one whole run, which shows that reading the source misses nothing.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from tests.local_stack import local_stack

PROJECT = Path(__file__).resolve().parents[2]
SPEED = 300.0
BODY = {"tag": "demo", "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 1}]}

Operation = tuple[str, str]
"""Service and operation by their botocore names."""

CLIENTS = {
    "amp": "amp",
    "elbv2": "elbv2",
    "tagging": "resourcegroupstaggingapi",
    "ec2": "ec2",
    "eks": "eks",
    "fsx": "fsx",
    "iam": "iam",
    "pricing": "pricing",
    "s3": "s3",
    "sagemaker": "sagemaker",
    "service_quotas": "service-quotas",
    "sts": "sts",
}
"""Methods of ``activities.aws.Clients``, and the services that they give clients of."""

NOT_OPERATIONS = {"search"}
"""Operations of SageMaker that regular expressions have too."""

ACTIONS = {
    "s3:DeleteObjects": "s3:DeleteObjectVersion",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}
"""Operations whose IAM action has another name. (Service Authorization Reference: Amazon S3)"""

PREFIXES = {"amp": "aps", "elbv2": "elasticloadbalancing", "resourcegroupstaggingapi": "tag"}
"""Services whose actions are called otherwise than botocore calls the service."""

NEED_NO_PERMISSION = {"sts:GetCallerIdentity"}
SIGNED_BY_HAND = {"aps:QueryMetrics"}
"""What botocore has no operation for. (activities/autoscalers/metrics.py)"""

TAGGING = {
    "aps": "aps:TagResource",
    "ec2": "ec2:CreateTags",
    "eks": "eks:TagResource",
    "fsx": "fsx:TagResource",
    "iam:CreateRole": "iam:TagRole",
    "iam:CreateOpenIDConnectProvider": "iam:TagOpenIDConnectProvider",
    "sagemaker": "sagemaker:AddTags",
}
DEPENDENT = {
    "eks:CreateAddon": {"iam:GetRole", "iam:PassRole"},
    "eks:CreateCluster": {"iam:CreateServiceLinkedRole", "iam:PassRole"},
    "eks:CreateNodegroup": {"ec2:RunInstances", "iam:CreateServiceLinkedRole", "iam:PassRole"},
    "eks:CreatePodIdentityAssociation": {"iam:GetRole", "iam:PassRole"},
    "fsx:CreateFileSystem": {"ec2:GetSecurityGroupsForVpc", "iam:CreateServiceLinkedRole"},
    "sagemaker:CreateCluster": {
        "eks:AssociateAccessPolicy",
        "eks:CreateAccessEntry",
        "eks:DeleteAccessEntry",
        "eks:DescribeAccessEntry",
        "eks:DescribeCluster",
        "iam:CreateServiceLinkedRole",
        "iam:PassRole",
    },
    "sagemaker:DeleteCluster": {"eks:DeleteAccessEntry"},
    "sagemaker:UpdateCluster": {"sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"},
}
"""What a service asks of the caller beside the action itself. (Service Authorization Reference: dependent actions;
those for custom AMIs are left out, because the platform gives none)"""


def policies() -> list[dict[str, Any]]:
    """Every JSON of the section "IAM policy"."""
    text = (PROJECT / "docs" / "aws.md").read_text()
    section = re.search(r"^## IAM policy$(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    assert section is not None, "docs/aws.md has no section '## IAM policy'"
    found = re.findall(r"^```json\n(.*?)^```$", section.group(1), re.DOTALL | re.MULTILINE)
    assert found, "docs/aws.md has no JSON under '## IAM policy'"
    return [json.loads(each) for each in found]


def statements() -> list[dict[str, Any]]:
    return [statement for policy in policies() for statement in policy["Statement"]]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def python_names() -> dict[str, dict[str, str]]:
    """Method name -> service -> operation, for every service that the platform has a client of."""
    names: dict[str, dict[str, str]] = {}
    session = botocore.session.get_session()
    for service in CLIENTS.values():
        for operation in session.get_service_model(service).operation_names:
            names.setdefault(xform_name(operation), {})[service] = operation
    return names


def service_of(node: ast.expr) -> str | None:
    """``….act.eks(region)`` is a client of EKS."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return CLIENTS.get(node.func.attr)
    return None


def clients_in(function: ast.AST) -> Iterator[tuple[str, str]]:
    """Local names that are assigned a client, with its service."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and (service := service_of(value)):
                    yield name.id, service


def uses(tree: ast.AST, names: dict[str, dict[str, str]]) -> Iterator[tuple[ast.expr, str, ast.AST]]:
    """(client, method name, node) of everything that is named like an operation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names and node.attr not in NOT_OPERATIONS:
            yield node.value, node.attr, node
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "pages" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                yield node.args[0], str(node.args[1].value), node
            if (
                called == "get_paginator"
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.args[0], ast.Constant)
            ):
                yield node.func.value, str(node.args[0].value), node


def calls_in(path: Path, names: dict[str, dict[str, str]]) -> Iterator[Operation]:
    """The operations that a module calls. One whose service cannot be told fails the test."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for client, method, node in uses(tree, names):
        line = node.lineno  # type: ignore[attr-defined]
        around = [f for f in functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
        local = dict(pair for function in around for pair in clients_in(function))
        service = service_of(client) or (local.get(client.id) if isinstance(client, ast.Name) else None)
        possible = names[method]
        if service is None and len(possible) == 1:
            service = next(iter(possible))
        assert service is not None, f"{path}:{line}: which service's {method}? Assign the client in the same function."
        yield service, possible[service]


@pytest.fixture(scope="module")
def called() -> set[Operation]:
    names = python_names()
    return {call for path in (PROJECT / "activities").rglob("*.py") for call in calls_in(path, names)}


def action_of(operation: Operation) -> str:
    service, name = operation
    action = f"{PREFIXES.get(service, service).replace('-', '')}:{name}"
    return ACTIONS.get(action, action)


def needed(called: set[Operation]) -> set[str]:
    """The IAM actions for these operations, and for what the services do for the caller on the way."""
    actions = {action_of(operation) for operation in called} - NEED_NO_PERMISSION
    makes = {a for a in actions if a.split(":")[1].startswith(("Create", "Allocate")) and a != "ec2:CreateRoute"}
    tags = {TAGGING.get(action) or TAGGING.get(action.split(":")[0]) for action in makes}
    dependent = {each for action in actions for each in DEPENDENT.get(action, ())}
    return actions | dependent | SIGNED_BY_HAND | {tag for tag in tags if tag}


def test_the_policy_allows_what_the_activities_call_and_nothing_else(called: set[Operation]) -> None:
    allowed = {action for statement in statements() for action in listed(statement["Action"])}

    assert len(called) > 60
    assert sorted(needed(called) - allowed) == [], "calls that the policy does not allow"
    assert sorted(allowed - needed(called)) == [], "actions that nothing needs"


def test_every_statement_names_its_actions_and_only_reads_are_without_a_limit() -> None:
    for statement in statements():
        actions = listed(statement["Action"])
        assert statement["Effect"] == "Allow"
        assert not [action for action in actions if "*" in action]
        if statement["Resource"] == "*" and "Condition" not in statement:
            reading = ("Describe", "List", "Get")
            assert [a for a in actions if not a.split(":")[1].startswith(reading)] == [], statement["Sid"]


def test_each_policy_fits_into_a_customer_managed_policy() -> None:
    """IAM counts 6,144 characters without white space. (IAM User Guide: IAM quotas)"""
    for policy in policies():
        assert len(re.sub(r"\s", "", json.dumps(policy))) <= 6144


def test_a_whole_run_calls_nothing_that_the_source_does_not_show(called: set[Operation], tmp_path: Path) -> None:
    with local_stack(tmp_path, SPEED) as stack:
        stack.gateway.post("/clusters", json=BODY).raise_for_status()
        ended = stack.until("create-cluster/demo", lambda o: o["phase"] in ("succeeded", "blocked", "failed"))
        assert ended["phase"] == "succeeded", ended["problem"]
        ledger = stack.sandbox.get("/ledger").json()
    made = {(row["service"], row["operation"]) for row in ledger["entries"] if row["api"] == "aws"}
    read = {(row["service"], row["operation"]) for row in ledger["reads"] if row["api"] == "aws"}

    assert len(made) > 25
    assert len(read) > 25
    assert sorted((made | read) - called) == []
