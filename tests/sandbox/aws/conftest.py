"""A sandbox over real HTTP with a clock that only the tests move, and boto3 clients without retries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_support import REGION, Api, Network
from hyperpod_support import HyperPodCluster

from sandbox.kubernetes.dataplane import KubernetesDataPlane
from sandbox.run import Sandbox


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:Exception.*does not match an error shape:UserWarning")


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    running = Sandbox(paused=True, data=tmp_path_factory.mktemp("sandbox"))
    running.start(0)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def shared_api(sandbox: Sandbox) -> Api:
    """One for all tests: boto3 takes long to make clients."""
    assert sandbox.server is not None
    return Api(sandbox.server.url)


@pytest.fixture
def api(shared_api: Api) -> Iterator[Api]:
    """An empty sandbox."""
    yield shared_api
    shared_api.admin("POST", "reset")


@pytest.fixture(scope="session")
def plane(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesDataPlane]:
    """Kubernetes on the same clock."""
    folder = tmp_path_factory.mktemp("plane")
    built = KubernetesDataPlane(sandbox.clock, sandbox.faults, sandbox.ledger, folder)
    built.start()
    yield built
    built.stop()


@pytest.fixture
def behind(sandbox: Sandbox, plane: KubernetesDataPlane) -> Iterator[KubernetesDataPlane]:
    """Real Kubernetes behind EKS for one test. Name it before the cluster."""
    before = sandbox.aws.world.dataplane
    sandbox.aws.use_dataplane(plane)
    yield plane
    plane.reset()
    sandbox.aws.use_dataplane(before)


@pytest.fixture
def network(api: Api) -> Network:
    return Network(api)


@pytest.fixture
def role(api: Api) -> Callable[..., str]:
    """Make a role that a service may assume, old enough to be used."""

    def make(name: str, *services: str, wait: float = 10) -> str:
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": list(services)}, "Action": "sts:AssumeRole"}],
        }
        iam = api.client("iam")
        arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        api.advance(wait)
        return arn

    return make


@pytest.fixture
def eks_cluster(api: Api, network: Network, role: Callable[..., str]) -> str:
    """An ACTIVE EKS cluster; its ARN."""
    arn: str = api.client("eks").create_cluster(
        name="demo",
        roleArn=role("eks", "eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": network.subnets},
        accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
    )["cluster"]["arn"]
    api.advance(601)
    return arn


@pytest.fixture
def make_hyperpod(
    api: Api, network: Network, role: Callable[..., str], eks_cluster: str
) -> Callable[..., tuple[dict[str, Any], Any]]:
    """Make a HyperPod cluster of one group, ``workers``; returns its group and the response."""
    execution = role("execution", "sagemaker.amazonaws.com")
    s3 = api.client("s3")
    s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="sagemaker-scripts", Key="lcs/on_create.sh", Body=b"#!/bin/bash\n")

    def make(name: str = "hp", count: int = 2, continuous: bool = True, **group: Any) -> tuple[dict[str, Any], Any]:
        spec: dict[str, Any] = {
            "InstanceGroupName": "workers",
            "InstanceType": "ml.g5.8xlarge",
            "InstanceCount": count,
            "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/lcs/", "OnCreate": "on_create.sh"},
            "ExecutionRole": execution,
            "ThreadsPerCore": 1,
            **group,
        }
        spec = {k: v for k, v in spec.items() if v is not None}
        response = api.client("sagemaker").create_cluster(
            ClusterName=name,
            InstanceGroups=[spec],
            VpcConfig=network.vpc_config,
            Orchestrator={"Eks": {"ClusterArn": eks_cluster}},
            **({"NodeProvisioningMode": "Continuous"} if continuous else {}),
        )
        return spec, response

    return make


@pytest.fixture
def hyperpod(api: Api, network: Network, role: Callable[..., str], eks_cluster: str) -> HyperPodCluster:
    """Not created yet."""
    return HyperPodCluster(api, network, eks_cluster, role("execution", "sagemaker.amazonaws.com"))
