"""What belongs to others: in the account beside the platform, and in clusters that it makes. None of it may change."""

from __future__ import annotations

import json
import time
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from kubernetes import client
from urllib3.exceptions import HTTPError

from tests.chaos.wishes import FIRST, REGIONS
from tests.chaos.world import THEIRS, World

_TAGS = [{"Key": "Name", "Value": THEIRS}, {"Key": "owner", "Value": "another team"}]


EKS = "theirs-cluster"
"""Their own EKS cluster, in the first region."""
ACTIVE_LIMIT = 240.0


def settle_in_account(world: World, cluster: bool) -> None:
    """A network with a security group in each region, a role, a bucket with an object; an EKS cluster if asked for."""
    for region in REGIONS:
        ec2 = world.aws("ec2", region)
        vpc = ec2.create_vpc(CidrBlock="10.99.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.1.0/24")["Subnet"]["SubnetId"]
        group = ec2.create_security_group(VpcId=vpc, GroupName=THEIRS, Description="Of another team")["GroupId"]
        rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
        ec2.create_tags(Resources=[vpc, subnet, group], Tags=_TAGS)
        if cluster and region == REGIONS[0]:
            _create_cluster(world, region, vpc)
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    world.aws("iam").create_role(RoleName=f"{THEIRS}-node", AssumeRolePolicyDocument=document, Path="/theirs/")
    s3 = world.aws("s3", "us-east-1")
    s3.create_bucket(Bucket=f"{THEIRS}-data")
    s3.put_object(Bucket=f"{THEIRS}-data", Key="model.bin", Body=b"years of work")


def _create_cluster(world: World, region: str, vpc: str) -> None:
    ec2, eks = world.aws("ec2", region), world.aws("eks", region)
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.99.{number}.0/24", AvailabilityZone=f"{region}{zone}")["Subnet"]
        for number, zone in ((2, "a"), (3, "b"))
    ]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "eks.amazonaws.com"}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = world.aws("iam").create_role(RoleName=f"{THEIRS}-eks", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    network = {"subnetIds": [each["SubnetId"] for each in subnets]}
    access = {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True}
    deadline = time.monotonic() + ACTIVE_LIMIT
    made = False
    while not made or eks.describe_cluster(name=EKS)["cluster"]["status"] != "ACTIVE":
        if not made:
            try:
                tags = {"owner": "another team"}
                eks.create_cluster(name=EKS, roleArn=role, resourcesVpcConfig=network, accessConfig=access, tags=tags)
                made = True
            except eks.exceptions.InvalidParameterException:  # A new role cannot be assumed at once.
                pass
        if time.monotonic() > deadline:
            raise AssertionError(f"{EKS} is not active")
        time.sleep(0.3)


def settle_in_cluster(world: World, tag: str, region: str) -> dict[str, str]:
    """Tags on both clusters, an instance group, a namespace with a Deployment, as far as there is a cluster that takes
    them, and no fault is in the way. Returns what they have then (``of_cluster``)."""
    try:
        _settle(world, tag, region)
        return of_cluster(world, tag, region)
    except (ClientError, BotoCoreError, client.ApiException, HTTPError):
        return {}


def _settle(world: World, tag: str, region: str) -> None:
    eks, sagemaker = world.aws("eks", region), world.aws("sagemaker", region)
    eks_name, hyperpod = f"eks-cluster-{tag}", f"hp-cluster-{tag}"
    found = eks.describe_cluster(name=eks_name)["cluster"]
    eks.tag_resource(resourceArn=found["arn"], tags={"owner": "another team"})
    described = sagemaker.describe_cluster(ClusterName=hyperpod)
    sagemaker.add_tags(ResourceArn=described["ClusterArn"], Tags=_TAGS)
    sagemaker.update_cluster(ClusterName=hyperpod, InstanceGroups=[_theirs(described)])
    with world.kubernetes(region, eks_name) as api:
        core: Any = client.CoreV1Api(api)
        apps: Any = client.AppsV1Api(api)
        core.create_namespace({"metadata": {"name": THEIRS, "labels": {"team": "another"}}})
        core.create_namespaced_config_map(THEIRS, {"metadata": {"name": THEIRS}, "data": {"a": "b"}})
        pod = {"metadata": {"labels": {"app": THEIRS}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": THEIRS}}, "template": pod}
        apps.create_namespaced_deployment(THEIRS, {"metadata": {"name": THEIRS, "labels": {"x": "y"}}, "spec": spec})


def _theirs(described: Any) -> Any:
    first = next(each for each in described["InstanceGroups"] if each["InstanceGroupName"] == FIRST)
    kept = ("InstanceType", "LifeCycleConfig", "ExecutionRole", "OverrideVpcConfig")
    return {
        "InstanceGroupName": THEIRS,
        "InstanceCount": 1,
        "KubernetesConfig": {"Labels": {"team": "another"}},
        **{key: first[key] for key in kept if key in first},
    }


def of_cluster(world: World, tag: str, region: str) -> dict[str, str]:
    """What others have of a cluster, each thing by its name and what it is like. Empty: they have not settled."""
    eks, sagemaker = world.aws("eks", region), world.aws("sagemaker", region)
    found: dict[str, str] = {}
    try:
        cluster = eks.describe_cluster(name=f"eks-cluster-{tag}")["cluster"]
        described = sagemaker.describe_cluster(ClusterName=f"hp-cluster-{tag}")
    except ClientError:
        return found
    found["tag of the EKS cluster"] = str(cluster["tags"].get("owner"))
    tags = {each["Key"]: each["Value"] for each in sagemaker.list_tags(ResourceArn=described["ClusterArn"])["Tags"]}
    found["tag of the HyperPod cluster"] = str(tags.get("owner"))
    for each in described["InstanceGroups"]:
        if each["InstanceGroupName"] == THEIRS:
            like = {key: each.get(key) for key in ("InstanceType", "TargetCount", "ExecutionRole")}
            labels = each.get("KubernetesConfig", {})
            like["labels"] = labels.get("DesiredLabels") or labels.get("CurrentLabels")
            found["instance group"] = json.dumps(like, sort_keys=True, default=str)
    with world.kubernetes(region, f"eks-cluster-{tag}") as api:
        core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
        try:
            namespace: Any = core.read_namespace(THEIRS)
            config: Any = core.read_namespaced_config_map(THEIRS, THEIRS)
            deployment: Any = apps.read_namespaced_deployment(THEIRS, THEIRS)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return found
    found["namespace"] = str(sorted(namespace.metadata.labels.items()))
    found["ConfigMap"] = str(config.data)
    found["Deployment"] = f"{deployment.metadata.labels} {deployment.spec.replicas} {deployment.metadata.uid}"
    return found
