"""What controllers in a cluster make in AWS: load balancers and volumes, which outlive a cluster that is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_support import Api, Network, code
from botocore.exceptions import ClientError
from cluster_support import Kube, pod
from kubernetes import client

from sandbox.run import Sandbox


@pytest.fixture(scope="module")
def shared_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    running = Sandbox(paused=True, data=tmp_path_factory.mktemp("orphans"), kubernetes_port=0)
    running.start(0)
    assert running.server is not None
    yield Api(running.server.url)
    running.stop()


@pytest.fixture
def kube(api: Api, network: Network, make_hyperpod: Callable[..., tuple[dict[str, Any], Any]]) -> Kube:
    """A cluster with one node, the EBS driver, and subnets tagged for internal load balancers."""
    ec2, eks = api.client("ec2"), api.client("eks")
    ec2.create_tags(Resources=network.subnets, Tags=[{"Key": "kubernetes.io/role/internal-elb", "Value": "1"}])
    for addon in ("vpc-cni", "aws-ebs-csi-driver"):
        eks.create_addon(clusterName="demo", addonName=addon)
    make_hyperpod(count=1)
    api.advance(600)
    return Kube(api, "demo")


def install_controller(kube: Kube) -> None:
    name, image = "aws-load-balancer-controller", "aws-load-balancer-controller:v2"
    labels = {"app.kubernetes.io/name": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    kube.apps.create_namespaced_deployment("kube-system", {"metadata": {"name": name, "labels": labels}, "spec": spec})


def expose(kube: Kube, name: str = "web") -> None:
    spec = {"type": "LoadBalancer", "loadBalancerClass": "service.k8s.aws/nlb", "ports": [{"port": 80}]}
    kube.core.create_namespaced_service(
        "default", {"metadata": {"name": name}, "spec": {**spec, "selector": {"a": "b"}}}
    )


def claim(kube: Kube, name: str = "data") -> None:
    storage = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gp2",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    kube.core.create_namespaced_persistent_volume_claim("default", {"metadata": {"name": name}, "spec": storage})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    kube.core.create_namespaced_pod("default", pod(f"uses-{name}", volumes=volumes))


def hosts(kube: Kube, name: str = "web") -> list[str]:
    found = kube.core.read_namespaced_service(name, "default").status.load_balancer.ingress
    return [i.hostname for i in found or []]


def balancers(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.client("elbv2").describe_load_balancers()["LoadBalancers"]
    return found


def test_a_service_gets_a_load_balancer_only_from_the_controller(api: Api, kube: Kube, network: Network) -> None:
    expose(kube)
    api.advance(300)
    assert (hosts(kube), balancers(api)) == ([], [])
    install_controller(kube)
    api.advance(200)
    (made,) = balancers(api)
    assert hosts(kube) == [made["DNSName"]]
    assert (made["Type"], made["Scheme"], made["VpcId"]) == ("network", "internal", network.vpc)
    (described,) = api.client("elbv2").describe_tags(ResourceArns=[made["LoadBalancerArn"]])["TagDescriptions"]
    tags = {t["Key"]: t["Value"] for t in described["Tags"]}
    assert (tags["elbv2.k8s.aws/cluster"], tags["kubernetes.io/service-name"]) == ("demo", "default/web")
    identifier = made["LoadBalancerArn"].rsplit("/", 1)[-1]
    filters = [{"Name": "description", "Values": [f"ELB net/{made['LoadBalancerName']}/{identifier}"]}]
    interfaces = api.client("ec2").describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
    assert {i["SubnetId"] for i in interfaces} == set(network.subnets)
    assert {(i["Status"], i["RequesterManaged"]) for i in interfaces} == {("in-use", True)}
    kube.core.delete_namespaced_service("web", "default")
    api.advance(120)
    assert balancers(api) == []
    assert [s.metadata.name for s in kube.core.list_namespaced_service("default").items] == ["kubernetes"]
    assert api.client("ec2").describe_network_interfaces(Filters=filters)["NetworkInterfaces"] == []


def test_an_ingress_gets_an_application_load_balancer(api: Api, kube: Kube, network: Network) -> None:
    install_controller(kube)
    networking = client.NetworkingV1Api(kube.api)
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    body = {"metadata": {"name": "front"}, "spec": {"ingressClassName": "alb", "defaultBackend": backend}}
    networking.create_namespaced_ingress("default", body)
    api.advance(200)
    (made,) = balancers(api)
    assert (made["Type"], len(made["AvailabilityZones"])) == ("application", 2)
    found = networking.read_namespaced_ingress("front", "default").status.load_balancer.ingress
    assert [i.hostname for i in found] == [made["DNSName"]]
    networking.delete_namespaced_ingress("front", "default")
    api.advance(120)
    assert (balancers(api), networking.list_namespaced_ingress("default").items) == ([], [])


def test_a_claim_gets_a_volume_which_goes_with_it(api: Api, kube: Kube) -> None:
    ec2 = api.client("ec2")
    claim(kube)
    api.advance(60)
    (volume,) = ec2.describe_volumes(Filters=[{"Name": "tag:kubernetes.io/cluster/demo", "Values": ["owned"]}])[
        "Volumes"
    ]
    tags = {t["Key"]: t["Value"] for t in volume["Tags"]}
    (persistent,) = kube.core.list_persistent_volume().items
    assert tags["CSIVolumeName"] == persistent.metadata.name
    assert persistent.spec.csi.volume_handle == volume["VolumeId"]
    ((_, labels),) = kube.nodes().items()
    assert (volume["Size"], volume["AvailabilityZone"]) == (20, labels["topology.kubernetes.io/zone"])
    assert kube.core.read_namespaced_pod("uses-data", "default").status.phase == "Running"
    kube.core.delete_namespaced_pod("uses-data", "default")
    kube.core.delete_namespaced_persistent_volume_claim("data", "default")
    api.advance(120)
    assert ec2.describe_volumes()["Volumes"] == []
    assert kube.core.list_persistent_volume().items == []


def test_a_deleted_cluster_leaves_them_behind(api: Api, kube: Kube, network: Network) -> None:
    ec2, eks, sagemaker = api.client("ec2"), api.client("eks"), api.client("sagemaker")
    install_controller(kube)
    expose(kube)
    claim(kube)
    api.advance(200)
    assert hosts(kube)
    sagemaker.delete_cluster(ClusterName="hp")
    api.advance(200)
    for addon in eks.list_addons(clusterName="demo")["addons"]:
        eks.delete_addon(clusterName="demo", addonName=addon)
    api.advance(60)
    eks.delete_cluster(name="demo")
    api.advance(300)
    (left,) = balancers(api)
    assert len(ec2.describe_volumes(Filters=[{"Name": "tag-key", "Values": ["CSIVolumeName"]}])["Volumes"]) == 1
    with pytest.raises(ClientError) as error:
        ec2.delete_subnet(SubnetId=network.subnets[0])
    assert code(error) == "DependencyViolation"
    api.client("elbv2").delete_load_balancer(LoadBalancerArn=left["LoadBalancerArn"])
    with pytest.raises(ClientError) as error:
        ec2.delete_subnet(SubnetId=network.subnets[0])
    assert code(error) == "DependencyViolation", "its network interfaces stay for a while"
    api.advance(60)
    for subnet in network.subnets:
        ec2.delete_subnet(SubnetId=subnet)
    (group,) = ec2.describe_security_groups(Filters=[{"Name": "tag:elbv2.k8s.aws/cluster", "Values": ["demo"]}])[
        "SecurityGroups"
    ]
    with pytest.raises(ClientError) as error:
        ec2.delete_vpc(VpcId=network.vpc)
    assert code(error) == "DependencyViolation"
    ec2.delete_security_group(GroupId=group["GroupId"])
    ec2.delete_security_group(GroupId=network.group)
    ec2.delete_vpc(VpcId=network.vpc)
