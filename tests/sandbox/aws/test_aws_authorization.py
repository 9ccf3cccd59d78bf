"""Policies of the sandbox's caller: what is evaluated, what is refused, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_support import REGION, Api
from botocore.config import Config
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from sandbox import credentials
from sandbox.aws.authorization.guard import read
from sandbox.aws.authorization.policies import Request, UnknownElement, check, evaluate

VPC = "arn:aws:ec2:us-west-2:123456789012:vpc/vpc-1"
OTHERS_TAGS = {"Null": {"aws:ResourceTag/team": "false"}}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: Any, resource: Any = "*", condition: Any = None, effect: str = "Allow") -> dict[str, Any]:
    found = {"Effect": effect, "Action": action, "Resource": resource}
    return found if condition is None else {**found, "Condition": condition}


def allowed(statement: dict[str, Any], action: str, resource: str = VPC, **context: tuple[str, ...]) -> bool:
    return evaluate([policy(statement)], Request(action, resource, context))


@pytest.mark.parametrize(
    ("statement", "fits"),
    [
        (allow("ec2:DeleteVpc", VPC), True),
        (allow("EC2:deletevpc", VPC), True),
        (allow("ec2:Delete*", "arn:aws:ec2:*:*:vpc/*"), True),
        (allow("ec2:DeleteSubnet", VPC), False),
        (allow("ec2:DeleteVpc", "arn:aws:ec2:*:*:subnet/*"), False),
        (allow("ec2:DeleteVpc", "arn:aws:ec2:us-west-2:*"), False),
        (allow("ec2:DeleteVpc", "arn:aws:ec2:eu-west-1:*:vpc/*"), False),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, True),
        ({"Effect": "Allow", "Action": "ec2:DeleteVpc", "NotResource": VPC}, False),
    ],
)
def test_a_statement_allows_its_actions_on_its_resources(statement: dict[str, Any], fits: bool) -> None:
    assert allowed(statement, "ec2:DeleteVpc") is fits


@pytest.mark.parametrize(
    ("condition", "value", "fits"),
    [
        ({"StringEquals": {"k": "a"}}, ("a",), True),
        ({"StringEquals": {"k": ["b", "a"]}}, ("a",), True),
        ({"StringEquals": {"k": "A"}}, ("a",), False),
        ({"StringEquals": {"k": "a"}}, None, False),
        ({"StringEqualsIfExists": {"k": "a"}}, None, True),
        ({"StringNotEquals": {"k": "a"}}, None, True),
        ({"StringNotEquals": {"k": "a"}}, ("a",), False),
        ({"StringLike": {"k": "a*"}}, ("abc",), True),
        ({"Null": {"k": "true"}}, None, True),
        ({"Null": {"k": "false"}}, None, False),
        ({"Null": {"k": "false"}}, ("x",), True),
        ({"Bool": {"k": False}}, ("false",), True),
        ({"Bool": {"k": "false"}}, ("true",), False),
        ({"ArnLike": {"k": "arn:aws:iam::*:role/x*"}}, ("arn:aws:iam::1:role/xy",), True),
        ({"ForAllValues:StringEquals": {"k": ["a", "b"]}}, ("a", "b"), True),
        ({"ForAllValues:StringEquals": {"k": ["a"]}}, ("a", "b"), False),
        ({"ForAnyValue:StringEquals": {"k": ["a"]}}, ("a", "b"), True),
        ({"StringEquals": {"k": "a", "l": "b"}}, ("a",), False),
    ],
)
def test_a_condition_holds_as_iam_documents_it(condition: Any, value: tuple[str, ...] | None, fits: bool) -> None:
    context = {} if value is None else {"k": value}
    assert allowed(allow("ec2:DeleteVpc", "*", condition), "ec2:DeleteVpc", **context) is fits


def test_a_policy_variable_stands_for_the_callers_own_value_and_without_one_matches_nothing() -> None:
    statement = allow("s3:CreateBucket", "arn:aws:s3:::b-${aws:PrincipalAccount}-*")
    request = Request("s3:CreateBucket", "arn:aws:s3:::b-111-x", {"aws:PrincipalAccount": ("111",)})

    assert evaluate([policy(statement)], request)
    assert not evaluate([policy(statement)], Request(request.action, "arn:aws:s3:::b-222-x", request.context))
    assert not evaluate([policy(statement)], Request(request.action, request.resource))


@pytest.mark.parametrize(
    "document",
    [
        {"Version": "2012-10-17"},
        policy({"Effect": "Permit", "Action": "*", "Resource": "*"}),
        policy({"Effect": "Allow", "Action": "*"}),
        policy({"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}),
        policy(allow("*", "*", {"NumericLessThan": {"k": 1}})),
    ],
)
def test_what_is_not_evaluated_is_refused_when_a_policy_is_read(document: Any) -> None:
    with pytest.raises(UnknownElement):
        check(document)


ACTIONS = st.sampled_from(["ec2:DeleteVpc", "ec2:*", "*", "iam:GetRole", "ec2:Describe*"])
RESOURCES = st.sampled_from(["*", VPC, "arn:aws:ec2:*:*:vpc/*", "arn:aws:ec2:*:*:subnet/*"])
STATEMENTS = st.builds(
    lambda action, resource, effect: allow(action, resource, None, effect),
    ACTIONS,
    RESOURCES,
    st.sampled_from(["Allow", "Deny"]),
)
REQUEST = Request("ec2:DeleteVpc", VPC)


@given(st.lists(STATEMENTS, max_size=6), STATEMENTS)
def test_nothing_undoes_a_deny_and_an_allow_takes_nothing_away(
    held: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    before = evaluate([policy(*held)], REQUEST)
    after = evaluate([policy(*held), policy(more)], REQUEST)

    if more["Effect"] == "Allow":
        assert after or not before
    else:
        assert before or not after


@given(st.permutations([allow("ec2:*"), allow("ec2:DeleteVpc", VPC, None, "Deny"), allow("iam:*")]))
def test_the_order_of_statements_is_of_no_meaning(statements: list[dict[str, Any]]) -> None:
    assert not evaluate([policy(*statements)], REQUEST)


# Over the API


def put(api: Api, **documents: Any) -> None:
    api.admin("PUT", "policies", documents)


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_without_policies_everything_is_allowed_and_with_one_only_what_it_allows(api: Api) -> None:
    ec2 = api.client("ec2")
    ec2.create_vpc(CidrBlock="10.1.0.0/16")
    put(api, look=policy(allow("ec2:DescribeVpcs")))

    assert ec2.describe_vpcs()["Vpcs"]
    with pytest.raises(ClientError) as refused:
        ec2.create_vpc(CidrBlock="10.2.0.0/16")
    assert code(refused) == "UnauthorizedOperation"
    assert "not authorized to perform: ec2:CreateVpc on resource: arn:aws:ec2:us-west-2:" in str(refused.value)
    assert [each["action"] for each in api.admin("GET", "policies")["refused"]] == ["ec2:CreateVpc"]

    api.admin("DELETE", "policies")
    ec2.create_vpc(CidrBlock="10.2.0.0/16")


def test_each_service_refuses_with_its_own_code(api: Api) -> None:
    put(api, nothing=policy(allow("sts:GetCallerIdentity")))

    for service, call, expected in (
        ("eks", lambda c: c.list_clusters(), "AccessDeniedException"),
        ("sagemaker", lambda c: c.list_clusters(), "AccessDeniedException"),
        ("iam", lambda c: c.list_roles(), "AccessDenied"),
        ("s3", lambda c: c.list_objects_v2(Bucket="somebody-elses"), "AccessDenied"),
        ("s3", lambda c: c.head_bucket(Bucket="somebody-elses"), "403"),
    ):
        with pytest.raises(ClientError) as refused:
            call(api.client(service))
        assert code(refused) == expected, service
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403)
    assert api.client("sts").get_caller_identity()["Account"] == "123456789012"


def test_tags_at_creation_need_the_tagging_action_too(api: Api) -> None:
    given: Any = [{"ResourceType": "vpc", "Tags": [{"Key": "team", "Value": "a"}]}]
    put(api, make=policy(allow("ec2:CreateVpc", "arn:aws:ec2:*:*:vpc/*", {"Null": {"aws:RequestTag/team": "false"}})))
    with pytest.raises(ClientError, match="ec2:CreateTags"):
        api.client("ec2").create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=given)
    with pytest.raises(ClientError, match="ec2:CreateVpc"):
        api.client("ec2").create_vpc(CidrBlock="10.1.0.0/16")

    tag = allow("ec2:CreateTags", "arn:aws:ec2:*:*:vpc/*", {"StringEquals": {"ec2:CreateAction": "CreateVpc"}})
    put(api, make=policy(allow("ec2:CreateVpc")), tag=policy(tag))
    vpc = api.client("ec2").create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=given)["Vpc"]["VpcId"]
    with pytest.raises(ClientError, match="ec2:CreateTags"):
        api.client("ec2").create_tags(Resources=[vpc], Tags=[{"Key": "team", "Value": "b"}])


def test_a_condition_on_tags_of_the_resource_looks_at_what_the_resource_has(api: Api) -> None:
    ec2 = api.client("ec2")
    tags: Any = [{"ResourceType": "vpc", "Tags": [{"Key": "team", "Value": "a"}]}]
    ours = ec2.create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=tags)["Vpc"]["VpcId"]
    others = ec2.create_vpc(CidrBlock="10.2.0.0/16")["Vpc"]["VpcId"]
    put(api, change=policy(allow("ec2:DeleteVpc", "arn:aws:ec2:*:*:vpc/*", OTHERS_TAGS)))

    ec2.delete_vpc(VpcId=ours)
    with pytest.raises(ClientError, match=others):
        ec2.delete_vpc(VpcId=others)


def test_a_role_is_passed_only_to_the_services_that_a_policy_names(api: Api) -> None:
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "eks.amazonaws.com"}}
    role = api.client("iam").create_role(RoleName="control", AssumeRolePolicyDocument=json.dumps(policy(trust)))["Role"]
    request: Any = {"name": "c", "roleArn": role["Arn"], "resourcesVpcConfig": {"subnetIds": []}}
    passing = allow("iam:PassRole", "*", {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}})
    put(api, make=policy(allow(["eks:CreateCluster", "iam:CreateServiceLinkedRole"]), passing))

    with pytest.raises(ClientError, match="iam:PassRole"):
        api.client("eks").create_cluster(**request)


def test_a_resource_that_an_action_does_not_have_allows_nothing(api: Api) -> None:
    """CreateCluster of EKS has no resource: a policy that names one never fits. (Service Authorization Reference)"""
    put(api, make=policy(allow("eks:CreateCluster", "arn:aws:eks:*:*:cluster/*")))

    with pytest.raises(ClientError, match="eks:CreateCluster on resource: \\*"):
        api.client("eks").create_cluster(name="c", roleArn="arn:aws:iam::1:role/x", resourcesVpcConfig={})


def test_calls_are_counted_reads_too_by_caller_and_on_whose_behalf(api: Api) -> None:
    api.admin("DELETE", "calls")
    ec2 = boto3.client(
        "ec2",
        region_name=REGION,
        endpoint_url=api.url,
        aws_access_key_id=credentials.ACCESS_KEY_ID,
        aws_secret_access_key=credentials.SECRET_ACCESS_KEY,
        config=Config(user_agent_extra="op/create-cluster/demo req/1"),
    )
    ec2.describe_vpcs()
    ec2.describe_vpcs()
    ec2.create_vpc(CidrBlock="10.1.0.0/16")

    rows = api.admin("GET", "calls?kind=create-cluster")["calls"]

    assert [(each["operation"], each["count"]) for each in rows] == [("CreateVpc", 1), ("DescribeVpcs", 2)]
    assert {each["caller"] for each in rows} == {credentials.ROLE_ARN}
    assert {each["region"] for each in rows} == {REGION}


def test_another_key_is_somebody_else_whom_no_policy_holds_back(api: Api) -> None:
    put(api, nothing=policy(allow("sts:GetCallerIdentity")))
    api.admin("DELETE", "calls")
    somebody = boto3.client(
        "ec2", region_name=REGION, endpoint_url=api.url, aws_access_key_id="SOMEBODY", aws_secret_access_key="else"
    )
    assert somebody.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]
    assert [each["caller"] for each in api.admin("GET", "calls")["calls"]] == ["unknown"]


def test_a_folder_without_policies_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no policy"):
        read(tmp_path)
    (tmp_path / "look.json").write_text(json.dumps(policy(allow("ec2:DescribeVpcs"))))
    assert list(read(tmp_path)) == ["look"]
