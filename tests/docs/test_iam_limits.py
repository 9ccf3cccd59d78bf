"""What the generated policies hold the platform back from, in the sandbox's evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from contracts.names import IAM_PATH, TAG_CLUSTER, ClusterNames
from sandbox import credentials
from sandbox.run import Sandbox
from scripts.iam.policies import documents

REGION = "us-west-2"
NAMES = ClusterNames("demo")
OURS = {TAG_CLUSTER: "demo"}
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


class Account:
    """An account in which policies are in force or not."""

    def __init__(self, sandbox: Sandbox) -> None:
        assert sandbox.server is not None
        self._sandbox, self._url = sandbox, sandbox.server.url
        self._clients: dict[str, Any] = {}

    def limit(self, *names: str) -> None:
        """Put the policies of these names in force, all if none is named."""
        found = {n: d for n, d in documents().items() if not names or n.rstrip("-0123456789") in names}
        with self._sandbox.aws.wsgi.lock:
            self._sandbox.aws.guard.enforce(found)

    def free(self) -> None:
        with self._sandbox.aws.wsgi.lock:
            self._sandbox.aws.guard.enforce({})

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=self._url,
                aws_access_key_id=credentials.ACCESS_KEY_ID,
                aws_secret_access_key=credentials.SECRET_ACCESS_KEY,
                config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
            )
        return self._clients[service]


@pytest.fixture(scope="module")
def running() -> Iterator[Sandbox]:
    sandbox = Sandbox(paused=True)
    sandbox.start(0)
    yield sandbox
    sandbox.stop()


@pytest.fixture
def account(running: Sandbox) -> Iterator[Account]:
    found = Account(running)
    yield found
    running.aws.reset()
    found.free()


def tagged(kind: str, tags: dict[str, str]) -> Any:
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]


def refused(action: str) -> Any:
    return pytest.raises(ClientError, match=f"not authorized to perform: {action} ")


def test_networks_are_made_with_the_tag_and_only_those_are_deleted(account: Account) -> None:
    ec2 = account.client("ec2")
    others = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    account.limit()

    ours = ec2.create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=tagged("vpc", OURS))["Vpc"]["VpcId"]
    with refused("ec2:CreateVpc"):
        ec2.create_vpc(CidrBlock="10.2.0.0/16", TagSpecifications=tagged("vpc", {"Name": "x"}))
    with refused("ec2:DeleteVpc"):
        ec2.delete_vpc(VpcId=others)
    with refused("ec2:CreateTags"):
        ec2.create_tags(Resources=[others], Tags=[{"Key": TAG_CLUSTER, "Value": "demo"}])
    subnet = tagged("subnet", OURS)
    made = ec2.create_subnet(VpcId=others, CidrBlock="10.9.1.0/24", TagSpecifications=subnet)["Subnet"]["SubnetId"]
    ec2.delete_subnet(SubnetId=made)
    ec2.delete_vpc(VpcId=ours)


@pytest.mark.parametrize("key", [TAG_CLUSTER, "aws:eks:cluster-name", "elbv2.k8s.aws/cluster"])
def test_security_groups_go_that_bear_the_tag_of_the_platform_or_of_a_controller(account: Account, key: str) -> None:
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    group: Any = {"VpcId": vpc, "Description": "x"}
    tags = tagged("security-group", {key: "demo"})
    theirs = ec2.create_security_group(GroupName="a", **group)["GroupId"]
    ours = ec2.create_security_group(GroupName="b", **group, TagSpecifications=tags)["GroupId"]
    account.limit()

    ec2.delete_security_group(GroupId=ours)
    with refused("ec2:DeleteSecurityGroup"):
        ec2.delete_security_group(GroupId=theirs)


def test_day_two_alone_makes_subnets_and_no_network(account: Account) -> None:
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=tagged("vpc", OURS))["Vpc"]["VpcId"]
    account.limit("read", "operate")

    ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.1.0/24", TagSpecifications=tagged("subnet", OURS))
    with refused("ec2:CreateVpc"):
        ec2.create_vpc(CidrBlock="10.2.0.0/16", TagSpecifications=tagged("vpc", OURS))
    with refused("ec2:DeleteVpc"):
        ec2.delete_vpc(VpcId=vpc)


def test_reading_alone_changes_nothing(account: Account) -> None:
    account.limit("read")

    account.client("ec2").describe_vpcs()
    account.client("iam").list_roles()
    for service, action, call in (
        ("ec2", "ec2:CreateVpc", lambda c: c.create_vpc(CidrBlock="10.1.0.0/16")),
        ("iam", "iam:CreateRole", lambda c: c.create_role(RoleName="x", AssumeRolePolicyDocument=TRUST)),
        ("s3", "s3:CreateBucket", lambda c: c.create_bucket(Bucket=NAMES.bucket(credentials.ACCOUNT, REGION))),
        ("sagemaker", "sagemaker:DeleteCluster", lambda c: c.delete_cluster(ClusterName=NAMES.hyperpod_cluster)),
    ):
        with refused(action):
            call(account.client(service))


def test_roles_are_the_platforms_own_and_get_no_policy_that_it_does_not_name(account: Account) -> None:
    iam, name = account.client("iam"), NAMES.role("cluster", REGION)
    iam.create_role(RoleName="somebodys", AssumeRolePolicyDocument=TRUST)
    account.limit()

    tags = [{"Key": TAG_CLUSTER, "Value": "demo"}]
    iam.create_role(RoleName=name, Path=IAM_PATH, AssumeRolePolicyDocument=TRUST, Tags=tags)
    iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    with refused("iam:AttachRolePolicy"):
        iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    with refused("iam:CreateRole"):
        iam.create_role(RoleName="elsewhere", AssumeRolePolicyDocument=TRUST, Tags=tags)
    with refused("iam:PutRolePolicy"):
        iam.put_role_policy(RoleName="somebodys", PolicyName="p", PolicyDocument=json.dumps(documents()["read"]))
    with refused("iam:PutRolePolicy"):
        iam.put_role_policy(
            RoleName=credentials.ROLE_NAME, PolicyName="p", PolicyDocument=json.dumps(documents()["read"])
        )


def test_profiles_of_others_stay_and_give_back_no_role_that_is_not_for_nodes(account: Account) -> None:
    iam = account.client("iam")
    iam.create_role(RoleName="somebodys", AssumeRolePolicyDocument=TRUST)
    paths = {
        "ours": IAM_PATH,
        "eks-58c1a7b2": "/",
        "demo_1234": f"/karpenter/{REGION}/demo/1/",
        f"{NAMES.eks_cluster}_1234": "/",
        "somebodys": "/",
    }
    for profile, path in paths.items():
        iam.create_instance_profile(InstanceProfileName=profile, Path=path)
        iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName="somebodys")
    account.limit()

    for profile in paths:
        taken: Any = {"InstanceProfileName": profile, "RoleName": "somebodys"}
        if profile != "somebodys":
            iam.remove_role_from_instance_profile(**taken)
            continue
        with refused("iam:RemoveRoleFromInstanceProfile"):
            iam.remove_role_from_instance_profile(**taken)
    iam.delete_instance_profile(InstanceProfileName="ours")
    with refused("iam:DeleteInstanceProfile"):
        iam.delete_instance_profile(InstanceProfileName="eks-58c1a7b2")


def test_no_role_of_somebody_else_is_passed(account: Account) -> None:
    iam = account.client("iam")
    role = iam.create_role(RoleName="somebodys", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    account.limit()

    with refused("iam:PassRole"):
        account.client("eks").create_cluster(
            name=NAMES.eks_cluster,
            roleArn=role,
            resourcesVpcConfig={"subnetIds": []},
            accessConfig={"bootstrapClusterCreatorAdminPermissions": False},
            tags=OURS,
        )


def test_buckets_have_the_platforms_names_and_the_accounts_number(account: Account) -> None:
    s3 = account.client("s3")
    account.limit()

    here: Any = {"CreateBucketConfiguration": {"LocationConstraint": REGION}}
    s3.create_bucket(Bucket=NAMES.bucket(credentials.ACCOUNT, REGION), **here)
    for name in ("somebodys-bucket", NAMES.bucket("999999999999", REGION)):
        with refused("s3:CreateBucket"):
            s3.create_bucket(Bucket=name, **here)
    with refused("s3:GetObject"):
        s3.get_object(Bucket=NAMES.bucket(credentials.ACCOUNT, REGION), Key="secret.txt")


def test_a_cluster_of_others_is_untouched_until_it_is_adopted(account: Account) -> None:
    eks, ec2, iam = account.client("eks"), account.client("ec2"), account.client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.1.{n}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"][
            "SubnetId"
        ]
        for n, zone in enumerate("ab")
    ]
    role = iam.create_role(RoleName="somebodys", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    account._sandbox.clock.advance(60)
    made = eks.create_cluster(name="theirs", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})["cluster"]
    account._sandbox.clock.advance(3600)
    account.limit()

    assert eks.describe_cluster(name="theirs")["cluster"]["status"] == "ACTIVE"
    with refused("eks:CreateAddon"):
        eks.create_addon(clusterName="theirs", addonName="vpc-cni", tags=OURS)
    with refused("eks:DeleteCluster"):
        eks.delete_cluster(name="theirs")
    with refused("eks:TagResource"):
        eks.tag_resource(resourceArn=made["arn"], tags={"team": "a"})

    eks.tag_resource(resourceArn=made["arn"], tags=OURS)
    eks.create_addon(clusterName="theirs", addonName="vpc-cni", tags=OURS)
    account.limit("read", "operate")
    eks.delete_addon(clusterName="theirs", addonName="vpc-cni")
    with refused("eks:DeleteCluster"):
        eks.delete_cluster(name="theirs")
