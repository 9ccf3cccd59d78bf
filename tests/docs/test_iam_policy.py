"""The IAM policies are what is generated: what the activities call, and nothing else.

That reading the source misses nothing, and that the policies are enough, the tour shows (``tests/tour/test_calls.py``).
"""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.catalogue import KINDS
from sandbox.aws.authorization import policies as evaluation
from sandbox.aws.authorization import reference
from scripts import generate_iam
from scripts.iam import kinds, policies, source
from scripts.iam.grants import CREATE_DELETE, GRANTS, NEW, OPERATE, OURS, READ, Grant
from scripts.iam.policies import MAXIMUM, Parameters, WrongGrantsError, documents, size

FILES = sorted(generate_iam.FOLDER.glob("*.json"))


def statements() -> list[dict[str, object]]:
    return [statement for path in FILES for statement in json.loads(path.read_text())["Statement"]]


def test_the_files_are_what_would_be_generated() -> None:
    wanted = generate_iam.generated()
    different = [str(path) for path, content in wanted.items() if not path.exists() or path.read_text() != content]
    assert different == [], "run `make iam`"
    assert set(FILES) <= set(wanted), "run `make iam`: these files are not generated any more"


def test_every_action_that_the_source_needs_is_allowed_and_none_besides() -> None:
    allowed = set(evaluation.actions_of([json.loads(path.read_text()) for path in FILES]))

    assert len(source.called()) > 120
    assert allowed == set(policies.needed())


def test_every_statement_names_its_actions_and_only_reads_are_without_a_limit() -> None:
    for statement in statements():
        actions = evaluation.listed(statement["Action"])
        assert statement["Effect"] == "Allow"
        assert not [action for action in actions if "*" in action]
        if statement["Resource"] == "*" and "Condition" not in statement:
            assert [action for action in actions if not reference.action(action).reads] == [], statement["Sid"]


def test_read_allows_nothing_that_writes() -> None:
    found = json.loads((generate_iam.FOLDER / "read.json").read_text())
    assert [action for action in evaluation.actions_of([found]) if not reference.action(action).reads] == []


def test_each_policy_fits_into_a_customer_managed_policy_and_has_one_name_for_each_statement() -> None:
    for path in FILES:
        document = json.loads(path.read_text())
        names = [statement["Sid"] for statement in document["Statement"]]
        assert size(document) <= MAXIMUM, path
        assert len(names) == len(set(names))
        assert all(name.isalnum() for name in names)
        evaluation.check(document)


def test_the_parts_of_a_policy_hold_all_of_its_statements() -> None:
    found = documents()
    for policy in (READ, OPERATE, CREATE_DELETE):
        parts = [found[name] for name in sorted(found) if name.rstrip("-0123456789") == policy]
        assert [each for part in parts for each in part["Statement"]] == policies.statements(policy, Parameters())


def test_every_kind_of_operation_says_which_policies_it_needs() -> None:
    observed = kinds.observed()
    assert sorted(set(KINDS) - set(observed)) == [], "kinds of operations whose calls were never recorded"
    assert kinds.policies_of(observed["create-cluster"]) == [READ, OPERATE, CREATE_DELETE]
    assert kinds.policies_of(observed["scale-instance-group"]) == [READ, OPERATE]
    assert kinds.policies_of(observed["verify-cluster"]) == [READ]
    assert kinds.policies_of(observed[kinds.LOOK_UPS]) == [READ, OPERATE]
    assert set(kinds.BESIDE_THE_TOUR) <= set(KINDS)
    assert kinds.policies_of_kind(observed, "update-software") == [READ, OPERATE]


def test_partition_account_and_region_are_in_every_arn_that_has_them() -> None:
    where = Parameters("aws-us-gov", "111122223333", "us-gov-west-1")
    text = json.dumps(list(documents(where).values()))

    assert '"arn:aws:' not in text
    assert "arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/eks-cluster-*" in text
    assert "arn:aws-us-gov:iam::111122223333:role/instantstart/instantstart-*" in text
    assert "arn:aws-us-gov:s3:::sagemaker-*-111122223333-*" in text


@pytest.mark.parametrize(
    ("grant", "why"),
    [
        (Grant(OPERATE, "X", ("eks:CreateCluster",), ("eks:cluster/*",), ""), "has no resources"),
        (Grant(OPERATE, "X", ("eks:DeleteCluster",), ("ec2:vpc/*",), ""), "has none of these resources"),
        (Grant(OPERATE, "X", ("ec2:DeleteVpc",), ("ec2:vpc/*",), "", NEW), "knows no aws:RequestTag"),
        (Grant(OPERATE, "X", ("aps:CreateWorkspace",), ("*",), "", OURS), "knows no aws:ResourceTag"),
    ],
)
def test_a_grant_that_iam_would_never_allow_anything_by_is_an_error(grant: Grant, why: str) -> None:
    assert [each for each in policies.misfits(grant) if why in each]


def test_a_call_without_a_grant_and_a_grant_without_a_call_stop_the_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = tuple(grant for grant in GRANTS if grant.sid != "MakeHyperPod" and "WithPlans" not in grant.sid)
    monkeypatch.setattr(policies, "GRANTS", fewer)
    with pytest.raises(WrongGrantsError, match=r"sagemaker:CreateCluster \(.*cluster\.py\) has no grant"):
        policies.grants()

    more = replace(GRANTS[0], actions=("ec2:RebootInstances",), resources=("ec2:instance/*",), conditions={})
    monkeypatch.setattr(policies, "GRANTS", (*GRANTS, more))
    with pytest.raises(WrongGrantsError, match="ec2:RebootInstances is granted and nothing calls it"):
        policies.grants()


def test_a_call_whose_service_cannot_be_told_is_an_error(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f(client):\n    return client.list_clusters()\n")
    assert ast.parse(module.read_text())
    with pytest.raises(source.UnknownServiceError, match="which service's list_clusters"):
        list(source.calls_in(module))


def test_the_trust_policies_name_services_and_no_account() -> None:
    for path in (generate_iam.FOLDER / "trust").glob("*.json"):
        (statement,) = json.loads(path.read_text())["Statement"]
        assert list(statement["Principal"]) == ["Service"]
        assert "sts:AssumeRole" in evaluation.listed(statement["Action"])
